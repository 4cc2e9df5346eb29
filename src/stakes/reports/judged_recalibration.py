"""What the report of a recalibration tells of: a forecast as it came and as it was corrected, judged on test cases."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.cost_text.written_cost import CostSpec
from stakes.evaluation.intervals import Resampling
from stakes.evaluation.judged_correction import JudgedCorrection, Version
from stakes.evaluation.judged_parts import JudgedParts
from stakes.evaluation.ladder import Ladder
from stakes.method.costs import Cost
from stakes.reports.judged_ways import JudgedWays, WayToDecide
from stakes.reports.ladder_words import rung_title

__all__ = ["JudgedRecalibration", "YearlyCases"]

Floats = NDArray[np.float64]

_YEAR = np.timedelta64(31_557_600, "s")


class YearlyCases(NamedTuple):
    """How many cases a year has.

    Attributes:
        cases: How many, if all of it were like the test cases.
        whole: Whether the test cases span a year, and so all its seasons.
    """

    cases: float
    whole: bool


@dataclass(frozen=True, eq=False)
class JudgedRecalibration(JudgedWays):
    """All that the report of a recalibration tells of.

    Attributes:
        judged: The test cases in the order of time.
        ladder: How the correction was chosen rung by rung, each judged on the test cases too.
        form: Whether the forecast came as members, quantiles or points.
        targets: The names of the outcomes.
        cost: What a decision costs.
        cost_spec: The same as it was written; None for a cost given in Python.
        settings: The settings of the recalibration, nested by name.
        provenance: What it was made with and from, by name.
        notes: What the user was told of the past cases.
    """

    judged: JudgedCorrection
    ladder: Ladder
    form: Literal["members", "quantiles", "points"]
    targets: tuple[str, ...]
    cost: Cost
    cost_spec: CostSpec | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def judged_parts(self) -> JudgedParts | None:  # type: ignore[override]
        """What is shown of decisions with many parts; None where they are about one number."""
        return self.judged.parts

    @cached_property
    def ways(self) -> tuple[WayToDecide, ...]:
        """All ways to decide that are known, the raw forecast first."""
        values = self.judged.values
        ways = [WayToDecide("raw forecast", "raw", values("cost", "raw"))]
        if self.ladder.taken.name != "raw":
            name = f"corrected forecast ({rung_title(self.ladder.taken.name)})"
            ways.append(WayToDecide(name, "corrected", values("cost", "corrected")))
        if "today_cost" in self.judged.cases:
            ways.append(WayToDecide("today's action", "today", values("today_cost")))
        return (*ways, WayToDecide("perfect foresight", "foresight", values("foresight_cost")))

    @property
    def taken(self) -> WayToDecide:
        """The forecast that was taken."""
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
        """Which of them was taken."""
        return self.versions[-1]

    @property
    def case_table(self) -> pd.DataFrame:
        """What is drawn of every time or case; means where a time has several cases."""
        columns = {"outcome": self.judged.values("outcome")}
        if len(self.parts) in (0, len(self.targets)):
            columns["plain"] = self._actions("raw")
            columns |= {"taken": self._actions("corrected")} if self.has_left_plain else {}
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
        return {"plain": "raw", "taken": "corrected"}

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
