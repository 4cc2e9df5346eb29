"""A run of `stakes train` judged on the test cases of its task, which training has not seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.case_labels import case_labels
from stakes.evaluation.case_metrics import CaseMetrics
from stakes.evaluation.headroom import automatic_block
from stakes.evaluation.intervals import Difference, Resampling
from stakes.evaluation.task_forecasts import known_of_test_cases, sampled_members, task_metrics
from stakes.training.run_folder import RunFolder, RunState
from stakes.training.run_settings import RunSettings, task_data

__all__ = ["JudgedRun", "judge_run"]


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """What the forecasts of a trained run are worth on the test cases of its task.

    Attributes:
        run: What was asked for.
        state: How the training ended.
        cases: The metrics of every test case.
        regions: Which cases (N,) belong to each region of the task, by their outcome.
        block: How many neighbouring cases depend on each other, for intervals.
    """

    run: RunSettings
    state: RunState
    cases: CaseMetrics
    regions: Mapping[str, NDArray[np.bool_]]
    block: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before anything is concluded from the metrics."""
        if self.state.status != "failed":
            return ()
        return (f"training failed, {self.state.failure}; the last good weights are judged",)

    def mean(self, metric: str, region: str | None = None) -> Difference:
        """The mean of a metric with its 95 % interval, over all test cases or those of a region.

        Args:
            metric: One of the names in `cases.chosen`.
            region: A region of the task; None takes all cases.
        """
        values = np.asarray(self.cases.chosen[metric], dtype=np.float64)
        inside = values if region is None else np.where(self.regions[region], values, np.nan)
        resampling = Resampling(len(values), block=min(self.block, len(values)))
        return resampling.mean(inside[None, None]).interval()


def judge_run(folder: RunFolder, block: int | None = None) -> JudgedRun:
    """Sample the model of a run on the test cases of its task, decide, and see what that costs.

    Args:
        folder: The folder of a run that has come to its end.
        block: How many neighbouring cases depend on each other; None tells by their times or their number.
    """
    model, run, state = cast(Any, folder.model()), folder.settings(), folder.state()
    assert state is not None  # or there is no model
    data, members = task_data(run.task), run.task.paper.test_members
    known = known_of_test_cases(run.task)
    metrics = task_metrics(run.task, data.test, sampled_members(model, data.test, members, run.seed))
    chosen = {name: values.double().numpy() for name, values in metrics.items() if values.dim() == 1}
    chosen["climatology_cost"] = known["climatology_cost"].astype(np.float64)
    times = data.test.times
    index = pd.RangeIndex(len(data.test), name="row") if times is None else pd.DatetimeIndex(times, name="time")
    outcomes = pd.DataFrame(data.test.outcome.double().numpy(), case_labels(index), list(data.outcome_names))
    return JudgedRun(
        run=run,
        state=state,
        cases=CaseMetrics(outcomes, chosen, members),
        regions={name: known[f"observed_{name}"] for name in run.task.regions},
        block=block or automatic_block(len(data.test) if times is None else times),
    )
