import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor, nn

from stakes import (
    DecisionAwareObjective,
    DecisionScore,
    ImbalanceCost,
    NewsvendorCost,
    PowerCurve,
    ProtectionCost,
    ScheduleCost,
    ScoreMixture,
    ScoringRule,
    ShortfallCost,
    TotalCRPS,
    TrainingDraw,
    VariogramScore,
    WindDispatchCost,
    cost_function,
)
from stakes.errors import SettingError, ShapeError
from stakes.scores.scoring_rules import named_score, score_weights
from stakes.training import replicas as replicas_module
from stakes.training.replicas import ParameterLayout, Replica, ReplicaStack, cost_structure, stacked_cost
from stakes.training.settings import TrainingSettings

CPU = torch.device("cpu")
SETTINGS = TrainingSettings(batch=13, members=5, validation_members=7)
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}  # relative to the largest number of a row
MakeReplica = Callable[..., Replica]
both_ways = pytest.mark.parametrize("together", [False, True], ids=["in turns", "together"])


def squared(action: Tensor, outcome: Tensor) -> Tensor:
    return (action - outcome) ** 2


def squared_at_sites(action: Tensor, outcome: Tensor) -> Tensor:
    return ((action - outcome) ** 2).mean(-1)


# Every cost, as a function of one number on which all its parameters depend.
COSTS: dict[str, Callable[[float], Any]] = {
    "shortfall": lambda number: ShortfallCost(2 + number),
    "wind": lambda number: WindDispatchCost(2 + number, PowerCurve(ramp_speed=0.5, ramp_sharpness=4.0, shear=0.0)),
    "protection": lambda number: ProtectionCost(0.4 + number / 10, 0.5 + number, "above", 8 + number),
    "protection, solved": lambda number: ProtectionCost(0.4 + number / 10, 0.2 + number / 10, exposure_power=3.0),
    "newsvendor": lambda number: NewsvendorCost(1 + number, 2 - number / 4, -1 - number, 4 + number),
    "imbalance": lambda number: ImbalanceCost(1 + number, 2 - number / 4, -1 - number, 4 + number),
    "function": lambda number: cost_function(squared, -1 - number, 4 + number),
}
OF_SITES = ("shortfall", "wind", "newsvendor", "imbalance")
ESTIMATORS = {"score_estimator": "biased", "decision_estimator": "debiased"}
every_cost = pytest.mark.parametrize("name", COSTS)
COMPANIONS: dict[str, Callable[[Any, TrainingSettings], Any]] = {
    "decision": lambda cost, settings: DecisionScore(cost, settings.decision_estimator),
    "crps_of_total": lambda cost, settings: TotalCRPS(cost, settings.score_estimator),
    "variogram": lambda cost, settings: VariogramScore(),
}


# -- the row of parameters


