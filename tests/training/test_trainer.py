import copy
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from observed_training import CPU, QUICK, SETTINGS, MakeReplica, assert_same, recorded, rows_seen, sweep_of
from refusals import refuses
from torch import Tensor

from stakes import DecisionAwareObjective, DecisionScore, EnergyScore, ImbalanceCost, ProtectionCost, cost_function
from stakes.errors import SettingError
from stakes.training.progress import Trained
from stakes.training.replicas import ReplicaStack
from stakes.training.steps import Stepper
from stakes.training.trainer import train, validate

SHORT = replace(SETTINGS, pretraining_epochs=1, epochs=4, patience=1)
# -- replicas do not notice each other


@pytest.mark.parametrize("kind", ["implicit", "diffusion", "own"])
def test_a_replica_is_the_same_in_every_stack(kind: str, make_replica: MakeReplica, make_cases: Any) -> None:
    replicas = sweep_of(make_replica, kind, make_cases(80))
    nine, lines_of_nine = recorded(replicas, SHORT)
    statuses = Counter(result.status for result in nine)
    assert statuses["stopped early"] >= 1
    assert statuses["finished"] >= 2
    for chosen in ([8], [8, 1, 4]):
        found, lines = recorded([replicas[index] for index in chosen], SHORT)
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
    used = replace(QUICK, pretraining_epochs=1)
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


def test_without_diagnostics_the_training_is_the_same(make_replica: MakeReplica) -> None:
    replicas = [make_replica(weight=0.0), make_replica(weight=0.5)]
    (all_told, lines), (few_told, few) = (recorded(replicas, QUICK, diagnostics=told) for told in (True, False))
    for mine, other in zip(few_told, all_told, strict=True):
        assert_same(mine, other)
    kept = ("phase", "epoch", "loss", "score")
    for replica in (0, 1):
        assert few.lines[replica] == [{name: line[name] for name in kept} for line in lines.lines[replica]]


def last_weight(trained: Trained) -> str:
    return [name for name, _ in trained.replica.model.named_parameters()][-1]


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
    used = replace(QUICK, epochs=4, learning_rate=0.05, patience=100)
    replicas = [make_replica(kind, seed=seed) for seed in (0, 1, 2)]
    results = train(replicas, used)
    assert any(result.best_epoch < used.epochs for result in results)
    for result in results:
        before = make_replica(kind, seed=result.replica.seed).model.state_dict()
        for name, values in result.replica.model.state_dict().items():
            assert torch.equal(before[name], values), "the model itself is left alone"
        result.replica.model.load_state_dict(result.weights)
        stack = ReplicaStack([result.replica], used, CPU)
        scales = torch.tensor([[result.score_scale, result.decision_scale]])
        again = validate(stack, stack.initial_parameters(), scales)
        assert again["loss"].item() == result.best_loss
        assert not all(torch.equal(values, before[name]) for name, values in result.replica.model.state_dict().items())


def test_a_replica_that_is_done_leaves_the_stack(
    make_replica: MakeReplica, make_cases: Any, epochs_seen: list[Any]
) -> None:
    replicas = sweep_of(make_replica, "implicit", make_cases(80))
    results, recorder = recorded(replicas, SHORT)
    training = [rows for phase, rows in rows_seen(epochs_seen) if phase == "training"]
    assert training == [sum(result.epoch >= epoch for result in results) for epoch in range(1, len(training) + 1)]
    assert training[0] == 9 > training[-1]
    told = [progress.running for progress in recorder.progress if progress.phase == "training"]
    assert told == [*training[1:], sum(result.status == "finished" for result in results)]


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


@pytest.mark.parametrize(
    ("kind", "pretraining", "estimator"),
    [
        *[(kind, 1, estimator) for kind in ("implicit", "diffusion", "own") for estimator in ("plain", "debiased")],
        ("implicit", 0, "plain"),
    ],
)
def test_scales_are_those_of_the_objective(
    kind: str, pretraining: int, estimator: Any, make_replica: MakeReplica, epochs_seen: list[Any]
) -> None:
    few = {"members": 6, "validation_members": 6, "batch": 48, "epochs": 1}
    used = replace(QUICK, **few, pretraining_epochs=pretraining, decision_estimator=estimator)
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


# -- what may be trained


def test_nothing_to_train() -> None:
    refuses(SettingError, "at least one replica", train, [], QUICK)


def test_the_global_generator_is_left_alone(make_replica: MakeReplica) -> None:
    replicas = [make_replica("diffusion")]
    before = torch.get_rng_state()
    train(replicas, replace(QUICK, epochs=1, pretraining_epochs=1))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "layer", [torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3)], ids=lambda layer: type(layer).__name__
)
def test_modules_with_a_will_of_their_own_are_refused(layer: torch.nn.Module, make_replica: MakeReplica) -> None:
    replica = make_replica()
    replica.model.extra = layer
    refuses(SettingError, rf"extra \({type(layer).__name__}\) draws its own noise", replace, replica)
    replica.model.eval()
    assert replace(replica).model is replica.model


def test_the_last_weights_may_be_kept_instead(make_replica: MakeReplica) -> None:
    (last,) = train([make_replica()], replace(SHORT, keep="last", validate_every=4))
    (asked,) = train([replace(make_replica(), epochs=4)], replace(SHORT, validate_every=4))
    assert (last.status, last.epoch, last.best_epoch) == ("finished", 4, 4)
    assert_same(last, asked)


@pytest.mark.parametrize("kind", ["diffusion", "implicit"])
def test_every_validation_case_may_be_drawn_several_times(kind: str, make_replica: MakeReplica) -> None:
    stack = ReplicaStack([make_replica(kind)], replace(SETTINGS, validation_draws=5), CPU)
    assert ReplicaStack([make_replica(kind)], SETTINGS, CPU).validation_draws == (16 if kind == "diffusion" else 1)
    rows = stack.initial_parameters()
    drawn = stack.draws(rows, stack.validation, 7, "validation", draws=5)
    pairs = [(draw.decision_outcome, features) for draw, features in drawn]
    outcomes, features = (torch.cat([pair[side] for pair in pairs], 1)[0] for side in (0, 1))
    assert torch.equal(outcomes, stack.validation.outcome[0].repeat_interleave(5, 0))
    assert torch.equal(features, stack.validation.features[0].repeat_interleave(5, 0))
    many = replace(SETTINGS, validation_draws=400, validation_members=20)
    few, more = (validate(ReplicaStack([make_replica(kind)], each, CPU), rows, None) for each in (SETTINGS, many))
    torch.testing.assert_close(few["score"], more["score"], rtol=0.3, atol=0.0)


def test_projected_gradient_and_the_tail_train_too(make_replica: MakeReplica) -> None:
    exact, projected = (
        train([make_replica()], replace(SHORT, solver=solver, solver_steps=400))[0]
        for solver in ("exact", "projected_gradient")
    )
    assert projected.best_loss == pytest.approx(exact.best_loss, rel=1e-2)
    assert projected.best_loss != exact.best_loss
    protection = make_replica(cost=ProtectionCost(0.5, 0.5))
    (tail,) = train([protection], replace(SHORT, companion="tail_crps"))
    (decision,) = train([protection], SHORT)
    assert tail.decision_scale != decision.decision_scale
    refuses(SettingError, "tail_crps", train, [make_replica()], replace(SHORT, companion="tail_crps"))
