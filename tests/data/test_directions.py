from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from stakes.data.tables.columns import likely_directions
from stakes.data.tables.layout import TableLayout
from stakes.errors import SettingError

AROUND = [0.0, 90.0, 271.0, 359.0, np.nan]
ROWS = TableLayout(("y",), ("a", "wd", "z"), directions=("wd",))


def table() -> pd.DataFrame:
    values = np.random.default_rng(0).normal(size=(40, 3))
    degrees = np.random.default_rng(1).integers(0, 361, 40).astype(float)
    times = pd.date_range("2020-01-01", periods=40, freq="h")
    return pd.DataFrame(values, columns=["a", "z", "y"]).assign(wd=degrees, time=times)


@pytest.mark.parametrize(
    ("name", "values", "is_one"),
    [
        ("wd", AROUND, True),
        ("WD100", AROUND, True),
        ("site1_wd_10m", AROUND, True),
        ("winddir", AROUND, True),
        ("Wind Direction", AROUND, True),
        ("wdir10", AROUND, True),
        ("direct_radiation", AROUND, False),
        ("load", AROUND, False),
        ("wdemand", AROUND, False),
        ("wind_dir", [0.0, 90.0, 270.0], False),
        ("wind_dir", [100.0, 359.0], False),
        ("wind_dir", [0.0, 361.0], False),
        ("wind_dir", [-180.0, 180.0], False),
    ],
)
def test_directions_are_known_by_name_and_values(name: str, values: list[float], is_one: bool) -> None:
    assert likely_directions(pd.DataFrame({name: values}), [name]) == ((name,) if is_one else ())


def test_a_table_that_has_the_sine_already_is_left_alone() -> None:
    assert likely_directions(pd.DataFrame({"wd": AROUND, "wd_sin": AROUND}), ["wd"]) == ()


def test_rows_have_sine_and_cosine() -> None:
    features = ROWS.cases(table()).feature_table
    assert tuple(features.columns) == ROWS.feature_names == ("a", "wd_sin", "wd_cos", "z")
    np.testing.assert_allclose(features["wd_cos"], np.cos(np.deg2rad(table()["wd"])))
    np.testing.assert_array_equal(ROWS.inputs(table().drop(columns="y")).feature_table, features)


def test_lagged_and_known_directions_are_those_of_their_columns() -> None:
    layout = TableLayout(("y",), ("a", "wd"), "time", (0, 3), 2, ("wd", "z"), directions=("wd",))
    angle = np.deg2rad(table()["wd"])
    waved = table().assign(wd_sin=np.sin(angle), wd_cos=np.cos(angle))
    plain = TableLayout(("y",), ("a", "wd_sin", "wd_cos"), "time", (0, 3), 2, ("wd_sin", "wd_cos", "z"))
    pd.testing.assert_frame_equal(layout.cases(table()).feature_table, plain.cases(waved).feature_table)
    assert layout.feature_names == plain.feature_names


def test_a_target_keeps_its_degrees() -> None:
    layout = TableLayout(("wd",), ("wd",), "time", (0,), 1, directions=("wd",))
    cases = layout.cases(table())
    np.testing.assert_array_equal(cases.outcome_table["wd"], table()["wd"][1:])
    assert list(cases.feature_table) == ["wd_sin@0h", "wd_cos@0h"]


def test_a_missing_direction_is_blamed_by_its_own_name() -> None:
    rows = table()
    rows.loc[:4, "wd"] = np.nan
    blamed = ROWS.cases(rows).quality.blamed
    assert (blamed.columns, blamed.given_back) == (("wd",), 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"directions": ("b",)}, "directions must be of the features or of what is known, got 'b'"),
        ({"features": ("wd", "wd_sin")}, "there is a column 'wd_sin' already"),
        ({"directions": ("wd", "wd")}, "directions must differ from each other, got 'wd' twice"),
    ],
)
def test_wrong_directions_are_refused(changes: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        replace(ROWS, **changes)
