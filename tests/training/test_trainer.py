import copy
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from stakes import (
    DecisionAwareObjective,
    DecisionScore,
    EnergyScore,
    ImbalanceCost,
    ImplicitModel,
    ShortfallCost,
    TrainingDraw,
    cost_function,
)
from stakes.data.cases import Cases
from stakes.errors import CheckpointError, InterruptedTraining, SettingError, StakesError
from stakes.method.training_settings import TrainingSettings
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.results import Observer, Phase, Progress, Trained
from stakes.training.stepper import Stepper
from stakes.training.trainer import train
from stakes.training.validation import validate

CPU = torch.device("cpu")
MakeReplica = Callable[..., Replica]
Line = dict[str, Any]
# Two steps of 37 cases an epoch, six cases left over; odd numbers of members; some replicas stop early.
SETTINGS = TrainingSettings(
    epochs=6,
    pretraining_epochs=2,
    batch=37,
    members=5,
    validation_members=7,
    validate_every=1,
    patience=2,
    learning_rate=0.01,
)
QUICK = TrainingSettings(epochs=2, batch=16, members=5, validation_members=7, validate_every=1, learning_rate=0.01)
METRICS = {"loss", "score", "decision", "energy_score", "cost", "expected_cost", "at_lower", "at_upper", "flagged"}
METRICS |= {"gradient_score", "gradient_decision"}


class Recorder(Observer):
    """Keeps the lines of metrics as a run folder does, and counts everything else."""

    def __init__(self, lines: dict[int, list[Line]] | None = None) -> None:
        self.lines: dict[int, list[Line]] = {} if lines is None else lines
        self.resumptions: list[tuple[Phase, int, tuple[str, ...]]] = []
        self.progress: list[Progress] = []
        self.ended: list[int] = []
        self.saved = 0

    def resumed(self, phase: Phase, epoch: int, skipped: Sequence[str]) -> None:
        self.resumptions.append((phase, epoch, tuple(skipped)))
        for lines in self.lines.values():
            lines[:] = [line for line in lines if (line["phase"], line["epoch"]) <= (phase, epoch)]

    def validated(self, replica: int, line: Line) -> None:
        self.lines.setdefault(replica, []).append(line)

    def progressed(self, progress: Progress) -> None:
        self.progress.append(progress)

    def saving(self) -> None:
        self.saved += 1

    def done(self, replica: int, trained: Trained) -> None:
        self.ended.append(replica)

    def losses(self, replica: int) -> dict[int, float]:
        return {line["epoch"]: line["loss"] for line in self.lines[replica] if line["phase"] == "training"}


def recorded(replicas: Sequence[Replica], used: TrainingSettings, **options: Any) -> tuple[list[Trained], Recorder]:
    recorder = Recorder()
    return train(replicas, used, observers=[recorder], **options), recorder


def assert_same(found: Trained, expected: Trained) -> None:
    """All but the time it took, to the last bit."""
    for each in fields(Trained):
        if each.name not in ("replica", "seconds", "weights"):
            assert getattr(found, each.name) == getattr(expected, each.name), each.name
    assert found.weights.keys() == expected.weights.keys()
    for name, values in expected.weights.items():
        assert torch.equal(found.weights[name], values), name


def stop_after(epochs: int) -> Callable[[], bool]:
    """Says yes when it is asked for the n-th time."""
    asked = iter(range(1, epochs))
    return lambda: next(asked, None) is None


def sweep_of(make_replica: MakeReplica, kind: str, train_cases: Cases) -> list[Replica]:
    """Nine replicas: three seeds by three weights, each weight with a cost of its own."""
    return [
        make_replica(
            kind, seed=seed, cost=ShortfallCost(2.0 + place), weight=weight, train=train_cases, name=f"{seed}-{weight}"
        )
        for seed in range(3)
        for place, weight in enumerate((0.0, 0.4, 0.8))
    ]


@pytest.fixture
def epochs_seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, float, dict[str, Tensor]]]:
    """Phase, epoch, learning rate and the state before, for every epoch of any stepper."""
    seen = []
    original = Stepper.epoch

    def epoch(self: Stepper, phase: str, number: int, learning_rate: float) -> None:
        seen.append((phase, number, learning_rate, {name: values.clone() for name, values in self.state().items()}))
        original(self, phase, number, learning_rate)

    monkeypatch.setattr(Stepper, "epoch", epoch)
    return seen


def rows_seen(epochs_seen: list[tuple[str, int, float, dict[str, Tensor]]]) -> list[tuple[str, int]]:
    return [(phase, len(state["parameters"])) for phase, _, _, state in epochs_seen]


# -- replicas do not notice each other


@pytest.mark.parametrize("kind", ["implicit", "diffusion", "own"])
def test_a_replica_is_the_same_in_every_stack(kind: str, make_replica: MakeReplica, make_cases: Any) -> None:
    replicas = sweep_of(make_replica, kind, make_cases(80))
    nine, lines_of_nine = recorded(replicas, SETTINGS)
    statuses = Counter(result.status for result in nine)
    assert statuses["stopped early"] >= 1
    assert statuses["finished"] >= 2
    for chosen in ([8], [4, 8], [8, 1, 7, 4, 0]):
        found, lines = recorded([replicas[index] for index in chosen], SETTINGS)
        for place, index in enumerate(chosen):
            assert_same(found[place], nine[index])
            assert lines.lines[place] == lines_of_nine.lines[index]


