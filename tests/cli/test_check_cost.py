"""`stakes check-cost`: what it says stands in check_cost_said.txt, which `make snapshots` writes anew."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint
from snapshots import assert_as_kept

OWN = """
import torch

def smooth(action, outcome):
    return (action - outcome) ** 2

def saturating(action, outcome):
    return 1 - torch.exp(-((action - outcome) ** 2) / 8)

def kinked(action, outcome):
    return 3 * (outcome - action).clamp(min=0) + (action - outcome).clamp(min=0) + 0.01 * action**2

def broken(action, outcome):
    return action.nonsense
"""
TRADE = '[decide.bought]\ncost = "outcome"\nlower = -1\nupper = 1\n[limits]\neven = "sum(bought) = 0"\n'
DAYS = pd.DataFrame(np.random.default_rng(0).uniform(4, 9, (40, 3)).round(3), columns=["h0", "h1", "h2"])
SCHEDULE = "schedule:short=4,long=1,quadratic=1,ramp=0.5,unit=EUR"
HOURS = "days.csv --target h0:h2 --cost"
ROUNDING = r"\d\.\de-(?:0[5-9]|1\d)"  # of differences, which is another on every machine
SAID = [
    "--cost shortfall:penalty=5",
    "--cost wind_dispatch:penalty=5",
    "--cost protection:threshold=30,false_alarm_ratio=0.2",
    "--cost imbalance:short=10,long=1,upper=150",
    "--cost imbalance:short=10,long=1,upper=150,cvar_level=0.5",
    "--cost newsvendor:underage=3,overage=1,upper=2",
    "--cost costs.py:smooth:lower=0,upper=2",
    "--cost costs.py:smooth:lower=0,upper=2,convex=yes",
    "--cost costs.py:kinked:lower=0,upper=2,convex=yes",
    "--cost costs.py:saturating:lower=0,upper=100",
    "--cost costs.py:saturating:lower=0,upper=100,convex=yes",
    "--cost costs.py:smooth:lower=0,upper=1,convex=1",
    "--cost costs.py:broken:lower=0,upper=1",
    f"--cost {SCHEDULE}",
    f"{HOURS} {SCHEDULE}",
    f"{HOURS} {SCHEDULE} --plot x.svg",
    f"{HOURS} schedule:short=4/5,long=1",
    f"{HOURS} schedule:short=4,long=1,ramp=0.01,cvar_level=0.3",
    f"{HOURS} own.toml",
    f"{HOURS} wrong.toml",
    "outcomes.csv --target power --cost shortfall:penalty=5",
]


@pytest.fixture(autouse=True)
def own_files(elsewhere: None) -> None:
    Path("costs.py").write_text(OWN)
    Path("own.toml").write_text(TRADE)
    Path("wrong.toml").write_text(TRADE.replace("sum(bought)", "sum(bougt)"))
    DAYS.to_csv("days.csv", index=False)


def test_what_is_said_of_costs() -> None:
    told = []
    for words in SAID:
        code, output, errors = called("check-cost", *words.split())
        assert (code == 0) == bool(output)
        said = output.partition("\n\n  member value")[0].rstrip("\n") + errors.rstrip("\n")
        told.append(f"$ stakes check-cost {words}\n{re.sub(ROUNDING, 'rounding', said)}\n")
    assert_as_kept(Path(__file__).with_name("check_cost_said.txt"), "\n".join(told))


def test_minima_between_the_actions_of_a_coarse_scan_are_found() -> None:
    """Seven members around 62 and thirteen around 81: the action 62 costs 0.65, the action 81 costs 0.36."""
    members = np.where(np.arange(20) < 7, 62, 81) + np.random.default_rng(0).normal(0, 0.5, (20, 20))
    names = ",".join(f"m{place}" for place in range(20))
    np.savetxt("clusters.csv", members, delimiter=",", header=names, comments="")
    words = ["--members", "clusters.csv", "--cost", "costs.py:saturating:lower=0,upper=100"]
    assert not json.loads(called("check-cost", *words, "--json")[1])["fit_for_training"]
    decisions = pd.read_csv(io.StringIO(called("decide", *words, "--quiet")[1]))
    assert decisions["action"].between(79, 83).all()
    assert not decisions["certified"].any()


def test_the_same_for_machines() -> None:
    words = ("check-cost", "--cost", "shortfall:penalty=5", "--json", "--members")
    found = json.loads(called(*words, "members.csv")[1])
    assert (found["sets"], found["members"], found["fit_for_training"]) == (60, 12, True)
    assert sum(found["gradient_mass"]["gradient_share"]) == pytest.approx(1)
    Path("quantiles.csv").write_text("time,q10,q50,q90\n2020-01-01,0.2,0.5,0.6\n2020-01-02,0.3,0.4,0.8\n")
    found = json.loads(called(*words, "quantiles.csv")[1])
    assert (found["sets"], found["members"]) == (2, 100)  # equally likely ones
    found = json.loads(called("check-cost", *HOURS.split(), SCHEDULE, "--json")[1])
    assert (found["fit_for_training"], found["objections"], found["parts"]) == (True, [], 3)
    assert [limit["kind"] for limit in found["limits"]] == ["ramp", "lower"]


def test_a_plot() -> None:
    words = ["check-cost", "--cost", "shortfall:penalty=5", "--plot"]
    assert called(*words, "cost.svg")[0] == 0
    assert "<svg" in Path("cost.svg").read_text()
    for name in ("cost.svg", "mine.csv"):
        assert name in complaint(*words, name)
