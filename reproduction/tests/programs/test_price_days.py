"""Days of a made-up price, and their features by hand."""

from pathlib import Path

import numpy as np
import pytest
from made_days import made_prices

from reproduction.programs.battery import PRICE_TABLE, price_days
from reproduction.programs.problem import chronological_cases
from stakes.errors import TableError


def test_features_by_hand(tmp_path: Path) -> None:
    made_prices(tmp_path)
    days = price_days(str(tmp_path))
    assert days.features.shape == (13, 6 * 24 + 9)
    assert days.days[0] == np.datetime64("2011-01-10")  # a Monday, the eighth day
    hour = np.arange(24)
    np.testing.assert_allclose(days.prices[0], 37 + hour)
    parts = days.features[0, :144].reshape(6, 24)
    np.testing.assert_allclose(parts[0], 36 + hour)  # the day before
    np.testing.assert_allclose(parts[1], 30 + hour)  # a week before
    np.testing.assert_allclose(parts[2], 90 + hour)  # GW
    np.testing.assert_allclose(parts[3], (90 + hour) ** 2)
    np.testing.assert_allclose(parts[4:, 0], [47, 47**2])
    angle = 2 * np.pi * 9 / 365.25
    np.testing.assert_allclose(days.features[0, 144:], [1, 0, 0, 0, 0, 0, 0, np.cos(angle), np.sin(angle)])


def test_a_temperature_that_is_missing_lies_between_its_neighbours(tmp_path: Path) -> None:
    table = made_prices(tmp_path)
    table.loc[24 * 8 + 5, "temp_dca_F"] = np.nan
    table.to_csv(tmp_path / PRICE_TABLE, index=False, compression="gzip")
    assert price_days(str(tmp_path)).features[1, 4 * 24 + 5] == 48


def test_parts_are_in_the_order_of_time(tmp_path: Path) -> None:
    made_prices(tmp_path, 57)
    parts = chronological_cases(*price_days(str(tmp_path)))
    assert [len(part) for part in parts] == [32, 8, 10]
    times = np.concatenate([part.times for part in parts if part.times is not None])
    assert (np.diff(times) == np.timedelta64(1, "D")).all()


@pytest.mark.parametrize(
    ("lost", "told"), [("pjm_da_price", "must have the column pjm_da_price"), (None, "whole days")]
)
def test_tables_that_do_not_fit(tmp_path: Path, lost: str | None, told: str) -> None:
    table = made_prices(tmp_path)
    table = table.drop(index=50) if lost is None else table.drop(columns=lost)
    table.to_csv(tmp_path / PRICE_TABLE, index=False, compression="gzip")
    with pytest.raises(TableError, match=told):
        price_days(str(tmp_path))
