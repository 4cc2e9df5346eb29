import time

import pytest

from stakes.data.forecasts.columns import named_quantiles, require_certain, require_levels
from stakes.errors import TableError

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


def test_sites_before_the_level() -> None:
    quantiles = named_quantiles(["north_q10", "north_q90", "off shore_0.1"])
    assert [(each.prefix, each.level) for each in quantiles] == [("north", 0.1), ("north", 0.9), ("off shore", 0.1)]


def test_numbers_alone_are_levels_where_that_is_certain() -> None:
    assert [each.level for each in named_quantiles(["10", "50", "97.5"], certain=True)] == [0.1, 0.5, 0.975]
    assert named_quantiles(["10", "50", "97.5"]) == []
    assert [each.level for each in named_quantiles(["q1", "q2", "q99"], certain=True)] == [0.01, 0.02, 0.99]


@pytest.mark.parametrize(
    "columns",
    [[f"q{number}" for number in range(1, 51)], ["p01", "p02"], ["q1", "q2", "q3", "q5"], ["quantile_1", "quantile_2"]],
)
def test_numbers_that_follow_each_other_may_be_members(columns: list[str]) -> None:
    with pytest.raises(TableError, match="may be members or quantiles; --read-as members or --read-as quantiles says"):
        require_certain(named_quantiles(columns), "'a.csv'")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["q5", "q05", "q95"], "has the level 0.05 twice, in the columns q5, q05"),
        ([], "must have at least two columns that name levels"),
    ],
)
def test_levels_that_are_none_are_told(columns: list[str], message: str) -> None:
    with pytest.raises(TableError, match=message):
        require_levels(named_quantiles(columns), "'a.csv'")


def test_many_and_long_names_take_no_time() -> None:
    start = time.process_time()
    assert named_quantiles([f"{place}" for place in range(20_000)]) == []
    assert named_quantiles(["a_" * 20_000, "1" * 20_000, "q" * 20_000]) == []
    assert time.process_time() - start < 2