def test_large_rows_are_the_same_in_every_stack(make_replica: MakeReplica) -> None:
    """Rows so long that kernels cut them: the optimiser's are the ones that see all rows at once."""
    used = replace(QUICK, epochs=1, weight_decay=0.1, gradient_clip=1.0)
    replicas = [make_replica(seed=seed, hidden=97, layers=3) for seed in range(3)]
    together = train(replicas, used)
    for index in (0, 1, 2):
        assert_same(train([replicas[index]], used)[0], together[index])


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
def test_at_weight_zero_the_cost_does_not_matter(kind: str, make_replica: MakeReplica) -> None:
    used = replace(QUICK, pretraining_epochs=1, epochs=3)
    (first, first_lines), (second, second_lines) = (
        recorded([make_replica(kind, weight=0.0, cost=ImbalanceCost(short, 1.0, -1.0, upper))], used)
        for short, upper in ((0.5, 3.0), (50.0, 0.2))
    )
    assert first[0].decision_scale != second[0].decision_scale
    assert_same(replace(first[0], decision_scale=0.0), replace(second[0], decision_scale=0.0))
    of_score = ("loss", "score", "energy_score", "gradient_score")
    for mine, other in zip(first_lines.lines[0], second_lines.lines[0], strict=True):
        assert [mine[name] for name in of_score] == [other[name] for name in of_score]
    weighted = train([make_replica(kind, weight=0.5, cost=ImbalanceCost(0.5, 1.0, -1.0, 3.0))], used)[0]
    assert not torch.equal(first[0].weights[last_weight(first[0])], weighted.weights[last_weight(first[0])])


def last_weight(trained: Trained) -> str:
    return [name for name, _ in trained.replica.model.named_parameters()][-1]


def test_training_together_comes_to_the_same(make_replica: MakeReplica) -> None:
    """The way of the GPU, within rounding."""
    replicas = [
        make_replica(seed=seed, weight=weight, dtype=torch.float64) for seed, weight in ((0, 0.3), (0, 0.6), (1, 0.3))
    ]
    used = replace(QUICK, pretraining_epochs=1)
    for turns, together in zip(train(replicas, used), train(replicas, used, together=True), strict=True):
        assert together.best_loss == pytest.approx(turns.best_loss, rel=1e-9)
        for name, values in turns.weights.items():
            torch.testing.assert_close(together.weights[name], values, rtol=1e-8, atol=1e-10)


# -- early stopping


@pytest.mark.parametrize(("validate_every", "patience"), [(1, 1), (1, 3), (2, 3), (3, 1)])
def test_early_stopping_follows_the_losses(validate_every: int, patience: int, make_replica: MakeReplica) -> None:
    used = replace(QUICK, epochs=8, learning_rate=0.03, validate_every=validate_every, patience=patience)
    replicas = [make_replica(seed=seed, weight=0.5) for seed in range(3)]
    results, recorder = recorded(replicas, used)
    assert "stopped early" in {result.status for result in results}
    for index, result in enumerate(results):
        losses = recorder.losses(index)
        best, stopped = 0, False
        for epoch, loss in losses.items():
            assert not stopped, "nothing comes after the end"
            assert epoch % validate_every == 0 or epoch == used.epochs
            best = epoch if loss < losses[best] else best
            stopped = epoch - best >= patience
        assert result.status == ("stopped early" if stopped else "finished")
        assert stopped or max(losses) == used.epochs
        assert (result.epoch, result.best_epoch, result.best_loss) == (max(losses), best, losses[best])
        assert result.steps == 3 * result.epoch
        assert result.failure is None
    assert sorted(recorder.ended) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
def test_the_best_weights_are_restored(kind: str, make_replica: MakeReplica) -> None:
    used = replace(QUICK, epochs=6, learning_rate=0.05, patience=100)
    replicas = [make_replica(kind, seed=seed) for seed in (0, 1, 2)]
    results = train(replicas, used)
    assert any(result.best_epoch < 6 for result in results)
    for result in results:
        before = make_replica(kind, seed=result.replica.seed).model.state_dict()
        for name, values in result.replica.model.state_dict().items():
            assert torch.equal(before[name], values), "the model itself is left alone"
        result.load_into_model()
        stack = ReplicaStack([result.replica], used, CPU)
        scales = torch.tensor([[result.score_scale, result.decision_scale]])
        again = validate(stack, stack.initial_parameters(), scales)
        assert again["loss"].item() == result.best_loss
        assert not all(torch.equal(values, before[name]) for name, values in result.replica.model.state_dict().items())


def test_a_replica_that_is_done_leaves_the_stack(
    make_replica: MakeReplica, make_cases: Any, epochs_seen: list[Any]
) -> None:
    replicas = sweep_of(make_replica, "implicit", make_cases(80))
    results, recorder = recorded(replicas, SETTINGS)
    training = [rows for phase, rows in rows_seen(epochs_seen) if phase == "training"]
    assert training == [sum(result.epoch >= epoch for result in results) for epoch in range(1, len(training) + 1)]
    assert training[0] == 9 > training[-1]
    told = [progress.running for progress in recorder.progress if progress.phase == "training"]
    assert told == [*training[1:], sum(result.status == "finished" for result in results)]


