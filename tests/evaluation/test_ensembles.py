from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from refusals import refuses

import stakes
from reproduction.tasks.task import only_outcome, region_between
from stakes import ProtectionCost, ShortfallCost, WindDispatchCost
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.evaluation.ensembles import compare, evaluate, evaluate_table
from stakes.evaluation.intervals import paired_difference
from stakes.evaluation.metrics import LEVELS, Assessor

COST = ProtectionCost(0.5, 0.4, sharpness=3.0)
REGIONS = {"high": region_between(only_outcome, lower=0.5)}
Arrays = tuple[xr.DataArray, xr.DataArray]


def draw(seed: int = 0, spread: float = 1.0, **sizes: int) -> Arrays:
    """Members and outcome over labelled dimensions, of which `number` is the members'."""
    sizes = sizes or {"time": 20, "number": 9}
    generator = np.random.default_rng(seed)
    members = xr.DataArray(spread * generator.normal(size=tuple(sizes.values())), dims=tuple(sizes))
    outcome = members.isel(number=0, drop=True).copy(
        data=np.random.default_rng(99).normal(size=tuple(size for name, size in sizes.items() if name != "number"))
    )
    days = {"time": pd.date_range("2020-01-01", periods=sizes["time"])} if "time" in sizes else {}
    found = (members.assign_coords(days), outcome.assign_coords(days))
    for array in found:
        array.attrs["units"] = "m s-1"
    return found


def direct(members: Any, outcome: Any, cost: Any = COST) -> dict[str, np.ndarray]:
    """Members (N, M) or (N, M, D) by the assessor itself."""
    arrays = [torch.from_numpy(np.ascontiguousarray(values)) for values in (members, outcome)]
    if arrays[1].dim() == 1:
        arrays = [values[..., None] for values in arrays]
    return {name: values.numpy() for name, values in Assessor(cost, REGIONS)(*arrays).items()}


def test_one_case_dimension() -> None:
    members, outcome = draw()
    found = evaluate(members, outcome, COST, REGIONS)
    wanted = direct(members.values, outcome.values)
    assert set(found.data_vars) == set(wanted)
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name].values, values)
    assert found["cost"].dims == ("time",)
    assert found["quantile"].dims == ("time", "level")
    assert found["level"].values.tolist() == list(LEVELS)
    xr.testing.assert_equal(found["time"], members["time"])
    assert found.attrs == {"cost": repr(COST), "members": 9, "missing_cases": 0}


def test_units() -> None:
    members, outcome = draw()
    found = evaluate(members, outcome, COST, REGIONS)
    for name in ("energy_score", "tail_crps", "quantile", "spread", "error", "spread_high"):
        assert found[name].attrs == {"units": "m s-1"}, name
    for name in ("pit", "interior", "mass_high"):
        assert found[name].attrs == {"units": "1"}, name
    for name in ("cost", "action", "gradient", "gap"):
        assert found[name].attrs == {}, name
    bare = evaluate(members.drop_attrs(), outcome.drop_attrs(), COST)
    assert "units" not in bare["energy_score"].attrs


def test_several_case_dimensions_in_any_order() -> None:
    members, outcome = draw(station=3, number=5, time=4)
    members = members.assign_coords(station=["a", "b", "c"], height=("station", [1.0, 2.0, 3.0]))
    outcome = outcome.assign_coords(station=["a", "b", "c"]).transpose("time", "station")
    found = evaluate(members, outcome, COST)
    assert found["cost"].dims == ("station", "time")
    assert found["quantile"].dims == ("station", "time", "level")
    assert found["height"].values.tolist() == [1.0, 2.0, 3.0]
    for station in range(3):
        wanted = direct(members.values[station].T, outcome.values[:, station])
        for name in ("cost", "energy_score", "quantile"):
            np.testing.assert_allclose(found[name].values[station], wanted[name], rtol=1e-12)


def test_sites_of_one_decision() -> None:
    members, outcome = draw(time=6, farm=3, number=5)
    found = evaluate(8 + members, 8 + outcome, WindDispatchCost(3.0), site="farm")
    wanted = direct((8 + members).transpose("time", "number", "farm").values, 8 + outcome.values, WindDispatchCost(3.0))
    assert found["cost"].dims == ("time",)
    for name in ("variogram_score", "energy_score", "cost", "pit"):
        np.testing.assert_array_equal(found[name].values, wanted[name])
    kept = evaluate(members, outcome, WindDispatchCost(3.0), site="farm")
    assert "units" in kept["energy_score"].attrs
    assert "units" not in kept["quantile"].attrs  # that of the power


def test_aligned_by_coordinates() -> None:
    members, outcome = draw()
    wanted = evaluate(members, outcome, COST)
    xr.testing.assert_identical(evaluate(members, outcome.isel(time=slice(None, None, -1)), COST), wanted)
    unlabelled = evaluate(members, outcome.drop_vars("time"), COST)
    xr.testing.assert_identical(unlabelled, wanted)


