"""Whether a decision with many parts is fit for training, in the plain words of `stakes check-cost`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from stakes.cost_text.written_cost import CostSpec
from stakes.errors import SettingError
from stakes.method.check_program import ProgramCheck, check_program
from stakes.method.costs import Cost
from stakes.number_text import count_text, number_text

__all__ = ["CheckedProgram", "checked_program"]

_SETS, _MEMBERS = 24, 30  # at most, so that it takes seconds


@dataclass(frozen=True, eq=False)
class CheckedProgram:
    """What is known about a decision with many parts after a check; `str()` says it in plain words.

    Attributes:
        spec: The cost in words.
        source: Where the sets of members came from, in words.
        check: What `stakes.check_program` says about them.
        doubts: Sentences about a cost that does not seem to fit the data.
    """

    spec: CostSpec
    source: str
    check: ProgramCheck
    doubts: tuple[str, ...]

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
    """Check a decision with many parts over some of the sets of members.

    Args:
        spec: The cost in words.
        cost: The cost that these words build.
        samples: Sets of members (N, M, D).
        source: Where these came from, in words.
        doubts: Sentences about a cost that does not seem to fit the data.
    """
    some = samples[:: -(-len(samples) // _SETS), :: -(-samples.shape[1] // _MEMBERS)]
    return CheckedProgram(spec, source, check_program(cost, some), tuple(doubts))