def test_a_stack_ends_with_its_last_replica(make_replica: MakeReplica, epochs_seen: list[Any]) -> None:
    used = replace(QUICK, epochs=50, learning_rate=0.3, patience=1)
    results = train([make_replica(seed=seed) for seed in (0, 1)], used)
    assert [result.status for result in results] == ["stopped early"] * 2
    assert len(epochs_seen) == max(result.epoch for result in results) < 50


def test_training_that_only_does_harm_returns_what_it_started_from(make_replica: MakeReplica) -> None:
    """Fine-tuning: the given weights are a candidate, epoch 0."""
    first = train([make_replica()], replace(QUICK, epochs=10))[0]
    assert first.best_epoch > 0
    tuned = make_replica(seed=5)
    tuned.model.load_state_dict(first.weights)
    result = train([tuned], replace(QUICK, epochs=3, learning_rate=3.0))[0]
    assert (result.best_epoch, result.epoch, result.status) == (0, 3, "finished")
    for name, values in first.weights.items():
        assert torch.equal(result.weights[name], values)


# -- pre-training


def test_pretraining_is_shared_by_the_replicas_of_a_seed(
    make_replica: MakeReplica, make_cases: Any, epochs_seen: list[Any]
) -> None:
    replicas = sweep_of(make_replica, "implicit", make_cases(80))
    results, recorder = recorded(replicas, replace(SETTINGS, patience=100, epochs=2))
    assert rows_seen(epochs_seen) == [("pretraining", 3)] * 2 + [("training", 9)] * 2
    assert [result.steps for result in results] == [2 * (2 + 2)] * 9
    assert recorder.progress[-1].replica_steps == 2 * (3 + 3 + 9 + 9)
    first, second, third = (recorder.lines[index] for index in (0, 1, 3))
    score_only = {"phase", "epoch", "loss", "score", "energy_score", "gradient_score"}
    assert [(line["epoch"], line.keys()) for line in first[:3]] == [(epoch, score_only) for epoch in (0, 1, 2)]
    assert first[:3] == second[:3] != third[:3]
    assert all(line["loss"] == line["score"] for line in first[:3])


@pytest.mark.parametrize("other", ["train", "validation", "initial"])
def test_pretraining_is_not_shared_by_others(
    other: str, make_replica: MakeReplica, make_cases: Any, epochs_seen: list[Any]
) -> None:
    changed = {"train": make_cases(48, 7), "validation": make_cases(24, 7), "initial": 7}[other]
    pair = [make_replica(), make_replica(**{other: changed})]
    train(pair, replace(QUICK, pretraining_epochs=1, epochs=1))
    assert rows_seen(epochs_seen) == [("pretraining", 2), ("training", 2)]


def test_pretraining_is_not_shared_by_models_of_other_buffers(make_replica: MakeReplica) -> None:
    pair = [make_replica(), make_replica()]
    pair[1].model.outcome_scaling.scale.mul_(3.0)
    used = replace(QUICK, pretraining_epochs=1, epochs=1)
    assert_same(train(pair, used)[1], train(pair[1:], used)[0])


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
def test_the_branch_starts_afresh_from_the_last_pretrained_weights(
    kind: str, make_replica: MakeReplica, epochs_seen: list[Any]
) -> None:
    pair = [make_replica(kind, weight=weight) for weight in (0.2, 0.9)]
    used = replace(QUICK, pretraining_epochs=3)
    train(pair, used)
    phase, epoch, _, state = epochs_seen[3]
    assert (phase, epoch) == ("training", 1)
    stack = ReplicaStack(pair[:1], used, CPU)
    alone = Stepper(stack, stack.initial_parameters(), None)
    for number in (1, 2, 3):
        alone.epoch("pretraining", number, used.learning_rate)
    assert torch.equal(state["parameters"], alone.parameters.detach().expand(2, -1))
    assert not alone.parameters.equal(stack.initial_parameters())
    for name in ("first_moment", "second_moment", "step", "refused"):
        assert not state[name].any(), name


def bet(action: Tensor, outcome: Tensor) -> Tensor:
    return (action - outcome) ** 2 - 0.02


@pytest.mark.parametrize("kind", ["implicit", "diffusion", "own"])
@pytest.mark.parametrize("pretraining", [0, 2])
@pytest.mark.parametrize("estimator", ["plain", "debiased"])
def test_scales_are_those_of_the_objective(
    kind: str, pretraining: int, estimator: Any, make_replica: MakeReplica, epochs_seen: list[Any]
) -> None:
    used = replace(
        QUICK, members=6, validation_members=6, pretraining_epochs=pretraining, epochs=1, decision_estimator=estimator
    )
    each = make_replica(kind, dtype=torch.float64, cost=cost_function(bet, -1.0, 3.0))  # of both signs
    (result,) = train([each], used)
    state = epochs_seen[pretraining][3]
    model: Any = copy.deepcopy(each.model)
    stack = ReplicaStack([each], used, CPU)
    model.load_state_dict(stack.layout.weights(model, state["parameters"][0]))
    noise = {name: values[0] for name, values in stack.noise(48, 6, "scales", validation=True).items()}
    draw = model.training_draw(each.train.features.double(), each.train.outcome.double(), noise)
    plain = DecisionAwareObjective(EnergyScore(), DecisionScore(each.cost, estimator), each.decision_weight)
    paid = DecisionScore(each.cost)(draw.decision_members, draw.decision_outcome)
    assert paid.min() < 0 < paid.max()
    expected = plain.estimate_scales(draw)
    assert result.score_scale == pytest.approx(expected.score_scale, rel=1e-10)
    assert result.decision_scale == pytest.approx(expected.decision_scale, rel=1e-10)


