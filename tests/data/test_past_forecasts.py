"""Past forecasts and their outcomes: one table or two files, points, members and quantiles, sites together or each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refuses

from stakes.data.forecasts.layout import ForecastLayout
from stakes.data.forecasts.reading import read_new, read_past
from stakes.errors import StakesError, TableError
from stakes.settings import from_plain, to_plain

DAYS = ["2020-01-01", "2020-01-02", "2020-01-03"]
WIDE = pd.DataFrame({"time": DAYS, "m1": [1.0, 2, 3], "m2": [2.0, 3, 4], "y": [1.5, 2.5, 9]})


def written(folder: Path, table: pd.DataFrame, name: str = "past.csv") -> Path:
    table.to_csv(folder / name, index=False)
    return folder / name


def laid(**fields: Any) -> ForecastLayout:
    return ForecastLayout(**{"outcomes": ("y",), "columns": ("m1:m2",), **fields})


def test_members_and_outcomes_of_one_table(tmp_path: Path) -> None:
    path = written(tmp_path, WIDE.assign(today=[5.0, 6, 7], wind=[0.1, 0.2, 0.3]))
    given, layout = read_past(laid(today=("today",), features=("wind",), lead=24.0), path)
    assert given.members[..., 0].tolist() == [[1, 2], [2, 3], [3, 4]]
    assert given.outcomes[:, 0].tolist() == [1.5, 2.5, 9]
    assert given.targets == ("y",)
    assert given.index.tolist() == [*pd.to_datetime(DAYS)]
    assert str(given.issued[0]) == "2019-12-31T00:00:00"
    assert given.today.tolist() == [5, 6, 7]
    assert given.features["wind"].tolist() == [0.1, 0.2, 0.3]
    assert layout.columns == ("m1", "m2")
    assert layout.time == "time"
    assert from_plain(ForecastLayout, to_plain(layout)) == layout


def test_new_forecasts_are_read_by_the_same_layout_without_outcomes(tmp_path: Path) -> None:
    _, layout = read_past(laid(), written(tmp_path, WIDE))
    new = WIDE.iloc[::-1].drop(columns="y").assign(other="x")
    given = read_new(layout, written(tmp_path, new, "new.csv"))
    assert given.outcomes is None
    assert given.members[:, 0, 0].tolist() == [1, 2, 3]
    refuses(StakesError, "'y'", read_new, layout, tmp_path / "new.csv", judged=True)
    assert read_new(layout, tmp_path / "past.csv", judged=True).outcomes is not None


def test_leads_tell_forecasts_of_one_time_apart(tmp_path: Path) -> None:
    table = pd.concat([WIDE.assign(ahead=24), WIDE.assign(ahead=48, m1=0.0)])
    refuses(StakesError, "has the time 2020-01-01 00:00:00 more than once", read_past, laid(), written(tmp_path, table))
    given, _ = read_past(laid(lead="ahead"), tmp_path / "past.csv")
    assert given.leads.tolist() == [48, 24, 48, 24, 48, 24]
    assert given.index.names == ["time", "ahead"]
    assert given.members[0, 0, 0] == 0


@pytest.mark.parametrize("asked", [{"lead": "ahead"}, {"lead": "ahead", "site": "site", "sites": "each"}])
def test_the_outcomes_of_one_time_must_agree_whatever_the_lead(tmp_path: Path, asked: dict[str, Any]) -> None:
    table = pd.concat([WIDE.assign(ahead=24), WIDE.assign(ahead=48, y=[1.5, 99, 9])])
    if "site" in asked:
        table = pd.concat([table.assign(site="a"), WIDE.assign(ahead=24, site="b", y=0.0)])
    path = written(tmp_path, table)
    refuses(TableError, r"2020-01-02 00:00:00.* has both (2.5 and 99|99 and 2.5)", read_past, laid(**asked), path)
    agreeing = written(tmp_path, table.assign(y=table["y"].replace(99, 2.5)), "agreeing.csv")
    _, layout = read_past(laid(**asked), agreeing)
    refuses(TableError, "2020-01-02 00:00:00", read_new, layout, path, judged=True)


def test_a_column_that_says_when_a_forecast_was_made_is_found_and_told(tmp_path: Path) -> None:
    path = written(tmp_path, WIDE.assign(issued=["2019-12-31", "2019-12-31", "2020-01-02"]))
    given, layout = read_past(laid(), path)
    assert layout.issued == "issued"
    assert given.leads.tolist() == [24, 48, 24]
    assert given.notes == ("the column 'issued' is read as the time when each forecast was made",)
    assert given.index.name == "time"
    told = read_past(laid(), written(tmp_path, WIDE.assign(lead=[1, 1, 1])))[0].notes
    assert "as --lead lead does if lead is in hours" in told[0]


def test_points_of_several_targets_find_their_outcomes(tmp_path: Path) -> None:
    table = pd.DataFrame({"time": DAYS, "load_b": [1.0, 2, 3], "load_a": [4.0, 5, 6]})
    table = table.assign(ahead_a=table["load_a"] + 0.5, ahead_b=table["load_b"] - 0.5)
    layout = ForecastLayout(outcomes=("load_b:load_a",), columns=("ahead_a", "ahead_b"))
    given, _ = read_past(layout, written(tmp_path, table))
    assert given.members.shape == (3, 1, 2)
    assert given.targets == ("load_a", "load_b")
    np.testing.assert_array_equal(given.members[:, 0] - given.outcomes, [[0.5, -0.5]] * 3)


@pytest.mark.parametrize("each", [True, False])
def test_rows_of_sites(tmp_path: Path, each: bool) -> None:
    north, west = WIDE.assign(site="north", sun=1.0), WIDE.assign(site="west", m1=[7.0, 8, 9], sun=2.0)
    table = pd.concat([north, west.iloc[:2]])
    given, layout = read_past(laid(sites="each" if each else "together", features=("sun",)), written(tmp_path, table))
    assert given.features is not None
    if each:
        assert given.members.shape == (5, 2, 1)
        assert given.sites.tolist() == ["north", "west", "north", "west", "north"]
        assert given.features["sun"].tolist() == [1, 2, 1, 2, 1]
        one = read_new(layout, written(tmp_path, west.drop(columns="y"), "new.csv"))
        assert one.sites.tolist() == ["west"] * 3
        refuses(StakesError, "'east'", read_new, layout, written(tmp_path, west.assign(site="east"), "new.csv"))
    else:
        assert given.members.shape == (2, 2, 2)
        assert given.targets == ("north", "west")
        assert given.features.columns.tolist() == ["sun north", "sun west"]
        assert given.notes[-3:] == (
            "1 of 3 cases lack members and are left out",
            "1 of 3 cases lack an outcome and are left out",
            "1 of 3 cases lack a feature and are left out",
        )


def test_quantiles_of_several_sites_become_members_with_the_same_weights(tmp_path: Path) -> None:
    levels = {"q10": 0.0, "q50": 1.0, "q90": 2.0}
    table = pd.DataFrame({"time": DAYS, "a": [1.0, 0, 2], "b": [3.0, 5, 4]})
    for site in ("a", "b"):
        table = table.assign(**{f"{site}_{name}": table[site] + shift for name, shift in levels.items()})
    layout = ForecastLayout(outcomes=("a", "b"), columns=("a_q10:b_q90",), outcome_bounds="0,")
    given, read_layout = read_past(layout, written(tmp_path, table))
    assert read_layout.learned.levels == (0.1, 0.5, 0.9)
    assert read_layout.learned.bounds == ((0.0, None), (0.0, None))
    assert given.weights.sum() == pytest.approx(1)
    assert given.members.shape[2] == 2
    assert given.members.min() == 0


def test_new_quantiles_have_the_levels_of_the_past(tmp_path: Path) -> None:
    quantiles = pd.DataFrame({"time": DAYS, "q10": [0.0, 1, 2], "q90": [3.0, 4, 5]})
    seen, ahead = written(tmp_path, WIDE[["time", "y"]]), written(tmp_path, quantiles, "ahead.csv")
    given, layout = read_past(ForecastLayout(outcomes=("y",), own_file=True), seen, ahead)
    assert layout.learned.levels == (0.1, 0.9)
    assert given.weights is not None
    with pytest.raises(StakesError, match=r"must have quantiles at 0\.1, 0\.9, as the past forecasts"):
        read_new(layout, written(tmp_path, quantiles.rename(columns={"q90": "q95"}), "new.csv"))


def test_a_file_of_forecasts_beside_a_table_of_outcomes(tmp_path: Path) -> None:
    long = WIDE.melt("time", ["m1", "m2"], "member", "power")
    forecasts = written(tmp_path, long, "members.csv")
    outcomes = written(tmp_path, WIDE[["time", "y"]].iloc[:2], "seen.csv")
    layout = ForecastLayout(outcomes=("y",), own_file=True)
    given, layout = read_past(layout, outcomes, forecasts)
    assert given.members[..., 0].tolist() == [[1, 2], [2, 3]]
    assert given.targets == ("y",)
    assert given.notes[-1] == "1 of 3 cases lack an outcome and are left out"
    assert read_new(layout, forecasts).members.shape == (3, 2, 1)
    assert read_new(layout, forecasts, outcomes, judged=True).members.shape == (2, 2, 1)
    refuses(StakesError, "--outcomes", read_new, layout, forecasts, judged=True)


def test_outcomes_without_a_forecast_are_counted(tmp_path: Path) -> None:
    forecasts = written(tmp_path, WIDE[["time", "m1", "m2"]].iloc[1:], "ahead.csv")
    seen = written(tmp_path, WIDE[["time", "y"]].assign(y=[1.5, None, 9]), "seen.csv")
    given, layout = read_past(ForecastLayout(outcomes=("y",), own_file=True), seen, forecasts)
    told = ("1 of 2 cases lack an outcome and are left out", f"1 of 2 outcomes in {str(seen)!r} have no forecast and ")
    assert given.notes[1] == told[0]
    assert given.notes[2].startswith(told[1])
    assert read_new(layout, forecasts, seen, judged=True).notes == given.notes[1:]
    rows = pd.concat([WIDE.assign(site="a"), WIDE.assign(site="b").iloc[:2]])
    forecasts = written(tmp_path, rows.drop(columns="y"), "sites.csv")
    seen = written(tmp_path, pd.concat([rows, WIDE.assign(site="c")])[["time", "site", "y"]], "of_sites.csv")
    given, _ = read_past(ForecastLayout(outcomes=("y",), own_file=True, sites="each"), seen, forecasts)
    assert len(given) == 5
    assert f"3 of 8 outcomes in {str(seen)!r} have no forecast and are left out" in given.notes


def test_a_code_for_a_missing_outcome_is_told(tmp_path: Path) -> None:
    past = written(tmp_path, WIDE.assign(y=[1.5, -999, 9]))
    given, layout = read_past(laid(), past)
    assert f"{str(past)!r} has -999 in 'y', data row 2, beyond all" in given.notes[-1]
    assert read_new(layout, past, judged=True).notes == given.notes[-1:]
    table = WIDE.assign(b=[3.0, 9999, 1], ahead_y=2.0, ahead_b=[2.0, 3, 4])
    points = ForecastLayout(outcomes=("y", "b"), columns=("ahead_y", "ahead_b"))
    given, _ = read_past(points, written(tmp_path, table))
    assert [("in 'b', data row 2" in note) for note in given.notes] == [False, True]


def test_a_gridded_file_knows_when_its_forecasts_were_made(tmp_path: Path) -> None:
    import xarray as xr

    runs = pd.to_datetime(DAYS[:2]).as_unit("ns")
    values = np.arange(12.0).reshape(2, 2, 3)
    grid = xr.DataArray(values, {"time": runs, "step": [24, 48]}, ("time", "step", "number"), name="t2m")
    valid = runs.to_numpy()[:, None] + np.array([24, 48], "timedelta64[h]")
    grid.assign_coords(valid_time=(("time", "step"), valid)).to_netcdf(tmp_path / "runs.nc", engine="h5netcdf")
    days = pd.date_range(DAYS[1], periods=3)
    seen = written(tmp_path, pd.DataFrame({"date": days, "y": [10.0, 11, 12]}))
    given, _ = read_past(ForecastLayout(outcomes=("y",), own_file=True), seen, tmp_path / "runs.nc")
    assert given.leads.tolist() == [24, 48, 24, 48]
    assert given.outcomes[:, 0].tolist() == [10, 11, 11, 12]
    with pytest.raises(StakesError, match="features"):
        read_past(ForecastLayout(outcomes=("y",), own_file=True, features=("wind",)), seen, tmp_path / "runs.nc")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"outcomes": ()}, "outcomes"),
        ({"columns": ()}, "columns"),
        ({"lead": "y"}, "'y'"),
        ({"lead": float("nan")}, "lead"),
    ],
)
def test_layouts_that_say_two_things_are_refused(fields: dict[str, Any], said: str) -> None:
    refuses(StakesError, said, laid, **fields)


def test_rows_of_members_and_sites_at_several_leads(tmp_path: Path) -> None:
    wide = pd.concat([WIDE.assign(site=site, ahead=ahead) for site in ("a", "b") for ahead in (24, 48)])
    seen = written(tmp_path, WIDE[["time", "y"]].merge(pd.DataFrame({"site": ["a", "b"]}), how="cross"))
    long = wide.drop(columns="y").melt(["time", "site", "ahead"], var_name="member", value_name="power")
    for name, table in (("wide.csv", wide.drop(columns="y")), ("long.csv", long)):
        layout = ForecastLayout(outcomes=("y",), own_file=True, lead="ahead")
        together, _ = read_past(layout, seen, written(tmp_path, table, name))
        assert together.members.shape == (6, 2, 2)
        assert together.targets == ("a", "b")
        each, _ = read_past(replace(layout, sites="each"), seen, tmp_path / name)
        assert each.members.shape == (12, 2, 1)
        assert each.leads[:2].tolist() == [48, 48]
        assert each.index.names == ["time", "ahead", "site"]


def test_outcomes_of_one_place_are_not_those_of_a_grid(tmp_path: Path) -> None:
    import xarray as xr

    values = 273.15 + np.arange(36.0).reshape(3, 2, 2, 3)
    coordinates = {"time": pd.to_datetime(DAYS).as_unit("ns"), "latitude": [50.0, 51], "longitude": [1.0, 2]}
    grid = xr.DataArray(values, coordinates, (*coordinates, "number"), "t2m", attrs={"units": "K"})
    grid.to_netcdf(tmp_path / "grid.nc", engine="h5netcdf")
    seen, layout = written(tmp_path, WIDE[["time", "y"]]), ForecastLayout(outcomes=("y",), own_file=True, unit="degC")
    refuses(StakesError, "for every time, latitude, longitude, ", read_past, layout, seen, tmp_path / "grid.nc")
    given, _ = read_past(replace(layout, point=((51.0, 2.0),)), seen, tmp_path / "grid.nc")
    np.testing.assert_allclose(given.members[0, :, 0], [9, 10, 11])
    assert given.notes[0] == "t2m is converted from K to degC"


@pytest.mark.parametrize("column", ["site", "station", "Zone"])
def test_the_code_of_a_site_keeps_its_leading_zeros(tmp_path: Path, column: str) -> None:
    """In the forecasts another site has letters, so that the column is text there; in the outcomes all have digits."""
    forecasts = pd.concat([WIDE.drop(columns="y").assign(**{column: site}) for site in ("01", "US")])
    outcomes = pd.concat([WIDE[["time", "y"]].assign(**{column: site}) for site in ("01", "02")])
    fields = {"own_file": True, "columns": (), "sites": ("01",), "site": column}
    paths = written(tmp_path, outcomes), written(tmp_path, forecasts, "f.csv")
    given, layout = read_past(laid(**fields), *paths)
    assert given.outcomes[:, 0].tolist() == [1.5, 2.5, 9]
    assert layout.learned.targets == ("01",)
    assert len(read_new(layout, paths[1], paths[0], judged=True)) == 3
