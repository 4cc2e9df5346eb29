"""Risk-averse decisions (CVaR) of one number: closed forms, the search, programs, scores, refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refuses
from scipy.stats import norm
from torch import Tensor

from stakes import (
    Cost,
    CVaRCost,
    DecisionScore,
    ImbalanceCost,
    InteriorPoint,
    NewsvendorCost,
    NewtonBisection,
    Program,
    Quantity,
    ScheduleCost,
    ShortfallCost,
    cost_function,
    optimal_action,
    solve_action,
)
from stakes.actions.cvar import TailSearch, tail_weights
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import plain_cost_of, risk_of
from stakes.errors import CostError, SettingError, ShapeError, StakesWarning
from stakes.evaluation.case_metrics import forecast_table, todays_cost
from stakes.evaluation.metrics import Assessor
from stakes.forecasting.decisions import solve_decisions

NEWSVENDOR = NewsvendorCost(3.0, 1.0, -9.0, 9.0)
SCHEDULE = CVaRCost(ScheduleCost(4.0, 1.0, ramp=0.3), level=0.5)
NUMBER = CVaRCost(ShortfallCost(20.0), level=0.6, mix=0.7)
both_kinds = pytest.mark.parametrize("cost", [SCHEDULE, NUMBER], ids=["program", "number"])


def members(cost: CVaRCost, *shape: int, seed: int = 0) -> Tensor:
    drawn = torch.rand(*shape, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.cumsum(-1) if cost is SCHEDULE else drawn


@pytest.mark.parametrize("level", [0.6, 0.9])
@pytest.mark.parametrize("uniform", [False, True])
def test_a_newsvendor_in_closed_form(level: float, uniform: bool) -> None:
    """Both ends of the tail are paid alike at the margin: F(a - t / o) = (1 - level) u / (u + o), the rest above."""
    under, over = 3.0, 1.0
    places = (np.arange(10000) + 0.5) / 10000
    values = places if uniform else norm.ppf(places)
    quantile = (lambda share: share) if uniform else norm.ppf
    low, high = quantile((1 - level) * under / (under + over)), quantile(1 - (1 - level) * over / (under + over))
    solution = solve_action(CVaRCost(NEWSVENDOR, level), torch.from_numpy(values)[:, None])
    best = (over * low + under * high) / (under + over), (high - low) * under * over / (under + over)
    assert solution.action.tolist() == pytest.approx(best, abs=2e-3)
    assert bool(solution.certified)


def test_one_number_and_a_program_of_one_part_agree() -> None:
    samples = torch.randn(4, 13, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.rand(4, 13, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for level, mix in ((0.55, 1.0), (0.3, 0.5)):
        number = optimal_action(CVaRCost(NEWSVENDOR, level, mix), samples, weights=weights)
        program = CVaRCost(ScheduleCost(3.0, 1.0, lower=-9.0, upper=9.0), level, mix)
        torch.testing.assert_close(number, optimal_action(program, samples, weights=weights), rtol=0.0, atol=1e-6)


def test_gradient_of_a_program_in_words_with_limits_that_bind() -> None:
    bakery = Program(
        decide={"hours": Quantity(cost=12, upper=10)},
        recourse={"missing": Quantity(cost="margin")},
        recourse_constraints={"demand": "rate * hours + missing >= outcome"},
        limits={"staff": "sum(hours) <= 14"},
        numbers={"rate": (30, 20, 10), "margin": (1, 2, 3)},
    )
    noise = torch.randn(4, 31, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    demand, step = torch.tensor([200.0, 100.0, 60.0]) + 20 * noise, 1e-4
    score = DecisionScore(CVaRCost(bakery, 0.8))
    demand.requires_grad_()
    (gradient,) = torch.autograd.grad(score(demand, demand.detach()[:, 0]).sum(), demand)
    assert bool(torch.isfinite(gradient).all())
    assert bool((gradient != 0).any())
    with torch.no_grad():
        sides = (score(demand + way * step * noise, demand[:, 0]).sum() for way in (1, -1))
        ahead, behind = sides
    assert float((gradient * noise).sum()) == pytest.approx(float(ahead - behind) / (2 * step), rel=1e-3)


@both_kinds
def test_weights_are_members_that_come_more_often(cost: CVaRCost) -> None:
    samples = members(cost, 2, 13)
    counts = torch.tensor([1, 2, 1, 3, 1, 1, 2, 1, 1, 1, 3, 1, 1])
    weighted = solve_action(cost, samples, weights=counts.double())
    repeated = solve_action(cost, samples.repeat_interleave(counts, -2))
    torch.testing.assert_close(weighted.action, repeated.action, rtol=0.0, atol=1e-6)
    torch.testing.assert_close(weighted.expected_cost, repeated.expected_cost, rtol=0.0, atol=1e-7)


@both_kinds
def test_the_mean_charge_is_the_mean_of_the_worst(cost: CVaRCost) -> None:
    samples = members(cost, 2, 20)
    solution = solve_action(cost, samples)
    plain = cost.plain_cost(solution.action, samples.movedim(-2, 0))
    ordered, below = plain.sort(0).values, round(20 * cost.level)
    torch.testing.assert_close(solution.action[:, -1], ordered[below - 1])  # the lowest of the best thresholds
    worst = ordered[below:].mean(0)
    mixed = cost.mix * worst + (1 - cost.mix) * plain.mean(0)
    torch.testing.assert_close(solution.expected_cost, mixed, rtol=0.0, atol=1e-7)


def test_a_tail_of_few_members_is_warned_of_and_known_outcomes_are_not() -> None:
    samples = members(NUMBER, 2, 20)
    with pytest.warns(StakesWarning, match=r"2 of 20 members: .* 50"):
        solve_action(CVaRCost(ShortfallCost(5.0), 0.9), samples)
    assert bool(solve_action(CVaRCost(ShortfallCost(5.0), 0.9), samples[:, :1]).certified.all())


@both_kinds
def test_plain_cost_and_its_signed_gap_stand_beside_the_charge(cost: CVaRCost) -> None:
    samples, outcome = members(cost, 8, 13), members(cost, 8, seed=3)
    metrics = Assessor(cost)(samples, outcome)
    solution = solve_action(cost, samples)
    expected = cost.plain_cost(solution.action, samples.movedim(-2, 0)).mean(0)
    torch.testing.assert_close(metrics["cost"], cost(solution.action, outcome), rtol=0.0, atol=1e-6)
    torch.testing.assert_close(metrics["plain_cost"], cost.cost(solution.action[:, :-1], outcome), rtol=0, atol=1e-6)
    torch.testing.assert_close(metrics["plain_gap"], expected - metrics["plain_cost"], rtol=0.0, atol=1e-6)
    shown = solution.action[:, :-1] if cost is SCHEDULE else solution.action[:, 0]
    torch.testing.assert_close(metrics["action"], shown, rtol=0.0, atol=1e-6)
    arrays = {name: values.numpy() for name, values in metrics.items() if values.dim() == 1}
    table = forecast_table(arrays | {"climatology_cost": arrays["cost"]}, None, 13, 1)
    assert table.loc["plain_gap", "value"] == pytest.approx(float(metrics["plain_gap"].mean()))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"level": 1.0}, "level"),
        ({"level": 0.0}, "level"),
        ({"level": torch.tensor(0.5)}, "level"),
        ({"mix": 0.0}, "mix "),
        ({"cost": cost_function(lambda a, y: (a - y) ** 2, 0.0, 1.0)}, "convex=True"),
        ({"cost": SCHEDULE}, "CVaRCost"),
        ({"cost": 5.0}, "cost"),
    ],
)
def test_wrong_parameters(wrong: dict[str, Any], said: str) -> None:
    refuses(CostError, said, CVaRCost, **{"cost": NEWSVENDOR, "level": 0.5} | wrong)


def test_wrong_solvers_and_actions() -> None:
    refuses(SettingError, "InteriorPoint", optimal_action, SCHEDULE, members(SCHEDULE, 2, 13), NewtonBisection())
    refuses(SettingError, "NewtonBisection", optimal_action, NUMBER, members(NUMBER, 2, 13), InteriorPoint())
    refuses(ShapeError, "action", NUMBER, torch.zeros(2, 1), torch.zeros(2, 1))


def test_the_risk_inside_a_cost_of_a_users_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from stakes import CVaRCost, ScheduleCost\n"
        "def averse():\n    return CVaRCost(ScheduleCost(short=1.0, long=10.0, ramp=0.3), 0.5)\n"
    )
    own = CostSpec.parse(f"{tmp_path / 'own.py'}:averse").build()
    stated = CVaRCost(ScheduleCost(short=1.0, long=10.0, ramp=0.3), 0.5)
    assert risk_of(own) == stated
    assert plain_cost_of(own) == stated.cost
    outcome, action = torch.rand(30, 2, dtype=torch.float64), np.full((30, 2), 0.4)
    assert todays_cost(own, action, outcome).tolist() == todays_cost(stated, action, outcome).tolist()
    members = torch.zeros(1, 12, 2, dtype=torch.float64)
    members[:, 0] = 1.0
    assert solve_decisions(own, [members]).at_lower_bound.tolist() == [True]
    assert solve_decisions(stated, [members]).at_lower_bound.tolist() == [True]


def test_a_square_of_the_recourse_is_named() -> None:
    recourse = {"free": Quantity(cost=9), "missing": Quantity(cost=4, square="wear")}
    words = {"decide": {"plan": Quantity()}, "recourse_constraints": {"c": "plan + missing + free >= outcome"}}
    smooth = CVaRCost(Program(**words, recourse=recourse, numbers={"wear": 0.1}), 0.5)
    refuses(CostError, "^recourse.missing.square", optimal_action, smooth, torch.rand(1, 10, 2))
    linear = CVaRCost(Program(**words, recourse=recourse, numbers={"wear": 0.0}), 0.5)
    assert optimal_action(linear, torch.rand(1, 10, 2)).isfinite().all()


def test_an_outcome_without_recourse_is_charged_infinitely_much() -> None:
    plan = Program({"plan": Quantity(cost=1, upper=2)}, recourse_constraints={"need": "plan >= outcome"})
    action, outcome = torch.tensor([1.0, 1.0, 2.0]), torch.tensor([0.5, 1.5])
    for mix in (1.0, 0.5):
        assert float(CVaRCost(plan, 0.5, mix)(action, outcome)) == torch.inf


COSTS: dict[str, Callable[[], Cost]] = {
    "kinks": lambda: NewsvendorCost(3.0, 1.0, -3.0, 8.0),
    "crossings": lambda: ImbalanceCost(10.0, 1.0, -3.0, 8.0),
    "curved": lambda: cost_function(lambda a, y: torch.exp(a - y) - a, -3.0, 8.0, convex=True),
}
every_cost = pytest.mark.parametrize("cost", [make() for make in COSTS.values()], ids=COSTS)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return 2 + torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_weights_of_the_tail() -> None:
    costs = torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0], dtype=torch.float64)[:, None]
    fifth = torch.full_like(costs, 0.2)
    weights, place = tail_weights(costs, fifth, 0.5)
    assert weights[:, 0].tolist() == pytest.approx([0.4, 0.0, 0.4, 0.0, 0.2])  # half of the third counts
    assert place.tolist() == [[4]]
    weights, place = tail_weights(costs, fifth, 0.6)  # a whole number of members below
    assert weights[:, 0].tolist() == pytest.approx([0.5, 0.0, 0.5, 0.0, 0.0])
    assert place.tolist() == [[4]]
    unlike = torch.tensor([0.1, 0.2, 0.3, 0.2, 0.2], dtype=torch.float64)[:, None]
    assert tail_weights(costs, unlike, 0.8).weights[:, 0].tolist() == pytest.approx([0.5, 0.0, 0.5, 0.0, 0.0])


@every_cost
@pytest.mark.parametrize(("level", "mix"), [(0.8, 1.0), (0.73, 0.4)])
def test_no_action_of_a_grid_is_better(cost: Cost, level: float, mix: float) -> None:
    samples = drawn(3, 21, 1)
    found = TailSearch(cost, level, mix)(samples, None)
    grid = torch.linspace(-3, 8, 2001, dtype=torch.float64)[:, None, None].expand(-1, 3, 1)  # (G, 3, 1)
    actions = torch.cat([found.action[None, :, :1], grid])
    costs = cost(actions, samples.movedim(-2, 0)[:, None])  # (M, G + 1, 3)
    tail = tail_weights(costs, torch.full_like(costs, 1 / 21), level).weights
    values = (mix * tail * costs).sum(0) + (1 - mix) * costs.mean(0)
    assert bool((values[0] <= values[1:].amin(0) + 1e-12).all())
    assert bool(found.converged.all())
    assert bool((values[0] - found.gap <= values[1:].amin(0)).all())
    threshold = found.action[:, 1]
    below, up_to = ((costs[:, 0] <= threshold + sign * 1e-6).double().mean(0) for sign in (-1, 1))  # members may tie
    assert bool(((below <= level) & (level <= up_to)).all())


@every_cost
@pytest.mark.parametrize(("level", "mix"), [(0.8, 1.0), (0.73, 0.4)])
def test_gradient_against_differences(cost: Cost, level: float, mix: float) -> None:
    samples, direction = drawn(3, 21, 1).requires_grad_(), drawn(3, 21, 1, seed=1) - 2
    exact, step = TailSearch(cost, level, mix, NewtonBisection(iterations=60)), 1e-6
    action = TailSearch(cost, level, mix)(samples, None, gradient=True).action
    ahead, behind = (exact(samples.detach() + s * direction, None).action for s in (step, -step))
    for part in range(2):
        (gradient,) = torch.autograd.grad(action[:, part].sum(), samples, retain_graph=True)
        moved = (gradient * direction).sum((-2, -1))
        torch.testing.assert_close(moved, ((ahead - behind) / (2 * step))[:, part], rtol=1e-5, atol=1e-6)


def test_at_a_bound_only_the_threshold_moves() -> None:
    samples = torch.full((1, 20, 1), 0.95, dtype=torch.float64, requires_grad=True)
    found = TailSearch(ShortfallCost(0.1), 0.5, 1.0)(samples, None, gradient=True)
    assert found.action[0, 0] == 1.0
    assert not bool(found.interior)
    assert bool(found.converged)
    parts = [torch.autograd.grad(part, samples, retain_graph=True)[0].abs().sum() for part in found.action[0]]
    assert parts[0] == 0.0
    assert parts[1] > 0.0


def test_a_coarse_search_says_how_far_it_may_be() -> None:
    samples = drawn(3, 21, 1)
    found = TailSearch(COSTS["crossings"](), 0.8, 1.0, NewtonBisection(iterations=1))(samples, None)
    assert not bool(found.converged.any())
    assert bool((found.gap > 1e-3).all())
