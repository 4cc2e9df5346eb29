"""Ranges of columns by what their names say: levels of quantiles, numbers of members."""

import pytest

from stakes.data.forecasts.columns import chosen_columns, forecast_columns
from stakes.errors import TableError

FINE = [f"quantile_{number / 20:g}" for number in range(1, 20)]


@pytest.mark.parametrize(
    ("wanted", "columns", "chosen"),
    [
        ("quantile_0.05:quantile_0.95", ["time", *FINE, "load"], FINE),
        ("quantile_0.05:quantile_0.95", [*FINE[::-1], "quantile_0.99"], FINE),
        ("q10:q90", ["q10", "q25", "q50", "q75", "q90", "q99"], ["q10", "q25", "q50", "q75", "q90"]),
        (
            "quantile_0.1_north:quantile_0.9_north",
            [
                "quantile_0.1_north",
                "quantile_0.5_north",
                "quantile_0.9_north",
                "quantile_0.1_west",
                "quantile_0.9_west",
            ],
            ["quantile_0.1_north", "quantile_0.5_north", "quantile_0.9_north"],
        ),
        ("h00:h02", ["h02", "h01", "h00"], ["h00", "h01", "h02"]),
    ],
)
def test_a_range_of_quantiles_goes_by_their_levels(wanted: str, columns: list[str], chosen: list[str]) -> None:
    assert chosen_columns([wanted], columns, "the table") == chosen


def test_a_missing_member_is_still_told() -> None:
    with pytest.raises(TableError, match="q4 is followed by q6"):
        chosen_columns(["q1:q9"], [f"q{number}" for number in range(1, 10) if number != 5], "the table")


def test_the_quantiles_of_several_outcomes_are_read_as_they_are_written() -> None:
    columns = [f"quantile_{level}_{site}" for level in (0.1, 0.5, 0.9) for site in ("north", "south_2")]
    found = forecast_columns(columns, "the table", "auto", chosen=True)
    assert found.levels == (0.1, 0.5, 0.9)
    assert list(found.of_target) == ["north", "south_2"]
    assert list(found.of_target["north"]) == columns[::2]
