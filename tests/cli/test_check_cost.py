import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint

SMOOTH = """
import torch

def smooth(action, outcome):
    return (action - outcome) ** 2

def saturating(action, outcome):
    return 1 - torch.exp(-((action - outcome) ** 2) / 8)

def flat(action, outcome):
    return 0.0 * action + outcome

def broken(action, outcome):
    return action.nonsense
"""


@pytest.fixture(autouse=True)
def own_file() -> None:
    Path("costs.py").write_text(SMOOTH)


@pytest.mark.parametrize(
    "cost",
    [
        "shortfall:penalty=5",
        "wind_dispatch:penalty=5",
        "protection:threshold=30,false_alarm_ratio=0.2",
        "imbalance:short=10,long=1,upper=150",
        "costs.py:smooth:lower=0,upper=2",
    ],
)
def test_draws_where_the_cost_makes_a_difference(cost: str) -> None:
    code, output, errors = called("check-cost", "--cost", cost)
    assert (code, errors) == (0, "")
    assert "Fit for training: yes." in output
    assert "draws between" in output


def test_a_cost_with_several_minima_is_not_fit() -> None:
    _, output, _ = called("check-cost", "--cost", "costs.py:saturating:lower=0,upper=100")
    assert "Fit for training: NO. The expected cost has several minima" in output
    assert "another minimum is better than the one that training would find: this cost is not convex" in output
    assert "No action is proven to be the best" in output


def test_a_kinked_cost_is_told_as_such() -> None:
    """What is said of kinks, flat places and curvature goes together."""
    Path("costs.py").write_text(
        "def kinked(action, outcome):\n"
        "    return 3 * (outcome - action).clamp(min=0) + (action - outcome).clamp(min=0) + 0.01 * action**2\n"
    )
    _, output, _ = called("check-cost", "--cost", "costs.py:kinked:lower=0,upper=2,convex=yes")
    reason = next(line for line in output.splitlines() if line.startswith("Fit for training: NO."))
    assert "kink" in reason
    assert "flat" not in reason
    assert "curved in 100" not in output
    _, output, _ = called("check-cost", "--cost", "newsvendor:underage=3,overage=1,upper=2")
    assert "Fit for training: yes." in output
    assert "at a kink in 100.0%: the formula gives the gradient there" in output
    assert "curved in" not in output


def test_minima_between_the_actions_of_a_coarse_scan_are_found() -> None:
    """Seven members around 62 and thirteen around 81: the action 62 costs 0.65, the action 81 costs 0.36."""
    members = np.where(np.arange(20) < 7, 62, 81) + np.random.default_rng(0).normal(0, 0.5, (20, 20))
    names = ",".join(f"m{place}" for place in range(20))
    np.savetxt("clusters.csv", members, delimiter=",", header=names, comments="")
    words = ["--members", "clusters.csv", "--cost", "costs.py:saturating:lower=0,upper=100"]
    assert "Fit for training: NO. The expected cost has several minima" in called("check-cost", *words)[1]
    decisions = pd.read_csv(io.StringIO(called("decide", *words, "--quiet")[1]))
    assert decisions["action"].between(79, 83).all()
    assert not decisions["certified"].any()


def test_a_word_about_convexity() -> None:
    _, output, _ = called("check-cost", "--cost", "costs.py:smooth:lower=0,upper=2,convex=yes")
    assert "The action is proven to be the best in 100.0%: the cost is convex in it." in output
    assert "convex=True" in complaint("check-cost", "--cost", "costs.py:saturating:lower=0,upper=100,convex=yes")
    assert "convex must be yes or no, got 1.0" in complaint(
        "check-cost", "--cost", "costs.py:flat:lower=0,upper=1,convex=1"
    )


def test_over_members_and_over_a_table() -> None:
    _, output, _ = called("check-cost", "--members", "members.csv", "--cost", "shortfall:penalty=5", "--json")
    found = json.loads(output)
    assert (found["sets"], found["members"], found["fit_for_training"]) == (60, 12, True)
    assert sum(found["gradient_mass"]["gradient_share"]) == pytest.approx(1)
    _, output, _ = called("check-cost", "outcomes.csv", "--target", "power", "--cost", "shortfall:penalty=5")
    assert "over outcomes of outcomes.csv of similar size" in output


def test_a_doubt_about_the_unit_is_told() -> None:
    _, output, _ = called("check-cost", "outcomes.csv", "--target", "power", "--cost", "wind_dispatch:penalty=5")
    assert "there is the cost shortfall" in output


