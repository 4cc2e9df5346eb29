"""Which columns are members, quantiles, sites and outcomes, by their names."""

import time

import pandas as pd
import pytest
from refusals import refuses

from stakes.data.forecasts.columns import (
    chosen_columns,
    forecast_columns,
    member_sites,
    named_quantiles,
    require_certain,
    require_levels,
    site_labels,
)
from stakes.data.forecasts.reading import matched_actions, matched_outcomes
from stakes.errors import TableError
from stakes.programs.schedules import ScheduleCost
from stakes.programs.storage import ArbitrageCost

KNOWN: dict[str, dict[str, float]] = {
    "decimals": {"0.1": 0.1, "0.5": 0.5, "0.90": 0.9},
    "the ends": {"0.0": 0.0, ".5": 0.5, "1.0": 1.0},
    "q and percent": {"q10": 0.1, "q50": 0.5, "q90": 0.9},
    "q and a decimal": {"q0.1": 0.1, "q0.5": 0.5},
    "p": {"p10": 0.1, "P50": 0.5, "p_90": 0.9},
    "quantile": {"quantile_0.1": 0.1, "quantile_0.9": 0.9},
    "percentile": {"percentile_5": 0.05, "percentile_95": 0.95},
    "tenths of a percent": {"q2.5": 0.025, "q50": 0.5, "q97.5": 0.975},
    "thousandths": {"q025": 0.025, "q50": 0.5, "q975": 0.975},
    "a decimal comma": {"0,1": 0.1, "q0,5": 0.5, "q0,975": 0.975},
    "two digits": {"q05": 0.05, "q95": 0.95},
    "percent sign": {"10%": 0.1, "90 %": 0.9},
    "ends in percent": {"p0": 0.0, "p50": 0.5, "p100": 1.0},
    "a model": {"NHITS-lo-90": 0.05, "NHITS-median": 0.5, "NHITS-hi-90": 0.95},
    "losses of neuralforecast": {"NHITS_ql0.1": 0.1, "NHITS_ql0.9": 0.9},
    "with a median": {"q25": 0.25, "median": 0.5, "q75": 0.75},
}


@pytest.mark.parametrize("levels", KNOWN.values(), ids=KNOWN)
def test_names_of_quantiles(levels: dict[str, float]) -> None:
    quantiles = named_quantiles(["time", *levels, "temperature"])
    assert {each.column: each.level for each in quantiles} == levels
    require_certain(quantiles, "'a.csv'")
    require_levels(quantiles, "'a.csv'")


@pytest.mark.parametrize(
    "columns",
    [
        ["m1", "m2"],
        ["0", "1", "2"],
        ["0.0", "1.0", "2.0"],
        ["member_01", "member_02"],
        ["perturbed_1", "perturbed_2"],
        ["a", "b"],
        ["m[0]", "m[10]"],
        ["north_m1", "north_m2"],
        ["u10", "u100"],
        ["q10", "m1", "m2"],
        ["median", "mean"],
    ],
)
def test_names_of_something_else(columns: list[str]) -> None:
    assert named_quantiles(columns) == []


def test_numbers_alone_are_levels_where_that_is_certain() -> None:
    assert [each.level for each in named_quantiles(["10", "50", "97.5"], certain=True)] == [0.1, 0.5, 0.975]
    assert named_quantiles(["10", "50", "97.5"]) == []
    assert [each.level for each in named_quantiles(["q1", "q2", "q99"], certain=True)] == [0.01, 0.02, 0.99]


@pytest.mark.parametrize(
    "columns",
    [[f"q{number}" for number in range(1, 51)], ["p01", "p02"], ["q1", "q2", "q3", "q5"], ["quantile_1", "quantile_2"]],
)
def test_numbers_that_follow_each_other_may_be_members(columns: list[str]) -> None:
    refuses(
        TableError, "may be members or quantiles; .*--read-as", require_certain, named_quantiles(columns), "'a.csv'"
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["q5", "q05", "q95"], "has the level 0.05 twice, in the columns q5, q05"),
        ([], "must have at least two columns that name levels"),
    ],
)
def test_levels_that_are_none_are_told(columns: list[str], message: str) -> None:
    refuses(TableError, message, require_levels, named_quantiles(columns), "'a.csv'")


