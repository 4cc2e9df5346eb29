"""A run judged on the test cases of its task, which training has not seen, and its report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from reproduction.runs.evaluations import known_of_test_cases, sampled_members, task_metrics
from reproduction.runs.folder import RunFolder, RunState
from reproduction.runs.settings import RunSettings, task_data
from stakes.artifacts.folder import words_for
from stakes.data.tables.columns import case_labels, in_utc
from stakes.evaluation.case_metrics import CaseMetrics
from stakes.evaluation.intervals import Difference, Resampling, block_length
from stakes.plots import LOOKS, panel
from stakes.reports.page import Cell, Column, Figure, Report, Section, ShownCell, Table, write_report
from stakes.reports.report import REPORT
from stakes.reports.tables import settings_table
from stakes.settings import to_plain
from stakes.text import amount_text, count_text, interval_text, number_text
from stakes.workflows.evaluate import Evaluation, alarms_of


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """What the forecasts of a trained run are worth on the test cases of its task."""

    run: RunSettings  # what was asked for
    state: RunState  # how the training ended
    cases: CaseMetrics  # the metrics of every test case
    regions: Mapping[str, NDArray[np.bool_]]  # which cases (N,) belong to each region of the task, by their outcome
    block: int  # how many neighbouring cases depend on each other, for intervals

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before anything is concluded from the metrics."""
        if self.state.status != "failed":
            return ()
        return (f"training failed, {self.state.failure}; the last good weights are judged",)

    def mean(self, metric: str, region: str | None = None) -> Difference:
        """The mean of a metric with its 95 % interval, over all test cases or those of a region."""
        values = np.asarray(self.cases.chosen[metric], dtype=np.float64)
        inside = values if region is None else np.where(self.regions[region], values, np.nan)
        resampling = Resampling(len(values), block=min(self.block, len(values)))
        return resampling.mean(inside[None, None]).interval()


def judge_run(folder: RunFolder, block: int | None = None) -> JudgedRun:
    """Sample the model of a run on the test cases of its task, decide, and see what that costs."""
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
        block=block_length(len(data.test), times, block),
    )


def evaluate_run(folder: Path, block: int | None = None) -> Evaluation:
    """A trained run on the test cases of its task, for the cost of its task."""
    judged = judge_run(RunFolder(folder), block)
    table, cases = judged.cases.summary(judged.block), in_utc(judged.cases.table())
    task, cost = judged.run.task, words_for(judged.run.task.cost)
    subject = f"task {task.name}, cost {task.cost if cost is None else cost}, weight {judged.run.decision_weight:g}"
    alarms = alarms_of(judged.cases, judged.block, cost)
    return Evaluation(table, cases, cost, judged.block, judged.notes, subject, alarms=alarms)


Lines = Sequence[Mapping[str, Any]]
_METRICS = {
    "cost": "realised cost of the actions that the forecasts recommend",
    "expected_cost": "what the forecasts expected these actions to cost",
    "gap": "expected less realised: 0 where the forecasts know what their decisions cost",
    "climatology_cost": "cost of the one action that was best for the training outcomes",
    "foresight_regret": "cost above that of the best action for each outcome, had it been known",
    "regret": "expected cost above that of the best action, under the true distribution",
    "energy_score": "score of the whole forecast; lower is better",
}
_CURVES = {"loss": "objective", "energy_score": "energy score", "cost": "cost"}
_BY_OUTCOME = (
    "Regions are those of the task, and cases belong to them by their outcome: means over them reward forecasts that "
    "exaggerate, since it was not known beforehand which cases these would be.",
)


def write_run_report(folder: Path, out: Path | None = None) -> Path:
    """Judge the run in the folder, and write its report; returns where it is."""
    run = RunFolder(folder)
    path = out or folder / REPORT
    write_report(build_run_report(judge_run(run), run.metrics()), path)
    return path


def build_run_report(judged: JudgedRun, lines: Lines) -> Report:
    """What a run can show, on one page."""
    run = judged.run
    return Report(
        title=f"A run of the task {run.task.name}",
        subtitle=f"Model {run.model.name}, decision weight {run.decision_weight:g}, seed {run.seed}. Judged on "
        f"{count_text(len(judged.cases.outcomes), 'test case')}{_span(judged)} that training has not seen.",
        summary=tuple(_summary(judged)),
        sections=tuple(_sections(judged, lines)),
        provenance=_provenance(judged),
    )


