import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from calls import called, complaint
from load_tables import load_table

import stakes
from stakes.evaluation.ensembles import evaluate_table

COST = "shortfall:penalty=5"
WORDS = ["evaluate", "--members", "members.csv", "--outcomes", "outcomes.csv", "--cost", COST]


def expected() -> pd.DataFrame:
    members = pd.read_csv("members.csv", index_col="time")
    return evaluate_table(members, pd.read_csv("outcomes.csv", index_col="time")["power"], stakes.ShortfallCost(5.0))


def test_members_against_outcomes() -> None:
    code, output, errors = called(*WORDS, "--json", "--cases", "cases.csv")
    assert code == 0
    assert errors.startswith("note: 60 cases of 12 members, targets outcome\nnote: climatology_cost is that of")
    found = json.loads(output)
    assert (found["cases"], found["cases_file"]) == (60, "cases.csv")
    values = {row["metric"]: row for row in found["metrics"]}
    wanted = expected()
    for name in ("energy_score", "cost", "expected_cost", "foresight_regret"):
        assert values[name]["value"] == pytest.approx(wanted[name].mean())
        assert values[name]["low"] < values[name]["value"] < values[name]["high"]
    cases = pd.read_csv("cases.csv")
    np.testing.assert_allclose(cases["cost"], wanted["cost"], rtol=1e-9)
    assert list(cases.columns[:2]) == ["time", "outcome"]
    assert cases["time"].iloc[1] == "2020-01-01T12:00:00Z"


def test_a_single_case_has_no_interval() -> None:
    for name in ("members.csv", "outcomes.csv"):
        pd.read_csv(name).head(1).to_csv(name, index=False)
    assert "1 case, too few for intervals" in called(*WORDS)[1]
    rows = json.loads(called(*WORDS, "--json")[1])["metrics"]
    assert {row["low"] for row in rows} == {row["high"] for row in rows} == {None}


def test_ranges_name_the_parts_of_outcomes_and_of_actions() -> None:
    rows = [f"{case},{number},{case}.{number},{case},2" for case in (1, 2, 3) for number in range(4)]
    Path("long.csv").write_text("\n".join(["case,number,h0,h1,h2", *rows]))
    Path("seen.csv").write_text("case,h2,h1,h0,did0,did1,did2\n1,3,2,1,1,1,1\n2,3,2,1,1,1,1\n3,3,2,1,1,1,1\n")
    words = ["evaluate", "--members", "long.csv", "--cost", "schedule:short=2,long=1", "--cases", "c.csv", "--force"]
    code, _, errors = called(*words, "--outcomes", "seen.csv", "--target", "h0:h2", "--baseline-action", "did0:did2")
    assert code == 0, errors
    found = pd.read_csv("c.csv")
    assert found[["h0", "h1", "h2"]].to_numpy().tolist() == [[1, 2, 3]] * 3
    assert list(found["today_cost"]) == [6, 6, 6]
    assert "no column 'h9'" in complaint(*words, "--outcomes", "seen.csv", "--target", "h0:h9")


def test_the_constant_action_is_the_best_in_hindsight() -> None:
    found = {row["metric"]: row["value"] for row in json.loads(called(*WORDS, "--json")[1])["metrics"]}
    power = pd.read_csv("outcomes.csv")["power"].to_numpy()
    grid = np.linspace(0, 1, 2001)
    costs = [np.mean(-action + 5.0 * np.clip(action - power, 0, None) ** 2) for action in grid]
    assert found["climatology_cost"] == pytest.approx(min(costs), abs=1e-5)
    assert found["cost"] < found["climatology_cost"]


def test_a_plain_table_for_people() -> None:
    code, output, errors = called(*WORDS, "--block", "5", "--quiet")
    assert (code, errors) == (0, "")
    lines = output.splitlines()
    assert lines[0] == "60 cases, 95 % intervals from blocks of 5 neighbours"
    assert lines[1].split() == ["metric", "value", "low", "high"]
    assert [line.split()[0] for line in lines[2:4]] == ["energy_score", "cost"]


