import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

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
from stakes.data.case_table import CaseTable
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.settings import TrainingSettings
from stakes.training.steps import Stepper, Trouble
from stakes.training.trainer import train

CPU = torch.device("cpu")
DOUBLE = torch.float64
SETTINGS = TrainingSettings(batch=12, members=5, learning_rate=0.01)  # four steps an epoch of 48 cases
EPOCHS = 3
SCALES = (0.5, 2.0)
MakeReplica = Callable[..., Replica]
both_ways = pytest.mark.parametrize("together", [False, True], ids=["in turns", "together"])


def stepper_of(
    replicas: Sequence[Replica], settings: TrainingSettings, together: bool | None = None, scaled: bool = True
) -> Stepper:
    stack = ReplicaStack(replicas, settings, CPU, together)
    rows = stack.initial_parameters()
    scales = torch.tensor(SCALES).to(rows).expand(len(stack), 2) if scaled else None
    return Stepper(stack, rows, scales)


def run(stepper: Stepper, epochs: Sequence[int] = range(1, EPOCHS + 1)) -> list[Tensor]:
    """The parameters (R, P) after every step."""
    history = []

    def step() -> None:
        stepper._step()
        history.append(stepper.parameters.detach().clone())

    stepper._run = step
    for epoch in epochs:
        stepper.epoch("training", epoch, stepper.stack.settings.learning_rate)
    return history


# -- against plain PyTorch


def plain_loop(
    replica: Replica,
    settings: TrainingSettings,
    optimiser_of: Callable[[Any], torch.optim.Optimizer],
    clip: Callable[[Sequence[Tensor]], object] = lambda parameters: None,
    rates: Sequence[float] = (),
    scales: tuple[float, float] = SCALES,
) -> Tensor:
    """Twelve steps as anybody would write them, on the batches and noise of the stack; returns the row (P,)."""
    stack = ReplicaStack([replica], settings, CPU)
    model: Any = copy.deepcopy(replica.model)
    trained = [value for value in model.parameters() if value.requires_grad]
    optimiser = optimiser_of(trained)
    objective = DecisionAwareObjective(EnergyScore(), DecisionScore(replica.cost), replica.decision_weight, *scales)
    for epoch in range(1, EPOCHS + 1):
        if rates:
            optimiser.param_groups[0]["lr"] = rates[epoch - 1]
        order = stack.shuffles("training", epoch)[0]
        for step, batch in enumerate(order.split(settings.batch)):
            noise = stack.noise(settings.batch, settings.members, "training", epoch, step)
            draw = model.training_draw(
                replica.train.features[batch].to(DOUBLE),
                replica.train.outcome[batch].to(DOUBLE),
                {name: values[0] for name, values in noise.items()},
            )
            optimiser.zero_grad()
            objective(draw).mean().total.backward()
            clip(trained)
            optimiser.step()
    return stack.layout.row(model)


def exact_clip(largest: float, scales: list[float]) -> Callable[[Sequence[Tensor]], None]:
    def clip(parameters: Sequence[Tensor]) -> None:
        gradients = [value.grad for value in parameters if value.grad is not None]
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        scales.append(min(1.0, largest / norm.item()))
        for gradient in gradients:
            gradient *= scales[-1]

    return clip


def different(make_replica: MakeReplica, kind: str) -> list[Replica]:
    return [
        make_replica(kind, cost=ImbalanceCost(short, 2.0, -1.0, 4.0), weight=weight, seed=seed, dtype=DOUBLE)
        for short, weight, seed in [(5.0, 0.8, 0), (3.0, 0.0, 1)]
    ]


@both_ways
@pytest.mark.parametrize(
    ("kind", "decay"), [("implicit", 0.0), ("implicit", 0.3), ("diffusion", 0.0), ("diffusion", 0.3), ("own", 0.3)]
)
def test_twelve_steps_equal_plain_adam(kind: str, together: bool, decay: float, make_replica: MakeReplica) -> None:
    settings = replace(SETTINGS, weight_decay=decay)
    replicas = different(make_replica, kind)
    stepper = stepper_of(replicas, settings, together)
    history = run(stepper)
    assert len(history) == 12
    for row, each in enumerate(replicas):
        expected = plain_loop(
            each,
            settings,
            lambda parameters: (
                torch.optim.AdamW(parameters, lr=0.01, weight_decay=decay)
                if decay
                else torch.optim.Adam(parameters, lr=0.01)
            ),
        )
        torch.testing.assert_close(history[-1][row], expected, rtol=1e-10, atol=1e-10)
        assert not torch.allclose(history[-1][row], stepper.stack.initial_parameters()[row], atol=1e-2)
    padding = stepper.stack.layout.padding
    assert padding
    assert not history[-1][:, -padding:].any()


@pytest.mark.parametrize(("kind", "together"), [("implicit", False), ("diffusion", True)])
def test_clipped_gradients(kind: str, together: bool, make_replica: MakeReplica) -> None:
    settings = replace(SETTINGS, gradient_clip=1.0 if kind == "implicit" else 0.6)
    largest = settings.gradient_clip or 0.0
    replicas = different(make_replica, kind)
    found = run(stepper_of(replicas, settings, together))[-1]
    unclipped = run(stepper_of(replicas, SETTINGS, together))[-1]
    scales: list[float] = []
    adam = lambda parameters: torch.optim.Adam(parameters, lr=0.01)
    torchs_own = lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, largest)  # adds 1e-6 to the norm
    for row, each in enumerate(replicas):
        expected = plain_loop(each, settings, adam, exact_clip(largest, scales))
        torch.testing.assert_close(found[row], expected, rtol=1e-10, atol=1e-10)
        expected = plain_loop(each, settings, adam, torchs_own)
        torch.testing.assert_close(found[row], expected, rtol=1e-5, atol=1e-5)
    assert min(scales) < 0.9, "some steps are clipped"
    assert max(scales) == 1, "and some are not"
    assert not torch.allclose(found, unclipped, atol=1e-4)