def test_missing_values_are_neither_used_nor_hidden() -> None:
    members, outcome = draw()
    members[2, 4], outcome[7] = np.nan, np.nan
    found = evaluate(members, outcome, COST, REGIONS)
    complete = [place for place in range(20) if place not in (2, 7)]
    wanted = direct(members.values[complete], outcome.values[complete])
    assert found.attrs["missing_cases"] == 2
    for name, values in wanted.items():
        assert np.isnan(found[name].values[[2, 7]]).all(), name
        np.testing.assert_array_equal(found[name].values[complete], values)


@pytest.mark.parametrize(
    ("kinds", "wanted"), [(("f4", "f4"), "f4"), (("f4", "f8"), "f8"), (("i4", "f8"), "f8"), (("f2", "f4"), "f4")]
)
def test_precision(kinds: tuple[str, str], wanted: str) -> None:
    members, outcome = draw()
    found = evaluate((10 * members).astype(kinds[0]), (10 * outcome).astype(kinds[1]), COST)
    assert found["energy_score"].dtype == np.dtype(wanted)


def later(outcome: xr.DataArray) -> xr.DataArray:
    return outcome["time"] + np.timedelta64(1, "D")


Change = Callable[[xr.DataArray, xr.DataArray], Arrays]
BAD: dict[str, tuple[Change, type[Exception], str]] = {
    "arrays": (lambda m, o: (m.values, o.values), ShapeError, "members .*ndarray"),
    "no members": (lambda m, o: (m.rename(number="member"), o), ShapeError, r"'number'.*\['time', 'member'\]"),
    "one member": (lambda m, o: (m.isel(number=[0]), o), ShapeError, "members .*'number'.*got 1"),
    "no cases": (lambda m, o: (m[:0], o[:0]), ShapeError, "at least one case"),
    "no case dimension": (lambda m, o: (m[0], o[0]), ShapeError, "dimension of cases"),
    "all missing": (lambda m, o: (m * np.nan, o), ShapeError, "members .*20"),
    "texts": (lambda m, o: (m.astype(str), o), ShapeError, "members .*<U"),
    "truths": (lambda m, o: (m, o > 0), ShapeError, "outcome .*bool"),
    "infinite": (lambda m, o: (m, o.where(o < 1, np.inf)), NonFiniteError, "outcome"),
    "other times": (lambda m, o: (m, o.assign_coords(time=later(o))), ShapeError, "outcome .*2020-01-01"),
    "more times": (lambda m, o: (m[1:], o), ShapeError, "members .*2020-01-01"),
    "a time twice": (lambda m, o: (m, o.isel(time=[0, 0, *range(2, 20)])), ShapeError, "outcome .*2020-01-01"),
    "other size": (lambda m, o: (m, o[:7].drop_vars("time")), ShapeError, "'time', got 7 and 20"),
    "other dimensions": (lambda m, o: (m, o.rename(time="hour")), ShapeError, r"outcome .*\['hour'\]"),
    "other units": (lambda m, o: (m, o.assign_attrs(units="knots")), ShapeError, "'m s-1' and 'knots'"),
    "taken names": (lambda m, o: (m.assign_coords(level=850), o), ShapeError, "rename level"),
}


@pytest.mark.parametrize(("change", "error", "message"), BAD.values(), ids=BAD)
def test_bad_arrays_are_named(change: Change, error: type[Exception], message: str) -> None:
    refuses(error, message, evaluate, *change(*draw()), COST)


# Tables


def test_table() -> None:
    members, outcome = draw()
    index = pd.Index(pd.date_range("2020-01-01", periods=20), name="day")
    table = pd.DataFrame(members.values, index, [f"run {run}" for run in range(9)])
    seen = pd.Series(outcome.values, index).iloc[::-1]
    found = evaluate_table(table, seen, COST, REGIONS)
    wanted = direct(members.values, outcome.values)
    pd.testing.assert_index_equal(found.index, index)
    quantiles = [f"quantile_{level}" for level in LEVELS]
    assert list(found.columns) == [*(name for name in wanted if name != "quantile"), *quantiles]
    for name in found.columns.difference(quantiles):
        np.testing.assert_array_equal(found[name], wanted[name])
    np.testing.assert_array_equal(found[quantiles], wanted["quantile"])
    assert found.attrs["missing_cases"] == 0


def test_tables_of_quantiles_are_no_members() -> None:
    outcome = pd.Series([0.2, 0.3])
    for columns in ([0.1, 0.5, 0.9], ["q10", "q50", "q90"]):
        quantiles = pd.DataFrame([[0.1, 0.2, 0.5]] * 2, columns=columns)
        refuses(ShapeError, "members .* quantiles", evaluate_table, quantiles, outcome, COST)
    members = pd.DataFrame([[0.1, 0.2, 0.5]] * 2, columns=["p1", "p2", "p3"])
    assert len(evaluate_table(members, outcome, ShortfallCost(5.0))) == 2


