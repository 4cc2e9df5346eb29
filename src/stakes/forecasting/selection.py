"""Model selection: candidates fitted in order, judged on the same held-out cases, and the one that is selected."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stakes.data.tables.time_axis import Times
from stakes.evaluation.selection import (
    Frontier,
    JudgedCandidate,
    JudgedCases,
    ModelSelection,
    decision_candidate,
    frontier,
    judged_candidate,
    step_level,
    too_few_to_choose,
    untested_candidate,
)

CaseNumbers = NDArray[np.int64]
Cases = TypeVar("Cases", bound=Any)
Fitted = TypeVar("Fitted")
Trial = TypeVar("Trial")


START = "all start from it"
"""Why the first candidate is selected."""


class Fold(NamedTuple):
    """Some cases, and those that had happened before any of them was issued."""

    rows: CaseNumbers  # the places of the cases
    known: CaseNumbers  # the places of those that may teach


def rolling_folds(
    edges: Sequence[int], gap: int, times: Times | None = None, issued: Times | None = None
) -> list[Fold]:
    """The cases between edges, each block with those that happened before it was issued, `gap` cases before at most."""
    folds = []
    issued = times if issued is None else issued
    for start, end in pairwise(edges):
        known = np.arange(max(start - gap, 0))
        if times is not None and issued is not None:
            known = known[times[known] < issued[start:end].min()]
        folds.append(Fold(np.arange(start, end), known))
    return folds


class Candidate(ABC, Generic[Cases, Fitted]):
    """A way to forecast, before it is fitted: on all cases, or on those known before each fold."""

    @abstractmethod
    def fit(self, cases: Cases, like: Fitted | None = None) -> Fitted:
        """What it learns from cases; `like` was learned from fewer of them."""

    @abstractmethod
    def members(self, fitted: Fitted, cases: Cases) -> Any:
        """Members of cases that it has not seen."""

    def fit_folds(self, cases: Cases, folds: Sequence[Fold]) -> list[Fitted]:
        """What it learns before each fold."""
        fits: list[Fitted] = []
        for fold in folds:
            fits.append(self.fit(cases.rows(fold.known), fits[-1] if fits else None))
        return fits

    def out_of_fold(self, cases: Cases, folds: Sequence[Fold], fits: Sequence[Fitted] | None = None) -> list[Any]:
        """Members of the cases of each fold, by what was learned before it."""
        fits = self.fit_folds(cases, folds) if fits is None else fits
        return [self.members(fit, cases.rows(fold.rows)) for fit, fold in zip(fits, folds, strict=True)]


class CandidateSelection(Generic[Trial]):
    """Candidates tried in order on the same held-out cases, each against the one that is selected so far."""

    def __init__(
        self, judge: Callable[[Trial], JudgedCases], cases: int, block: int, steps: int, tolerance: float | None
    ) -> None:
        self.judge, self.cases, self.block, self.tolerance = judge, cases, block, tolerance
        self.level = step_level(steps)
        self.candidates: list[JudgedCandidate] = []
        self.trials: dict[str, Trial] = {}
        self._worth: dict[str, JudgedCases] = {}

    @property
    def selected(self) -> JudgedCandidate:
        """The candidate that is selected so far."""
        return [candidate for candidate in self.candidates if candidate.accepted][-1]

    @property
    def trial(self) -> Trial:
        """What was tried of it."""
        return self.trials[self.selected.name]

    @property
    def too_few(self) -> str:
        """Why so few cases prove nothing, for people; empty where they may."""
        return too_few_to_choose(self.cases, self.block).replace("choose a decision weight by", "prove anything by")

    def add(self, name: str, trial: Trial | None, why: str, *, accepted: bool = True) -> None:
        """A candidate that is selected, or not, without a test; without numbers where it was not fitted."""
        worth, below = None if trial is None else self.judge(trial), self.selected if self.candidates else None
        self._add(untested_candidate(name, below, worth, why, accepted=accepted), trial, worth)

    def try_one(
        self,
        name: str,
        trial: Trial,
        parameters: Mapping[str, str | float] | None = None,
        *,
        presumed: bool = False,
        objection: Callable[[], str] = lambda: "",
    ) -> bool:
        """Whether a candidate is selected; an objection, asked for where it would be, speaks against it."""
        worth = self.judge(trial)
        candidate = self._tested(name, worth, parameters, presumed)
        if candidate.accepted and (why := objection()):
            candidate = replace(candidate, accepted=False, why=why)
        return self._add(candidate, trial, worth)

    def try_best(self, name: str, trials: Sequence[tuple[Mapping[str, str | float], Trial]]) -> bool:
        """The variant of the best score, of those that are proven where there are any."""
        worth = [self.judge(trial) for _, trial in trials]
        tested = [
            self._tested(name, each, parameters, False) for each, (parameters, _) in zip(worth, trials, strict=True)
        ]
        proven = [place for place, candidate in enumerate(tested) if candidate.accepted] or range(len(tested))
        best = min(proven, key=lambda place: float(worth[place].score.mean()))
        return self._add(tested[best], trials[best][1], worth[best])

    def try_weights(self, trials: Mapping[float, Trial], *, or_better_score: bool = False) -> Frontier:
        """The decision weight that a frontier takes, or else one that is proven as any other candidate."""
        held = self._worth[self.selected.name]
        worth = {weight: self.judge(trial) for weight, trial in trials.items()}
        judged = weight_frontier({0.0: held, **worth}, self.block, self.tolerance, self.level)
        candidate = decision_candidate(judged, self.selected)
        if or_better_score and not candidate.accepted:
            others = [
                self._tested("decision", each, {"decision weight": weight}, False) for weight, each in worth.items()
            ]
            proven = [each for each in others if each.accepted]
            candidate = min(proven, key=lambda each: each.cost or 0.0, default=candidate)
        weight = float(candidate.parameters.get("decision weight", 0))
        self._add(candidate, trials.get(weight), worth.get(weight))
        return judged

    def result(self) -> ModelSelection:
        """How each candidate was judged."""
        return ModelSelection(tuple(self.candidates), self.cases, min(self.block, self.cases))

    def _tested(
        self, name: str, worth: JudgedCases, parameters: Mapping[str, str | float] | None, presumed: bool
    ) -> JudgedCandidate:
        return judged_candidate(
            name,
            worth,
            self.selected,
            self._worth[self.selected.name],
            block=self.block,
            level=self.level,
            parameters=parameters,
            presumed=presumed,
        )

    def _add(self, candidate: JudgedCandidate, trial: Trial | None, worth: JudgedCases | None) -> bool:
        self.candidates.append(candidate)
        if trial is not None and worth is not None:
            self.trials[candidate.name], self._worth[candidate.name] = trial, worth
        return candidate.accepted


def weight_frontier(
    worth: Mapping[float, JudgedCases], block: int, tolerance: float | None, level: float = 0.975
) -> Frontier:
    """What decision weights cost and score on the same cases, and which one to take."""
    cost, score = (np.stack([getattr(each, name) for each in worth.values()]) for name in JudgedCases._fields)
    return frontier([*worth], cost, score, block=block, tolerance=tolerance, level=level)
