"""Whether a cost or a program is fit for training, where the answer is known."""

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor

import stakes
from stakes import (
    ArbitrageCost,
    ImbalanceCost,
    NewsvendorCost,
    Program,
    ProgramCheck,
    ProtectionCost,
    Quantity,
    ScheduleCost,
    ShortfallCost,
    WindDispatchCost,
    check_cost,
    check_program,
    cost_function,
)
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError, StakesError
from stakes.programs.scenario_program import ProgramCost, ScenarioProgram


def wind_speed(sets: int, members: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return (10 + 4 * torch.randn(sets, members, 1, generator=generator)).clamp(min=0)


def two_modes(sets: int, members: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(sets, members, 1, generator=generator)
    first = torch.rand(sets, members, 1, generator=generator) < 0.6
    return torch.where(first, 0.2 * noise, 2.5 + 0.4 * noise)


def test_the_theorem_of_the_paper() -> None:
    """T1: sets of 50 members of the synthetic marginal; the gradient acts at the threshold alone."""
    check = check_cost(ProtectionCost(1.0, 0.5, sharpness=10.0), two_modes(10_000, 50))
    assert (check.sets, check.members, check.curved, check.flagged) == (10_000, 50, 1.0, 0)
    assert check.least_curvature > 2 * 0.5 / (2 + 0.5)
    assert check.at_lower + check.at_upper + check.interior == pytest.approx(1.0)
    assert check.interior > 0.9
    assert check.fit_for_training
    mass = check.gradient_mass
    assert mass.edges.shape == (13,)
    assert [mass.member_share.sum().item(), mass.gradient_share.sum().item()] == pytest.approx([1.0, 1.0])
    far = ((mass.edges[1:] + mass.edges[:-1]) / 2 - 1.0).abs() > 1.2
    assert mass.member_share[far].sum() > 0.5
    assert mass.gradient_share[far].sum() < 0.01


def test_gradient_is_near_zero_in_the_rated_region() -> None:
    cost = WindDispatchCost(5.0)
    check = check_cost(cost, wind_speed(2000, 50), bins=24)
    mass = check.gradient_mass
    low, high = mass.edges[:-1], mass.edges[1:]
    rated = (low * cost.power_curve.hub_factor > 14) & (high * cost.power_curve.hub_factor < 20)
    ramp = (low * cost.power_curve.hub_factor > 5) & (high * cost.power_curve.hub_factor < 12)
    assert mass.member_share[rated].sum() > 0.2
    assert mass.gradient_share[rated].sum() < 0.02
    assert mass.gradient_share[ramp].sum() > 0.5
    assert check.fit_for_training


@pytest.mark.parametrize(
    "cost",
    [
        ShortfallCost(5.0),
        NewsvendorCost(3.1, 1.0, 0.0, 1.0),
        ImbalanceCost(3.0, 1.0, 0.0, 1.0),
        ProtectionCost(0.5, 0.5, "below", protection_power=2.0),
        cost_function(lambda a, y: (a - y) ** 2, 0.0, 1.0),
    ],
)
def test_fit_costs(cost: Any) -> None:
    members = torch.rand(500, 20, 1, generator=torch.Generator().manual_seed(1))
    check = check_cost(cost, members)
    assert check.fit_for_training, str(check)
    assert check.derivative_error <= 1e-4
    assert check.closed_form == isinstance(cost, ShortfallCost | NewsvendorCost | ImbalanceCost)


@pytest.mark.parametrize("cost", [NewsvendorCost(3.1, 1.0, 0.0, 100.0), NewsvendorCost(9.0, 1.0, 0.0, 100.0)])
@pytest.mark.parametrize("decimals", [-1, 0, 1])
def test_rounded_members_are_no_fault_of_the_cost(cost: NewsvendorCost, decimals: int) -> None:
    generator = torch.Generator().manual_seed(0)
    members = (50 + 10 * torch.randn(200, 50, 1, generator=generator, dtype=torch.float64)).round(decimals=decimals)
    check = check_cost(cost, members)
    assert check.fit_for_training, str(check)
    assert check.kinked < 0.2


def test_a_wrong_gradient_is_seen_among_rounded_members() -> None:
    class Wrong(NewsvendorCost):
        def best_action(self, samples: Tensor) -> Tensor:
            action = super().best_action(samples)
            return action.detach() + 0.5 * (action - action.detach())

    members = torch.randint(40, 60, (100, 20, 1), generator=torch.Generator().manual_seed(0)).double()
    check = check_cost(Wrong(3.1, 1.0, 0.0, 100.0), members)
    assert check.derivative_error > 0.1
    assert not check.fit_for_training


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda a, y: 0 * (a + y), "flat"),
        (lambda a, y: a + 0 * y, "always pinned"),
        (lambda a, y: torch.sin(12 * a) + 0.1 * (a - y) ** 2, "several minima"),
        (lambda a, y: (a - y).abs(), "no curvature"),
        (lambda a, y: -((a - y) ** 2), "concave"),
    ],
)
def test_unfit_costs(function: Any, reason: str) -> None:
    members = torch.rand(500, 20, 1, generator=torch.Generator().manual_seed(1))
    check = check_cost(cost_function(function, 0.0, 1.0), members)
    assert not check.fit_for_training, reason


