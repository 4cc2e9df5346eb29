"""Whether a decision with many parts is fit for training, for programs whose answer is known."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

import stakes
from stakes import ArbitrageCost, Program, ProgramCheck, Quantity, ScheduleCost, check_program
from stakes.errors import CostError, NonFiniteError, ShapeError
from stakes.programs.scenario_program import ScenarioProgram

SQUARED = {"short": Quantity(cost=4, square=0.5), "long": Quantity(cost=1, square=0.5)}
COVERS = {"need": "plan + short >= outcome", "surplus": "long >= plan - outcome"}


def members(sets: int = 6, count: int = 5, outcomes: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return 5 + torch.randn(sets, count, outcomes, generator=generator, dtype=torch.float64)


def planned(**others: Any) -> Program:
    return Program(decide={"plan": Quantity()}, recourse=SQUARED, covers=COVERS, **others)


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
    assert str(check).startswith("fit for training: 6 sets of 5 members, 3 parts\n")
    assert "\n  ramp  " in str(check)


def said(cost: stakes.Cost, samples: Tensor) -> ProgramCheck:
    check = check_program(cost, samples, compared_sets=2)
    assert not check.fit_for_training
    assert str(check).startswith("NOT fit for training as it is")
    return check


def test_limits_that_contradict_each_other() -> None:
    check = said(planned(limits={"low": "sum(plan) <= 1", "high": "sum(plan) >= 2"}), members(2))
    assert check.infeasible == 1
    assert "contradict each other" in check.objections[0]


def test_a_cost_that_falls_without_end() -> None:
    words = {"decide": {"plan": Quantity(cost=-9)}, "recourse": {"over": Quantity(cost=4)}}
    check = said(Program(**words, covers={"over": "over >= plan - outcome"}), members(2))
    assert check.unbounded == 1
    assert "falls without end" in check.objections[0]


def test_outcomes_without_recourse() -> None:
    check = said(Program(decide={"plan": Quantity(cost=1)}, covers={"need": "plan >= outcome"}), members(2, 3, 1))
    assert 0 < check.without_recourse < 1
    assert check.objections == ("For some outcomes an action has no recourse: its cost is infinite.",)


def test_outcomes_beyond_all_members_are_tried_too() -> None:
    samples = members(4, 3, 1)
    spare = Quantity(cost=9, upper=float(samples.max()))  # for every member, and no more
    need = {"need": "plan + spare >= outcome"}
    check = said(Program(decide={"plan": Quantity(cost=10)}, recourse={"spare": spare}, covers=need), samples)
    assert check.without_recourse == pytest.approx(1 / 12)  # of 8 members and 4 corners


def test_prices_do_not_move_what_sits_at_corners() -> None:
    prices = members(3) + torch.tensor([0.0, 9.0, 4.0])
    check = said(ArbitrageCost(1.0, 2.0, 0.9), prices)
    assert check.moving == 0
    assert check.derivative_error != check.derivative_error
    assert "moves with no member" in check.objections[0]
    assert check_program(ArbitrageCost(1.0, 2.0, 0.9, quadratic=9.0), prices).fit_for_training


def test_a_budget_does_not_hide_that_parts_move() -> None:
    assert check_program(planned(limits={"budget": "sum(plan) = 9"}), members(3)).moving == 1


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
    check = said(Wrong(4.0, 1.0, charged=2.0), members(3))
    assert check.disagreement > 0.1
    assert "The cost is another than that of its program." in check.objections


def test_a_cost_that_is_not_convex() -> None:
    with pytest.raises(CostError, match="P must be positive semidefinite: the cost would not be convex"):
        check_program(Wrong(4.0, 1.0, quadratic=1.0, bent=3.0), members(3))


def test_a_function_is_convex_on_its_authors_word() -> None:
    def squares(action: Tensor, outcome: Tensor) -> Tensor:
        return ((action - outcome) ** 2).sum(-1)

    stated = check_program(stakes.cost_function(squares, 0.0, 9.0, convex=True, parts=3), members(2))
    assert (stated.convex, stated.convex_by_word, stated.certified) == (True, True, 1)
    assert "yes   on your word" in str(stated)
    unsaid = said(stakes.cost_function(squares, 0.0, 9.0, parts=3), members(2))
    assert (unsaid.convex, unsaid.certified) == (None, 0)
    assert unsaid.objections == (
        "It is not known whether the cost is convex in the action: say so if it is (convex=True).",
    )
    wells = stakes.cost_function(lambda a, y: ((a**2 - y) ** 2).sum(-1), -5.0, 5.0, parts=3)
    assert said(wells, members(2)).objections[0] == "The cost is not convex in the action."


def test_risk_is_checked_too() -> None:
    check = check_program(stakes.CVaRCost(ScheduleCost(4.0, 1.0), 0.5), members(2, 10, 2), compared_sets=1)
    assert (check.parts, check.certified, check.limits) == (2, 1, ())


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(CostError, match="is checked by check_cost, got ShortfallCost"):
        check_program(stakes.ShortfallCost(5.0), members())
    with pytest.raises(CostError, match="is checked by check_program, got ScheduleCost"):
        stakes.check_cost(ScheduleCost(4.0, 1.0), members())
    with pytest.raises(ShapeError, match="at least one set"):
        check_program(ScheduleCost(4.0, 1.0), members(0))
    with pytest.raises(NonFiniteError, match="samples must be finite"):
        check_program(ScheduleCost(4.0, 1.0), members() * torch.nan)


def test_parameters_of_many_decision_makers_are_refused() -> None:
    with pytest.raises(CostError, match=r"one decision maker, got short of the shape \(6, 1\)"):
        check_program(ScheduleCost(torch.rand(6, 1) + 1, 1.0, ramp=0.5), members())


def test_one_case_is_one_decision_maker() -> None:
    assert check_program(ScheduleCost(torch.tensor([[3.0, 2.0, 4.0]]), 1.0), members()).fit_for_training


def test_a_matrix_of_ones_own_is_no_parameter_of_cases() -> None:
    class Mixed:
        lower, upper = 0.0, None
        recipes, plan = torch.ones(2, 2), planned()

        def __init__(self) -> None:
            self.matrix = torch.eye(3)

        def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
            return self.plan(action, outcome)

        def program(self, outcomes: int, device: torch.device | None = None) -> ScenarioProgram:
            return self.plan.program(outcomes, device)

    assert check_program(Mixed(), members()).fit_for_training
