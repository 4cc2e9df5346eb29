"""A claim of the paper as a typed object: what it says, how it is measured, and the verdict that follows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, isnan
from typing import Literal

import numpy as np

from stakes.errors import StakesError, StudyError
from stakes.evaluation.intervals import Difference, Sampled
from stakes.evaluation.study import Study
from stakes.number_text import number_text, signed_interval_text
from stakes.paper.studies import Key, Studies

__all__ = ["Check", "Claim", "Expected", "Judge", "Judgement", "Source", "Verdict"]
__all__ += ["does_not_fall", "falls", "never_falls", "never_rises", "remark", "rises", "stays"]

Verdict = Literal["holds", "fails", "open"]
Expected = Literal["below", "above", "within", "not below", "not above"]
Source = tuple[str, str]
"""The task and the model of a study."""


@dataclass(frozen=True)
class Check:
    """One measured effect with its 95 % interval, and what the claim expects of it.

    "below" and "above": the interval lies on that side of the bound (holds), on the other (fails), or on both (open).
    "within": it lies within +- bound (holds), outside (fails), or across (open).
    "not below" and "not above": it does not lie wholly on that side of the bound (holds), or it does (fails).
    An effect that could not be measured is open. One that does not count is shown beside the claim, no more.
    """

    what: str
    effect: Difference
    expected: Expected
    bound: float = 0.0
    unit: str = "%"
    paper: float | None = None  # the paper's own figure
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
    """The claim that an effect is below zero, or another bound."""
    return Check(what, effect.interval(), "below", below, unit, paper)


def rises(what: str, effect: Sampled, unit: str = "%", paper: float | None = None, above: float = 0.0) -> Check:
    """The claim that an effect is above zero, or another bound."""
    return Check(what, effect.interval(), "above", above, unit, paper)


def stays(what: str, effect: Sampled, tolerance: float, unit: str = "%") -> Check:
    """The claim that an effect is small: within +- tolerance."""
    return Check(what, effect.interval(), "within", tolerance, unit)


def does_not_fall(what: str, effect: Sampled, unit: str = "%") -> Check:
    """The claim that there is no improvement: the effect is not significantly below zero."""
    return Check(what, effect.interval(), "not below", unit=unit)


def never_rises(what: str, path: Mapping[float, Sampled], unit: str = "%") -> Check:
    """The claim that no step between neighbouring weights goes up; the check shows the step that does so most surely.

    The interval is so wide (Bonferroni) that all steps lie in theirs at once with 95 %.
    """
    steps = _steps(path)
    (low, high), step = max(steps.items(), key=lambda item: (isnan(item[1].low), item[1].low))
    return Check(f"{what}, step from weight {low:g} to {high:g}", step, "not above", unit=unit)


def never_falls(what: str, path: Mapping[float, Sampled], unit: str = "%") -> Check:
    """The claim that no step between neighbouring weights goes down, as `never_rises`."""
    steps = _steps(path)
    (low, high), step = min(steps.items(), key=lambda item: (not isnan(item[1].high), item[1].high))
    return Check(f"{what}, step from weight {low:g} to {high:g}", step, "not below", unit=unit)


def remark(check: Check) -> Check:
    """The same effect, shown beside the claim without a say in its verdict."""
    return replace(check, counts=False)


def _steps(path: Mapping[float, Sampled]) -> dict[tuple[float, float], Difference]:
    if len(path) < 2:
        raise StudyError("a course over the weights needs at least two of them")
    ends = list(pairwise(path.items()))
    return {(low, high): _interval(after - before, 0.025 / len(ends)) for (low, before), (high, after) in ends}


def _interval(effect: Sampled, tail: float) -> Difference:
    """As `Sampled.interval`, with this share of the replicates beyond each end."""
    defined = effect.replicates[np.isfinite(effect.replicates)]
    low, high = np.quantile(defined, [tail, 1 - tail]) if len(defined) else (np.nan, np.nan)
    return Difference(effect.estimate, float(low), float(high))


Judge = Callable[..., Iterator[Check]]
"""Studies, one a source, to checks."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, in our words, and how its truth is measured on the studies of its sources.

    `judge` takes one study a source, or none where there are no sources, and yields checks; what it cannot judge for
    want of a weight or a parameter it says with a `StudyError`. `partial` claims are judged on the sources that there
    are, others need all of them.
    """

    identifier: str
    subject: str
    statement: str
    how: str
    sources: tuple[Source, ...]
    judge: Judge
    choices: tuple[str, ...] = ("main",)  # under which it is judged, where they were evaluated
    partial: bool = False

    def judgements(self, studies: Studies) -> list["Judgement"]:
        """One for each choice that was evaluated, or an open one where none was."""
        found = {choice: self._studies(studies, choice) for choice in self.choices}
        judged = [self._judged(each, choice) for choice, each in found.items() if each is not None]
        return judged or [Judgement(self, self.choices[0], (), f"this run has no study of {self._missing(studies)}")]

    def _missing(self, studies: Studies) -> str:
        choice = self.choices[0]
        under = "" if choice == "main" else f" under the choice {choice}"
        missing = [source for source in self.sources if Key(*source, choice) not in studies.found]
        return " and ".join(f"{task} with the {model} model{under}" for task, model in missing)

    def _studies(self, studies: Studies, choice: str) -> list[Study] | None:
        """The studies of the sources under a choice, or None if some that are needed are missing."""
        keys = [Key(task, model, choice) for task, model in self.sources]
        found = [studies.found[key] for key in keys if key in studies.found]
        enough = len(found) == len(keys) or (self.partial and len(found) > 0)
        return found if enough else None

    def _judged(self, studies: list[Study], choice: str) -> "Judgement":
        checks: list[Check] = []
        try:
            for check in self.judge(*studies):
                checks.append(check)  # one by one: those before an error are kept
        except StakesError as error:
            return Judgement(self, choice, tuple(checks), str(error))
        return Judgement(self, choice, tuple(checks))


@dataclass(frozen=True)
class Judgement:
    """A claim under one choice: its checks, and the verdict they give together.

    `note` says what could not be judged; such a claim can fail, but not hold.
    """

    claim: Claim
    choice: str
    checks: tuple[Check, ...]
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Holds if every check that counts holds, fails if one fails, else open."""
        verdicts = {check.verdict for check in self.checks if check.counts}
        if "fails" in verdicts:
            return "fails"
        return "holds" if verdicts == {"holds"} and not self.note else "open"

    @property
    def decisive(self) -> Check | None:
        """The first check that fails, or that is open, or the first of all that count."""
        counting = [check for check in self.checks if check.counts]
        return min(counting, key=lambda check: ("fails", "open", "holds").index(check.verdict), default=None)
