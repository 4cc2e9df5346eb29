"""One measured effect, what a claim expects of it, and the verdict that follows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, isnan
from typing import Literal

from stakes.errors import StudyError
from stakes.evaluation.intervals import Difference, Sampled
from stakes.number_text import number_text, signed_interval_text
from stakes.reports.page import Verdict

__all__ = ["Check", "Expected"]
__all__ += ["does_not_fall", "falls", "never_falls", "never_rises", "remark", "rises", "stays"]

Expected = Literal["below", "above", "within", "not below", "not above"]


@dataclass(frozen=True)
class Check:
    """One measured effect with its 95 % interval, and what the claim expects of it.

    "below" and "above": the interval lies on that side of the bound (holds), on the other (fails), or on both (open).
    "within": it lies within +- bound (holds), outside (fails), or across (open).
    "not below" and "not above": it does not lie wholly on that side of the bound (holds), or it does (fails).
    An effect that could not be measured is open.

    Attributes:
        what: What is measured, at which weight and parameter.
        effect: The measured effect with its interval.
        expected: Where the interval should lie.
        bound: In the unit of the effect.
        unit: "%", that of the outcome, or empty for a plain number.
        paper: The paper's own number, where it gives one.
        counts: Whether it has a say in the verdict of its claim; if not, it is only shown beside the claim.
    """

    what: str
    effect: Difference
    expected: Expected
    bound: float = 0.0
    unit: str = "%"
    paper: float | None = None
    counts: bool = True

    @property
    def verdict(self) -> Verdict:
        low, high, bound = self.effect.low, self.effect.high, self.bound
        if not low <= high:  # not a number
            return "open"
        right, wrong = {
            "below": (high < bound, low > bound),
            "above": (low > bound, high < bound),
            "within": (-bound <= low and high <= bound, low > bound or high < -bound),
            "not below": (high >= bound, high < bound),
            "not above": (low <= bound, low > bound),
        }[self.expected]
        return "holds" if right else "fails" if wrong else "open"

    @property
    def expectation(self) -> str:
        """What is expected, in words: "below 0", "within ±2"."""
        return f"{self.expected} {'±' if self.expected == 'within' else ''}{self.bound:g}"

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        effect = f"{signed_interval_text(self.effect)}{unit}" if isfinite(self.effect.low) else "not measurable"
        paper = "" if self.paper is None else f"; paper {number_text(self.paper, 3, signed=True)}{unit}"
        return f"{self.what}: {effect}{paper}{'' if self.counts else ' (beside the claim)'}"


def falls(what: str, effect: Sampled, unit: str = "%", paper: float | None = None, below: float = 0.0) -> Check:
    """The claim that an effect is below zero, or below another bound.

    Args:
        what: What is measured, at which weight and parameter.
        effect: The effect with its replicates.
        unit: The unit of the effect; empty for a plain number.
        paper: The paper's own number, where it gives one.
        below: The bound.
    """
    return Check(what, effect.interval(), "below", below, unit, paper)


def rises(what: str, effect: Sampled, unit: str = "%", paper: float | None = None, above: float = 0.0) -> Check:
    """The claim that an effect is above zero, or above another bound.

    Args:
        what: What is measured, at which weight and parameter.
        effect: The effect with its replicates.
        unit: The unit of the effect; empty for a plain number.
        paper: The paper's own number, where it gives one.
        above: The bound.
    """
    return Check(what, effect.interval(), "above", above, unit, paper)


def stays(what: str, effect: Sampled, tolerance: float, unit: str = "%") -> Check:
    """The claim that an effect is small: within +- tolerance.

    Args:
        what: What is measured, at which weight and parameter.
        effect: The effect with its replicates.
        tolerance: How large it may be, in its unit.
        unit: The unit of the effect; empty for a plain number.
    """
    return Check(what, effect.interval(), "within", tolerance, unit)


def does_not_fall(what: str, effect: Sampled, unit: str = "%") -> Check:
    """The claim that there is no improvement: the effect is not significantly below zero.

    Args:
        what: What is measured, at which weight and parameter.
        effect: The effect with its replicates.
        unit: The unit of the effect; empty for a plain number.
    """
    return Check(what, effect.interval(), "not below", unit=unit)


def never_rises(what: str, effects: Mapping[float, Sampled], unit: str = "%") -> Check:
    """The claim that no step between neighbouring weights goes up; the check shows the step that does so most surely.

    The interval is so wide (Bonferroni) that all steps lie in theirs at once with 95 %.

    Args:
        what: What is measured.
        effects: The effect by decision weight, in ascending order, at least two.
        unit: The unit of the effects; empty for plain numbers.
    """
    steps = _steps(effects)
    (low, high), step = max(steps.items(), key=lambda item: (isnan(item[1].low), item[1].low))
    return Check(f"{what}, step from weight {low:g} to {high:g}", step, "not above", unit=unit)


def never_falls(what: str, effects: Mapping[float, Sampled], unit: str = "%") -> Check:
    """The claim that no step between neighbouring weights goes down; the check shows the one that does so most surely.

    The interval is so wide (Bonferroni) that all steps lie in theirs at once with 95 %.

    Args:
        what: What is measured.
        effects: The effect by decision weight, in ascending order, at least two.
        unit: The unit of the effects; empty for plain numbers.
    """
    steps = _steps(effects)
    (low, high), step = min(steps.items(), key=lambda item: (not isnan(item[1].high), item[1].high))
    return Check(f"{what}, step from weight {low:g} to {high:g}", step, "not below", unit=unit)


def remark(check: Check) -> Check:
    """The same effect, shown beside the claim without a say in its verdict.

    Args:
        check: The effect as a check that counts.
    """
    return replace(check, counts=False)


def _steps(effects: Mapping[float, Sampled]) -> dict[tuple[float, float], Difference]:
    if len(effects) < 2:
        raise StudyError("a course over the weights needs at least two of them")
    ends = list(pairwise(effects.items()))
    return {(low, high): (after - before).interval(1 - 0.05 / len(ends)) for (low, before), (high, after) in ends}
