"""What the report of a fit tells of: a forecast judged on test cases, beside other ways to decide."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.bundle.about_fit import AboutFit
from stakes.cost_text.written_cost import CostSpec
from stakes.data.quality import DataQuality
from stakes.errors import SettingError
from stakes.evaluation.headroom import Headroom
from stakes.evaluation.intervals import Resampling
from stakes.evaluation.judged_parts import JudgedParts
from stakes.evaluation.ladder import Ladder
from stakes.evaluation.study import Study
from stakes.evaluation.weight_frontier import Frontier
from stakes.evaluation.worth_by_parameter import WorthAtValue
from stakes.method.costs import Cost
from stakes.reports.judged_ways import JudgedWays, WayToDecide
from stakes.reports.ladder_words import forecast_words

__all__ = ["JudgedFit"]

Floats = NDArray[np.float64]

_LOW, _HIGH = 0.1, 0.9  # quantiles of the forecast


@dataclass(frozen=True, eq=False)
class JudgedFit(JudgedWays):
    """All that the report of a fit tells of: its forecast judged on held-out test cases, and what it came from.

    Attributes:
        study: The test cases in time order, with the weights 0 and the one that was taken, or 0 alone, and one
            parameter, group and seed.
        cost: What a decision costs.
        cost_spec: The same as it was written; None for a cost given in Python.
        frontier: How the weight was chosen; None where it was given.
        headroom: What a policy trained on the cost alone gains; None where none was trained.
        quality: What the table of the fit was like; None where there was none.
        settings: The settings of the fit, nested by name.
        provenance: What the fit was made with and from, by name.
        outcomes: Some of the training outcomes, (N, D).
        ladder: How the forecast was chosen rung by rung, each judged on the test cases too; None where it was not.
        judged_parts: What is shown of decisions with many parts; None where they are about one number.
        by_parameter: What it is worth at some values of the cost's range; none where the cost has no range.
        leaks: A sentence for each outcome that features reproduce almost exactly.
    """

    study: Study
    cost: Cost
    cost_spec: CostSpec | None
    frontier: Frontier | None
    headroom: Headroom | None
    quality: DataQuality | None
    settings: Mapping[str, Any]
    provenance: Mapping[str, str]
    outcomes: Floats
    ladder: Ladder | None = None
    judged_parts: JudgedParts | None = None
    by_parameter: tuple[WorthAtValue, ...] = ()
    leaks: tuple[str, ...] = ()

    @classmethod
    def from_about(
        cls,
        study: Study,
        cost: Cost,
        cost_spec: CostSpec | None,
        frontier: Frontier | None,
        about: Mapping[str, Any],
        ladder: Ladder | None = None,
    ) -> Self:
        """With what a bundle keeps beside the forecaster, `stakes.bundle.Bundle.about`."""
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
            ladder=ladder if ladder is not None and ladder.tested else None,
            judged_parts=known.parts,
            by_parameter=known.by_parameter,
            leaks=known.leaks,
        )

    @property
    def weight(self) -> float:
        """The decision weight that was taken."""
        return max(self.study.weights)

    @property
    def weights(self) -> list[float]:
        """Weight 0 and, where it is another, the weight that was taken."""
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
    def ways(self) -> tuple[WayToDecide, ...]:
        """All ways to decide that are known, the forecast of weight 0 first."""
        plain, name = self.values("cost", 0.0), "forecast trained on its score alone (weight 0)"
        if self.ladder is not None and self.weightless:
            name = forecast_words(self.ladder)
        ways = [WayToDecide(name, self.label(0.0), plain)]
        if self.weight:
            name = f"weight {self.weight:g}"
            ways.append(WayToDecide(f"decision-aware forecast ({name})", name, self.values("cost", self.weight)))
        today, climatology = self.of_cases("baseline_cost"), self.of_cases("climatology_cost")
        if today is not None:
            ways.append(WayToDecide("today's action", "today", today))
        if climatology is not None:
            ways.append(WayToDecide("one action for all cases (climatology)", "climatology", climatology))
        return (*ways, WayToDecide("perfect foresight", "foresight", plain - self.values("foresight_regret", 0.0)))

    @property
    def weightless(self) -> bool:
        """Whether a ladder took a forecast below the decision weights, so that none is spoken of."""
        return self.ladder is not None and not self.weight

    def label(self, weight: float) -> str:
        """What the forecast of a weight is called in a figure."""
        return "forecast" if self.weightless else f"weight {weight:g}"

    @property
    def taken(self) -> WayToDecide:
        """The forecast that was taken."""
        return self.ways[1 if self.weight else 0]

    @property
    def case_table(self) -> pd.DataFrame:
        """What is drawn of every case, by time or number."""
        columns = {"outcome": self.of_cases("outcome"), "plain": self._actions(0.0)}
        if self.weight:
            columns["taken"] = self._actions(self.weight)
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
        return {"plain": self.label(0.0), "taken": self.label(self.weight)}

    @property
    def who_saves(self) -> tuple[str, str]:
        """What the forecast that was taken and that of weight 0 are called where savings are told."""
        return "the forecast" if self.weightless else self.taken.short, "weight 0"
