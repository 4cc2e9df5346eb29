"""Policies that were judged on the same cases, of a fit or of a recalibration: what reports tell of."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.artifacts.fits import AboutFit
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost
from stakes.data.tables.layout import DataQuality
from stakes.errors import SettingError
from stakes.evaluation.case_metrics import WorthAtValue
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, Resampling, Sampled
from stakes.evaluation.selection import Frontier, Headroom, ModelSelection
from stakes.evaluation.study import Study
from stakes.evaluation.vector_cases import JudgedParts
from stakes.forecasting.recalibration import JudgedCorrection, Version
from stakes.reports.selection_text import candidate_title, forecast_words

Floats = NDArray[np.float64]


class Policy(NamedTuple):
    """A way to decide, and what it cost."""

    name: str  # what it is called in a table
    short: str  # what it is called in a figure
    cost: Floats  # what it cost in each case, (N,); NaN where its action is not known


class PolicyComparison(ABC):
    """A selected forecast, judged on test cases beside other ways to decide."""

    cost: Cost  # what a decision costs
    cost_spec: CostSpec | None  # the same as it was written; None for a cost given in Python
    settings: Mapping[str, Any]  # the settings of what is reported, nested by name
    judged_parts: JudgedParts | None

    @property
    @abstractmethod
    def ways(self) -> tuple[Policy, ...]:
        """All ways to decide that are known, first the plain forecast that others are compared with."""

    @property
    @abstractmethod
    def selected(self) -> Policy:
        """The selected forecast, one of the ways."""

    @property
    @abstractmethod
    def resampling(self) -> Resampling:
        """How sure one can be of means over the cases."""

    @property
    @abstractmethod
    def times(self) -> NDArray[np.datetime64] | None:
        """The times of the test cases, (N,); None where they have none."""

    @property
    @abstractmethod
    def case_table(self) -> pd.DataFrame:
        """What is drawn of every case, by time or number.

        That is its `outcome`, and where they are known the actions of the plain forecast, of the selected one and of
        today (`plain`, `selected`, `today`), and the quantiles at 0.1 and 0.9 of the selected one (`low`, `high`). An
        action with a part for each outcome is shown by their mean, and one with other parts is not.
        """

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of an action with several; none for a single number."""

    @property
    @abstractmethod
    def labels(self) -> Mapping[str, str]:
        """What the plain forecast and the selected one are called in a figure, by `plain` and `selected`."""

    @property
    @abstractmethod
    def who_saves(self) -> tuple[str, str]:
        """What the selected forecast and the plain one are called where savings are told."""

    @property
    def cases(self) -> int:
        """How many test cases there are."""
        return len(self.ways[0].cost)

    @property
    def believed(self) -> bool:
        """Whether there are so many blocks of neighbouring cases that an interval says anything."""
        return self.cases >= LEAST_BLOCKS * self.resampling.block

    @property
    def unit(self) -> str:
        """The unit of the cost; empty where it is not known."""
        return self.cost_spec.unit if self.cost_spec else ""

    @property
    def action_unit(self) -> str:
        """The unit of the action; empty where it is not known."""
        return self.cost_spec.action_unit if self.cost_spec else ""

    @property
    def has_left_plain(self) -> bool:
        """Whether another forecast was selected than the plain one."""
        return self.selected is not self.ways[0]

    def way(self, short: str) -> Policy | None:
        """The way to decide of this short name; None where it is not known."""
        return next((way for way in self.ways if way.short == short), None)

    def pair(self, way: Policy, other: Policy) -> tuple[Sampled, Sampled]:
        """The mean costs of two ways over the cases in which both are known."""
        return self.resampling.pair(way.cost[None, None], other.cost[None, None])

    def change(self, way: Policy, other: Policy | None = None) -> Difference:
        """What a way costs a case less what another does, by default the first of all ways."""
        rival = other or self.ways[0]
        ours, baseline = self.pair(way, rival)
        return self.stated(ours - baseline, np.isfinite(way.cost + rival.cost))

    def stated(self, statistic: Sampled | Difference, known: NDArray[np.bool_] | None = None) -> Difference:
        """With its interval, unless there are too few blocks of cases, all or those known, to believe it."""
        difference = statistic.interval() if isinstance(statistic, Sampled) else statistic
        touched = LEAST_BLOCKS if known is None else len(np.unique(np.flatnonzero(known) // self.resampling.block))
        enough = self.believed and touched >= LEAST_BLOCKS
        return difference if enough else Difference(difference.mean, float("nan"), float("nan"))

    def mean_of(self, values: Floats) -> Difference:
        """The mean of some values (N,) with its interval, where there are cases enough for one."""
        return self.stated(self.resampling.mean(values[None, None]))


_LOW, _HIGH = 0.1, 0.9  # quantiles of the forecast


@dataclass(frozen=True, eq=False)
class JudgedFit(PolicyComparison):
    """All that the report of a fit tells of: its forecast judged on held-out test cases, and what it came from."""

    study: Study
    cost: Cost  # what a decision costs
    cost_spec: CostSpec | None  # the same as it was written; None for a cost given in Python
    frontier: Frontier | None  # how the weight was chosen; None where it was given
    headroom: Headroom | None  # what a policy trained on the cost alone gains; None where none was trained
    quality: DataQuality | None  # what the table of the fit was like; None where there was none
    settings: Mapping[str, Any]  # the settings of the fit, nested by name
    provenance: Mapping[str, str]  # what the fit was made with and from, by name
    outcomes: Floats  # some of the training outcomes, (N, D)
    selection: ModelSelection | None = None
    judged_parts: JudgedParts | None = None
    by_parameter: tuple[WorthAtValue, ...] = ()
    leaks: tuple[str, ...] = ()  # a sentence for each outcome that features reproduce almost exactly

    @classmethod
    def from_about(
        cls,
        study: Study,
        cost: Cost,
        cost_spec: CostSpec | None,
        frontier: Frontier | None,
        about: Mapping[str, Any],
        selection: ModelSelection | None = None,
    ) -> Self:
        """With what a bundle keeps beside the forecaster, `stakes.artifacts.fits.Bundle.about`."""
        known = AboutFit.read(about)
        targets = len(study.about.get("targets", ()))
        if not known.outcomes or {len(row) for row in known.outcomes} != {targets}:
            raise SettingError(f"about.outcomes must be rows of one number for each of the {targets} targets")
        return cls(
            study=study,
            cost=cost,
            cost_spec=cost_spec,
            frontier=frontier,
            headroom=known.headroom,
            quality=known.quality,
            settings=known.settings,
            provenance=known.provenance,
            outcomes=np.array(known.outcomes),
            selection=selection if selection is not None and selection.tested else None,
            judged_parts=known.parts,
            by_parameter=known.by_parameter,
            leaks=known.leaks,
        )

    @property
    def weight(self) -> float:
        """The selected decision weight."""
        return max(self.study.weights)

    @property
    def weights(self) -> list[float]:
        """Weight 0 and, where it is another, the selected weight."""
        return sorted({0.0, self.weight})

    @property
    def resampling(self) -> Resampling:
        """How sure one can be of means over the cases."""
        return self.study.resampling

    @property
    def targets(self) -> list[str]:
        """The names of the target columns."""
        return [str(target) for target in self.study.about.get("targets", ())]

    @property
    def times(self) -> NDArray[np.datetime64] | None:
        """The times of the test cases, (N,); None where they have none."""
        return self.study.case_values("time")[0] if "time" in self.study.cases else None

    def values(self, metric: str, weight: float) -> Floats:
        """A metric of each case, (N,)."""
        return self.study.values(metric, weight)[0, 0]

    def of_cases(self, name: str) -> Floats | None:
        """What does not depend on the forecast, (N,); None where it is not known."""
        if name not in self.study.cases:
            return None
        values = self.study.case_values(name)[0].astype(np.float64)
        return values if np.isfinite(values).any() else None

    @cached_property
    def ways(self) -> tuple[Policy, ...]:
        """All ways to decide that are known, the forecast of weight 0 first."""
        plain, name = self.values("cost", 0.0), "forecast trained on its score alone (weight 0)"
        if self.selection is not None and self.weightless:
            name = forecast_words(self.selection)
        ways = [Policy(name, self.label(0.0), plain)]
        if self.weight:
            name = f"weight {self.weight:g}"
            ways.append(Policy(f"decision-aware forecast ({name})", name, self.values("cost", self.weight)))
        today, climatology = self.of_cases("baseline_cost"), self.of_cases("climatology_cost")
        if today is not None:
            ways.append(Policy("today's action", "today", today))
        if climatology is not None:
            ways.append(Policy("one action for all cases (climatology)", "climatology", climatology))
        return (*ways, Policy("perfect foresight", "foresight", plain - self.values("foresight_regret", 0.0)))

    @property
    def weightless(self) -> bool:
        """Whether a candidate without a decision weight was selected, so that none is spoken of."""
        return self.selection is not None and not self.weight

    def label(self, weight: float) -> str:
        """What the forecast of a weight is called in a figure."""
        return "forecast" if self.weightless else f"weight {weight:g}"

    @property
    def selected(self) -> Policy:
        """The selected forecast."""
        return self.ways[1 if self.weight else 0]

    @property
    def case_table(self) -> pd.DataFrame:
        """What is drawn of every case, by time or number."""
        columns = {"outcome": self.of_cases("outcome"), "plain": self._actions(0.0)}
        if self.weight:
            columns["selected"] = self._actions(self.weight)
        columns["today"] = self._todays_actions
        if "quantile" in self.study.forecasts:
            levels = (("low", _LOW), ("high", _HIGH))
            columns |= {name: self.study.quantile(level, self.weight)[0, 0] for name, level in levels}
        index = np.arange(1, self.cases + 1) if self.times is None else pd.DatetimeIndex(self.times)
        return pd.DataFrame({name: values for name, values in columns.items() if values is not None}, index=index)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of an action with several."""
        names = (str(name) for name in self.study.forecasts.data_vars)
        return tuple(name.removeprefix("action_") for name in names if name.startswith("action_"))

    def _actions(self, weight: float) -> Floats | None:
        """The action of each case, (N,), or the mean of its parts, where each outcome has one."""
        if not self.parts:
            return self.values("action", weight)
        every = [self.values(f"action_{part}", weight) for part in self.parts]
        return np.mean(every, axis=0) if len(every) == len(self.targets) else None

    @property
    def _todays_actions(self) -> Floats | None:
        if not self.parts:
            return self.of_cases("baseline_action")
        every = [self.of_cases(f"baseline_action_{part}") for part in self.parts]
        known = [values for values in every if values is not None]
        return np.mean(known, axis=0) if len(known) == len(self.targets) else None

    @property
    def labels(self) -> dict[str, str]:
        """What the forecasts are called in a figure."""
        return {"plain": self.label(0.0), "selected": self.label(self.weight)}

    @property
    def who_saves(self) -> tuple[str, str]:
        """What the selected forecast and that of weight 0 are called where savings are told."""
        return "the forecast" if self.weightless else self.selected.short, "weight 0"


_YEAR = np.timedelta64(31_557_600, "s")


class YearlyCases(NamedTuple):
    """How many cases a year has."""

    cases: float  # how many, if all of it were like the test cases
    whole: bool  # whether the test cases span a year, and so all its seasons


@dataclass(frozen=True, eq=False)
class JudgedRecalibration(PolicyComparison):
    """All that the report of a recalibration tells of."""

    judged: JudgedCorrection  # the test cases in the order of time
    selection: ModelSelection  # how each candidate was judged, on the test cases too
    form: Literal["members", "quantiles", "points"]  # whether the forecast came as members, quantiles or points
    targets: tuple[str, ...]  # the names of the outcomes
    cost: Cost  # what a decision costs
    cost_spec: CostSpec | None  # the same as it was written; None for a cost given in Python
    settings: Mapping[str, Any] = field(default_factory=dict)  # the settings of the recalibration, nested by name
    provenance: Mapping[str, str] = field(default_factory=dict)  # what it was made with and from, by name
    notes: tuple[str, ...] = ()  # what the user was told of the past cases

    @property
    def judged_parts(self) -> JudgedParts | None:  # type: ignore[override]
        """What is shown of decisions with many parts; None where they are about one number."""
        return self.judged.parts

    @cached_property
    def ways(self) -> tuple[Policy, ...]:
        """All ways to decide that are known, the raw forecast first."""
        values = self.judged.values
        ways = [Policy("raw forecast", "raw", values("cost", "raw"))]
        if self.selection.selected.name != "raw":
            name = f"corrected forecast ({candidate_title(self.selection.selected.name)})"
            ways.append(Policy(name, "corrected", values("cost", "corrected")))
        if "today_cost" in self.judged.cases:
            ways.append(Policy("today's action", "today", values("today_cost")))
        return (*ways, Policy("perfect foresight", "foresight", values("foresight_cost")))

    @property
    def selected(self) -> Policy:
        """The selected forecast."""
        return self.way("corrected") or self.ways[0]

    @cached_property
    def resampling(self) -> Resampling:
        """How sure one can be of means over the cases."""
        return Resampling(len(self.judged), block=min(self.judged.block, len(self.judged)))

    @property
    def times(self) -> NDArray[np.datetime64] | None:
        """The times of the test cases, (N,); None where they have none."""
        return self.judged.times

    @property
    def outcomes(self) -> Floats | None:
        """The outcomes of the test cases, (N, 1); None where a decision is about several, whose sum alone is kept."""
        return self.judged.values("outcome")[:, None] if len(self.targets) == 1 else None

    @property
    def versions(self) -> tuple[Version, ...]:
        """The raw forecast and, where that was left, the corrected one."""
        return ("raw", "corrected") if self.has_left_plain else ("raw",)

    @property
    def version(self) -> Version:
        """Which of them was selected."""
        return self.versions[-1]

    @property
    def case_table(self) -> pd.DataFrame:
        """What is drawn of every time or case; means where a time has several cases."""
        columns = {"outcome": self.judged.values("outcome")}
        if len(self.parts) in (0, len(self.targets)):
            columns["plain"] = self._actions("raw")
            columns |= {"selected": self._actions("corrected")} if self.has_left_plain else {}
        todays = [name for name in self.judged.cases if str(name).startswith("today_action")]
        if todays and len(todays) in (1, len(self.targets)):
            columns["today"] = self.judged.cases[todays].mean(axis=1).to_numpy(np.float64)
        columns |= {name: self.judged.values(name, self.version) for name in ("low", "high")}
        if self.times is None:
            return pd.DataFrame(columns, index=np.arange(1, self.cases + 1))
        return pd.DataFrame(columns).groupby(pd.DatetimeIndex(self.times)).mean()

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of an action with several."""
        start = "raw_action_"
        return tuple(str(name).removeprefix(start) for name in self.judged.cases if str(name).startswith(start))

    def _actions(self, version: Version) -> Floats:
        """The action of each case, (N,), or the mean of its parts."""
        names = [f"action_{part}" for part in self.parts] or ["action"]
        return np.mean([self.judged.values(name, version) for name in names], axis=0)

    @property
    def labels(self) -> dict[str, str]:
        """What the forecasts are called in a figure."""
        return {"plain": "raw", "selected": "corrected"}

    @property
    def who_saves(self) -> tuple[str, str]:
        """What the forecasts are called where savings are told."""
        return "the corrected forecast" if self.has_left_plain else "the raw forecast", "the raw forecast"

    @property
    def yearly(self) -> YearlyCases | None:
        """How many cases a year has; None where they have no times, or all the same."""
        if self.times is None or len(moments := np.unique(self.times)) < 2:
            return None
        span = moments[-1] - moments[0] + np.median(np.diff(moments).astype(np.int64)).astype(np.int64)
        return YearlyCases(self.cases * float(_YEAR / span), bool(span >= 0.95 * _YEAR))
