import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from calls import called, complaint
from forked_processes import forked
from load_tables import load_table
from scipy.stats import beta

import stakes
from stakes.artifacts.fits import load_bundle
from stakes.cli import main

COST = "shortfall:penalty=5"


def decided(*words: str) -> pd.DataFrame:
    assert called("decide", *words, "--out", "actions.csv", "--force", "--quiet") == (0, "actions.csv\n", "")
    return pd.read_csv("actions.csv")


def test_members_to_actions() -> None:
    found = decided("--members", "members.csv", "--cost", COST, "--quantiles", "0.25,0.5")
    quantiles = ["quantile_0.25", "quantile_0.5"]
    flags = ["at_lower_bound", "at_upper_bound", "certified"]
    assert list(found.columns) == ["time", "action", "expected_cost", *flags, *quantiles]
    members = pd.read_csv("members.csv", index_col="time")
    assert list(found["time"]) == [f"{time.replace(' ', 'T')}Z" for time in members.index]
    solution = stakes.solve_action(stakes.ShortfallCost(5.0), torch.from_numpy(members.to_numpy())[..., None])
    np.testing.assert_allclose(found["action"], solution.action[:, 0], rtol=1e-12)
    np.testing.assert_allclose(found["expected_cost"], solution.expected_cost, rtol=1e-12)
    assert found["certified"].all()
    expected = np.quantile(members, [0.25, 0.5], axis=1, method="hazen").T
    np.testing.assert_allclose(found[quantiles], expected, rtol=1e-12)


def test_the_total_of_several_targets_is_what_quantiles_are_of() -> None:
    rows = [f"{case},{number},{case + number},{2 * number}" for case in (1, 2) for number in range(4)]
    Path("long.csv").write_text("\n".join(["case,number,a,b", *rows]))
    words = ["--members", "long.csv", "--cost", "imbalance:short=2,long=1,upper=30", "--quantiles", "0.5"]
    found = decided(*words, "--target", "a,b")
    assert list(found["case"]) == [1, 2]
    assert list(found["quantile_0.5"]) == [5.5, 6.5]  # the cost's total is the sum
    assert list(decided(*words, "--target", "a")["quantile_0.5"]) == [2.5, 3.5]
    assert "several columns of values, a, b; " in complaint("decide", *words)
    assert "has no column 'c'; there are a, b" in complaint("decide", *words, "--target", "a,c")


def test_a_separator_and_names_with_a_comma() -> None:
    header = 'time;number;"wind, north";"wind, south"'
    Path("long.csv").write_text(f"{header}\n2020-01-01;0;0,2;0,4\n2020-01-01;1;0,4;0,4\n")
    words = ["--members", "long.csv", "--cost", COST, "--quantiles", "0.5"]
    assert decided(*words, "--target", '"wind, north"')["quantile_0.5"].iloc[0] == pytest.approx(0.3)
    assert "has text in the column" in complaint("decide", *words, "--separator", ",")


def test_times_in_another_zone_come_back_in_utc() -> None:
    Path("zone.csv").write_text("time,m1,m2\n2020-07-01T00:00+02:00,0.1,0.2\n")
    words = ["decide", "--members", "zone.csv", "--cost", COST]
    _, output, errors = called(*words)
    assert output.splitlines()[1].startswith("2020-06-30T22:00:00Z,")
    assert "note: times are UTC here, although the table has them in another zone\n" in errors
    assert called(*words, "--out", "a.parquet")[0] == 0
    assert str(pd.read_parquet("a.parquet")["time"].dtype.tz) == "UTC"  # type: ignore[union-attr]


def test_one_json_object() -> None:
    code, output, errors = called("decide", "--members", "members.csv", "--cost", f"{COST},unit=EUR", "--json")
    assert (code, errors) == (0, "note: 60 cases of 12 members, targets outcome\n")
    found = json.loads(output)
    assert (found["cases"], found["unit"], len(found["rows"])) == (60, "EUR", 60)
    assert found["rows"][1]["time"] == "2020-01-01T12:00:00Z"
    assert called("decide", "--members", "members.csv", "--cost", COST, "--json", "--out", "a.parquet")[0] == 0
    assert list(pd.read_parquet("a.parquet")["action"]) == [row["action"] for row in found["rows"]]


