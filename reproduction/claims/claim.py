"""A claim of the paper as a typed object: what it says, how it is measured, and the verdict that follows."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, isnan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reproduction.claims_part import Verdict
from reproduction.runs.settings import run_from_plain
from reproduction.studies import with_decision_training
from reproduction.study import RegionBy, Study, StudyError
from reproduction.study_collection import Studies, StudyKey
from reproduction.tasks.task import Task
from stakes.errors import StakesError
from stakes.evaluation.intervals import Difference, Sampled
from stakes.text import number_text, signed_interval_text

Expected = Literal["below", "above", "within", "not below", "not above"]


@dataclass(frozen=True)
class Check:
    """One measured effect with its 95 % interval, and what the claim expects of it.

    "below" and "above": the interval lies on that side of the bound (holds), on the other (fails), or on both (open).
    "within": it lies within +- bound (holds), outside (fails), or across (open).
    "not below" and "not above": it does not lie wholly on that side of the bound (holds), or it does (fails).
    An effect that could not be measured is open.
    """

    what: str  # what is measured, at which weight and parameter
    effect: Difference  # the measured effect with its interval
    expected: Expected  # where the interval should lie
    bound: float = 0.0  # in the unit of the effect
    unit: str = "%"  # "%", that of the outcome, or empty for a plain number
    paper: float | None = None  # the paper's own number, where it gives one
    counts: bool = True  # whether it has a say in the verdict of its claim; if not, it is only shown beside the claim

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
    """The claim that an effect is below zero, or below another bound."""
    return Check(what, effect.interval(), "below", below, unit, paper)


def rises(what: str, effect: Sampled, unit: str = "%", paper: float | None = None, above: float = 0.0) -> Check:
    """The claim that an effect is above zero, or above another bound."""
    return Check(what, effect.interval(), "above", above, unit, paper)


def stays(what: str, effect: Sampled, tolerance: float, unit: str = "%") -> Check:
    """The claim that an effect is small: within +- tolerance."""
    return Check(what, effect.interval(), "within", tolerance, unit)


def does_not_fall(what: str, effect: Sampled, unit: str = "%") -> Check:
    """The claim that there is no improvement: the effect is not significantly below zero."""
    return Check(what, effect.interval(), "not below", unit=unit)


def never_rises(what: str, effects: Mapping[float, Sampled], unit: str = "%") -> Check:
    """The claim that no step between neighbouring weights goes up; the check shows the step that does so most surely.

    The interval is so wide (Bonferroni) that all steps lie in theirs at once with 95 %.
    """
    steps = _steps(effects)
    (low, high), step = max(steps.items(), key=lambda item: (isnan(item[1].low), item[1].low))
    return Check(f"{what}, step from weight {low:g} to {high:g}", step, "not above", unit=unit)


def never_falls(what: str, effects: Mapping[float, Sampled], unit: str = "%") -> Check:
    """The claim that no step between neighbouring weights goes down; the check shows the one that does so most surely.

    The interval is so wide (Bonferroni) that all steps lie in theirs at once with 95 %.
    """
    steps = _steps(effects)
    (low, high), step = min(steps.items(), key=lambda item: (not isnan(item[1].high), item[1].high))
    return Check(f"{what}, step from weight {low:g} to {high:g}", step, "not below", unit=unit)


def remark(check: Check) -> Check:
    """The same effect, shown beside the claim without a say in its verdict."""
    return replace(check, counts=False)


def _steps(effects: Mapping[float, Sampled]) -> dict[tuple[float, float], Difference]:
    if len(effects) < 2:
        raise StudyError("a course over the weights needs at least two of them")
    ends = list(pairwise(effects.items()))
    return {(low, high): (after - before).interval(1 - 0.05 / len(ends)) for (low, before), (high, after) in ends}


ClaimSource = tuple[str, str]
"""The task and the model of a study."""

Judge = Callable[..., Iterator[Check]]
"""From one study per source to checks."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, in our words, and how its truth is measured on the studies of its sources."""

    identifier: str  # a letter for the subject and a number: "W1"
    subject: str  # "method", or one of `reproduction.plan.SUBJECTS`
    statement: str  # what the paper says, as a sentence
    how: str  # how it is measured, in sentences
    sources: tuple[ClaimSource, ...]  # the task and the model of each study that it is judged on
    judge: Judge
    choices: tuple[str, ...] = ("main",)
    partial: bool = False  # whether it is judged on the sources that there are; others need all of them

    def judgements(self, studies: Studies) -> list["Judgement"]:
        """One for each choice that was evaluated, or an open one where none was."""
        by_choice = {choice: self._studies(studies, choice) for choice in self.choices}
        judged = [self._judged(needed, choice) for choice, needed in by_choice.items() if needed is not None]
        return judged or [Judgement(self, self.choices[0], (), f"this run has no study of {self._missing(studies)}")]

    def _missing(self, studies: Studies) -> str:
        choice = self.choices[0]
        under = "" if choice == "main" else f" under the choice {choice}"
        missing = [source for source in self.sources if StudyKey(*source, choice) not in studies]
        return " and ".join(f"{task} with the {model} model{under}" for task, model in missing)

    def _studies(self, studies: Studies, choice: str) -> list[Study] | None:
        """The studies of the sources under a choice, or None if some that are needed are missing."""
        keys = [StudyKey(task, model, choice) for task, model in self.sources]
        present = [with_decision_training(studies[key]) for key in keys if key in studies]
        enough = len(present) == len(keys) or (self.partial and len(present) > 0)
        return present if enough else None

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
    """A claim under one choice: its checks, and the verdict they give together."""

    claim: Claim  # the claim
    choice: str  # the name of the settings
    checks: tuple[Check, ...]  # the measured effects
    note: str = ""  # what could not be judged, if anything; such a claim can fail, but not hold

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