class Odd(nn.Module):
    """Tied weights, a scalar, a frozen parameter, buffers that are kept and not: all that a layout must place."""

    def __init__(self, hidden: int = 3, factor: float = 1.0) -> None:
        super().__init__()
        self.first = nn.Linear(hidden, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.second.weight = self.first.weight
        self.scalar = nn.Parameter(torch.tensor(1.5))
        self.frozen = nn.Parameter(torch.full((hidden,), 0.5), requires_grad=False)
        self.register_buffer("kept", torch.tensor([1, 2, 3]))
        self.register_buffer("passing", torch.tensor(factor), persistent=False)

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        pass

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        return {"noise": torch.randn(cases, members, 1, generator=generator)}

    def training_draw(self, features: Tensor, outcome: Tensor, noise: Mapping[str, Tensor]) -> TrainingDraw:
        inputs = features @ torch.ones(features.shape[-1], len(self.frozen)) + self.frozen
        centre = self.second(torch.tanh(self.first(inputs))).sum(-1, keepdim=True) * self.passing
        members = centre[..., None, :] + self.scalar * noise["noise"]
        return TrainingDraw(members, outcome, members, outcome, torch.ones_like(outcome[..., 0]))

    def sample(self, *_: Any, **__: Any) -> Tensor:
        raise NotImplementedError


def odd(seed: int = 0, **options: Any) -> Odd:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Odd(**options)


def test_weights_are_the_state_dict_of_the_model_with_that_row() -> None:
    model = odd()
    layout = ParameterLayout(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    row = 2 * layout.row(model)
    weights = layout.weights(model, row)
    assert weights.keys() == before.keys()
    assert "passing" not in weights
    for name, value in weights.items():
        expected = before[name] if name in ("frozen", "kept") else 2 * before[name]
        assert torch.equal(value, expected), name
        assert not value.requires_grad
        assert torch.equal(model.state_dict()[name], before[name]), "the model itself must not change"
    other = odd(seed=1)
    other.load_state_dict(weights)
    assert torch.equal(layout.row(other), row)


def test_parameters_of_several_types_are_refused() -> None:
    refuses(SettingError, "must be of one", ParameterLayout, nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()))


@both_ways
def test_each_row_draws_with_its_own_state(together: bool, make_replica: MakeReplica) -> None:
    """Tied weights move together, and what is not trained, kept in the state or not, is each replica's own."""
    models = [odd(seed, factor=factor) for seed, factor in ((0, 1.0), (1, -2.0), (2, 3.0))]
    models[1].frozen.data.fill_(-0.7)
    stack = ReplicaStack([make_replica(model) for model in models], SETTINGS, CPU, together)
    rows = 1.25 * stack.initial_parameters()
    features, outcome = stack.train.batch(torch.arange(6).expand(3, 6))
    noise = {name: values[stack.seed_index] for name, values in stack.noise(6, 5, "here").items()}
    for row, (model, part) in enumerate(zip(models, rows, strict=True)):
        own = copy.deepcopy(model)
        own.load_state_dict(stack.layout.weights(model, part))
        expected = own.training_draw(features[row], outcome[row], {"noise": noise["noise"][row]})
        for slices, stacked in stack.parts():
            if row in range(*slices.indices(3)):
                found = stacked.draw(
                    rows[slices],
                    features[slices],
                    outcome[slices],
                    {name: values[slices] for name, values in noise.items()},
                )
                place = row - (slices.start or 0)
                torch.testing.assert_close(found.decision_members[place], expected.decision_members)


# -- what may stand in one stack


def test_no_replica_of_another_kind(make_replica: MakeReplica) -> None:
    refuses(SettingError, "model", make_replica, nn.Linear(2, 2))
    refuses(SettingError, "model", replace, make_replica(), model="implicit")
    for weight in (-0.1, 1.1, float("nan"), float("inf")):
        refuses(SettingError, "^decision_weight", make_replica, weight=weight)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({}, {"hidden": 7}),
        ({}, {"dtype": torch.float64}),
        ({}, {"kind": "diffusion"}),
        ({"kind": "diffusion", "steps": 30}, {"kind": "diffusion", "steps": 40}),  # which are buffers
    ],
)
def test_other_architectures_are_refused(first: Any, other: Any, make_replica: MakeReplica) -> None:
    pair = [make_replica(**first), make_replica(**other, name="stranger")]
    refuses(ShapeError, "architecture; stranger", ReplicaStack, pair, SETTINGS, CPU)


def test_models_that_differ_in_no_tensor_are_not_taken_for_one(make_replica: MakeReplica) -> None:
    """Together they would all draw as the first of them does: they are refused, or draw as they should."""
    pair = [make_replica("diffusion", prediction=prediction) for prediction in ("v", "epsilon")]
    try:
        together = losses_and_gradients(pair, together=True)
    except ShapeError:
        return
    assert_rows_close(together[0][..., None], reference(pair)[0][..., None])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["network.layers.0.weight", "outcome_scaling.scale"])