def test_notes_are_told_beside_the_result_unless_quiet() -> None:
    Path("gap.csv").write_text("time,a,b\n2020-01-01,0.1,0.2\n2020-01-02,,0.3\n")
    code, output, errors = called("decide", "--members", "gap.csv", "--cost", COST)
    assert (code, output.count("\n")) == (0, 2)
    said = ["1 case of 2 members, targets outcome", "1 of 2 cases lack members and are left out"]
    assert errors == "".join(f"note: {sentence}\n" for sentence in said)
    assert called("decide", "--members", "gap.csv", "--cost", COST, "--quiet")[2] == ""


def test_a_reader_that_has_gone_is_no_fault() -> None:
    process = forked(lambda: main(["decide", "--members", "members.csv", "--cost", COST, "--quiet"]))
    with process:
        reader = subprocess.run(["head", "-n", "1"], stdin=process.stdout, capture_output=True, text=True, check=True)
        process.stdout.close()
        assert reader.stdout.startswith("time,action")
        assert process.stderr.read() == ""


def test_a_fitted_forecaster_decides_for_new_data(fitted: Path) -> None:
    table = load_table()
    table.tail(6).drop(columns="bought").to_csv("new.csv", index=False)
    found = decided(str(fitted), "new.csv", "--quantiles", "0.5")
    times = pd.to_datetime(found["time"])
    last = table["time"].iloc[-1].tz_localize("UTC")
    assert times.max() == last + pd.Timedelta(hours=12)  # the decision that is still to be taken
    forecaster = load_bundle(fitted).forecaster
    layout = load_bundle(fitted).layout
    features = layout.inputs(table.tail(6)).feature_table
    np.testing.assert_allclose(found["action"], forecaster.decide(features), rtol=1e-6)
    np.testing.assert_allclose(found["quantile_0.5"], forecaster.predict_quantiles(features, [0.5])[:, 0, 0], rtol=1e-6)


def test_another_cost_for_the_same_forecaster(fitted: Path) -> None:
    load_table().to_csv("new.csv", index=False)
    bold, shy = (
        decided(str(fitted), "new.csv", "--cost", f"imbalance:short={short},long=1,upper=20") for short in (100, 0.01)
    )
    assert (bold["action"] > shy["action"]).all()
    _, _, errors = called("decide", str(fitted), "new.csv", "--cost", "imbalance:short=2,long=1,upper=20")
    assert errors.startswith("note: the forecaster was fitted for the cost")


def test_no_odd_digits() -> None:
    Path("thirds.csv").write_text("a0,a1,a2\n0.1,0.2,0.3\n1386.6,1386.7,1386.7\n")
    words = ["decide", "--members", "thirds.csv", "--cost", "imbalance:short=1,long=1,upper=9999", "--quiet"]
    for output in (called(*words)[1], called(*words, "--json")[1]):
        assert "0.2," in output
        assert "0000000" not in output
        assert "9999999" not in output


def test_the_newest_time_only(fitted: Path) -> None:
    load_table().iloc[::-1].to_csv("load.csv", index=False)
    every, last = decided(str(fitted), "load.csv"), decided(str(fitted), "load.csv", "--last")
    assert len(every) > 1
    pd.testing.assert_frame_equal(last, every.tail(1).reset_index(drop=True))
    assert last["time"][0] == every["time"].max()
    pd.read_csv("members.csv").iloc[::-1].to_csv("members.csv", index=False)
    words = ["--members", "members.csv", "--cost", COST]
    every, last = decided(*words), decided(*words, "--last")
    pd.testing.assert_frame_equal(last, every.sort_values("time").tail(1).reset_index(drop=True))


LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
NINE_TO_ONE = "newsvendor:underage=9,overage=1,upper=1"


def test_quantiles_are_no_members() -> None:
    quantiles = beta(3, 3).ppf(LEVELS)
    times = pd.DatetimeIndex(["2020-01-01"], name="time")
    pd.DataFrame([quantiles], times, [str(level) for level in LEVELS]).to_csv("quantiles.csv")
    words = ["--members", "quantiles.csv", "--cost", NINE_TO_ONE]
    found = decided(*words)
    assert found["action"][0] == pytest.approx(quantiles[5], abs=1e-14)  # as the file has it: 0.753
    assert round(found["action"][0], 3) == 0.753
    assert found["certified"].all()
    assert list(found[["quantile_0.1", "quantile_0.5", "quantile_0.9"]].iloc[0]) == pytest.approx(quantiles[[1, 3, 5]])
    assert round(decided(*words, "--read-as", "members")["action"][0], 3) == 0.853
    assert decided(*words, "--tails", "flat")["expected_cost"][0] < found["expected_cost"][0]
    bounded = decided(*words, "--outcome-bounds", "0,1")["expected_cost"][0]
    assert decided(*words, "--tails", "flat")["expected_cost"][0] < bounded < found["expected_cost"][0]
    assert "note: read as quantiles" in called("decide", *words)[2]


