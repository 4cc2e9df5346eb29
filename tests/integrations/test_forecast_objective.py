"""The objective of forecasts of hours and series: the same numbers as stakes' own parts."""

import math

import pytest
import torch
from refusals import refuses
from torch import Tensor

import stakes
from stakes.errors import CheckpointError, CostError, NonFiniteError, SettingError, ShapeError, StakesWarning
from stakes.integrations.forecast_objective import (
    Across,
    FactorForecast,
    FactorHead,
    ForecastObjective,
    SecondTerm,
    refuse_unknown,
)

COST = "shortfall:penalty=20"
FORECASTS, HOURS, SERIES, FACTORS = 16, 3, 4, 2


def objective(
    across: Across = "series",
    score: str = "energy",
    second_term: SecondTerm = "decision",
    weight: float = 0.3,
    cost: str | stakes.Cost = COST,
    pretraining_steps: int = 0,
) -> ForecastObjective:
    return ForecastObjective(cost, across, score, second_term, weight, members=8, pretraining_steps=pretraining_steps)


def raw() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(FORECASTS, HOURS, SERIES, 2 + FACTORS, generator=generator).requires_grad_()


def forecast(output: Tensor) -> FactorForecast:
    return FactorHead(FACTORS).forecast(output).in_units(0.5, 0.1)


def outcomes() -> Tensor:
    return torch.rand(FORECASTS, HOURS, SERIES, generator=torch.Generator().manual_seed(1))


def as_cases(members: Tensor, across: Across) -> Tensor:
    """Members (B, M, H, N) as (cases, M, D), one by one."""
    hours, series = range(members.shape[2]), range(members.shape[3])
    groups = {
        "hours": [[(hour, one) for hour in hours] for one in series],
        "series": [[(hour, one) for one in series] for hour in hours],
        "both": [[(hour, one) for hour in hours for one in series]],
        "none": [[(hour, one)] for hour in hours for one in series],
    }[across]
    return torch.cat([torch.stack([members[:, :, hour, one] for hour, one in group], -1) for group in groups])


@pytest.mark.parametrize("across", ["hours", "series", "both", "none"])
@pytest.mark.parametrize("score", ["energy", "pointwise"])
@pytest.mark.parametrize("second_term", ["decision", "total"])
def test_it_is_the_objective_of_the_library(across: Across, score: str, second_term: SecondTerm) -> None:
    loss, made = objective(across, score, second_term), forecast(raw())
    torch.manual_seed(3)
    value = loss(made, outcomes(), unit=0.1)
    torch.manual_seed(3)
    members, outcome = as_cases(made.draw(8), across), as_cases(outcomes()[:, None], across).squeeze(1)
    rule = {"energy": stakes.EnergyScore(), "pointwise": stakes.PointwiseCRPS()}[score]
    cost = stakes.ShortfallCost(20.0)
    second = stakes.DecisionScore(cost) if second_term == "decision" else stakes.TotalCRPS(cost)
    plain = stakes.DecisionAwareObjective(rule, second, decision_weight=0.3)
    draw = stakes.TrainingDraw(members / 0.1, outcome / 0.1, members, outcome)
    expected = plain.estimate_scales(draw)(draw).mean().total
    torch.testing.assert_close(value, expected)


def test_both_scores_weigh_as_they_are_told() -> None:
    """Each is divided by its own mean of the first batch, so that a mixture is 1 there, whatever the weights."""
    for words in ("energy=1,pointwise=1", "energy=1,pointwise=9"):
        assert objective(score=words, weight=0.0)(forecast(raw()), outcomes()).item() == pytest.approx(1, abs=1e-5)


def test_the_first_training_step_sets_the_scales_and_they_stay() -> None:
    loss, made = objective(), forecast(raw())
    with torch.no_grad():
        loss(FactorForecast(*(part.detach() for part in made)), outcomes())  # a validation
    assert loss.scales.isnan().all()
    loss(made, outcomes())
    first = loss.scales.clone()
    assert (first > 0).all()
    loss(made.in_units(0.0, 3.0), outcomes())
    assert torch.equal(loss.scales, first)
    again = objective()
    again.load_state_dict(loss.state_dict())
    assert torch.equal(again.scales, first)
    assert again.steps == 2