def test_models_that_are_not_finite_are_refused(value: float, place: str, make_replica: MakeReplica) -> None:
    sick = make_replica(name="sick")
    sick.model.state_dict()[place].view(-1)[0] = value
    refuses(SettingError, "the weights of sick must be finite", ReplicaStack, [make_replica(), sick], SETTINGS, CPU)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_data_sets_of_other_shapes_are_refused(split: str, make_replica: MakeReplica, make_cases: Any) -> None:
    pair = [make_replica(), make_replica(**{split: make_cases(31, 9)})]
    refuses(ShapeError, "data sets .* one shape", ReplicaStack, pair, SETTINGS, CPU)


# -- costs


@every_cost
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_stacked_cost_is_each_of_its_costs(name: str, dtype: torch.dtype) -> None:
    costs = [COSTS[name](number) for number in (0.0, 1.0, 2.5)]
    assert len({cost_structure(cost) for cost in costs}) == 1
    stacked = stacked_cost(costs, CPU, dtype)
    assert type(stacked) is type(costs[0])
    generator = torch.Generator().manual_seed(0)
    members = 2 * torch.rand(3, 8, 6, 1, generator=generator, dtype=dtype)
    action, outcome = members[:, :, 0], members[:, :, 1]
    paid = stacked(action, outcome)
    assert paid.shape == (3, 8)
    assert paid.dtype == dtype
    for row, cost in enumerate(costs):
        torch.testing.assert_close(paid[row], cost(action[row], outcome[row]))
        if getattr(cost, "best_action", None) is not None and cost.best_action(members[row]) is not None:
            torch.testing.assert_close(stacked.best_action(members)[row], cost.best_action(members[row]))
        for bound in ("lower", "upper"):
            own, known = getattr(stacked, bound), getattr(cost, bound)
            assert (own[row].item() if isinstance(own, Tensor) else own) == pytest.approx(known)
    assert not torch.allclose(paid[0], costs[1](action[0], outcome[0])) or name == "function"


def test_a_program_may_have_a_number_for_each_outcome() -> None:
    prices = torch.tensor([1.0, 2.0, 3.0])
    stacked: Any = stacked_cost([ScheduleCost(prices, 1.0), ScheduleCost(5.0, 2.0)], CPU, torch.float64)
    assert stacked.short.tolist() == [[[1.0, 2.0, 3.0]], [[5.0, 5.0, 5.0]]]
    assert stacked.long.tolist() == [[[1.0]], [[2.0]]]
    refuses(SettingError, "underage", stacked_cost, [NewsvendorCost(prices, 1.0, 0.0, 9.0)] * 2, CPU, torch.float64)


OTHER_KINDS = {
    "class": (ShortfallCost(3.0), ProtectionCost(0.5, 0.5)),
    "hazard": (ProtectionCost(0.5, 0.5, "above"), ProtectionCost(0.5, 0.5, "below")),
    "exponent": (ProtectionCost(0.5, 0.5), ProtectionCost(0.5, 0.5, exposure_power=3.0)),
    "power curve": (WindDispatchCost(3.0), WindDispatchCost(3.0, PowerCurve(shear=0.0))),
    "function": (cost_function(squared, 0.0, 1.0), cost_function(squared_at_sites, 0.0, 1.0)),
}