def test_the_trainer_takes_the_same_steps(make_replica: MakeReplica, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all options at once, a cosine schedule among them: `CosineAnnealingLR`, a step an epoch."""
    settings = replace(
        SETTINGS, epochs=EPOCHS, schedule="cosine", weight_decay=0.3, gradient_clip=1.0, validation_members=6
    )
    (each,) = different(make_replica, "implicit")[:1]
    steppers = []
    epoch = Stepper.epoch
    monkeypatch.setattr(Stepper, "epoch", lambda self, *moment: (steppers.append(self), epoch(self, *moment)))
    (result,) = train([each], settings)
    scheduled = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(scheduled, T_max=EPOCHS)
    rates = []
    for _ in range(EPOCHS):
        rates += schedule.get_last_lr()
        scheduled.step()
        schedule.step()
    expected = plain_loop(
        each,
        settings,
        lambda parameters: torch.optim.AdamW(parameters, weight_decay=0.3),
        exact_clip(1.0, []),
        rates,
        (result.score_scale, result.decision_scale),
    )
    assert rates[0] == 0.01 > rates[-1] > 0
    torch.testing.assert_close(steppers[-1].parameters[0].detach(), expected, rtol=1e-10, atol=1e-10)


@both_ways
def test_without_scales_the_score_alone_is_trained(together: bool, make_replica: MakeReplica) -> None:
    """As in pre-training: neither cost nor weight matter, and the cost is never called."""

    def untouchable(action: Tensor, outcome: Tensor) -> Tensor:
        raise AssertionError("the decision was solved")

    costs = (cost_function(untouchable, 0.0, 1.0), ShortfallCost(3.0))
    first, second = (
        run(stepper_of([make_replica(cost=cost, weight=weight)], SETTINGS, together, scaled=False))[-1]
        for cost, weight in zip(costs, (0.9, 0.1), strict=True)
    )
    assert torch.equal(first, second)


# -- what changes from step to step


# -- steps that are refused


TRIGGER = 0.125  # an outcome at which something breaks
BROKEN_CASE = 17


def fragile_squares(action: Tensor, outcome: Tensor) -> Tensor:
    return torch.where(outcome == TRIGGER, torch.nan, (action - outcome) ** 2)


class Fragile(ImplicitModel):
    """Breaks one term where the outcome is the trigger."""

    term: str

    def training_draw(self, features: Tensor, outcome: Tensor, noise: Mapping[str, Tensor]) -> TrainingDraw:
        draw = super().training_draw(features, outcome, noise)
        hit = (outcome == TRIGGER).to(outcome)[..., None, :]
        if self.term == "score":
            return draw._replace(score_members=draw.score_members / (1 - hit))
        if self.term == "gradient":  # finite, but its derivative is 0 times infinity
            bias = self.network.layers[0].bias[0]
            return draw._replace(score_members=draw.score_members + (bias**2 * (1 - hit)).sqrt())
        return draw


def fragile(make_replica: MakeReplica, term: str, sick: bool, seed: int) -> Replica:
    """A replica whose one case, if it is sick, breaks one term."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Fragile(2, 1, noise=3, hidden=6, layers=2)
    model.term = term
    cost = cost_function(fragile_squares, -1.0, 3.0) if term == "decision cost" else ShortfallCost(3.0)
    made = make_replica(model, cost=cost, seed=seed)
    model.fit_scaling(made.train.features, made.train.outcome)
    outcome = made.train.outcome.clone()
    outcome[BROKEN_CASE] = TRIGGER if sick else TRIGGER + 1e-3
    return replace(made, train=CaseTable(made.train.features, outcome))


@both_ways
@pytest.mark.parametrize(
    ("term", "clip"), [("score", None), ("score", 0.5), ("decision cost", None), ("gradient", None), ("gradient", 0.5)]
)
def test_a_step_that_is_not_finite_is_refused(
    term: str, together: bool, clip: float | None, make_replica: MakeReplica
) -> None:
    settings = replace(SETTINGS, gradient_clip=clip, weight_decay=0.1)
    replicas = [fragile(make_replica, term, sick=row == 1, seed=row) for row in range(3)]
    stepper = stepper_of(replicas, settings, together)
    order = stepper.stack.shuffles("training", 1)[1]
    broken = int((order == BROKEN_CASE).nonzero()) // 12 + 1
    assert 1 < broken < 4, "there are steps before and after"
    history = run(stepper, (1,))
    assert stepper.troubles() == {1: Trouble(broken, term)}
    last_good = history[broken - 2][1]
    assert all(torch.equal(rows[1], last_good) for rows in history[broken - 1 :])
    assert not torch.equal(last_good, stepper.stack.initial_parameters()[1])
    assert all(values.isfinite().all() for values in stepper.state().values()), "it can be saved"
    replicas[1] = fragile(make_replica, term, sick=False, seed=1)
    well = stepper_of(replicas, settings, together)
    history_without = run(well, (1,))
    assert well.troubles() == {}
    for before, after in zip(history, history_without, strict=True):
        assert torch.equal(before[[0, 2]], after[[0, 2]])
    assert not torch.equal(history[-1][1], history_without[-1][1])
    if not together:
        alone = run(stepper_of([replicas[2]], settings), (1,))
        assert torch.equal(alone[-1][0], history[-1][2])