_REACH = 0.2  # how far the nearest weight may be


def nearest_weight(study: Study, wanted: float) -> float:
    """The positive weight of the study nearest to that of the paper, at most 0.2 away."""
    near = [weight for weight in study.weights if weight > 0 and abs(weight - wanted) <= _REACH + 1e-9]
    if not near:
        raise StudyError(f"this study has the weights {_listed(study.weights)}, none near {wanted:g}")
    return min(near, key=lambda weight: abs(weight - wanted))


def weights_within(study: Study, low: float, high: float) -> list[float]:
    """The weights of the study from low to high, at least one."""
    weights = [weight for weight in study.weights if low - 1e-9 <= weight <= high + 1e-9]
    if not weights:
        raise StudyError(f"this study has the weights {_listed(study.weights)}, none from {low:g} to {high:g}")
    return weights


def required_parameter(study: Study, wanted: float) -> float:
    """A parameter of the cost, if the study has it."""
    if not np.isclose(study.parameters, wanted).any():
        raise StudyError(f"this study has {_name(study)} {_listed(study.parameters)}, not {wanted:g}")
    return wanted


def smallest_and_largest(study: Study) -> tuple[float, float]:
    """The smallest and the largest parameter of the cost, if there are several."""
    low, high = min(study.parameters), max(study.parameters)
    if low == high:
        raise StudyError(f"this study has one {_name(study)}, {low:g}: nothing to compare it with")
    return low, high


def parameters_below(study: Study, bound: float) -> list[float]:
    """The parameters of the cost below a bound, at least one."""
    parameters = [parameter for parameter in study.parameters if parameter < bound]
    if not parameters:
        raise StudyError(f"this study has {_name(study)} {_listed(study.parameters)}, none below {bound:g}")
    return parameters


def relative_change(
    study: Study,
    metric: str,
    weight: float,
    parameter: float | None = None,
    region: str | None = None,
    by: RegionBy = "observed",
) -> Sampled:
    """The mean of a metric at a weight against that at weight 0, in per cent."""
    mean, at_0 = study.pair(metric, weight, parameter, region, by)
    return mean.relative_to(at_0)


def changes_by_weight(
    study: Study, metric: str, parameter: float | None = None, region: str | None = None
) -> dict[float, Sampled]:
    """The change of a metric at every weight of the study, in per cent of weight 0."""
    return {weight: relative_change(study, metric, weight, parameter, region) for weight in study.weights}


def gap_change(study: Study, weight: float, parameter: float | None = None, region: str | None = None) -> Sampled:
    """|mean predicted - mean realised cost| at a weight less that at weight 0, in units of the cost."""
    gap, at_0 = study.pair("gap", weight, parameter, region)
    return abs(gap) - abs(at_0)


def masked_mean(study: Study, values: NDArray[np.float64], mask: NDArray[np.bool_]) -> Sampled:
    """The mean of values over some of the cases."""
    return study.resampling.mean(values, mask[:, None])


def masked_pair(
    study: Study, first: NDArray[np.float64], second: NDArray[np.float64], mask: NDArray[np.bool_]
) -> tuple[Sampled, Sampled]:
    """The means of two arrays over those of some cases where both are finite."""
    return study.resampling.pair(first, second, mask[:, None])


def mean_of(parts: Sequence[Sampled]) -> Sampled:
    """The mean of some statistics."""
    return sum(parts[1:], parts[0]) / len(parts)


def exact(value: float) -> Sampled:
    """A number without sampling error, such as a maximum over all that there is."""
    return Sampled(value, (np.array([value]), np.array([value])), (math.inf, math.inf))


def task_of(study: Study) -> Task:
    """The task of a study with the settings it was evaluated under; its cost has one of the study's parameters."""
    settings = study.about["settings"].get("task", {"name": study.about["task"]})
    return run_from_plain({"task": settings}).task


def _name(study: Study) -> str:
    return str(study.about["parameter"]).replace("_", " ")


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