@pytest.mark.parametrize("pair", OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_costs_of_other_kinds_are_refused(pair: tuple[Any, Any]) -> None:
    assert cost_structure(pair[0]) != cost_structure(pair[1])
    refuses(SettingError, "must be of one kind and differ in their parameters", stacked_cost, pair, CPU, torch.float32)


def test_a_cost_that_is_no_dataclass_stands_for_itself() -> None:
    class Plain:
        lower, upper = 0.0, 1.0

        def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
            return ((action - outcome) ** 2).squeeze(-1)

    cost = Plain()
    assert stacked_cost([cost, cost], CPU, torch.float32) is cost
    refuses(SettingError, "must be of one kind", stacked_cost, [cost, Plain()], CPU, torch.float32)


# -- noise and shuffles


def noise_of(stack: ReplicaStack, row: int, *moment: Any, **options: Any) -> dict[str, Tensor]:
    noise = stack.noise(9, 4, *moment, **options)
    return {name: values[stack.seed_index[row]] for name, values in noise.items()}


def same(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(values, second[name]) for name, values in first.items())


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
@pytest.mark.parametrize("validation", [False, True])
def test_noise_depends_on_seed_and_moment_alone(kind: str, validation: bool, make_replica: MakeReplica) -> None:
    alone = ReplicaStack([make_replica(kind, seed=4)], SETTINGS, CPU)
    others = [make_replica(kind, seed=seed, cost=ShortfallCost(9.0), weight=0.1) for seed in (7, 4, 0, 4)]
    company = ReplicaStack(others, SETTINGS, CPU, together=True)
    moment = ("training", 3, 2)
    before = torch.get_rng_state()
    expected = noise_of(alone, 0, *moment, validation=validation)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    for row in (1, 3):
        assert same(expected, noise_of(company, row, *moment, validation=validation))
    assert same(expected, noise_of(alone, 0, *moment, validation=validation)), "a second time"
    assert same(expected, noise_of(company.select([2, 3]), 1, *moment, validation=validation))
    for other in (("training", 3, 1), ("training", 2, 2), ("pretraining", 3, 2), ("training", 32, 2), ("training", 3)):
        found = noise_of(alone, 0, *other, validation=validation)
        assert not any(torch.equal(values, found[name]) for name, values in expected.items() if name != "time")
    for row in (0, 2):
        assert not same(expected, noise_of(company, row, *moment, validation=validation))


def test_validation_noise_is_the_models_own(make_replica: MakeReplica) -> None:
    stack = ReplicaStack([make_replica("diffusion")], SETTINGS, CPU)
    spread = noise_of(stack, 0, "validation", validation=True)["time"].sort().values
    torch.testing.assert_close(spread, (torch.arange(9) + 0.5) / 9)
    assert not torch.allclose(noise_of(stack, 0, "validation")["time"].sort().values, spread)


def test_shuffles_depend_on_seed_and_moment_alone(make_replica: MakeReplica) -> None:
    alone = ReplicaStack([make_replica(seed=4)], SETTINGS, CPU)
    company = ReplicaStack([make_replica(seed=seed) for seed in (7, 4, 0)], SETTINGS, CPU, together=True)
    (order,) = alone.shuffles("training", 3)
    assert torch.equal(order.sort().values, torch.arange(48))
    assert torch.equal(order, company.shuffles("training", 3)[company.seed_index[1]])
    assert torch.equal(order, alone.shuffles("training", 3)[0])
    others = [alone.shuffles("training", 4)[0], alone.shuffles("pretraining", 3)[0]]
    others += [company.shuffles("training", 3)[company.seed_index[row]] for row in (0, 2)]
    assert not any(torch.equal(order, other) for other in others)


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
def test_draws_do_not_depend_on_how_they_are_cut(
    kind: str, make_replica: MakeReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = ReplicaStack([make_replica(kind, seed=seed) for seed in (0, 1)], SETTINGS, CPU, together=True)
    rows = stack.initial_parameters()
    ((whole, _),) = stack.draws(rows, stack.train, 5, "validation")
    monkeypatch.setattr(replicas_module, "_MEMBERS_AT_ONCE", 5 * 7)
    parts = [draw for draw, _ in stack.draws(rows, stack.train, 5, "validation")]
    assert [part.score_members.shape[1] for part in parts] == [7, 7, 7, 7, 7, 7, 6]
    for name, expected in whole._asdict().items():
        torch.testing.assert_close(torch.cat([getattr(part, name) for part in parts], 1), expected)
    limited = [draw for draw, _ in stack.draws(rows, stack.train, 5, "validation", limit=10)]
    assert [part.score_members.shape[1] for part in limited] == [7, 3]


# -- together or in turns


def some_scales(count: int) -> Tensor:
    return 0.1 + torch.rand(count, 2, generator=torch.Generator().manual_seed(0))


def losses_and_gradients(
    replicas: Sequence[Replica], together: bool, steps: int = 2, settings: TrainingSettings = SETTINGS
) -> tuple[Tensor, Tensor]:
    """Losses (steps, R) and gradients (steps, R, P) of the first batches, as a step takes them."""
    stack = ReplicaStack(replicas, settings, CPU, together)
    rows = stack.initial_parameters()
    scales = some_scales(len(stack)).to(rows)
    order = stack.shuffles("training", 1)
    losses, gradients = [], []
    for step in range(steps):
        batch = order[:, step * stack.batch : (step + 1) * stack.batch][stack.seed_index]
        noise = stack.noise(stack.batch, settings.members, "training", 1, step)
        for part_rows, part in stack.parts():
            own = rows[part_rows].requires_grad_()
            some = {name: values[stack.seed_index[part_rows]] for name, values in noise.items()}
            draw = part.draw(own, *part.train.batch(batch[part_rows]), some)
            loss = part.objective(scales[part_rows])(draw).mean(-1).total
            gradients.append(torch.autograd.grad(loss.sum(), own)[0])
            losses.append(loss.detach())
    return torch.cat(losses).view(steps, -1), torch.cat(gradients).view(steps, len(stack), -1)


def reference(
    replicas: Sequence[Replica], steps: int = 2, settings: TrainingSettings = SETTINGS
) -> tuple[Tensor, Tensor]:
    """The same for each model by itself, without any stack: plain modules, plain costs, plain autograd."""
    scales = some_scales(len(replicas))
    stacks = [ReplicaStack([each], settings, CPU) for each in replicas]
    losses, gradients = [], []
    for step in range(steps):
        for row, (each, alone) in enumerate(zip(replicas, stacks, strict=True)):
            dtype = alone.layout.dtype
            objective = DecisionAwareObjective(
                plain_score(alone, each.cost),
                COMPANIONS[settings.companion](each.cost, settings),
                each.decision_weight,
                *scales[row].to(dtype).tolist(),
            )
            batch = alone.shuffles("training", 1)[0, step * 13 : (step + 1) * 13]
            noise = alone.noise(13, settings.members, "training", 1, step)
            noise = {name: values[0] for name, values in noise.items()}
            model: Any = copy.deepcopy(each.model)
            draw = model.training_draw(each.train.features[batch].to(dtype), each.train.outcome[batch].to(dtype), noise)
            loss = objective(draw).mean().total
            loss.backward()
            row_of_gradients = [model.get_parameter(name).grad.flatten() for name in alone.layout.shapes]
            gradients.append(torch.nn.functional.pad(torch.cat(row_of_gradients), (0, alone.layout.padding)))
            losses.append(loss.detach())
    return torch.stack(losses).view(steps, -1), torch.stack(gradients).view(steps, len(replicas), -1)


def plain_score(alone: ReplicaStack, cost: Any) -> ScoringRule:
    """The score of a replica with numbers for tensors."""
    score = named_score(score_weights(alone.settings.score), cost, alone.settings.score_estimator)
    if isinstance(score, ScoreMixture):
        assert alone.score_scales is not None
        return replace(score, scales=tuple(alone.score_scales[0].tolist()))
    return score


def assert_rows_close(found: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[expected.dtype]
    error = (found - expected).abs().amax(-1)
    size = expected.abs().amax(-1)
    assert (size > 0).all()
    assert (error <= tolerance * size).all(), (error / size).max().item()


def assert_all_alike(replicas: Sequence[Replica], settings: TrainingSettings = SETTINGS) -> None:
    turns, together = (losses_and_gradients(replicas, way, settings=settings) for way in (False, True))
    expected = reference(replicas, settings=settings)
    for found in (turns, together):
        assert_rows_close(found[0][..., None], expected[0][..., None])
        assert_rows_close(found[1], expected[1])
    assert not torch.allclose(turns[1][0], turns[1][1], rtol=1e-2), "every step has its own batch"


@pytest.mark.parametrize("kind", ["implicit", "linear start", "diffusion", "own"])
@pytest.mark.parametrize(("outcomes", "dtype"), [(1, torch.float64), (3, torch.float64), (3, torch.float32)])
def test_together_equals_in_turns_equals_plain_autograd(
    kind: str, outcomes: int, dtype: torch.dtype, make_replica: MakeReplica, make_cases: Any
) -> None:
    """Replicas that differ in all that they may differ in."""
    assert_all_alike(
        [
            make_replica(
                kind,
                cost=ImbalanceCost(1.0 + row, 2.0, -1.0 - row, 5.0 + row),
                weight=weight,
                seed=seed,
                initial=row,
                dtype=dtype,
                train=make_cases(seed=data, outcomes=outcomes),
                validation=make_cases(24, data, outcomes),
            )
            for row, (weight, seed, data) in enumerate([(0.4, 0, 0), (0.9, 0, 0), (0.0, 1, 0), (0.4, 2, 5)])
        ]
    )


@every_cost
def test_every_cost_together(name: str, make_replica: MakeReplica) -> None:
    assert_all_alike(
        [
            make_replica(cost=COSTS[name](number), weight=weight, seed=seed, initial=3, dtype=torch.float64)
            for number, weight, seed in [(0.0, 0.5, 0), (1.0, 0.5, 0), (2.0, 0.8, 1)]
        ]
    )


LOSSES: list[tuple[dict[str, Any], str]] = [
    *(({"companion": each}, name) for each in ("decision", "crps_of_total") for name in COSTS if name in OF_SITES),
    ({"companion": "variogram"}, "wind"),  # which does not look at the cost
    *(({"score": score}, "wind") for score in ("pointwise", "total=2,pointwise=1")),
    *(({estimator: kind, "members": 6}, "shortfall") for estimator, kind in ESTIMATORS.items()),
]


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
@pytest.mark.parametrize(("changed", "name"), LOSSES)
def test_every_loss_together(changed: dict[str, Any], kind: str, name: str, make_replica: MakeReplica) -> None:
    replicas = [
        make_replica(kind, cost=COSTS[name](number), seed=seed, outcomes=3, dtype=torch.float64)
        for number, seed in [(0.0, 0), (1.0, 0), (2.0, 1)]
    ]
    assert_all_alike(replicas, replace(SETTINGS, **{"validation_members": 6} | changed))


class Regularised(nn.Module):
    """A network with what a step must not do, dropout and running statistics, between its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs.flatten(0, -2)).unflatten(0, inputs.shape[:-1])


@both_ways
def test_dropout_and_running_statistics_rest_in_evaluation_mode(together: bool, make_replica: MakeReplica) -> None:
    """The one mode in which a draw is a pure function: nothing random beside the noise, nothing changed in place."""
    models = []
    for seed in (0, 1):
        each = make_replica(seed=seed, noise=3).model
        each.network = Regularised().eval()
        each.network.layers[1].running_mean += seed
        models.append(each.eval())
    stack = ReplicaStack([make_replica(model) for model in models], SETTINGS, CPU, together)
    before = {name: values.clone() for name, values in stack.fixed.items()}
    expected = reference(stack.replicas)
    for _ in range(2):
        losses, gradients = losses_and_gradients(stack.replicas, together)
        assert_rows_close(gradients, expected[1])
        assert_rows_close(losses[..., None], expected[0][..., None])
    assert same(before, stack.fixed)