BOUNDED = """
[decide.plan]
cost = 1
upper = 9
[recourse.bought]
cost = 5
upper = 2
[recourse_constraints]
demand = "plan + bought >= outcome"
"""


@pytest.mark.filterwarnings("ignore:the tail beyond")
@pytest.mark.parametrize("risk", ["", ":cvar_level=0.5"])
def test_a_case_without_recourse_is_named_and_the_others_are_judged(risk: str) -> None:
    Path("bounded.toml").write_text(BOUNDED)
    Path("wide.csv").write_text(
        "time,a_m1,a_m2,b_m1,b_m2\n" + "".join(f"2020-01-0{k},1,2,3,{k}\n" for k in (1, 2, 3, 4))
    )
    Path("seen.csv").write_text("time,a,b\n2020-01-01,1,2\n2020-01-02,9,2\n2020-01-03,1,2\n2020-01-04,2,3\n")
    words = ["evaluate", "--members", "wide.csv", "--outcomes", "seen.csv", "--cost", f"bounded.toml{risk}"]
    code, output, errors = called(*words)
    assert code == 0, errors
    assert (
        "note: 1 of 4 cases have an infinite cost (2020-01-02T00:00:00Z): no recourse meets the recourse constraints"
        in errors
    )
    assert "means are over the 3 others" in errors
    assert output.startswith("means of the 3 of 4 cases of finite cost, ")
    found = json.loads(called(*words, "--json", "--cases", "c.csv")[1])
    assert (found["cases"], found["infeasible_cases"]) == (3, ["2020-01-02T00:00:00Z"])
    cases = pd.read_csv("c.csv")
    means = {row["metric"]: row["value"] for row in found["metrics"]}
    assert means["cost"] == pytest.approx(cases["cost"].mean())
    assert cases["time"].str[:10].tolist() == ["2020-01-01", "2020-01-03", "2020-01-04"]
    pd.read_csv("seen.csv").assign(a=9).to_csv("seen.csv", index=False)
    assert "cost must be finite in at least one case, got infinity in all 4" in complaint(*words)


def test_where_no_constant_action_has_recourse_its_mean_is_left_empty() -> None:
    Path("exact.toml").write_text(
        '[decide.plan]\ncost = 1\n[recourse_constraints]\nexact = "outcome <= plan <= outcome + 1"\n'
    )
    Path("wide.csv").write_text("case,a_m1,a_m2,b_m1,b_m2\n1,1,2,3,4\n2,2,3,3,4\n3,5,6,3,4\n")
    Path("seen.csv").write_text("case,a,b\n1,1.5,3.5\n2,2.5,3.5\n3,5.5,3.5\n")
    words = ["evaluate", "--members", "wide.csv", "--outcomes", "seen.csv", "--cost", "exact.toml", "--json"]
    code, output, errors = called(*words)
    assert code == 0, errors
    assert "note: climatology_cost is left empty" in errors
    values = {row["metric"]: row["value"] for row in json.loads(output)["metrics"]}
    assert values["climatology_cost"] is values["climatology_skill"] is None
    assert values["cost"] == pytest.approx(23 / 3)  # the largest member of each


def test_today_without_recourse_is_told() -> None:
    Path("bounded.toml").write_text(BOUNDED)
    Path("wide.csv").write_text("case,a_m1,a_m2,b_m1,b_m2\n1,1,2,3,4\n2,1,2,3,4\n3,1,2,3,4\n")
    Path("seen.csv").write_text("case,a,b,did_a,did_b\n1,1,2,1,2\n2,1,3,1,0\n3,1,2,1,2\n")
    words = ["evaluate", "--members", "wide.csv", "--outcomes", "seen.csv", "--cost", "bounded.toml"]
    _, output, errors = called(*words, "--baseline-action", "did_a,did_b", "--json")
    assert "today's action has an infinite cost in 1 of 3 cases" in errors
    assert {row["metric"]: row["value"] for row in json.loads(output)["metrics"]}["today_cases"] == 2