def test_the_cosine_schedule_is_that_of_torch(make_replica: MakeReplica, epochs_seen: list[Any]) -> None:
    train([make_replica()], replace(QUICK, epochs=5, pretraining_epochs=2, schedule="cosine", patience=100))
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=5)
    expected = [0.01, 0.01]
    for _ in range(5):
        expected.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    assert schedule.get_last_lr()[0] == pytest.approx(0, abs=1e-12)
    assert [rate for _, _, rate, _ in epochs_seen] == pytest.approx(expected, rel=1e-12)


# -- metrics


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
        Cases(torch.zeros(2 * times, 1), step * torch.tensor([[1.0], [3.0]]).repeat(times, 1)) for times in (2, 1)
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


def test_progress_knows_the_best_losses(make_replica: MakeReplica) -> None:
    results, recorder = recorded([make_replica(), make_replica(weight=0.7)], replace(QUICK, epochs=3))
    losses = [result.best_loss for result in results]
    assert recorder.progress[-1].best_loss == sum(losses) / 2


# -- interruptions

RESUMABLE = replace(SETTINGS, pretraining_epochs=3, validate_every=2, patience=2)


@cache
def uninterrupted(
    make_replica: MakeReplica, make_cases: Any, kind: str
) -> tuple[list[Replica], list[Trained], Recorder]:
    replicas = [sweep_of(make_replica, kind, make_cases(80))[index] for index in (1, 7, 8)]
    results, recorder = recorded(replicas, RESUMABLE)
    assert {result.status for result in results} == {"finished", "stopped early"}
    return replicas, results, recorder


def with_interruptions(
    replicas: Sequence[Replica], used: TrainingSettings, folder: Path, epochs: Sequence[int], **options: Any
) -> tuple[list[Trained], dict[int, list[Line]], list[Recorder]]:
    """Train, stopped after so many epochs, and then so many more, and so on, and at last to the end."""
    lines: dict[int, list[Line]] = {}
    sessions = []
    for number in epochs:
        sessions.append(Recorder(lines))
        try:
            results = train(
                replicas, used, checkpoints=folder, stop=stop_after(number), observers=[sessions[-1]], **options
            )
        except InterruptedTraining:
            continue
        return results, lines, sessions
    sessions.append(Recorder(lines))
    return train(replicas, used, checkpoints=folder, observers=[sessions[-1]], **options), lines, sessions


# Epochs of pre-training are 1 to 3, of training 4 to 9; validations come every second epoch and at a phase's end.
INTERRUPTIONS = {
    "in pre-training": [1],
    "before the branch": [2],
    "at the branch": [3],
    "between validations": [4],
    "at a validation": [5],
    "after some have stopped": [8],
    "at the end": [9],
    "often": [2, 1, 1, 3, 1],
}