def test_many_and_long_names_take_no_time() -> None:
    start = time.process_time()
    assert named_quantiles([f"{place}" for place in range(20_000)]) == []
    assert named_quantiles(["a_" * 20_000, "1" * 20_000, "q" * 20_000]) == []
    assert time.process_time() - start < 2


NAME = "'a.csv'"


def test_members_and_quantiles_are_told_by_their_names() -> None:
    members = forecast_columns(["m1", "m2"], NAME, "auto", False)
    assert (members.of_target, members.levels) == ({"outcome": ["m1", "m2"]}, None)
    quantiles = forecast_columns(["q90", "q10", "mean"], NAME, "auto", False)
    assert (quantiles.of_target, quantiles.levels) == ({"outcome": ["q10", "q90"]}, (0.1, 0.9))
    assert quantiles.notes == ("left out beside the quantiles: mean",)
    model = forecast_columns(["NHITS", "NHITS-lo-80", "NHITS-hi-80"], NAME, "auto", False)
    assert (model.of_target, model.levels) == ({"outcome": ["NHITS-lo-80", "NHITS-hi-80"]}, (0.1, 0.9))
    assert model.notes == ("left out beside the quantiles: NHITS",)


def test_the_user_says_what_columns_are() -> None:
    both = ["q1", "q2", "q99"]
    assert forecast_columns(both, NAME, "members", False).levels is None
    assert forecast_columns(both, NAME, "quantiles", False).levels == (0.01, 0.02, 0.99)
    assert forecast_columns(["5", "50", "95"], NAME, "quantiles", False).levels == (0.05, 0.5, 0.95)
    points = forecast_columns(["north", "q10", "m1"], NAME, "points", False)
    assert points.of_target == {"north": ["north"], "q10": ["q10"], "m1": ["m1"]}


def test_members_with_the_names_of_sites_are_told() -> None:
    roles = forecast_columns(["north", "west"], NAME, "auto", False)
    assert roles.of_target == {"outcome": ["north", "west"]}
    assert roles.notes == (
        "the columns north, west are members of one forecast; give --read-as points if each is a site",
    )
    for columns in (["a", "b"], ["m1", "m2"]):
        assert forecast_columns(columns, NAME, "auto", False).notes == ()
    assert forecast_columns(["north", "west"], NAME, "members", False).notes == ()


@pytest.mark.parametrize(
    ("columns", "read_as", "message"),
    [
        (["m1", "m2"], "quantiles", "must have at least two columns that name levels"),
        (["q10", "q90", "m1"], "quantiles", "'m1'"),
        (
            ["north_q10", "north_q90", "q10", "q90"],
            "auto",
            "for each of north, the columns without a site; .*--columns",
        ),
        (
            [f"{site}_m{k}" for site in ("b0", "b1", "b2") for k in (1, 2, 3) if (site, k) != ("b1", 3)],
            "auto",
            "must have the same members of each site, got 2 of b1, which has no m3, and 3 of b0, b2; .*--columns",
        ),
        (["a_m1", "a_m2", "b_m1", "b_m2", "c_m1", "c_m2", "c_m3"], "auto", "got 3 of c, which has m3 besides,"),
        (["mean", "std"], "auto", "'mean'"),
        (["min", "middle", "max"], "auto", "'min'"),
    ],
)
def test_columns_that_are_not_certain(columns: list[str], read_as: str, message: str) -> None:
    refuses(TableError, message, forecast_columns, columns, NAME, read_as, False)


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