def test_members_beside_the_action_of_today() -> None:
    table = pd.read_csv("outcomes.csv").assign(sold=0.4)
    table.loc[:9, "sold"] = np.nan
    table.iloc[::-1].to_csv("outcomes.csv", index=False)
    words = [*WORDS, "--target", "power", "--baseline-action", "sold", "--json"]
    code, output, _ = called(*words, "--cases", "cases.csv")
    assert code == 0
    values = {row["metric"]: row for row in json.loads(output)["metrics"]}
    cases = pd.read_csv("cases.csv").iloc[10:]
    assert values["today_cases"]["value"] == 50
    paid = (-0.4 + 5.0 * (0.4 - cases["outcome"]).clip(lower=0) ** 2).mean()
    assert values["today_cost"]["value"] == pytest.approx(paid)
    assert values["cost_less_today"]["value"] == pytest.approx(cases["cost"].mean() - paid)
    assert values["cost_less_today"]["low"] < values["cost_less_today"]["value"] < values["cost_less_today"]["high"]
    assert "has no column 'bought'" in complaint(*words[:-2], "bought")


def test_a_doubt_about_the_unit_is_told() -> None:
    for file in ("members.csv", "outcomes.csv"):
        table = pd.read_csv(file)
        table.iloc[:, 1:] *= 1000
        table.to_csv(file, index=False)
    assert "does not look like a fraction of capacity" in called(*WORDS)[2]
    assert Path("mine.csv").read_text() == "mine"


def test_a_fitted_forecaster_beside_weight_0_and_today(fitted: Path) -> None:
    load_table().to_csv("later.csv", index=False)
    code, output, errors = called("evaluate", str(fitted), "later.csv", "--json", "--cases", "cases.csv")
    assert code == 0
    assert "rows left out" in errors
    found = json.loads(output)
    assert found["unit"] == "EUR"
    values = {row["metric"]: row for row in found["metrics"]}
    cases = pd.read_csv("cases.csv")
    assert values["cost"]["value"] == pytest.approx(cases["cost"].mean())
    assert values["cost"]["baseline"] == pytest.approx(cases["weight_0_cost"].mean())
    assert values["cost"]["difference"] == pytest.approx((cases["cost"] - cases["weight_0_cost"]).mean())
    assert values["today_cost"]["value"] == pytest.approx(cases["today_cost"].mean())
    assert values["cost_less_today"]["value"] == pytest.approx((cases["cost"] - cases["today_cost"]).mean())
    load = cases["load"]
    short, long = (load - 11).clip(lower=0), (11 - load).clip(lower=0)
    np.testing.assert_allclose(cases["today_cost"], 10 * short**2 + long**2)
    assert (cases["today_action"] == 11).all()


def test_today_may_be_another_column_than_in_the_fit(fitted: Path) -> None:
    load_table().assign(offered=9.0).to_csv("later.csv", index=False)
    words = ["evaluate", str(fitted), "later.csv", "--quiet", "--cases", "cases.csv", "--baseline-action"]
    assert called(*words, "offered")[0] == 0
    assert (pd.read_csv("cases.csv")["today_action"] == 9).all()
    assert "the column 'load' is baseline_action" in complaint(*words, "load", "--force")


def sites_in_rows() -> pd.DataFrame:
    """Members m0 to m7, power and today's action of two sites of very different sizes, but for three rows."""
    chance = np.random.default_rng(0)
    table = pd.DataFrame({"time": pd.date_range("2020-01-01", periods=60).repeat(2), "site": ["north", "west"] * 60})
    size = np.where(table["site"] == "north", 100.0, 1.0)
    power = (size * chance.uniform(1, 2, 120)).round(6)
    members = pd.DataFrame({f"m{k}": power * chance.normal(1, 0.1, 120) for k in range(8)})
    table = table.join(members).assign(power=power, did=size)
    table.loc[7, "m3"] = np.nan
    table.loc[20, "power"] = np.nan
    return table.drop(index=31)


