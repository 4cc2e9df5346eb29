import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from observed_training import METRICS, QUICK, MakeReplica, recorded
from refusals import refuses
from torch import Tensor, nn

from stakes import ImbalanceCost, TrainingDraw, cost_function
from stakes.data.case_table import CaseTable
from stakes.errors import CheckpointError
from stakes.files import write_json
from stakes.training.progress import ValidationHistory
from stakes.training.replicas import Replica
from stakes.training.steps import Stepper


class Ruler(nn.Module):
    """Members shift, shift + step, shift + 2 step, ...: simple enough for the metrics to be worked out by hand."""

    def __init__(self, step: float = 1.0) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1))
        self.register_buffer("step", torch.tensor(step))

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        pass

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        return {"place": torch.arange(members).float()[:, None].expand(cases, members, 1)}

    def training_draw(self, features: Tensor, outcome: Tensor, noise: Mapping[str, Tensor]) -> TrainingDraw:
        members = self.shift + self.step * noise["place"]
        return TrainingDraw(members, outcome, members, outcome, torch.ones_like(outcome[..., 0]))

    def sample(self, *_: Any, **__: Any) -> Tensor:
        raise NotImplementedError


def squared(action: Tensor, outcome: Tensor) -> Tensor:
    return (action - outcome) ** 2


def two_minima(action: Tensor, outcome: Tensor) -> Tensor:
    return ((action - 3) ** 2 - 4) ** 2 + 0.1 * (action - outcome) ** 2


def ruler(cost: Any, step: float = 1.0) -> Replica:
    """Members 0, 1, 2 steps against outcomes 1 and 3 steps."""
    train, validation = (
        CaseTable(torch.zeros(2 * times, 1), step * torch.tensor([[1.0], [3.0]]).repeat(times, 1)) for times in (2, 1)
    )
    return Replica(Ruler(step), train, validation, cost, 0.25, 0)


def test_metrics_by_hand() -> None:
    """CRPS 0 and 4/3; best action 1, in bounds; costs 0 and 4; variance 2/3; scales the means themselves."""
    used = replace(QUICK, members=3, validation_members=3, epochs=1)
    bounds = [(0.0, 10.0), (1.5, 10.0), (-5.0, 0.5)]
    results, recorder = recorded([ruler(cost_function(squared, *each)) for each in bounds], used)
    inside, at_lower, at_upper = (recorder.lines[index][0] for index in range(3))
    assert inside.keys() == METRICS | {"phase", "epoch"}
    assert (inside["phase"], inside["epoch"]) == ("training", 0)
    assert {name: inside[name] for name in METRICS} == pytest.approx(
        {
            "loss": 1.0,
            "score": 2 / 3,
            "energy_score": 2 / 3,
            "decision": 2.0,
            "cost": 2.0,
            "expected_cost": 2 / 3,
            "at_lower": 0.0,
            "at_upper": 0.0,
            "flagged": 0.0,
            "gradient_score": 0.5 / (2 / 3),  # the CRPS of the second case falls by 1 a step, that of the first rests
            "gradient_decision": 2 / 2,  # 2 (a - y), 0 and -4
        },
        rel=1e-5,
        abs=1e-6,
    )
    assert (results[0].score_scale, results[0].decision_scale) == pytest.approx((2 / 3, 2.0))
    assert (at_lower["at_lower"], at_lower["at_upper"]) == (1, 0)
    assert at_lower["cost"] == pytest.approx((0.5**2 + 1.5**2) / 2)
    assert at_lower["expected_cost"] == pytest.approx((1.5**2 + 0.5**2 + 0.5**2) / 3)
    assert (at_upper["at_lower"], at_upper["at_upper"]) == (0, 1)
    assert at_upper["cost"] == pytest.approx((0.5**2 + 2.5**2) / 2)
    assert at_upper["gradient_decision"] == 0
    assert at_upper["gradient_score"] > 0


