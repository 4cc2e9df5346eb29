"""Training for a range of decision makers: draws, what is charged, what the model sees, and going on after a stop."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from refusals import refuses

from stakes import CVaRCost, DecisionScore, ImbalanceCost, ParameterRange, ShortfallCost, optimal_action
from stakes.costs.cost import Cost, ParameterColumn, ranged_parameter, with_parameter
from stakes.data.case_table import CaseTable
from stakes.errors import SettingError
from stakes.training.replicas import ParameterScales, Replica, ReplicaStack, StackedCases, cost_structure, stacked_cost
from stakes.training.settings import TrainingSettings
from stakes.training.steps import Stepper

CPU = torch.device("cpu")
RANGE = ParameterRange(1, 50)
COST = ShortfallCost(RANGE)
SETTINGS = TrainingSettings(epochs=4, pretraining_epochs=2, batch=16, members=6, validate_every=1, validation_members=6)


def test_draws_are_a_pure_function_of_seed_and_moment(make_ranged: Callable[..., Replica]) -> None:
    stack = ReplicaStack([make_ranged(seed=3), make_ranged(seed=5)], SETTINGS, CPU)
    drawn = stack.cost_parameters(4000, "training", 2, 1)
    assert drawn.shape == (2, 4000, 1)
    again = ReplicaStack([make_ranged(seed=5)], SETTINGS, CPU).cost_parameters(4000, "training", 2, 1)
    assert torch.equal(drawn[1], again[0])
    for other in (("training", 2, 2), ("training", 1, 1), ("pretraining", 2, 1)):
        assert not torch.equal(drawn, stack.cost_parameters(4000, *other))
    shares = np.sort((drawn[0, :, 0].double().log() / np.log(50)).numpy())
    assert np.abs(shares - (np.arange(4000) + 0.5) / 4000).max() < 1.63 / np.sqrt(4000)  # Kolmogorov, one in a hundred


@pytest.mark.parametrize("together", [True, False])
def test_each_case_is_charged_its_own_parameter(make_ranged: Callable[..., Replica], together: bool) -> None:
    stack = ReplicaStack([make_ranged(seed=seed) for seed in (0, 1)], SETTINGS, CPU, together)
    (_, part), *_ = stack.parts()
    scales = torch.ones(len(part), 2)
    objective, rows = part.objective(scales), part.initial_parameters()
    ((draw, features),) = part.draws(rows, part.validation, 6, "validation", deciding=True)
    charged = part.charged(objective, features)(draw).decision
    assert charged is not None
    assert part.parameter_scales is not None
    charged = charged / part.parameter_scales(features)
    for case, value in enumerate(features[0, :, -1].tolist()):
        alone = DecisionScore(ShortfallCost(value))
        expected = alone(draw.decision_members[:, case], draw.decision_outcome[:, case])
        torch.testing.assert_close(charged[:, case], expected, rtol=1e-5, atol=1e-6)


def test_a_step_takes_the_parameters_that_were_drawn(make_ranged: Callable[..., Replica]) -> None:
    stack = ReplicaStack([make_ranged()], SETTINGS, CPU)
    rows, scales = stack.initial_parameters(), torch.ones(1, 2)
    stepper = Stepper(stack, rows, scales)
    order = stack.shuffles("training", 1)
    stepper._take_batch(order, "training", 1, 0)
    terms = stepper._terms(slice(None), stack, stack.objective(scales), rows)
    features, outcome = stack.train.batch(order[:, :16])
    drawn = stack.cost_parameters(16, "training", 1, 0)
    features = torch.cat([features[..., :-1], drawn], -1)
    noise = stack.noise(16, 6, "training", 1, 0)
    draw = stack.draw(rows, features, outcome, noise, 6)
    losses = [
        DecisionScore(ShortfallCost(value))(draw.decision_members[:, case], draw.decision_outcome[:, case])
        for case, value in enumerate(drawn[0, :, 0].tolist())
    ]
    assert terms.decision is not None
    assert stack.parameter_scales is not None
    expected = (torch.stack(losses, 1) * stack.parameter_scales(features)).mean(1)
    torch.testing.assert_close(terms.decision, expected, rtol=1e-5, atol=1e-6)


def test_only_a_conditioned_model_sees_the_parameter(make_ranged: Callable[..., Replica]) -> None:
    for conditioned in (True, False):
        stack = ReplicaStack([make_ranged(conditioned)], SETTINGS, CPU)
        features, outcome = stack.train.features, stack.train.outcome
        noise = stack.noise(len(features[0]), 6, "training", 1, 0)
        first, other = (
            stack.draw(
                stack.initial_parameters(),
                stack.column.replaced(features, torch.full_like(features[..., :1], p)),
                outcome,
                noise,
                6,
            ).decision_members
            for p in (2.0, 40.0)
        )
        assert torch.equal(first, other) is not conditioned


def test_one_range_a_stack(make_ranged: Callable[..., Replica]) -> None:
    other = make_ranged(cost=ShortfallCost(ParameterRange(1, 40)))
    refuses(SettingError, "one range", ReplicaStack, [make_ranged(), other], SETTINGS, CPU)
    assert cost_structure(COST) != cost_structure(ShortfallCost(5.0))
    assert stacked_cost([COST, COST], CPU, torch.float32) == COST
    refuses(SettingError, "differ in their parameters", stacked_cost, [COST, ShortfallCost(5.0)], CPU, torch.float32)


def scales(cost: Cost, *cases: CaseTable) -> ParameterScales:
    stacked = StackedCases(cases, torch.float32, CPU)
    return ParameterScales.of(ParameterColumn.of(cost), [cost] * len(cases), stacked)


@pytest.mark.parametrize(
    "cost",
    [ShortfallCost(RANGE), ImbalanceCost(RANGE, 1.0, 0.0, 3.0), CVaRCost(ShortfallCost(RANGE), level=0.5)],
    ids=lambda cost: type(cost).__name__,
)
def test_what_climatology_pays_counts_as_much_at_every_value(cost: Cost, make_cases: Callable[..., CaseTable]) -> None:
    cases = make_cases(200)
    weigh = scales(cost, cases)
    ranged = ranged_parameter(cost)
    assert ranged is not None
    values = torch.tensor(ranged.range.points(17)).float()
    paid = []
    for value in values.tolist():
        own = with_parameter(cost, ranged.name, value)
        action = optimal_action(own, cases.outcome)
        paid.append(own(action.expand(len(cases), -1), cases.outcome).abs().mean())
    weighed = torch.stack(paid) * weigh(torch.stack([torch.zeros(17), values], 1)[None])[0]
    torch.testing.assert_close(weighed, weighed[8].expand(17), rtol=1e-4, atol=0)
    assert weigh(torch.tensor([[[0.0, ranged.range.middle]]])).item() == pytest.approx(1, rel=1e-4)


def test_between_and_at_the_ends_weights_go_on_smoothly(make_cases: Callable[..., CaseTable]) -> None:
    weigh = scales(ImbalanceCost(RANGE, 1.0, 0.0, 3.0), make_cases(200))
    values = RANGE.at(torch.linspace(0, 1, 500))
    weights = weigh(values[None, :, None])[0]
    assert (weights.diff() < 0).all()  # the dearer, the less
    assert weights.diff().abs().max() < 0.02 * weights.max()
    beyond = weigh(torch.tensor([[[1.0], [1 - 1e-6], [50.0], [50 + 1e-4]]]))[0]
    assert beyond[1] == beyond[0]
    assert beyond[3] == beyond[2]