def test_a_plot() -> None:
    words = ["check-cost", "--cost", "shortfall:penalty=5", "--plot"]
    assert called(*words, "cost.svg")[0] == 0
    assert "<svg" in Path("cost.svg").read_text()
    assert "exists already" in complaint(*words, "cost.svg")
    assert ".svg" in complaint(*words, "mine.csv")


def test_a_cost_that_fails_is_told_in_one_line() -> None:
    said = complaint("check-cost", "--cost", "costs.py:broken:lower=0,upper=1")
    assert "costs.py:broken" in said
    assert "nonsense" in said


@pytest.mark.parametrize("power", [1, 2])
def test_a_cost_without_a_number_is_told_in_one_line(power: int) -> None:
    formula = f"(action - outcome) ** {power} * float('nan')"
    Path("costs.py").write_text(f"def nothing(action, outcome):\n    return {formula}\n")
    cost = ["--cost", "costs.py:nothing:lower=0,upper=1"]
    for words in (cost, ["--members", "members.csv", *cost], ["outcomes.csv", "--target", "power", *cost]):
        assert "the expected cost of an action must be finite" in complaint("check-cost", *words)


def test_the_side_of_the_hazard_is_told_over_draws_too() -> None:
    code, page, errors = called("check-cost", "--cost", "protection:threshold=0,false_alarm_ratio=0.2")
    assert (code, errors) == (0, "")
    assert "the hazard is taken to lie above the threshold 0" in page


def test_over_quantiles_it_is_equally_likely_members_that_count() -> None:
    Path("quantiles.csv").write_text("time,q10,q50,q90\n2020-01-01,0.2,0.5,0.6\n2020-01-02,0.3,0.4,0.8\n")
    code, output, _ = called("check-cost", "--members", "quantiles.csv", "--cost", "shortfall:penalty=5", "--json")
    found = json.loads(output)
    assert (code, found["sets"], found["members"]) == (0, 2, 100)


DAYS = pd.DataFrame(np.random.default_rng(0).uniform(4, 9, (40, 3)).round(3), columns=["h0", "h1", "h2"])
HOURS = ["days.csv", "--target", "h0:h2", "--cost"]


def test_a_decision_with_many_parts() -> None:
    DAYS.to_csv("days.csv", index=False)
    schedule = "schedule:short=4,long=1,quadratic=1,ramp=0.5,unit=EUR"
    code, output, errors = called("check-cost", *HOURS, schedule)
    assert (code, errors) == (0, "")
    assert "Fit for training: yes." in output
    assert "The decision has 3 parts, and is convex: yes, by its matrices." in output
    assert "one unit more saves\n  ramp " in output
    found = json.loads(called("check-cost", *HOURS, schedule, "--json")[1])
    assert (found["fit_for_training"], found["objections"], found["parts"]) == (True, [], 3)
    assert [limit["kind"] for limit in found["limits"]] == ["ramp", "lower"]
    assert "no curve shows what it costs" in complaint("check-cost", *HOURS, schedule, "--plot", "x.svg")
    assert "needs --members, or a table with --target" in complaint("check-cost", "--cost", schedule)
    assert "one per outcome (3), got 2" in complaint("check-cost", *HOURS, "schedule:short=4/5,long=1")


def test_a_cost_that_is_averse_to_risk() -> None:
    code, output, _ = called("check-cost", "--cost", "imbalance:short=10,long=1,upper=150,cvar_level=0.5")
    assert code == 0
    assert "draws between 0 and 150" in output
    assert "the action is proven to be the best in 100.0%" in output
    DAYS.to_csv("days.csv", index=False)
    code, output, _ = called("check-cost", *HOURS, "schedule:short=4,long=1,ramp=0.01,cvar_level=0.3")
    assert code == 0
    assert "Which limits bind in the others, and what one unit more would save, is told of programs without" in output


def test_a_program_of_ones_own() -> None:
    DAYS.to_csv("days.csv", index=False)
    trade = '[decide.bought]\ncost = "outcome"\nlower = -1\nupper = 1\n[limits]\neven = "sum(bought) = 0"\n'
    Path("own.toml").write_text(trade)
    code, output, _ = called("check-cost", *HOURS, "own.toml")
    assert code == 0
    assert "Fit for training: NO. The best action does not depend on the members" in output
    assert "\n  decide bought: one for each outcome, -1 to 1, at outcome\n  limit even: sum(bought) = 0\n" in output
    Path("own.toml").write_text(trade.replace("sum(bought)", "sum(bougt)"))
    said = complaint("check-cost", *HOURS, "own.toml")
    assert "'own.toml', line 6: limits.even: there is no 'bougt' here; did you mean 'bought'?" in said
