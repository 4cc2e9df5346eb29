"""Whether a cost is fit for training, and where it will act, in the plain words of `stakes check-cost`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.actions.check_cost import PROGRAM_MEMBERS, PROGRAM_SETS, CostCheck, ProgramCheck, check_cost, check_program
from stakes.actions.scalar_solvers import ACTIONS_LOOKED_AT
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost, plain_cost_of, states_convexity, user_cost_errors, vector_cost
from stakes.costs.scalar_costs import scalar_cost
from stakes.data.case_table import neighbouring_sets
from stakes.errors import SettingError
from stakes.files import write_atomically
from stakes.text import count_text, number_text


@dataclass(frozen=True, eq=False)
class CheckedProgram:
    """What is known about a decision with many parts after a check; `str()` says it in plain words."""

    spec: CostSpec  # the cost in words
    source: str  # where the sets of members came from, in words
    check: ProgramCheck  # what `stakes.check_program` says about them
    doubts: tuple[str, ...]  # sentences about a cost that does not seem to fit the data

    def __str__(self) -> str:
        words = [] if self.spec.program is None else [repr(self.spec.build()), ""]
        return "\n".join([f"{self.spec}, over {self.source}", "", *words, *self._sentences(), *self._limits()])

    def record(self) -> dict[str, Any]:
        """The check for machines."""
        return {
            "cost": str(self.spec),
            "source": self.source,
            "fit_for_training": self.check.fit_for_training,
            "objections": self.check.objections,
            **asdict(self.check),
            "limits": [limit._asdict() for limit in self.check.limits],
            "doubts": self.doubts,
        }

    def draw(self, path: Path) -> None:
        """Refused: the cost of many parts is no curve."""
        raise SettingError(f"the cost {self.spec.name} decides about many parts, and has no figure for {str(path)!r}")

    def _sentences(self) -> list[str]:
        check = self.check
        fit = "Fit for training: yes." if check.fit_for_training else f"Fit for training: NO. {check.objections[0]}"
        sets = f"{count_text(check.sets, 'set')} of {count_text(check.members, 'member')}"
        lines = [
            fit,
            *check.objections[1:],
            f"The decision has {count_text(check.parts, 'part')}, and is convex: {self._convex}.",
            f"Over {sets}, the action is proven to be the best in {check.certified:.1%}; limits contradict each other "
            f"in {check.infeasible:.1%}, and the cost falls without end in {check.unbounded:.1%}.",
            f"Recourse was missing for {check.without_recourse:.1%} of the outcomes that actions were tried with: "
            "those of other sets and some beyond all of them.",
            f"No limit binds in {check.interior:.1%}; the action moves with the members, so that there is a gradient, "
            f"in {check.moving:.1%}.",
        ]
        if not check.limits and check.interior < 1:
            lines.append(
                "Which limits bind in the others, and what one unit more would save, is told of programs without "
                "aversion to risk."
            )
        if check.derivative_error == check.derivative_error:
            lines.append(
                f"Derivatives and finite differences are {check.derivative_error:.1e} apart in the median set; they "
                f"differ in {check.differing:.1%}, at a kink or where several actions are equally good."
            )
        return [*lines, *self.doubts]

    @property
    def _convex(self) -> str:
        if self.check.convex:
            return "yes, on your word" if self.check.convex_by_word else "yes, by its matrices"
        return "not known" if self.check.convex is None else "NO"

    def _limits(self) -> list[str]:
        if not self.check.limits:
            return []
        unit = f", {self.spec.unit}" if self.spec.unit else ""
        head = ["", f"  limit                    binds   one unit more saves{unit}"]
        rows = [f"  {kind:<22.22} {share:7.1%}   {number_text(saved, 3)}" for kind, share, saved in self.check.limits]
        return [*head, *rows]


def checked_program(spec: CostSpec, cost: Cost, samples: Tensor, source: str, doubts: Sequence[str]) -> CheckedProgram:
    """Check a decision with many parts over some of the sets of members."""
    some = samples[:: -(-len(samples) // PROGRAM_SETS), :: -(-samples.shape[1] // PROGRAM_MEMBERS)]
    return CheckedProgram(spec, source, check_program(cost, some), tuple(doubts))


_COST_SETS, _COST_MEMBERS = 400, 50
_MUCH = 0.8  # of the gradient


@dataclass(frozen=True, eq=False)
class CheckedCost:
    """What is known about a cost after a check; `str()` says it in plain words."""

    spec: CostSpec  # the cost in words
    cost: Cost  # the cost itself
    samples: Tensor  # the sets of members (N, M, D) it was checked over
    source: str  # where these came from, in words
    check: CostCheck  # what `stakes.check_cost` says about them
    doubts: tuple[str, ...]  # sentences about what was not given, and about a cost that does not seem to fit the data

    def __str__(self) -> str:
        return "\n".join([f"{self.spec}, over {self.source}", "", *self._sentences(), "", *self._bins()])

    def record(self) -> dict[str, Any]:
        """The check for machines."""
        return {
            "cost": str(self.spec),
            "source": self.source,
            "fit_for_training": self.check.fit_for_training,
            **{key: value for key, value in asdict(self.check).items() if key != "gradient_mass"},
            "gradient_mass": {key: value.tolist() for key, value in vars(self.check.gradient_mass).items()},
            "doubts": self.doubts,
        }

    def draw(self, path: Path) -> None:
        """The cost over actions and outcomes, as SVG."""
        from stakes.reports.cost_figures import cost_figure

        outcomes = self.samples.reshape(-1, self.samples.shape[-1]).numpy()
        figure = cost_figure(self.cost, outcomes, self.spec.unit, self.spec.action_unit)
        write_atomically(path, figure.svg.encode())

    def _sentences(self) -> list[str]:
        check = self.check
        how = "by a formula" if check.closed_form else "by a search"
        lines = [
            "Fit for training: yes." if check.fit_for_training else f"Fit for training: NO. {check.objections[0]}",
            f"The best action lies between {_bound(self.cost.lower)} and {_bound(self.cost.upper)}"
            f"{_after(self.spec.action_unit)} and is found {how}.",
            f"It is inside the bounds in {check.interior:.1%} of {check.sets} sets, at the lower bound in "
            f"{check.at_lower:.1%}, at the upper in {check.at_upper:.1%}; at a bound there is no decision gradient.",
        ]
        if check.interior:
            lines.append(self._curvature())
        lines += self._certificate()
        agree = "differ from finite differences by" if check.derivatives_differ else "agree with finite differences to"
        lines.append(
            f"Derivatives {agree} {check.derivative_error:.1e}; {check.kinked:.1%} of the sets were left out, because "
            "their action turns a corner."
        )
        return [*lines, *self._where(), *self.doubts]

    def _curvature(self) -> str:
        """Where the gradient of an action inside the bounds comes from."""
        check = self.check
        curved = (
            f"Inside the bounds the expected cost is curved in {check.curved:.1%}; the least curvature is "
            f"{number_text(check.least_curvature, 3)}."
        )
        if not check.at_kink:
            return curved
        source = (
            "the formula gives the gradient there"
            if check.closed_form
            else "there is no gradient there; make the cost smooth, or give it a formula (`best_action`)"
        )
        kinks = f"Inside the bounds the best action is at a kink in {check.at_kink:.1%}: {source}."
        return kinks if check.at_kink == 1 else f"{kinks} {curved}"

    def _certificate(self) -> list[str]:
        """What is proven, and what speaks against the actions that were found."""
        check, lines = self.check, []
        if check.missed:
            lines.append(
                f"In {check.missed:.1%} of the sets another minimum is better than the one that training would find: "
                "this cost is not convex in the action."
            )
        lines.append(
            f"In {check.flagged:.1%} of the sets the expected cost is flat, has several minima, or its minimum is not "
            "reached; training gives them no gradient where it sees that."
        )
        if states_convexity(self.cost):
            return [*lines, f"The action is proven to be the best in {check.certified:.1%}: the cost is convex in it."]
        return [
            *lines,
            "No action is proven to be the best, because the cost is not known to be convex in the action: each is the "
            f"best of more than {ACTIONS_LOOKED_AT} that were looked at. If it is convex, say so (convex=yes).",
        ]

    def _where(self) -> list[str]:
        """The narrowest range of neighbouring bins with most of the gradient."""
        mass = self.check.gradient_mass
        gradient, members, edges = mass.gradient_share.tolist(), mass.member_share.tolist(), mass.edges.tolist()
        if sum(gradient) < 0.5:
            return ["The decision gradient is zero everywhere."]
        ranges = [(end - start, start, end) for start in range(len(gradient)) for end in range(start + 1, len(edges))]
        _, start, end = min(each for each in ranges if sum(gradient[each[1] : each[2]]) >= _MUCH - 1e-9)
        low, high = (number_text(edges[place], 3) for place in (start, end))
        return [
            f"The gradient acts on members from {low} to {high}: there are "
            f"{sum(gradient[start:end]):.0%} of it and {sum(members[start:end]):.0%} of the members."
        ]

    def _bins(self) -> list[str]:
        return str(self.check).splitlines()[-len(self.check.gradient_mass.member_share) - 1 :]


def check_over_members(
    spec: CostSpec, cost: Cost, members: NDArray[np.float64], targets: Sequence[str], file: str
) -> CheckedCost | CheckedProgram:
    """Check a cost over the members of an ensemble."""
    return _checked(spec, cost, torch.from_numpy(members), f"the members of {file}", targets)


def check_over_outcomes(
    spec: CostSpec, cost: Cost, outcomes: NDArray[np.float64], targets: Sequence[str], file: str
) -> CheckedCost | CheckedProgram:
    """Check a cost over sets of outcomes that are alike in size, as a forecast would have."""
    outcomes = outcomes[~np.isnan(outcomes).any(1)]
    if len(outcomes) < 2:
        raise SettingError(f"the table must have at least two complete rows of the targets, got {len(outcomes)}")
    several = vector_cost(cost) is not None
    size = (PROGRAM_SETS, PROGRAM_MEMBERS) if several else (_COST_SETS, _COST_MEMBERS)
    return _checked(
        spec, cost, neighbouring_sets(outcomes, *size), f"outcomes of {file} that are alike in size", targets
    )


def check_over_draws(spec: CostSpec, cost: Cost) -> CheckedCost | CheckedProgram:
    """Check a cost over draws where it makes a difference."""
    plain = plain_cost_of(cost)
    if vector_cost(plain) is not None:
        raise SettingError(
            f"the cost {spec.name} decides about as many parts as there are outcomes: check-cost needs --members, or a "
            "table with --target, to check it over"
        )
    known = scalar_cost(plain)
    low, high = (float(plain.lower), float(plain.upper)) if known is None else known.deciding_outcomes
    source = f"draws between {number_text(low, 6)} and {number_text(high, 6)}"
    return _checked(spec, cost, _draws(low, high), source, None)


def _checked(
    spec: CostSpec, cost: Cost, samples: Tensor, source: str, targets: Sequence[str] | None
) -> CheckedCost | CheckedProgram:
    """Where the samples are of some targets, and not drawn for the cost, they may raise doubts about it."""
    flat = samples.reshape(-1, samples.shape[-1]).numpy()
    with user_cost_errors(cost):
        if vector_cost(cost) is not None:
            doubts = spec.assumptions if targets is None else spec.doubts(flat, targets)
            return checked_program(spec, cost, samples, source, doubts)
        check = check_cost(cost, samples)
    doubts = spec.assumptions if targets is None else spec.doubts(flat, targets)
    return CheckedCost(spec, cost, samples, source, check, tuple(doubts))


def _draws(low: float, high: float) -> Tensor:
    """Sets of one column, of different widths, everywhere in the range."""
    generator = np.random.default_rng(0)
    half = generator.uniform(0.05, 0.25, size=(_COST_SETS, 1)) * (high - low)
    centre = generator.uniform(low + half, high - half)
    return torch.from_numpy(generator.uniform(centre - half, centre + half, size=(_COST_SETS, _COST_MEMBERS)))[
        ..., None
    ]


def _bound(value: object) -> str:
    return number_text(float(value), 6) if isinstance(value, int | float) else str(value)


def _after(unit: str) -> str:
    return f" {unit}" if unit else ""
