"""Units that are beyond doubt are converted, and any other refused."""

import numpy as np
import pytest

from stakes.data.forecasts.checks import in_unit
from stakes.errors import TableError


@pytest.mark.parametrize(
    ("value", "given", "wanted", "expected"),
    [
        (273.15, "K", "degC", 0.0),
        (20.0, "degC", "kelvin", 293.15),
        (212.0, "degF", "°C", 100.0),
        (10.0, "m s**-1", "km/h", 36.0),
        (3.6, "km/h", "m/s", 1.0),
        (0.002, "m", "mm", 2.0),
        (2.0, "kg m**-2", "mm", 2.0),
        (101325.0, "Pa", "hPa", 1013.25),
        (2.5, "GW", "MW", 2500.0),
        (40.0, "%", "1", 0.4),
        (7.0, "bananas", "bananas", 7.0),
    ],
)
def test_values_in_another_unit(value: float, given: str, wanted: str, expected: float) -> None:
    assert in_unit(np.array([value]), given, wanted) == pytest.approx(expected)


@pytest.mark.parametrize(("given", "wanted"), [("K", "mm"), ("bananas", "degC"), ("K", "bananas")])
def test_units_of_another_kind_are_refused(given: str, wanted: str) -> None:
    with pytest.raises(TableError, match=f"values in '{given}' cannot be turned into '{wanted}'"):
        in_unit(np.array([1.0]), given, wanted)