def test_a_false_word_about_convexity_is_refused() -> None:
    members = torch.rand(50, 20, 1, generator=torch.Generator().manual_seed(0))
    hilly = cost_function(lambda a, y: torch.cos(9 * (a - y)), 0.0, 1.0, convex=True)
    refuses(CostError, "convex=True", check_cost, hilly, members)


def test_wrong_formula_is_unfit() -> None:
    class Wrong(ImbalanceCost):
        def best_action(self, samples: Tensor) -> Tensor:
            return super().best_action(samples) * 0.5 + 0.1

    check = check_cost(Wrong(3.0, 1.0, 0.0, 1.0), torch.rand(100, 20, 1))
    assert check.flagged == 1.0
    assert not check.fit_for_training


def test_shares_at_the_bounds() -> None:
    centre = torch.tensor([-1.0, -1.0, -1.0, 2.0, 0.5, 0.5, 0.5, 0.5])
    members = centre[:, None, None] + torch.tensor([-0.2, -0.1, 0.1, 0.2])[:, None]
    check = check_cost(ImbalanceCost(1.0, 1.0, 0.0, 1.0), members)
    assert (check.at_lower, check.at_upper, check.interior) == (3 / 8, 1 / 8, 4 / 8)
    assert check.least_curvature == pytest.approx(2.0)


def test_without_interior_solutions() -> None:
    check = check_cost(ImbalanceCost(1.0, 1.0, 0.0, 1.0), torch.full((8, 5, 1), 2.0))
    assert math.isnan(check.least_curvature)
    assert not check.fit_for_training
    assert check.gradient_mass.gradient_share.sum() == 0


@pytest.mark.parametrize(
    ("cost", "members", "options", "error", "said"),
    [
        (ShortfallCost(torch.linspace(2, 20, 300)), torch.rand(300, 10, 1), {}, CostError, "one decision maker"),
        (ShortfallCost(5.0), torch.rand(4, 5, 1), {"bins": 0}, SettingError, "bins"),
        (ShortfallCost(5.0), torch.rand(4, 5, 1), {"compared_sets": 0}, SettingError, "compared_sets"),
        (ShortfallCost(5.0), torch.full((4, 5, 1), math.nan), {}, NonFiniteError, "samples"),
        (ShortfallCost(5.0), torch.zeros(5), {}, ShapeError, "samples"),
        (ShortfallCost(5.0), torch.rand(0, 4, 1), {}, ShapeError, "samples"),
        (3, torch.rand(3, 4, 1), {}, CostError, "cost"),
        (ScheduleCost(4.0, 1.0), torch.rand(6, 5, 3), {}, CostError, "check_program"),
    ],
)
def test_what_cannot_be_checked_is_named(
    cost: Any, members: Tensor, options: dict[str, int], error: type[StakesError], said: str
) -> None:
    refuses(error, said, check_cost, cost, members, **options)