@pytest.mark.parametrize(
    ("kind", "epochs"),
    [
        *(pytest.param("implicit", epochs, id=name) for name, epochs in INTERRUPTIONS.items()),
        pytest.param("diffusion", INTERRUPTIONS["often"], id="diffusion, often"),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    kind: str, epochs: list[int], tmp_path: Path, make_replica: MakeReplica, make_cases: Any
) -> None:
    replicas, expected, recorder = uninterrupted(make_replica, make_cases, kind)
    results, lines, sessions = with_interruptions(replicas, RESUMABLE, tmp_path, epochs)
    assert len(sessions) == len(epochs) + 1, "it was interrupted each time"
    for index, result in enumerate(results):
        assert_same(result, expected[index])
        assert lines[index] == recorder.lines[index]
    last = sessions[-1]
    total = sum(epochs)
    assert last.resumptions == [("pretraining", total, ()) if total <= 3 else ("training", total - 3, ())]
    assert bool(sessions[0].ended) == (epochs[0] >= 5), "the first to stop does so in epoch 2 of training"
    assert sorted(last.ended) == list(range(len(replicas))), "all are told of, those that had ended before too"


@settings(max_examples=5, deadline=None, derandomize=True)
@given(epochs=st.lists(st.integers(1, 5), min_size=1, max_size=5), seconds=st.sampled_from([0.0, 1e9]))
def test_any_interruptions(epochs: list[int], seconds: float, make_replica: MakeReplica, make_cases: Any) -> None:
    replicas, expected, recorder = uninterrupted(make_replica, make_cases, "implicit")
    with tempfile.TemporaryDirectory() as folder:
        results, lines, _ = with_interruptions(replicas, RESUMABLE, Path(folder), epochs, checkpoint_seconds=seconds)
    for index, result in enumerate(results):
        assert_same(result, expected[index])
        assert lines[index] == recorder.lines[index]


def test_a_stack_trained_together_resumes_too(tmp_path: Path, make_replica: MakeReplica) -> None:
    replicas = [make_replica(seed=seed) for seed in (0, 1)]
    used = replace(QUICK, epochs=4, weight_decay=0.1)
    expected = train(replicas, used, together=True)
    results, _, _ = with_interruptions(replicas, used, tmp_path, [1, 2], together=True)
    for result, other in zip(results, expected, strict=True):
        assert_same(result, other)


def test_a_float64_model_resumes_whatever_the_default_type(tmp_path: Path, make_replica: MakeReplica) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        replicas = [make_replica(dtype=torch.float64)]
        expected = train(replicas, QUICK)
        results, _, _ = with_interruptions(replicas, QUICK, tmp_path, [1])
    finally:
        torch.set_default_dtype(torch.float32)
    assert_same(results[0], expected[0])


def test_a_finished_run_with_a_checkpoint_ends_at_once(
    tmp_path: Path, make_replica: MakeReplica, epochs_seen: list[Any]
) -> None:
    replicas = [make_replica()]
    with pytest.raises(
        InterruptedTraining, match="interrupted after epoch 2 of training; everything up to it is saved"
    ):
        train(replicas, QUICK, checkpoints=tmp_path, stop=stop_after(2))
    epochs_seen.clear()
    (result,) = train(replicas, QUICK, checkpoints=tmp_path)
    assert (result.status, result.epoch) == ("finished", 2)
    assert not epochs_seen


def test_without_a_folder_nothing_is_saved(make_replica: MakeReplica) -> None:
    with pytest.raises(InterruptedTraining, match="interrupted after epoch 1 of training; nothing is saved"):
        train([make_replica()], QUICK, stop=stop_after(1))


def test_checkpoints_come_after_any_epoch_when_they_are_due(tmp_path: Path, make_replica: MakeReplica) -> None:
    used = replace(QUICK, pretraining_epochs=3, epochs=5, validate_every=2, patience=100)
    _, often = recorded([make_replica()], used, checkpoints=tmp_path / "often", checkpoint_seconds=0.0)
    assert often.saved == 3 + 5
    names = sorted(path.name for path in (tmp_path / "often").glob("*.json"))
    assert names == ["epoch-00000007.json", "epoch-00000008.json"], "the newest and the one before"
    _, never = recorded([make_replica()], used, checkpoints=tmp_path / "never", checkpoint_seconds=1e9)
    assert never.saved == 0
    assert not (tmp_path / "never").exists()


def damage(file: Path, way: str) -> None:
    content = file.read_bytes()
    if way == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif way == "changed":
        file.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    else:
        file.unlink()


@pytest.mark.parametrize("suffix", ["json", "safetensors"])
@pytest.mark.parametrize("way", ["cut", "changed", "gone"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    suffix: str, way: str, tmp_path: Path, make_replica: MakeReplica
) -> None:
    replicas = [make_replica()]
    used = replace(QUICK, epochs=4)
    expected, recorder = recorded(replicas, used)
    lines: dict[int, list[Line]] = {}
    with pytest.raises(InterruptedTraining):
        train(
            replicas,
            used,
            checkpoints=tmp_path,
            checkpoint_seconds=0.0,
            stop=stop_after(3),
            observers=[Recorder(lines)],
        )
    damage(max(tmp_path.glob(f"*.{suffix}")), way)
    session = Recorder(lines)
    results = train(replicas, used, checkpoints=tmp_path, observers=[session])
    ((phase, epoch, skipped),) = session.resumptions
    assert (phase, epoch) == ("training", 2)
    gone = (suffix, way) == ("json", "gone")  # then there is nothing to tell
    assert len(skipped) == (0 if gone else 1)
    assert gone or "the checkpoint of epoch 3 was skipped" in skipped[0]
    for index, result in enumerate(results):
        assert_same(result, expected[index])
        assert lines[index] == recorder.lines[index]


def test_nothing_starts_again_unawares(tmp_path: Path, make_replica: MakeReplica) -> None:
    with pytest.raises(InterruptedTraining):
        train([make_replica()], QUICK, checkpoints=tmp_path, stop=stop_after(1))
    damage(next(tmp_path.glob("*.json")), "cut")
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* can be used; to start anew, move it"):
        train([make_replica()], QUICK, checkpoints=tmp_path)


def moved(cases: Cases, which: str) -> Cases:
    parts = {name: getattr(cases, name).clone() for name in ("features", "outcome")}
    parts[which][3, 0] += 1e-3
    return Cases(**parts)


def with_changed_tensor(made: Replica, name: str) -> Replica:
    made.model.state_dict()[name].view(-1)[0] += 0.01
    return made


# What makes another run, each as a function of how a replica is made and which cases it has.
OTHER_RUNS: dict[str, Callable[[MakeReplica, Replica], tuple[Sequence[Replica], dict[str, Any]]]] = {
    "learning rate": lambda make, same: ([same, same], {"learning_rate": 0.02}),
    "epochs": lambda make, same: ([same, same], {"epochs": 3}),
    "estimator": lambda make, same: ([same, same], {"score_estimator": "biased"}),
    "training features": lambda make, same: ([replace(same, train=moved(same.train, "features"))] * 2, {}),
    "training outcome": lambda make, same: ([replace(same, train=moved(same.train, "outcome"))] * 2, {}),
    "validation features": lambda make, same: ([replace(same, validation=moved(same.validation, "features"))] * 2, {}),
    "validation outcome": lambda make, same: ([replace(same, validation=moved(same.validation, "outcome"))] * 2, {}),
    "which data": lambda make, same: ([same, replace(same, train=copy.copy(same.train))], {}),
    "cost parameter": lambda make, same: ([same, replace(same, cost=ShortfallCost(3.5))], {}),
    "cost": lambda make, same: ([replace(same, cost=ImbalanceCost(1.0, 2.0, 0.0, 1.0))] * 2, {}),
    "decision weight": lambda make, same: ([same, replace(same, decision_weight=0.41)], {}),
    "seed": lambda make, same: ([same, replace(same, seed=1)], {}),
    "name": lambda make, same: ([same, replace(same, name="other")], {}),
    "number": lambda make, same: ([same], {}),
    "weights": lambda make, same: ([same, with_changed_tensor(make(), "network.layers.0.bias")], {}),
    "buffers": lambda make, same: ([same, with_changed_tensor(make(), "outcome_scaling.mean")], {}),
}


@pytest.mark.parametrize("other", OTHER_RUNS)
def test_checkpoints_of_another_run_are_refused(other: str, tmp_path: Path, make_replica: MakeReplica) -> None:
    same = make_replica()
    with pytest.raises(InterruptedTraining):
        train([same, same], QUICK, checkpoints=tmp_path, stop=stop_after(1))
    replicas, changed = OTHER_RUNS[other](make_replica, same)
    with pytest.raises(CheckpointError, match="it belongs to other replicas, data or settings"):
        train(replicas, replace(QUICK, **changed), checkpoints=tmp_path)


def test_checkpoints_of_another_cost_of_tensors_are_refused(tmp_path: Path, make_replica: MakeReplica) -> None:
    with pytest.raises(InterruptedTraining):
        train([make_replica(cost=ShortfallCost(torch.tensor(3.0)))], QUICK, checkpoints=tmp_path, stop=stop_after(1))
    with pytest.raises(CheckpointError, match="it belongs to other replicas, data or settings"):
        train([make_replica(cost=ShortfallCost(torch.tensor(4.0)))], QUICK, checkpoints=tmp_path)


def test_checkpoints_of_another_prediction_are_refused(tmp_path: Path, make_replica: MakeReplica) -> None:
    """The same tensors, another model."""
    with pytest.raises(InterruptedTraining):
        train([make_replica("diffusion", prediction="v")], QUICK, checkpoints=tmp_path, stop=stop_after(1))
    with pytest.raises(CheckpointError, match="it belongs to other replicas, data or settings"):
        train([make_replica("diffusion", prediction="epsilon")], QUICK, checkpoints=tmp_path)


# -- failures

TRIGGER = 0.125  # an outcome at which the model breaks, in training but not in validation
BROKEN_CASE = 17


class Fragile(ImplicitModel):
    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        return {**super().draw_noise(cases, members, generator), "live": torch.ones(cases)}

    def validation_noise(
        self, cases: int, members: int, generator: torch.Generator | None = None
    ) -> Mapping[str, Tensor]:
        return {**super().draw_noise(cases, members, generator), "live": torch.zeros(cases)}

    def training_draw(self, features: Tensor, outcome: Tensor, noise: Mapping[str, Tensor]) -> TrainingDraw:
        draw = super().training_draw(features, outcome, noise)
        hit = (outcome == TRIGGER)[..., None, :] * noise["live"][..., None, None]
        return draw._replace(score_members=draw.score_members / (1 - hit))


def fragile(make_replica: MakeReplica, seed: int, sick: bool, weight: float = 0.4) -> Replica:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Fragile(2, 1, noise=3, hidden=6, layers=2)
    made = make_replica(model, seed=seed, weight=weight, name=f"run-{seed}")
    model.fit_scaling(made.train.features, made.train.outcome)
    return replace(made, train=sick_cases(made.train) if sick else made.train)


@cache
def sick_cases(cases: Cases) -> Cases:
    outcome = cases.outcome.clone()
    outcome[BROKEN_CASE] = TRIGGER
    return Cases(cases.features, outcome)


# Of 48 cases an epoch sees 40, in two steps: the broken case may come late.
FAILING = replace(QUICK, batch=20, epochs=5, validate_every=2, patience=100)


def first_broken(each: Replica, phase: str) -> tuple[int, int]:
    """The epoch in which the broken case comes first, and the step of that epoch, from 1."""
    stack = ReplicaStack([each], FAILING, CPU)
    for epoch in range(1, 9):
        place = stack.shuffles(phase, epoch)[0].tolist().index(BROKEN_CASE)
        if place < 40:
            return epoch, 1 + place // 20
    raise AssertionError


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("phase", ["pretraining", "training"])
def test_the_epoch_of_a_failure_is_right(phase: str, step: int, make_replica: MakeReplica) -> None:
    """At the first step of an epoch and at its last."""
    made = (fragile(make_replica, seed, sick=True) for seed in range(99))
    each = next(each for each in made if first_broken(each, phase) == (2, step))
    epochs = {"pretraining_epochs" if phase == "pretraining" else "epochs": 4}
    results = train([each, fragile(make_replica, 0, sick=False)], replace(FAILING, **epochs))
    assert results[0].failure == f"the score is not finite in epoch 2 of {phase}"


@pytest.mark.parametrize("together", [False, True], ids=["in turns", "together"])
def test_one_failure_leaves_the_others_alone(together: bool, make_replica: MakeReplica) -> None:
    replicas = [fragile(make_replica, seed, sick=seed == 1) for seed in range(3)]
    results, recorder = recorded(replicas, FAILING, together=together)
    assert [result.status for result in results] == ["finished", "failed", "finished"]
    epoch, _ = first_broken(replicas[1], "training")
    assert results[1].failure == f"the score is not finite in epoch {epoch} of training"
    assert (results[1].epoch, results[1].best_epoch) == (0, 0), "it was last well at the validation before"
    assert results[1].best_loss == recorder.losses(1)[0]
    for name, values in results[1].weights.items():
        assert torch.equal(values, replicas[1].model.state_dict()[name]), "the best weights, none but the first"
    assert recorder.ended[0] == 1
    replicas[1] = fragile(make_replica, 1, sick=False)
    well, lines_of_well = recorded(replicas, FAILING, together=together)
    assert [result.status for result in well] == ["finished"] * 3
    for index in (0, 2):
        if together:  # fewer rows at once may round differently
            assert results[index].best_loss == pytest.approx(well[index].best_loss, rel=1e-4)
        else:
            assert_same(results[index], well[index])
            assert recorder.lines[index] == lines_of_well.lines[index]


def test_a_late_failure_keeps_the_best_weights(make_replica: MakeReplica) -> None:
    """Of seeds in which the broken case comes late enough for a validation before it."""
    used = replace(FAILING, batch=5, validate_every=1, epochs=40)  # all 45 of 48 cases, by chance three are left out
    stack = ReplicaStack([fragile(make_replica, 0, sick=True)], used, CPU)
    assert stack.steps == 9
    each = next(
        made
        for made in (fragile(make_replica, seed, sick=True) for seed in range(99))
        if BROKEN_CASE not in ReplicaStack([made], used, CPU).shuffles("training", 1)[0, :45]
    )
    (result,), recorder = recorded([each], used)
    assert result.status == "failed"
    assert result.failure == "the score is not finite in epoch 2 of training"
    losses = recorder.losses(0)
    assert list(losses) == [0, 1]
    assert losses[1] < losses[0]
    assert (result.epoch, result.best_epoch, result.best_loss, result.steps) == (1, 1, losses[1], 9)
    good = train([each], replace(used, epochs=1))[0]
    for name, values in good.weights.items():
        assert torch.equal(result.weights[name], values)


def test_a_failure_in_pretraining_is_that_of_all_who_share_it(make_replica: MakeReplica) -> None:
    sick = fragile(make_replica, 0, sick=True)
    replicas = [sick, replace(sick, decision_weight=0.8), fragile(make_replica, 1, sick=False)]
    used = replace(FAILING, pretraining_epochs=4, epochs=2)
    results, recorder = recorded(replicas, used)
    assert [result.status for result in results] == ["failed", "failed", "finished"]
    epoch, _ = first_broken(sick, "pretraining")
    for result in results[:2]:
        assert result.failure == f"the score is not finite in epoch {epoch} of pretraining"
        assert result.best_loss == math.inf
        assert all(values.isfinite().all() for values in result.weights.values())
    assert {line["phase"] for line in recorder.lines[0]} == {"pretraining"}
    assert_same(results[2], train(replicas[2:], used)[0])


@pytest.mark.parametrize("pretraining", [0, 2])
def test_all_may_fail(pretraining: int, make_replica: MakeReplica) -> None:
    replicas = [fragile(make_replica, seed, sick=True) for seed in range(2)]
    results, recorder = recorded(replicas, replace(FAILING, pretraining_epochs=pretraining))
    assert [result.status for result in results] == ["failed"] * 2
    assert all(result.weights and result.failure for result in results)
    assert sorted(recorder.ended) == [0, 1]


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_a_failure_outlives_an_interruption(epochs: int, tmp_path: Path, make_replica: MakeReplica) -> None:
    """Before it is noticed at a validation, and after."""
    replicas = [fragile(make_replica, seed, sick=seed == 1) for seed in range(2)]
    expected, recorder = recorded(replicas, FAILING)
    results, lines, _ = with_interruptions(replicas, FAILING, tmp_path, [epochs])
    for index, result in enumerate(results):
        assert_same(result, expected[index])
        assert repr(lines[index]) == repr(recorder.lines[index])  # there may be NaN among the gradients
    assert results[1].status == "failed"


def broken_above(action: Tensor, outcome: Tensor) -> Tensor:
    return torch.where(outcome == TRIGGER, torch.nan, (action - outcome) ** 2)


def free(action: Tensor, outcome: Tensor) -> Tensor:
    return 0 * (action - outcome) ** 2


def test_a_scale_that_is_not_finite_fails_its_replica_alone(make_replica: MakeReplica) -> None:
    well = make_replica(cost=cost_function(broken_above, -1.0, 3.0))
    sick = replace(well, train=sick_cases(well.train))
    results, recorder = recorded([well, sick, replace(well, decision_weight=0.1)], QUICK)
    assert [result.status for result in results] == ["finished", "failed", "finished"]
    assert results[1].failure == "the mean decision term on the training cases is no positive number before epoch 1"
    assert math.isnan(results[1].decision_scale)
    assert 1 not in recorder.lines
    assert_same(results[0], train([well], QUICK)[0])


def test_weights_that_overflow_fail_by_their_score(make_replica: MakeReplica) -> None:
    vast = make_replica(seed=1)
    with torch.no_grad():
        for value in vast.model.parameters():
            value.mul_(1e25)
    results = train([make_replica(), vast], QUICK)
    assert [result.status for result in results] == ["finished", "failed"]
    assert results[1].failure == "the mean score term on the training cases is no positive number before epoch 1"


@pytest.mark.parametrize("pretraining", [0, 1])
def test_all_may_fail_by_their_scales(pretraining: int, make_replica: MakeReplica) -> None:
    results = train([make_replica(cost=cost_function(free, 0.0, 1.0))], replace(QUICK, pretraining_epochs=pretraining))
    assert [result.status for result in results] == ["failed"]
    assert results[0].failure is not None
    assert "mean decision term" in results[0].failure


# -- what may be trained


def pinball(action: Tensor, outcome: Tensor) -> Tensor:
    gap = outcome - action
    return 0.05 * gap**2 + torch.where(gap > 0, 3 * gap, -gap)


@pytest.mark.parametrize(("kind", "dtype"), [("own", torch.float32), ("implicit", torch.float64)])
def test_an_own_cost_and_an_own_model(kind: str, dtype: torch.dtype, make_replica: MakeReplica) -> None:
    each = make_replica(kind, cost=cost_function(pinball, -1.0, 3.0), dtype=dtype)
    (result,), recorder = recorded([each], replace(QUICK, epochs=4, learning_rate=0.05))
    assert result.status == "finished"
    assert result.best_loss < 0.97 * recorder.losses(0)[0]
    parameters = dict(each.model.named_parameters())
    assert all(result.weights[name].dtype == dtype for name in parameters)
    result.load_into_model()
    assert all(torch.equal(values, result.weights[name]) for name, values in each.model.state_dict().items())
    assert each.model.sample(each.validation.features.to(dtype), 4).shape == (24, 4, 1)  # type: ignore[operator]


def test_nothing_to_train() -> None:
    with pytest.raises(SettingError, match="at least one replica"):
        train([], QUICK)


def test_the_global_generator_is_left_alone(make_replica: MakeReplica) -> None:
    replicas = [make_replica("diffusion")]
    before = torch.get_rng_state()
    train(replicas, replace(QUICK, epochs=1, pretraining_epochs=1))
    assert torch.equal(torch.get_rng_state(), before)


def test_errors_are_of_one_family() -> None:
    assert issubclass(InterruptedTraining, StakesError)
    assert issubclass(CheckpointError, StakesError)


def test_every_field_of_a_record_survives(make_replica: MakeReplica) -> None:
    (result,) = train([make_replica()], QUICK)
    other = Trained(result.replica)
    other.take(result.record())
    for each in fields(result.record()):
        assert getattr(other, each.name) == getattr(result, each.name) != getattr(
            Trained(result.replica), each.name
        ) or (each.name == "failure")
    unknown = Trained(result.replica, best_loss=math.inf)
    assert unknown.record().best_loss is None
    other.take(unknown.record())
    assert other.best_loss == math.inf


def test_at_weight_zero_a_cost_without_scale_does_no_harm(make_replica: MakeReplica) -> None:
    plain = replace(make_replica(), decision_weight=0.0)
    free_of_charge = replace(plain, cost=cost_function(free, 0.0, 1.0))
    results = [train([each], QUICK)[0] for each in (plain, free_of_charge)]
    assert [result.status for result in results] == ["finished", "finished"]
    assert all(torch.equal(results[0].weights[name], results[1].weights[name]) for name in results[0].weights)


def test_a_validation_that_is_never_finite_fails_the_replica(make_replica: MakeReplica) -> None:
    well = make_replica(cost=cost_function(broken_above, -1.0, 3.0))
    blind = replace(well, validation=sick_cases(well.validation))
    results = train([blind, well], QUICK)
    assert [result.status for result in results] == ["failed", "finished"]
    assert results[0].failure == "the validation loss was never finite"


@pytest.mark.parametrize(
    "layer", [torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3)], ids=lambda layer: type(layer).__name__
)
def test_modules_with_a_will_of_their_own_are_refused(layer: torch.nn.Module, make_replica: MakeReplica) -> None:
    replica = make_replica()
    replica.model.extra = layer
    with pytest.raises(SettingError, match=rf"extra \({type(layer).__name__}\) draws its own noise"):
        replace(replica)
    replica.model.eval()
    assert replace(replica).model is replica.model