def test_the_quantiles_of_several_outcomes_are_read_as_they_are_written() -> None:
    columns = [f"quantile_{level}_{site}" for level in (0.1, 0.5, 0.9) for site in ("north", "south_2")]
    found = forecast_columns(columns, "the table", "auto", chosen=True)
    assert found.levels == (0.1, 0.5, 0.9)
    assert list(found.of_target) == ["north", "south_2"]
    assert list(found.of_target["north"]) == columns[::2]


@pytest.mark.parametrize(
    "columns",
    [
        ["north_m1", "north_m2", "west_m1", "west_m2"],
        ["north_m1", "west_m1", "north_m2", "west_m2"],
        ["north 1", "north 2", "west 1", "west 2"],
        ["north-member_01", "north-member_02", "west-member_01", "west-member_02"],
        ["m1_north", "m2_north", "m1_west", "m2_west"],
        ["1_north", "2_north", "1_west", "2_west"],
    ],
)
def test_sites_in_names(columns: list[str]) -> None:
    sites = member_sites(columns)
    assert list(sites) == ["north", "west"]
    for site, of_site in sites.items():
        assert of_site == sorted(column for column in columns if site in column)


@pytest.mark.parametrize(
    "columns",
    [
        ["m1", "m2"],
        ["member_1", "member_2"],
        ["ens_m1", "ens_m2"],
        ["north_m1", "north_m2"],
        ["north_m1", "north_m2", "west_m1", "west_m3"],
        ["north_m1", "west_m1"],
        ["u1", "u2", "v1", "v2"],
        ["north_m1", "north_m2", "west_m1", "west_m2", "power"],
        ["a", "b"],
    ],
)
def test_names_without_several_sites(columns: list[str]) -> None:
    assert member_sites(columns) is None


def test_a_column_of_sites() -> None:
    table = pd.DataFrame({"Unique_ID": ["a", "b"], "where": [1, 1], "station": ["x", "x"]})
    labels = site_labels(table, None)
    assert (labels.name, labels.tolist()) == ("Unique_ID", ["a", "b"])
    assert site_labels(table[["where", "station"]], None) is None  # one station is a coordinate
    named = site_labels(table, "where")
    assert named.tolist() == ["1", "1"]
    refuses(TableError, "'place'", site_labels, table, "place")
    refuses(TableError, "'site'", site_labels, pd.DataFrame({"site": ["a", None]}), None)


@pytest.mark.parametrize(
    ("targets", "outcomes", "expected"),
    [
        (["north", "south"], ["south", "north"], ("north", "south")),
        (["f_CAPITL", "f_CENTRL"], ["load_CENTRL", "load_CAPITL"], ("load_CAPITL", "load_CENTRL")),
        (["north_f", "south_f"], ["obs south", "obs north"], ("obs north", "obs south")),
        (["A", "AB"], ["y_ab", "y_a"], ("y_a", "y_ab")),
        (["t2m"], ["temperature"], ("temperature",)),
        (["h0", "h10", "h11"], ["obs_11", "obs_00", "obs_10"], ("obs_00", "obs_10", "obs_11")),
    ],
)
def test_names_that_share_their_own_part_match(
    targets: list[str], outcomes: list[str], expected: tuple[str, ...]
) -> None:
    assert matched_outcomes(targets, outcomes, in_order=False) == (expected, ())


def test_actions_find_their_parts_by_name() -> None:
    plan, hours = ScheduleCost(short=5.0, long=1.0), ["h0", "h2", "h10"]
    assert matched_actions(plan, hours, ["did_h0", "did_h10", "did_h2"]) == ("did_h0", "did_h2", "did_h10")
    assert matched_actions(plan, hours, ["b", "c", "a"]) == ("b", "c", "a")
    assert matched_actions(plan, ["h0"], ["did"]) == ("did",)
    battery = ArbitrageCost(power=1.0, energy=2.0)
    columns = ["discharge_h1", "discharge_h0", "charge_h1", "charge_h0"]
    assert matched_actions(battery, ["h0", "h1"], columns) == tuple(reversed(columns))
    assert matched_actions(battery, ["h0", "h1"], ["a", "b"]) == ("a", "b")
