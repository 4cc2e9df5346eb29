"""Whether a cost is fit for training, and where it will act, in the plain words of `stakes check-cost`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.actions.check_cost import PROGRAM_MEMBERS, PROGRAM_SETS, CostCheck, ProgramCheck, check_cost, check_program
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost, plain_cost_of, user_cost_errors, vector_cost
from stakes.costs.scalar_costs import scalar_cost
from stakes.data.case_table import neighbouring_sets
from stakes.errors import SettingError
from stakes.files import write_atomically
from stakes.text import number_text

_COST_SETS, _COST_MEMBERS = 400, 50


@dataclass(frozen=True, eq=False)
class CheckedCost:
    """What is known about a cost after a check; `str()` says it in plain words."""

    spec: CostSpec  # the cost in words
    cost: Cost  # the cost itself
    samples: Tensor  # the sets of members (N, M, D) it was checked over
    source: str  # where these came from, in words
    check: CostCheck | ProgramCheck  # what `stakes.check_cost` or `stakes.check_program` says about them
    doubts: tuple[str, ...]  # sentences about what was not given, and about a cost that does not seem to fit the data

    def __str__(self) -> str:
        program = [] if self.spec.program is None else [repr(self.spec.build()), ""]
        said, gap, rows = str(self.check).partition("\n\n")
        return "\n".join([f"{self.spec}, over {self.source}", "", *program, said, *self.doubts]) + gap + rows

    def record(self) -> dict[str, Any]:
        """The check for machines."""
        known = {key: value for key, value in vars(self.check).items() if key not in ("gradient_mass", "limits")}
        if isinstance(self.check, CostCheck):
            known["gradient_mass"] = {key: value.tolist() for key, value in vars(self.check.gradient_mass).items()}
        else:
            known["limits"] = [limit._asdict() for limit in self.check.limits]
        about = {"fit_for_training": self.check.fit_for_training, "objections": self.check.objections}
        return {"cost": str(self.spec), "source": self.source, **about, **known, "doubts": self.doubts}

    def draw(self, path: Path) -> None:
        """The cost over actions and outcomes, as SVG."""
        from stakes.reports.cost_figures import cost_figure

        outcomes = self.samples.reshape(-1, self.samples.shape[-1]).numpy()
        figure = cost_figure(self.cost, outcomes, self.spec.unit, self.spec.action_unit)
        write_atomically(path, figure.drawings[0].encode())


def check_over_members(
    spec: CostSpec, cost: Cost, members: NDArray[np.float64], targets: Sequence[str], file: str
) -> CheckedCost:
    """Check a cost over the members of an ensemble."""
    return _checked(spec, cost, torch.from_numpy(members), f"the members of {file}", targets)


def check_over_outcomes(
    spec: CostSpec, cost: Cost, outcomes: NDArray[np.float64], targets: Sequence[str], file: str
) -> CheckedCost:
    """Check a cost over sets of outcomes that are alike in size, as a forecast would have."""
    outcomes = outcomes[~np.isnan(outcomes).any(1)]
    if len(outcomes) < 2:
        raise SettingError(f"the table must have at least two complete rows of the targets, got {len(outcomes)}")
    several = vector_cost(cost) is not None
    size = (PROGRAM_SETS, PROGRAM_MEMBERS) if several else (_COST_SETS, _COST_MEMBERS)
    return _checked(spec, cost, neighbouring_sets(outcomes, *size), f"outcomes of {file} of similar size", targets)


def check_over_draws(spec: CostSpec, cost: Cost) -> CheckedCost:
    """Check a cost over draws where it makes a difference."""
    plain = plain_cost_of(cost)
    if vector_cost(plain) is not None:
        raise SettingError(
            f"the cost {spec.name} has one part for each outcome: check-cost needs --members, or a table with "
            "--target, to check it"
        )
    known = scalar_cost(plain)
    low, high = (float(plain.lower), float(plain.upper)) if known is None else known.deciding_outcomes
    source = f"draws between {number_text(low, 6)} and {number_text(high, 6)}"
    generator = np.random.default_rng(0)  # sets of different widths, everywhere in the range
    half = generator.uniform(0.05, 0.25, size=(_COST_SETS, 1)) * (high - low)
    centre = generator.uniform(low + half, high - half)
    draws = generator.uniform(centre - half, centre + half, size=(_COST_SETS, _COST_MEMBERS))
    return _checked(spec, cost, torch.from_numpy(draws)[..., None], source, None)


def _checked(spec: CostSpec, cost: Cost, samples: Tensor, source: str, targets: Sequence[str] | None) -> CheckedCost:
    """A vector action is checked over some of the sets; samples of targets, not drawn ones, may raise doubts."""
    check: CostCheck | ProgramCheck
    with user_cost_errors(cost):
        if vector_cost(cost) is None:
            check = check_cost(cost, samples)
        else:
            some = samples[:: -(-len(samples) // PROGRAM_SETS), :: -(-samples.shape[1] // PROGRAM_MEMBERS)]
            check = check_program(cost, some)
    flat = samples.reshape(-1, samples.shape[-1]).numpy()
    doubts = spec.assumptions if targets is None else spec.doubts(flat, targets)
    return CheckedCost(spec, cost, samples, source, check, tuple(doubts))
