"""Weighted members, and sorted ones: as if each were there as often as it weighs, in every cost, solver and score."""

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from example_counts import examples
from hypothesis import given, strategies
from hypothesis import strategies as st
from refusals import refuses
from torch import Tensor

import stakes
from stakes import ShortfallCost, energy_score, optimal_action
from stakes.costs.cost import Cost
from stakes.costs.member_weights import (
    rank_balance,
    sort_members,
)
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.scores.scoring_rules import ThresholdWeightedCRPS, VariogramScore

DOUBLE = torch.float64
COSTS: dict[str, Cost] = {
    "shortfall": stakes.ShortfallCost(4.0),
    "wind": stakes.WindDispatchCost(6.0),
    "protection": stakes.ProtectionCost(0.5, 0.4, sharpness=3.0),
    "protection_powers": stakes.ProtectionCost(0.5, 0.4, sharpness=3.0, exposure_power=2.0, protection_power=2.0),
    "newsvendor": stakes.NewsvendorCost(7.0, 2.0, 0.0, 40.0),
    "imbalance": stakes.ImbalanceCost(5.0, 1.0, 0.0, 40.0),
    "long_imbalance": stakes.ImbalanceCost(1.0, 5.0, 0.0, 40.0),
    "own": stakes.cost_function(lambda a, y: (a - y) ** 2 + 0.1 * (a - y) ** 4, 0.0, 20.0, convex=True),
    "own_not_convex": stakes.cost_function(lambda a, y: torch.tanh((a - y) ** 2), 0.0, 20.0),
}
SCORES: dict[str, Callable[..., Tensor]] = {
    "energy": stakes.EnergyScore("biased"),
    "pointwise": stakes.PointwiseCRPS("biased"),
    "total": stakes.TotalCRPS(stakes.NewsvendorCost(7.0, 2.0, 0.0, 40.0), "biased"),
    "threshold": ThresholdWeightedCRPS(2.0, estimator="biased"),
    "variogram": VariogramScore(),
    "mixture": stakes.ScoreMixture((stakes.EnergyScore("biased"), stakes.PointwiseCRPS("biased")), (1.0, 0.5)),
    "decision": stakes.DecisionScore(stakes.ImbalanceCost(5.0, 1.0, 0.0, 40.0)),
}


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return 3 * torch.rand(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


def sites(name: str) -> int:
    return 1 if name.startswith("own") else 2


def whole(cases: int, members: int, seed: int = 0) -> Tensor:
    """Whole numbers from 0 to 4 as weights, none of the cases without any."""
    numbers = torch.randint(0, 5, (cases, members), generator=torch.Generator().manual_seed(seed))
    numbers[:, 0] += 1
    return numbers.to(DOUBLE)


def repeated(samples: Tensor, weights: Tensor) -> Tensor:
    """The members of one case, each as often as it weighs."""
    return samples.repeat_interleave(weights.long(), -2)


@pytest.mark.parametrize("name", COSTS)
def test_a_weighted_member_is_one_that_comes_several_times(name: str) -> None:
    cost, samples, weights = COSTS[name], drawn(8, 7, sites(name)), whole(8, 7)
    found = stakes.solve_action(cost, samples, weights=weights)
    for row in range(8):
        expected = stakes.solve_action(cost, repeated(samples[row], weights[row]))
        for field in ("action", "expected_cost", "curvature"):
            torch.testing.assert_close(getattr(found, field)[row], getattr(expected, field), rtol=1e-6, atol=1e-9)
        for field in ("interior", "certified", "converged"):
            assert getattr(found, field)[row] == getattr(expected, field)


@pytest.mark.parametrize("name", COSTS)
def test_equal_weights_are_none(name: str) -> None:
    cost = COSTS[name]
    for dtype in (torch.float32, DOUBLE):
        samples = drawn(15, 9, sites(name)).to(dtype)
        for weights in (torch.full((9,), 1 / 9, dtype=dtype), torch.ones(15, 9), torch.full((15, 9), 5)):
            plain, weighted = (stakes.solve_action(cost, samples, weights=each) for each in (None, weights))
            torch.testing.assert_close(weighted.action, plain.action)
            torch.testing.assert_close(weighted.expected_cost, plain.expected_cost)
            assert torch.equal(weighted.certified, plain.certified)


@pytest.mark.parametrize("name", [name for name in COSTS if name != "own_not_convex"])
@pytest.mark.parametrize("members", [3, 300])
def test_certificates_hold_and_are_given_in_single_precision(name: str, members: int) -> None:
    cost = COSTS[name]
    samples, weights = drawn(50, members, sites(name), seed=3), whole(50, members, seed=4)
    solution = stakes.solve_action(cost, samples.float(), weights=weights)
    assert solution.certified.all()
    exact = stakes.solve_action(cost, samples, weights=weights)
    assert exact.certified.all()
    scale = exact.expected_cost.abs().amax()
    shares = (weights / weights.sum(-1, keepdim=True)).T
    paid = (shares * cost(solution.action.double(), samples.movedim(-2, 0))).sum(0)
    assert (paid - exact.expected_cost <= 1e-5 * scale).all()


def test_formulas_that_know_no_weights() -> None:
    """One without the argument is passed over; one that takes and forgets it gets no certificate."""

    class Plain(stakes.ImbalanceCost):
        def best_action(self, samples: Tensor) -> Tensor:  # type: ignore[override]
            return super().best_action(samples)

    class Forgetful(stakes.ImbalanceCost):
        def best_action(self, samples: Tensor, weights: Tensor | None = None) -> Tensor:
            return super().best_action(samples)

    samples, weights = drawn(5, 4, 1), whole(5, 4)
    plain, ours = (
        stakes.solve_action(kind(5.0, 1.0, 0.0, 40.0), samples, weights=weights)
        for kind in (Plain, stakes.ImbalanceCost)
    )
    torch.testing.assert_close(plain.action, ours.action, rtol=1e-5, atol=1e-5)
    cost, samples = Forgetful(1.0, 1.0, 0.0, 10.0), torch.tensor([[1.0], [2.0], [9.0]])
    assert stakes.solve_action(cost, samples).certified
    assert not stakes.solve_action(cost, samples, weights=torch.tensor([0.1, 0.1, 0.8])).certified


@pytest.mark.parametrize("name", [name for name in COSTS if name != "newsvendor"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    cost, samples, weights = COSTS[name], drawn(4, 5, sites(name), seed=5).requires_grad_(), whole(4, 5, seed=6)
    if name == "own_not_convex":
        samples = (samples.detach() * 0.1 + 2).requires_grad_()
    assert stakes.solve_action(cost, samples.detach(), weights=weights).interior.any()
    act = lambda each: stakes.optimal_action(cost, each, weights=weights)
    assert torch.autograd.gradcheck(act, samples, eps=1e-5, atol=1e-5)


def test_the_gradient_of_a_newsvendor_goes_to_a_member_that_counts() -> None:
    samples = torch.tensor([[5.0], [2.0], [2.0], [1.0]], requires_grad=True)
    weights = torch.tensor([0.4, 0.0, 0.2, 0.4])
    action = stakes.optimal_action(stakes.NewsvendorCost(1.0, 1.0, 0.0, 10.0), samples, weights=weights)
    assert action.item() == 2.0
    (gradient,) = torch.autograd.grad(action.sum(), samples)
    assert gradient.flatten().tolist() == [0, 0, 1, 0]


@examples(100)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=12).filter(any), st.integers(1, 99), st.booleans())
def test_a_newsvendor_takes_the_smallest_member_up_to_which_enough_weighs(
    counts: list[int], percent: int, double: bool
) -> None:
    dtype = DOUBLE if double else torch.float32
    samples = torch.arange(len(counts), dtype=dtype)[:, None]
    cost = stakes.NewsvendorCost(percent / 100, 1 - percent / 100, -1.0, 100.0)
    total, up_to, expected = sum(counts), 0, -1
    while 100 * up_to < percent * total:  # in whole numbers, without rounding
        expected += 1
        up_to += counts[expected]
    action = stakes.optimal_action(cost, samples, weights=torch.tensor(counts, dtype=dtype) / total)
    assert action.item() == expected


@pytest.mark.parametrize("name", SCORES)
def test_scores_count_a_weighted_member_several_times(name: str) -> None:
    score, samples, outcome, weights = SCORES[name], drawn(12, 6, 3), drawn(12, 3, seed=1), whole(12, 6)
    samples[:, 2] = samples[:, 3]  # tied
    found = score(samples, outcome, weights=weights)
    expected = torch.stack([score(repeated(samples[row], weights[row]), outcome[row]) for row in range(12)])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(score(samples, outcome, weights=torch.full((6,), 1 / 6)), score(samples, outcome))
    with torch.no_grad():
        single = score(samples.float(), outcome.float(), weights=weights.float())
    torch.testing.assert_close(single.double(), found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("dimensions", [1, 3])
def test_gradients_of_scores(name: str, dimensions: int) -> None:
    if (name, dimensions) == ("variogram", 1):
        return
    samples, outcome, weights = drawn(3, 5, dimensions, seed=7).requires_grad_(), drawn(3, dimensions), whole(3, 5)
    weighted = lambda each: SCORES[name](each, outcome, weights=weights)
    assert torch.autograd.gradcheck(weighted, samples, eps=1e-6, atol=1e-5)


@pytest.mark.parametrize("dimensions", [1, 3])
def test_weights_under_vmap(dimensions: int) -> None:
    cost = stakes.NewsvendorCost(7.0, 2.0, 0.0, 40.0)
    samples, outcome, weights = drawn(4, 3, 6, dimensions), drawn(4, 3, dimensions), whole(12, 6).reshape(4, 3, 6)
    for rule in (stakes.EnergyScore("biased"), stakes.DecisionScore(cost)):
        together = torch.func.vmap(lambda s, y, w, rule=rule: rule(s, y, weights=w))(samples, outcome, weights)
        torch.testing.assert_close(together, rule(samples, outcome, weights=weights))


def test_weights_in_inference_mode() -> None:
    samples, weights = drawn(3, 5, 1), whole(3, 5)
    expected = stakes.optimal_action(COSTS["own"], samples, weights=weights)
    with torch.inference_mode():
        shared = whole(3, 5)
        assert torch.equal(stakes.optimal_action(COSTS["own"], samples, weights=shared), expected)
        assert stakes.solve_action(COSTS["own"], samples, weights=shared).certified.all()


REFUSED: list[tuple[Any, type[Exception]]] = [
    ([1.0, 2.0, 3.0], ShapeError),
    (torch.ones(2), ShapeError),
    (torch.ones(4, 1), ShapeError),
    (torch.tensor(1.0), ShapeError),
    (torch.ones(1, 4, 3), ShapeError),
    (torch.ones(5, 3), ShapeError),
    (torch.tensor([1.0, -0.1, 1.0]), SettingError),
    (torch.zeros(3), SettingError),
    (torch.tensor([1.0, torch.nan, 1.0]), NonFiniteError),
]


@pytest.mark.parametrize(("weights", "error"), REFUSED)
def test_weights_that_are_none_are_refused(weights: Any, error: type[Exception]) -> None:
    samples, outcome = drawn(4, 3, 1), drawn(4, 1)
    refuses(error, "^weights ", stakes.solve_action, COSTS["newsvendor"], samples, weights=weights)
    refuses(error, "^weights ", stakes.optimal_action, COSTS["own"], samples, weights=weights)
    refuses(error, "^weights ", stakes.energy_score, samples, outcome, "biased", weights=weights)
    refuses(error, "^weights ", stakes.ShortfallCost(1.0).best_action, samples, weights)


@pytest.mark.parametrize(
    "score",
    [
        *(rule(name) for rule in (stakes.EnergyScore, stakes.PointwiseCRPS) for name in ("fair", "almost_fair")),
        stakes.TotalCRPS(stakes.ShortfallCost(5.0)),
        stakes.DecisionScore(stakes.ShortfallCost(5.0), "debiased"),
    ],
)
def test_estimators_that_count_members_refuse_weights(score: Any) -> None:
    refuses(SettingError, "^estimator ", score, drawn(4, 4, 1), drawn(4, 1), weights=torch.ones(4))


LAYOUTS = {"cases first": torch.rand(400, 50), "members first": torch.rand(50, 400).T}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["sort_members", "rank_balance"])
def test_operators_keep_their_contracts(name: str, layout: str) -> None:
    operator = getattr(torch.ops.stakes, name).default
    torch.library.opcheck(operator, (LAYOUTS[layout],), test_utils=("test_schema", "test_faketensor"))


def test_compiled_actions_and_scores_do_not_depend_on_the_layout() -> None:
    members = LAYOUTS["members first"][..., None]
    outcome = torch.zeros(len(members), 1)

    def both(samples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return optimal_action(ShortfallCost(5.0), samples), energy_score(samples, outcome)

    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)(members)
    torch.testing.assert_close(compiled, both(members.contiguous()))


def balance_by_pairs(values: Tensor) -> Tensor:
    return torch.sign(values[..., :, None] - values[..., None, :]).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 0, 4), (90, 60), (2, 3, 1000)])