def test_each_site_is_judged_by_itself() -> None:
    table = sites_in_rows()
    table.drop(columns=["power", "did"]).to_csv("members.csv", index=False)
    table[["time", "site", "power", "did"]].sample(frac=1, random_state=0).to_csv("outcomes.csv", index=False)
    cost = "newsvendor:underage=3,overage=1,upper=400"
    words = [*WORDS[:-1], cost, "--sites", "each", "--baseline-action", "did", "--target", "power"]
    code, output, errors = called(*words, "--json", "--cases", "c.csv")
    assert code == 0, errors
    assert "the best constant action of each site" in errors
    found = json.loads(output)
    assert (found["cases"], found["block"]) == (117, 6)  # three days of both sites
    complete = table.dropna()
    judged = pd.read_csv("c.csv")
    assert judged[["site", "outcome"]].to_numpy().tolist() == complete[["site", "power"]].to_numpy().tolist()
    newsvendor = stakes.NewsvendorCost(3.0, 1.0, 0.0, 400.0)
    values = {name: torch.tensor(complete[name].to_numpy())[:, None] for name in ("power", "did")}
    members = torch.tensor(complete.filter(regex="^m").to_numpy())[..., None]
    paid = newsvendor(stakes.optimal_action(newsvendor, members), values["power"])
    np.testing.assert_allclose(judged["cost"], paid)
    np.testing.assert_allclose(judged["today_cost"], newsvendor(values["did"], values["power"]))
    means = {row["metric"]: row["value"] for row in found["metrics"]}
    alone = {
        site: json.loads(called(*WORDS[:-1], cost, "--sites", site, "--target", "power", "--json")[1])["metrics"]
        for site in ("north", "west")
    }
    of_sites = {name: {row["metric"]: row["value"] for row in rows}["climatology_cost"] for name, rows in alone.items()}
    counts = complete["site"].value_counts()
    expected_mean = sum(of_sites[site] * counts[site] for site in counts.index) / len(complete)
    assert means["climatology_cost"] == pytest.approx(expected_mean)


def test_a_forecast_that_is_worse_than_one_action_is_told_with_the_table() -> None:
    code, output, _ = called(*WORDS)
    assert (code, "Warning" in output) == (0, False)
    assert json.loads(called(*WORDS, "--json")[1])["alarms"] == []
    members = pd.read_csv("members.csv")
    drawn = [name for name in members if name != "time"]
    members.assign(**{name: 1 - members[name] for name in drawn}).to_csv("members.csv", index=False)
    pd.read_csv("outcomes.csv").assign(did=lambda table: table["power"]).to_csv("outcomes.csv", index=False)
    words = [*WORDS, "--target", "power", "--baseline-action", "did"]
    found = json.loads(called(*words, "--json")[1])
    values = {row["metric"]: row["value"] for row in found["metrics"]}
    assert values["cost"] > values["climatology_cost"]
    todays, climatology = found["alarms"]
    assert todays.startswith("Warning: today's actions ")
    assert climatology.startswith("Warning: one action for all cases ")
    for name in ("cost", "climatology_cost"):
        assert f"{values[name]:.3g}"[:4] in climatology
    code, output, _ = called(*words, "--quiet")
    assert code == 0
    assert output.splitlines()[-2:] == [todays, climatology]


def test_outcomes_are_of_members_and_of_recalibrations(fitted: Path) -> None:
    assert "--outcomes is for" in complaint("evaluate", str(fitted), "members.csv", "--outcomes", "outcomes.csv")
