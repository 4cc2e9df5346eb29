"""What `fit` and `refit` ask for, without any training."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from calls import called, complaint

from stakes.artifacts import folder
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.layout import TableLayout
from stakes.files import write_json
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.reports.tables import Result
from stakes.settings import to_plain
from stakes.training.execution import Execution
from stakes.workflows import fit
from stakes.workflows.inputs import FitInputs, FitRequest

COST = "imbalance:short=10,long=1,upper=20"
REQUEST = FitRequest("old.csv", COST, TableLayout(("load",), ("wind",)), decision_weight=0.3, members=40, seed=3)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[FitRequest, Path, dict[str, Any]]]:
    """What would have been fitted."""
    seen: list[tuple[FitRequest, Path, dict[str, Any]]] = []

    def no_fit(request: FitRequest, out: Path, execution: Execution, **settings: Any) -> Result:
        seen.append((request, out, {"execution": execution, **settings}))
        table = pd.DataFrame({"metric": ["cost"], "value": [1.5]})
        return Result(
            out,
            "EUR",
            ("A sentence.",),
            (("costs in EUR", table),),
            {"decision_weight": 0.3, "candidate": None, "selection": None, "evaluation": table},
        )

    monkeypatch.setattr(fit, "run_fit", no_fit)
    return seen


FLAGS: dict[str, dict[str, Any]] = {
    "": {},
    "--decision-weight 0.3 --seed 4": {"decision_weight": 0.3, "seed": 4},
    "--weights 0,0.1,0.3 --block 48": {"weights": (0.0, 0.1, 0.3), "block": 48},
    "--outcome-bounds 0,": {"outcome_bounds": "0,"},
    "--directions none": {"directions": ()},
    "--directions wd,dir10": {"directions": ("wd", "dir10")},
    "--base trees": {"base": "trees"},
    "--base none --model linear": {"base": "none", "model": "linear"},
    "--score energy=1 --decision-member-count 32": {"score": "energy=1", "decision_member_count": 32},
    "--time time --lags 0,6,24 --lead 24 --features load,wind --known forecast --calendar hour,season "
    "--baseline-action bought": {
        "layout": TableLayout(
            ("load",), ("load", "wind"), "time", (0, 6, 24), 24, ("forecast",), ("hour", "season"), "bought"
        )
    },
    "--model diffusion --members 50 --ensemble 3 --epochs 7 --test-fraction 0.3 --tolerance 1": {
        "model": "diffusion", "members": 50, "ensemble": 3, "epochs": 7, "test_fraction": 0.3, "tolerance": 1.0
    },
    "--separator ; --encoding latin-1 --no-recent-errors": {
        "separator": ";", "encoding": "latin-1", "recent_errors": False
    },
}  # fmt: skip


@pytest.mark.parametrize("flags", FLAGS)
def test_flags(asked: list[Any], flags: str) -> None:
    words = ["fit", "load.csv", "--target", "load", "--cost", COST, "--out", "x", *flags.split()]
    assert called(*words)[:2] == (0, "costs in EUR\nmetric  value\ncost      1.5\n\nA sentence.\nx\n")
    settings = {"execution": Execution()}
    request = replace(FitRequest("load.csv", COST, TableLayout(("load",))), **FLAGS[flags])
    assert asked == [(request, Path("x"), settings)]


REFUSED = {
    "--weights 0,0.3 --decision-weight 0.3": ("weights are for decision_weight auto, "),
    "--weights 0,1.5": "weights must be at least one number in [0, 1], got 0, 1.5",
    "--weights 0,nan": "weights must be at least one number in [0, 1], got 0, nan",
    "--weights ,": "weights must be at least one number in [0, 1], got none",
    "--weights 0,many": "weights must be numbers separated by commas, got 'many'",
    "--score crps": "score must be energy, pointwise, total or a mixture such as energy=1,total=0.5, got 'crps'",
    "--score energy=x": "score must be energy, pointwise, total or a mixture such as energy=1,total=0.5, with positive",
    "--base ridge": "--base",
    "--outcome-bounds 1,0": "outcome_bounds must have a lower bound below the upper one, got 1 and 0",
    "--block 0": "block must be a whole number of at least 1, got 0",
}


@pytest.mark.parametrize("command", ["fit", "backtest"])
@pytest.mark.parametrize("flags", REFUSED)
def test_weights_and_blocks_that_cannot_be_used(command: str, flags: str) -> None:
    words = [command, "load.csv", "--target", "load", "--cost", COST, "--out", "x", *flags.split()]
    assert REFUSED[flags] in complaint(*words)


def test_weights_and_block_reach_the_forecaster() -> None:
    request = replace(REQUEST, decision_weight="auto", weights=(0.0, 0.3), block=48, score="pointwise")
    spec, execution = CostSpec.parse(COST), Execution("cpu", 1, True)
    found = request.forecaster(spec.build(), execution)
    assert (found.weights, found.block, found.scoring_rule) == ((0.0, 0.3), 48, "pointwise")
    assert found.decision_member_count is None
    assert replace(request, decision_member_count=32).forecaster(spec.build(), execution).decision_member_count == 32
    plain, own = REQUEST.forecaster(spec.build(), execution), DecisionAwareForecaster(spec.build())
    assert (plain.weights, plain.block) == (own.weights, own.block)


def test_how_to_fit(asked: list[Any]) -> None:
    words = ["fit", "load.csv", "--target", "a, b", "--cost", COST, "--out", "x"]
    code, output, _ = called(*words, "--device", "cpu", "--workers", "2", "--quiet", "--json")
    assert code == 0
    assert json.loads(output) == {
        "folder": "x",
        "decision_weight": 0.3,
        "candidate": None,
        "unit": "EUR",
        "sentences": ["A sentence."],
        "selection": None,
        "evaluation": [{"metric": "cost", "value": 1.5}],
    }
    (request, _, settings) = asked[0]
    assert request.layout.targets == ("a", "b")
    assert settings == {"execution": Execution("cpu", 2, True)}


def old_fit() -> None:
    Path("old").mkdir()
    asked = {"request": to_plain(REQUEST), "sha256": "0", "cost": CostSpec.parse(COST).record()}
    write_json(Path("old/fit.json"), asked)
    files = dict.fromkeys(folder._PARTS["fit"], "0" * 64)
    write_json(Path("old", folder.MANIFEST), to_plain(folder.Manifest(folder._FORMAT, "fit", "", {}, files)))


def test_refit(asked: list[Any]) -> None:
    old_fit()
    assert called("refit", "old", "new.csv", "--out", "new", "--device", "cpu")[0] == 0
    (request, out, settings) = asked[0]
    assert CostSpec.given(request.cost).record() == CostSpec.parse(COST).record()
    assert (request, out) == (replace(REQUEST, data="new.csv", cost=request.cost), Path("new"))
    assert settings == {"execution": Execution("cpu")}
    assert called("refit", "old", "new.csv", "--out", "new", "--cost", "costs.py:mine")[0] == 0
    assert asked[1][0].cost == "costs.py:mine"


def test_refit_of_what_is_no_fit(asked: list[Any]) -> None:
    old_fit()
    Path("old/fit.json").write_text("{}")
    assert "old/fit.json" in complaint("refit", "old", "new.csv", "--out", "new")
    for request in (1, [], "a", None):
        write_json(Path("old/fit.json"), {"request": request})
        assert complaint("refit", "old", "new.csv", "--out", "new").startswith("old/fit.json does not say what was")
    write_json(Path("old/fit.json"), {"request": {"data": 3}})
    assert complaint("refit", "old", "new.csv", "--out", "new").startswith("old/fit.json does not say what was")
    assert asked == []


def test_no_unit_makes_a_cost_one_of_a_file(asked: list[Any]) -> None:
    old_fit()
    record = CostSpec.parse(COST).record() | {"unit": "evil.py:run"}
    write_json(Path("old/fit.json"), {"request": to_plain(REQUEST), "sha256": "0", "cost": record})
    said = complaint("refit", "old", "new.csv", "--out", "new")
    assert said.endswith("the cost imbalance names a file of code")
    assert asked == []


@pytest.mark.parametrize(("weight", "block", "told"), [("auto", None, True), ("auto", 1, False), (0.3, None, False)])
@pytest.mark.parametrize(("model_selection", "selected"), [(True, "the linear forecast"), (False, "weight 0")])
def test_too_few_rows_to_choose_by_are_told_beforehand(
    weight: Any, block: int | None, told: bool, model_selection: bool, selected: str
) -> None:
    table = pd.DataFrame({"wind": range(100), "load": [float(row % 7) for row in range(100)]})
    table.to_csv("old.csv", index=False)
    request = replace(REQUEST, decision_weight=weight, block=block, model_selection=model_selection)
    notes = FitInputs.read(request).too_few_notes
    assert ["9 cases in blocks of 3" in note and selected in note for note in notes] == [True] * told