def test_several_sites_together_and_each_by_itself() -> None:
    values = np.random.default_rng(0).random((3, 8)).round(3)
    columns = [f"{site}_m{number}" for site in ("north", "west") for number in range(4)]
    times = pd.DatetimeIndex(["2020-01-02", "2020-01-03", "2020-01-01"], name="time")
    pd.DataFrame(values, times, columns).to_csv("sites.csv")
    words = ["--members", "sites.csv", "--cost", "imbalance:short=2,long=1,upper=9"]
    cost = stakes.ImbalanceCost(2.0, 1.0, 0.0, 9.0)
    together = stakes.optimal_action(cost, torch.from_numpy(values.reshape(3, 2, 4)).transpose(1, 2))
    np.testing.assert_allclose(decided(*words)["action"], together[:, 0])
    each = decided(*words, "--sites", "each")
    assert list(each.columns[:3]) == ["time", "site", "action"]
    assert list(each["site"]) == ["north", "west"] * 3
    np.testing.assert_allclose(
        each["action"], stakes.optimal_action(cost, torch.from_numpy(values.reshape(6, 4))[..., None])[:, 0]
    )
    assert list(decided(*words, "--sites", "each", "--last")["time"]) == ["2020-01-03T00:00:00Z"] * 2
    np.testing.assert_allclose(decided(*words, "--sites", "west")["action"], each["action"][1::2])
    assert "has no site 'south'" in complaint("decide", *words, "--sites", "south")


def test_points_of_a_grid() -> None:
    values = np.random.default_rng(0).random((2, 6, 2))
    coords = {"latitude": [50.0, 51.0]}
    array = xr.DataArray(values, coords, ("time", "number", "latitude")).expand_dims(longitude=[0.0, 1.0], axis=-1)
    xr.Dataset({"power": array}).to_netcdf("grid.nc", engine="h5netcdf")
    words = ["--members", "grid.nc", "--cost", COST]
    both = stakes.optimal_action(stakes.ShortfallCost(5.0), torch.from_numpy(values))
    np.testing.assert_allclose(decided(*words, "--point", "50,0; 51,0")["action"], both[:, 0])
    for point in ("50", "91,0", "50,0,0"):
        assert "point" in complaint("decide", *words, "--point", point)


def test_where_no_case_has_an_action_the_reason_is_told_and_the_command_fails() -> None:
    Path("tight.toml").write_text('[decide.plan]\nupper = 2\n[recourse_constraints]\nneed = "plan >= outcome"\n')
    Path("wide.csv").write_text("time,a_m1,a_m2,b_m1,b_m2\n2020-01-01,1,2,1,3\n2020-01-02,1,9,1,2\n")
    words = ("decide", "--members", "wide.csv", "--cost", "tight.toml")
    code, output, errors = called(*words)
    assert code == 2
    assert len(output.splitlines()) == 3
    assert "note: 2 of 2 decisions are infeasible" in errors
    assert (
        "note: the first infeasible case is 2020-01-01T00:00:00Z: no action meets the recourse constraints at 1 of"
        in errors
    )
    assert errors.endswith("stakes: none of 2 decisions has a best action, see the column status: 2 infeasible\n")
    Path("wide.csv").write_text("time,a_m1,a_m2,b_m1,b_m2\n2020-01-01,1,2,1,3\n2020-01-02,1,1,1,2\n")
    assert called(*words)[0] == 0


def test_reduced_members_and_what_they_cost() -> None:
    words = ["--members", "members.csv", "--cost", COST]
    whole = decided(*words)
    found = decided(*words, "--reduce", "6", "--scenarios", "scenarios.csv")
    assert list(found.columns) == [*whole.columns, "reduction_gap"]
    assert found["reduction_gap"].between(0, 0.01).all()
    scenarios = pd.read_csv("scenarios.csv")
    assert list(scenarios.columns) == ["time", "scenario", "probability", "outcome", "value"]
    assert len(scenarios) == 6 * len(whole)
    np.testing.assert_allclose(scenarios.groupby("time")["probability"].sum(), 1, rtol=1e-6)
    assert "--reduce" in complaint("decide", *words, "--scenarios", "more.csv")
    assert "reduce" in complaint("decide", *words, "--reduce", "13")
    assert "reduce" in complaint("decide", *words, "--reduce", "0")