def test_scales_are_those_of_outcomes_that_are_known() -> None:
    known = torch.ones(FORECASTS, HOURS, SERIES)
    known[FORECASTS // 2 :] = 0
    losses = [objective(), objective(), objective()]
    losses[0](forecast(raw()), outcomes(), weight=torch.zeros_like(known)).backward()
    assert losses[0].scales.isnan().all()  # nothing is known yet
    for loss, weight in zip(losses, (known, known, None), strict=True):
        torch.manual_seed(0)
        loss(forecast(raw()), outcomes(), weight=weight)
    assert torch.equal(losses[0].scales, losses[1].scales)
    assert not torch.equal(losses[0].scales, losses[2].scales)
    torch.manual_seed(0)
    half = forecast(raw())
    members = half.draw(8)[: FORECASTS // 2]
    cases = as_cases(members, "series"), as_cases(outcomes()[: FORECASTS // 2, None], "series").squeeze(1)
    expected = stakes.DecisionScore(stakes.ShortfallCost(20.0))(*cases).abs().mean()
    torch.testing.assert_close(losses[1].scales[0], expected)


def test_pretraining_is_on_the_score_alone() -> None:
    tensors = [raw() for _ in range(3)]
    losses = [objective(weight=0.0), objective(weight=0.5, pretraining_steps=1), objective(weight=0.5)]
    gradients = []
    for step in range(2):
        for place, (tensor, loss) in enumerate(zip(tensors, losses, strict=True)):
            torch.manual_seed(step)
            gradient = torch.autograd.grad(loss(forecast(tensor), outcomes()), tensor)[0]
            gradients.append((step, place, gradient))
    by_place = {(step, place): gradient for step, place, gradient in gradients}
    assert torch.equal(by_place[0, 1], by_place[0, 0])
    assert not torch.equal(by_place[0, 2], by_place[0, 0])
    torch.testing.assert_close(by_place[1, 1], by_place[1, 2])


def test_what_is_not_known_leaves_its_decision_out() -> None:
    known = torch.ones(FORECASTS, HOURS, SERIES)
    known[0, 1, 2] = 0
    outcome = outcomes()
    outcome[0, 1, 2] = math.nan
    tensor = raw()
    objective()(forecast(tensor), outcome, weight=known).backward()
    assert tensor.grad is not None
    reached = (tensor.grad.abs() > 0).any(-1)
    assert not reached[0, 1].any()  # all series of that hour
    assert reached[0, 0].all()
    assert reached[1:].all()


def test_a_model_that_emits_no_numbers_is_told() -> None:
    output = raw().detach()
    output[0, 0, 0] = math.nan
    refuses(NonFiniteError, "", objective(), forecast(output), outcomes())


def test_weights_count() -> None:
    """Halves of a batch that weigh 2 and 1 are two thirds of the one alone and one third of the other."""
    values = []
    for weights in ((1.0, 0.0), (0.0, 1.0), (2.0, 1.0)):
        loss = objective()
        loss.scales.fill_(1.0)
        torch.manual_seed(0)
        weight = torch.tensor(weights).repeat_interleave(FORECASTS // 2)[:, None, None]
        values.append(loss(forecast(raw()), outcomes(), weight=weight.expand(FORECASTS, HOURS, SERIES)))
    first, second, mixed = values
    torch.testing.assert_close(mixed, (2 * first + second) / 3)


def test_normalised_values_are_doubted() -> None:
    standardised = (outcomes() - 0.5) / 0.3
    with pytest.warns(StakesWarning, match="does not look like a fraction of capacity"):
        objective()(FactorHead(FACTORS).forecast(raw()), standardised)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"across": "sites"}, "across"),
        ({"second_term": "cost"}, "second_term"),
        ({"score": "crps"}, "score"),
        ({"weight": 1.5}, "decision_weight"),
        ({"pretraining_steps": -1}, "pretraining_steps"),
        ({"cost": "shortfal:penalty=5"}, "'shortfal'"),
        ({"cost": "schedule:short=5,long=1", "second_term": "total"}, "cost"),
    ],
)
def test_bad_settings(arguments: dict[str, object], message: str) -> None:
    with pytest.raises((SettingError, CostError), match=message):
        objective(**arguments)  # type: ignore[arg-type]


def test_bad_use() -> None:
    made = forecast(raw())
    refuses(ShapeError, "outcome", objective(), made, outcomes().mT)
    refuses(ShapeError, "short", objective("hours", cost="schedule:short=5/6/7/8,long=1"), made, outcomes())
    refuses(SettingError, 'across="series"', objective(), forecast(raw()[:, :, :1]), outcomes()[..., :1])


def test_what_another_version_saved() -> None:
    refuse_unknown("Loss", layout=1, known=1, others={})
    refuses(CheckpointError, "Loss", refuse_unknown, "Loss", layout=2, known=1, others={})
    refuses(SettingError, "Loss", refuse_unknown, "Loss", layout=1, known=1, others={"depth": 3})