def test_actions_that_cannot_be_certified_are_flagged() -> None:
    used = replace(QUICK, members=3, validation_members=3, epochs=1)
    _, recorder = recorded([ruler(cost_function(two_minima, 0.0, 6.0))], used)
    assert recorder.lines[0][0]["flagged"] == 1


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
def test_metrics_are_in_physical_units(kind: str, make_replica: MakeReplica, make_cases: Any) -> None:
    small, large = (
        recorded(
            [
                make_replica(
                    kind,
                    cost=ImbalanceCost(3.0, 1.0, -scale, 3 * scale),
                    train=make_cases(scale=scale),
                    validation=make_cases(24, 1, scale=scale),
                )
            ],
            replace(QUICK, pretraining_epochs=1),
        )[1].lines[0]
        for scale in (1.0, 100.0)
    )
    assert len(small) == len(large) == 2 + 3
    powers = {"energy_score": 1, "cost": 2, "expected_cost": 2, "decision": 2}
    for mine, other in zip(small, large, strict=True):
        assert mine.keys() == other.keys()
        for name in mine.keys() - {"phase"}:
            assert other[name] == pytest.approx(mine[name] * 100 ** powers.get(name, 0), rel=1e-3, abs=1e-6), name


def test_every_validation_has_a_line(make_replica: MakeReplica, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = []
    norms = Stepper.gradient_norms
    monkeypatch.setattr(Stepper, "gradient_norms", lambda self, *at: (moments.append(at), norms(self, *at))[1])
    used = replace(QUICK, pretraining_epochs=3, epochs=5, validate_every=2, patience=100)
    _, recorder = recorded([make_replica(), make_replica(weight=0.0)], used)
    assert moments == [
        *(("pretraining", epoch) for epoch in (0, 2, 3)),
        *(("training", epoch) for epoch in (0, 2, 4, 5)),
    ]
    for lines in recorder.lines.values():
        assert [(line["phase"], line["epoch"]) for line in lines] == moments
        assert all(line.keys() == METRICS | {"phase", "epoch"} for line in lines[3:])
        assert all(math.isfinite(value) for line in lines for value in line.values() if value != line["phase"])
    assert [progress.epoch for progress in recorder.progress] == [1, 2, 3, 1, 2, 3, 4, 5]
    assert [progress.epochs for progress in recorder.progress] == [3] * 3 + [5] * 5


def line(phase: str, epoch: int, loss: float) -> dict[str, Any]:
    return {"phase": phase, "epoch": epoch, "loss": loss, "score": 0.1 + 0.2, "gradient_score": 1.0}


def test_lines_after_the_checkpoint_are_forgotten_and_all_others_come_back(tmp_path: Path) -> None:
    history = ValidationHistory(tmp_path)
    for phase, epoch, loss in (("pretraining", 0, math.inf), ("pretraining", 9, -math.inf), ("training", 0, 1e-300)):
        for replica in (0, 3):
            history.validated(replica, line(phase, epoch, loss))
    history.saving()
    resumed = ValidationHistory(tmp_path)
    resumed.resumed("training", 0, ())
    assert json.dumps(resumed.lines) == json.dumps(history.lines)
    resumed = ValidationHistory(tmp_path)
    resumed.resumed("pretraining", 9, ())
    assert resumed.lines == {replica: lines[:2] for replica, lines in history.lines.items()}


def test_a_checkpoint_without_a_history_goes_on(tmp_path: Path) -> None:
    for folder in (tmp_path, None):
        history = ValidationHistory(folder)
        history.resumed("training", 1, ())
        assert not history.lines


@pytest.mark.parametrize("content", [3, [3], [[0, 3]], [[0, [{"phase": "training"}]]], {"a": 1}, [[[], []]]])
def test_another_file_of_that_name_is_refused(content: object, tmp_path: Path) -> None:
    write_json(tmp_path / "history.json", content)
    refuses(CheckpointError, r"history\.json does not list", ValidationHistory(tmp_path).resumed, "training", 1, ())