def test_order_and_ranks_of_every_shape(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.equal(sort_members(values), torch.sort(values, dim=-1).values)
    assert torch.equal(rank_balance(values), balance_by_pairs(values))
    rounded = (4 * values).round()  # many ties
    assert torch.equal(rank_balance(rounded), balance_by_pairs(rounded))


@examples(80)
@hypothesis.given(
    strategies.lists(
        strategies.one_of(
            strategies.floats(width=32, allow_nan=False, allow_infinity=False),
            strategies.sampled_from([0.0, -0.0, 1.0, float(np.nextafter(np.float32(1), np.float32(2))), 1e-45]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_ranks_of_neighbouring_floats_and_ties(values: list[float]) -> None:
    members = torch.tensor(values, dtype=torch.float32)
    exact = members.double()
    assert torch.equal(rank_balance(members).double(), balance_by_pairs(exact))


@pytest.mark.parametrize("function", [sort_members, rank_balance])
def test_order_and_ranks_under_vmap_and_without_gradient(function: Callable[[Tensor], Tensor]) -> None:
    values = torch.randn(5, 6, 200, requires_grad=True)
    assert not function(values).requires_grad
    for axis in range(3):
        moved = torch.func.vmap(function, in_dims=axis)(values.detach().movedim(0, axis))
        assert torch.equal(moved, function(values))
