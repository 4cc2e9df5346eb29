"""Ways to decide that were judged on the same cases: what reports of fits and of recalibrations have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.cost_text.written_cost import CostSpec
from stakes.evaluation.intervals import Difference, Resampling, Sampled
from stakes.evaluation.judged_parts import JudgedParts
from stakes.evaluation.weight_frontier import LEAST_BLOCKS
from stakes.method.costs import Cost

__all__ = ["JudgedWays", "WayToDecide"]

Floats = NDArray[np.float64]


class WayToDecide(NamedTuple):
    """A way to decide, and what it cost.

    Attributes:
        name: What it is called in a table.
        short: What it is called in a figure.
        cost: What it cost in each case, (N,); NaN where its action is not known.
    """

    name: str
    short: str
    cost: Floats


class JudgedWays(ABC):
    """A forecast that was taken, judged on test cases beside other ways to decide.

    Attributes:
        cost: What a decision costs.
        cost_spec: The same as it was written; None for a cost given in Python.
        settings: The settings of what is reported, nested by name.
        judged_parts: What is shown of decisions with many parts; None where they are about one number.
    """

    cost: Cost
    cost_spec: CostSpec | None
    settings: Mapping[str, Any]
    judged_parts: JudgedParts | None

    @property
    @abstractmethod
    def ways(self) -> tuple[WayToDecide, ...]:
        """All ways to decide that are known, first the plain forecast that others are compared with."""

    @property
    @abstractmethod
    def taken(self) -> WayToDecide:
        """The forecast that was taken, one of the ways."""

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

        That is its `outcome`, and where they are known the actions of the plain forecast, of the one that was taken and
        of today (`plain`, `taken`, `today`), and the quantiles at 0.1 and 0.9 of the one taken (`low`, `high`). An
        action with a part for each outcome is shown by their mean, and one with other parts is not.
        """

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of an action with several; none for a single number."""

    @property
    @abstractmethod
    def labels(self) -> Mapping[str, str]:
        """What the plain forecast and the one that was taken are called in a figure, by `plain` and `taken`."""

    @property
    @abstractmethod
    def who_saves(self) -> tuple[str, str]:
        """What the forecast that was taken and the plain one are called where savings are told."""

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
        """Whether another forecast was taken than the plain one."""
        return self.taken is not self.ways[0]

    def way(self, short: str) -> WayToDecide | None:
        """The way to decide of this short name; None where it is not known."""
        return next((way for way in self.ways if way.short == short), None)

    def pair(self, way: WayToDecide, other: WayToDecide) -> tuple[Sampled, Sampled]:
        """The mean costs of two ways over the cases in which both are known."""
        return self.resampling.pair(way.cost[None, None], other.cost[None, None])

    def change(self, way: WayToDecide, other: WayToDecide | None = None) -> Difference:
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