def _summary(judged: JudgedRun) -> Iterator[str]:
    cost, constant = judged.mean("cost"), judged.mean("climatology_cost")
    yield (
        f"The actions that its forecasts recommend cost {_amount(cost)} per test case; the constant action that was "
        f"best for the training outcomes costs {_amount(constant)}."
    )
    yield "One run says little about a decision weight; a sweep trains several that can be compared."
    yield from (f"{note[0].upper()}{note[1:]}." for note in judged.notes)


def _sections(judged: JudgedRun, lines: Lines) -> Iterator[Section]:
    yield Section("metrics", "What the forecasts are worth", _BY_OUTCOME, (), (_metrics_table(judged),))
    if figure := _training_figure(judged, lines):
        yield Section("training", "Training", (_ending(judged),), (figure,))
    yield Section("settings", "Settings", (), (), (settings_table(to_plain(judged.run), "run"),))


def _metrics_table(judged: JudgedRun) -> Table:
    """The mean of every metric with its 95 % interval, over all test cases and in every region of the task."""
    metrics = [name for name in _METRICS if name in judged.cases.chosen]
    rows: list[tuple[Cell, ...]] = []
    for region in (None, *judged.regions):
        count = len(judged.cases.outcomes) if region is None else int(judged.regions[region].sum())
        means = [judged.mean(metric, region) if count else None for metric in metrics]
        cells = [None if mean is None else ShownCell(interval_text(*mean), mean.mean) for mean in means]
        rows.append((region or "all", count, *cells))
    columns = (
        Column("region"),
        Column("cases", help="test cases"),
        *(Column(name.replace("_", " "), help=_METRICS[name]) for name in metrics),
    )
    note = f"Means over the cases, with 95 % intervals from blocks of {judged.block} neighbouring cases."
    return Table("metrics", "Means by region", columns, tuple(rows), note)


def _training_figure(judged: JudgedRun, lines: Lines) -> Figure | None:
    """What the validation cases said, epoch by epoch."""
    trained = [line for line in lines if line["phase"] == "training"]
    curves = {name: [line.get(name) for line in trained] for name in _CURVES}
    known = {name: values for name, values in curves.items() if any(value is not None for value in values)}
    if len(trained) < 2 or not known:
        return None
    epochs = [line["epoch"] for line in trained]

    def draw(name: str, axes: Axes) -> None:
        heights = [np.nan if value is None else value for value in known[name]]
        axes.plot(epochs, heights, **{**LOOKS["plain"], "marker": ""})
        axes.axvline(judged.state.best_epoch, color="black", linewidth=0.8, linestyle="--")
        axes.set(xlabel="epoch", ylabel=_CURVES[name])

    panels = [panel(draw, name, height=2.7) for name in known]
    caption = "On the validation cases. The dashed line is the epoch whose weights were kept."
    return Figure("training", "How the training went", caption, panels, to_plain(judged.run))


def _ending(judged: JudgedRun) -> str:
    state = judged.state
    best = "" if state.best_loss is None else f", where the objective was {number_text(state.best_loss)}"
    return (
        f"The training {_ENDINGS[state.status]} after {count_text(state.epoch, 'epoch')} and "
        f"{count_text(state.steps, 'step')}; the weights are those of epoch {state.best_epoch}{best}."
    )


_ENDINGS = {"finished": "finished", "stopped early": "was stopped early", "failed": "failed", "running": "ran"}


def _provenance(judged: JudgedRun) -> dict[str, str]:
    attribution = task_data(judged.run.task).attribution
    versions = {name: str(version) for name, version in judged.state.versions.items()}
    data = {"data": attribution} if attribution else {}
    return {"run": judged.run.name, **data, **versions, "weights": f"SHA-256 {judged.state.weights_sha256}"}


def _span(judged: JudgedRun) -> str:
    times = task_data(judged.run.task).test.times
    if times is None:
        return ""
    first, last = (str(np.datetime_as_string(time, "D")) for time in (times.min(), times.max()))
    return f" from {first} to {last}"


def _amount(mean: Any) -> str:
    low, high = (amount_text(value, beside=mean) for value in mean[1:])
    return f"{amount_text(mean.mean, beside=mean)} (95 % interval {low} to {high})"