@pytest.mark.parametrize(
    ("table", "outcome", "message"),
    [
        (pd.DataFrame({"a": [1.0], "b": ["x"]}), pd.Series([1.0]), "members"),
        (pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.Series([True]), "outcome"),
        (pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.Series([1.0], ["x"]), "outcome"),
        (pd.DataFrame({"a": [1.0]}), pd.Series([1.0]), "at least two"),
        (pd.DataFrame({"a": [], "b": []}, dtype=float), pd.Series([], dtype=float), "at least one case"),
    ],
)
def test_bad_tables_are_named(table: pd.DataFrame, outcome: "pd.Series[Any]", message: str) -> None:
    refuses(ShapeError, message, evaluate_table, table, outcome, COST)


# Comparison


def evaluated(seed: int = 0, spread: float = 1.0, **sizes: int) -> xr.Dataset:
    return evaluate(*draw(seed, spread, **sizes), COST)


def test_compare_by_hand() -> None:
    first, second = evaluated(time=60, number=9), evaluated(1, 4.0, time=60, number=9)
    found = compare(first, second, ["cost", "energy_score"], block=5)
    assert list(found.index) == ["cost", "energy_score"]
    for name in found.index:
        row = found.loc[name]
        wanted = paired_difference(first[name].values[None], second[name].values[None], block=5)
        assert row["first"] == pytest.approx(float(first[name].mean()))
        assert row["second"] == pytest.approx(float(second[name].mean()))
        assert [row["difference"], row["low"], row["high"]] == pytest.approx(list(wanted))
        assert row["significant"] == wanted.significant
        assert row["cases"] == 60
    assert found.loc["energy_score", "significant"]
    assert found.loc["energy_score", "difference"] < 0  # spread 1 is the right one


def test_compare_all_metrics_of_equals() -> None:
    first = evaluated()
    found = compare(first, first)
    assert set(found.index) == set(first.data_vars) - {"quantile"}
    assert (found[["difference", "low", "high"]] == 0).all(axis=None)
    assert not found["significant"].any()


def test_compare_goes_by_time() -> None:
    first, second = evaluated(), evaluated(1)
    wanted = compare(first, second, block=4)
    shuffled = first.isel(time=np.random.default_rng(0).permutation(20))
    pd.testing.assert_frame_equal(compare(shuffled, second, block=4), wanted)
    pd.testing.assert_frame_equal(compare(first, second.isel(time=slice(None, None, -1)), block=4), wanted)


def test_compare_with_seeds() -> None:
    first, second = (xr.concat([evaluated(seed, spread) for seed in range(3)], "seed") for spread in (1.0, 2.0))
    found = compare(first, second, ["cost"], block=4)
    wanted = paired_difference(first["cost"].values, second["cost"].values, block=4)
    assert found.loc["cost", ["difference", "low", "high"]].tolist() == pytest.approx(list(wanted))


def test_stations_stay_together_at_each_time() -> None:
    """Stations that are copies of one another say no more than one of them."""
    first, second = evaluated(), evaluated(1)
    wanted = compare(first, second)
    many = [each.expand_dims(station=4) for each in (first, second)]
    found = compare(*many)
    np.testing.assert_allclose(found[["difference", "low", "high"]], wanted[["difference", "low", "high"]], atol=1e-12)
    assert (found["cases"] == 80).all()


def test_compare_leaves_out_what_one_does_not_have() -> None:
    first, second = evaluated(), evaluated(1)
    first["cost"][3], second["cost"][5] = np.nan, np.nan
    found = compare(first, second, ["cost"])
    kept = [place for place in range(20) if place not in (3, 5)]
    assert found.loc["cost", "cases"] == 18
    assert found.loc["cost", "first"] == pytest.approx(float(first["cost"][kept].mean()))
    assert found.loc["cost", "second"] == pytest.approx(float(second["cost"][kept].mean()))


def test_bad_comparisons_are_named() -> None:
    first = evaluated()
    refuses(SettingError, "'costs'", compare, first, first, ["costs"])
    refuses(ShapeError, "second", compare, first, first.isel(time=slice(1, None)))
    refuses(ShapeError, r"same dimensions", compare, first, first.expand_dims(seed=2))
    refuses(SettingError, "block", compare, first, first, block=21)
    refuses(SettingError, "share a metric", compare, first[["cost"]], first[["gap"]])
    plain = evaluated(east=2, north=3, number=5)
    refuses(SettingError, "'east'", compare, plain, plain)
    assert len(compare(plain, plain, time="north")) == len(plain.data_vars) - 1
    refuses(SettingError, "got 'west'", compare, plain, plain, time="west")


def test_an_action_of_several_parts() -> None:
    generator = np.random.default_rng(0)
    members = xr.DataArray(generator.normal(3, 1, (5, 8, 2)), {"place": ["a", "b"]}, ("time", "number", "place"))
    outcome = members.isel(number=0)
    found = evaluate(members, outcome, stakes.AllocationCost(3.0, 1.0, budget=4.0), site="place")
    assert found["action"].dims == ("time", "place")
    assert found["place"].values.tolist() == ["a", "b"]
    assert found["action"].sum("place").max() <= 4 + 1e-9
    assert "action" not in compare(found, found).index
