"""The terms of decisions that a validation needs are those of the whole evaluation."""

import pytest
import torch
from refusals import refuses
from torch import Tensor

import stakes
from stakes.errors import NonFiniteError, ShapeError
from stakes.evaluation.metrics import Assessor, decision_terms

COSTS = {
    "closed form": (stakes.ShortfallCost(5.0), 1),
    "total of three sites": (stakes.ImbalanceCost(short=4.0, long=1.0, lower=0.0, upper=3.0), 3),
    "threshold": (stakes.ProtectionCost(0.5, 0.4), 1),
    "not convex": (stakes.cost_function(lambda a, y: torch.sin(9 * (a - y)) + (a - y) ** 2, lower=0.0, upper=1.0), 1),
    "many parts": (stakes.ScheduleCost(short=5.0, long=1.0, ramp=0.2), 4),
    "averse to risk": (stakes.CVaRCost(stakes.NewsvendorCost(4.0, 1.0, 0.0, 2.0), level=0.5), 1),
}


def forecasts(sites: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(sites)
    return (torch.rand(shape, generator=generator, dtype=dtype) for shape in ((30, 12, sites), (30, sites)))


@pytest.mark.parametrize("name", COSTS)
def test_terms_are_those_of_the_assessor(name: str) -> None:
    cost, sites = COSTS[name]
    members, outcome = forecasts(sites)
    terms, assessed = decision_terms(cost, members, outcome), Assessor(cost)(members, outcome)
    torch.testing.assert_close(terms.cost, assessed["cost"])
    torch.testing.assert_close(terms.expected_cost, assessed["expected_cost"])
    torch.testing.assert_close(terms.squared_error, assessed["error"] ** 2)
    torch.testing.assert_close(terms.variance, assessed["spread"] ** 2)


def test_cases_may_have_several_axes_and_are_in_single_precision_at_least() -> None:
    cost, sites = COSTS["total of three sites"]
    members, outcome = forecasts(sites)
    flat = decision_terms(cost, members, outcome)
    folded = decision_terms(cost, members.reshape(5, 6, 12, sites), outcome.reshape(5, 6, sites))
    for each, same in zip(flat, folded, strict=True):
        torch.testing.assert_close(same.reshape(-1), each)
    half = decision_terms(cost, members.bfloat16(), outcome.bfloat16())
    assert {values.dtype for values in half} == {torch.float32}


def test_no_gradient_and_what_makes_no_terms() -> None:
    cost, sites = COSTS["not convex"]
    members, outcome = forecasts(sites)
    terms = decision_terms(cost, members.clone().requires_grad_(), outcome)
    assert not any(values.requires_grad for values in terms)
    with torch.inference_mode():
        torch.testing.assert_close(decision_terms(cost, members, outcome), terms)
    refuses(ShapeError, "members", decision_terms, cost, members[:, :1], outcome)
    refuses(ShapeError, "outcome", decision_terms, cost, members.movedim(0, 1), outcome)
    refuses(NonFiniteError, "outcome", decision_terms, cost, members, outcome * torch.nan)