def test_a_kink_is_told_from_a_flat_place_and_from_curvature() -> None:
    """Both costs bend at every member; a formula has a gradient there, a search has none."""
    members = torch.rand(200, 20, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    newsvendor = check_cost(NewsvendorCost(3.1, 1.0, 0.0, 1.0), members)
    assert (newsvendor.at_kink, newsvendor.curved, newsvendor.flagged) == (1.0, 0.0, 0.0)
    assert newsvendor.fit_for_training

    def searched(a: Tensor, y: Tensor) -> Tensor:
        return 3.1 * torch.relu(y - a) + torch.relu(a - y) + 0.001 * a**2

    for convex in (True, False):
        check = check_cost(cost_function(searched, 0.0, 1.0, convex), members)
        assert (check.at_kink, check.curved, check.flagged) == (1.0, 0.0, 0.0)
        assert check.certified == convex
        assert not check.fit_for_training


def test_a_flat_bottom_is_flagged_though_its_action_is_proven() -> None:
    members = torch.rand(50, 5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    check = check_cost(cost_function(lambda a, y: torch.relu((a - y).abs() - 2) ** 2, -3.0, 4.0, convex=True), members)
    assert (check.certified, check.flagged, check.curved, check.at_kink) == (1.0, 1.0, 0.0, 0.0)
    assert not check.fit_for_training


@pytest.mark.parametrize("cost", [ShortfallCost(5.0), ImbalanceCost(3.0, 1.0, 0.0, 1.0), ProtectionCost(0.5, 0.5)])
def test_a_bend_of_the_slope_is_no_kink(cost: Any) -> None:
    check = check_cost(cost, torch.rand(200, 20, 1, generator=torch.Generator().manual_seed(1)))
    assert (check.at_kink, check.curved, check.flagged) == (0.0, 1.0, 0.0)


SQUARED = {"short": Quantity(cost=4, square=0.5), "long": Quantity(cost=1, square=0.5)}
CONSTRAINTS = {"need": "plan + short >= outcome", "surplus": "long >= plan - outcome"}


def members(sets: int = 6, count: int = 5, outcomes: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return 5 + torch.randn(sets, count, outcomes, generator=generator, dtype=torch.float64)


def planned(**others: Any) -> Program:
    return Program(decide={"plan": Quantity()}, recourse=SQUARED, recourse_constraints=CONSTRAINTS, **others)


def test_a_program_that_is_fit() -> None:
    check = check_program(planned(limits={"ramp": "abs(change(plan)) <= 0.3"}), members())
    assert check.fit_for_training
    assert (check.sets, check.members, check.parts, check.convex) == (6, 5, 3, True)
    assert (check.certified, check.infeasible, check.unbounded, check.without_recourse) == (1, 0, 0, 0)
    assert check.derivative_error < 1e-5
    assert check.disagreement < 1e-9
    ramp = check.limits[0]
    assert (ramp.kind, check.interior) == ("ramp", pytest.approx(1 - ramp.share))
    assert ramp.share > 0
    assert ramp.saved > 0
    assert "\n  ramp  " in str(check)


def said(cost: stakes.Cost, samples: Tensor) -> ProgramCheck:
    check = check_program(cost, samples, compared_sets=2)
    assert not check.fit_for_training
    assert check.objections[0] in str(check)
    return check


def test_limits_that_contradict_each_other() -> None:
    assert said(planned(limits={"low": "sum(plan) <= 1", "high": "sum(plan) >= 2"}), members(2)).infeasible == 1


def test_a_cost_that_falls_without_end() -> None:
    words = {"decide": {"plan": Quantity(cost=-9)}, "recourse": {"over": Quantity(cost=4)}}
    assert said(Program(**words, recourse_constraints={"over": "over >= plan - outcome"}), members(2)).unbounded == 1


def test_outcomes_without_recourse() -> None:
    check = said(
        Program(decide={"plan": Quantity(cost=1)}, recourse_constraints={"need": "plan >= outcome"}), members(2, 3, 1)
    )
    assert 0 < check.without_recourse < 1
    assert len(check.objections) == 1


def test_outcomes_beyond_all_members_are_tried_too() -> None:
    samples = members(4, 3, 1)
    spare = Quantity(cost=9, upper=float(samples.max()))  # for every member, and no more
    need = {"need": "plan + spare >= outcome"}
    check = said(
        Program(decide={"plan": Quantity(cost=10)}, recourse={"spare": spare}, recourse_constraints=need), samples
    )
    assert check.without_recourse == pytest.approx(1 / 12)  # of 8 members and 4 corners


def test_prices_do_not_move_what_sits_at_corners() -> None:
    prices = members(3) + torch.tensor([0.0, 9.0, 4.0])
    check = said(ArbitrageCost(1.0, 2.0, 0.9), prices)
    assert check.moving == 0
    assert check.derivative_error != check.derivative_error
    assert check_program(ArbitrageCost(1.0, 2.0, 0.9, quadratic=9.0), prices).fit_for_training


@pytest.mark.parametrize("seed", range(2))
def test_a_battery_that_never_trades_moves_with_no_price(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    prices = 20 + torch.rand(24, 25, 6, generator=generator, dtype=torch.float64)
    assert said(ArbitrageCost(1.0, 2.0, 0.9), prices).moving == 0


@dataclass(frozen=True)
class Wrong(ScheduleCost):
    """A schedule whose program, or whose cost, is another's."""

    bent: float = 0.0
    charged: float = 1.0

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        return self.charged * super().__call__(action, outcome)

    def program(self, parts: int, device: torch.device | None = None) -> ScenarioProgram:
        made = super().program(parts, device)
        return replace(made, P=made.P - self.bent * torch.eye(parts))


def test_a_cost_that_is_not_that_of_its_program() -> None:
    assert said(Wrong(4.0, 1.0, charged=2.0), members(3)).disagreement > 0.1


def test_a_cost_that_is_not_convex() -> None:
    refuses(CostError, "P ", check_program, Wrong(4.0, 1.0, quadratic=1.0, bent=3.0), members(3))


def test_a_function_is_convex_on_its_authors_word() -> None:
    def squares(action: Tensor, outcome: Tensor) -> Tensor:
        return ((action - outcome) ** 2).sum(-1)

    stated = check_program(stakes.cost_function(squares, 0.0, 9.0, convex=True, parts=3), members(2))
    assert (stated.convex, stated.convex_by_word, stated.certified) == (True, True, 1)
    unsaid = said(stakes.cost_function(squares, 0.0, 9.0, parts=3), members(2))
    assert (unsaid.convex, unsaid.certified) == (None, 0)
    assert len(unsaid.objections) == 1
    wells = stakes.cost_function(lambda a, y: ((a**2 - y) ** 2).sum(-1), -5.0, 5.0, parts=3)
    assert said(wells, members(2)).convex is False


def test_what_cannot_be_checked_is_refused() -> None:
    refuses(CostError, "check_cost", check_program, stakes.ShortfallCost(5.0), members())
    refuses(CostError, r"\(6, 1\)", check_program, ScheduleCost(torch.rand(6, 1) + 1, 1.0, ramp=0.5), members())
    refuses(ShapeError, "check_program", check_program, ScheduleCost(4.0, 1.0), members(0))
    refuses(NonFiniteError, "samples", check_program, ScheduleCost(4.0, 1.0), members() * torch.nan)


def test_a_matrix_of_ones_own_is_no_parameter_of_cases() -> None:
    class Mixed(ProgramCost):
        lower, upper = 0.0, None
        recipes, plan = torch.ones(2, 2), planned()

        def __init__(self) -> None:
            self.matrix = torch.eye(3)

        def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
            return self.plan(action, outcome)

        def program(self, outcomes: int, device: torch.device | None = None) -> ScenarioProgram:
            return self.plan.program(outcomes, device)

        def fixed_cost(self, outcome: Tensor) -> Tensor:
            return self.plan.fixed_cost(outcome)

    assert check_program(Mixed(), members()).fit_for_training
