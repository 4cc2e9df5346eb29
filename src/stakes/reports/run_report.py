"""The report of a run of `stakes train`, one page: what its forecasts are worth, how it was trained, and with what."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stakes.evaluation.judged_run import JudgedRun, judge_run
from stakes.number_text import amount_text, count_text, interval_text, number_text
from stakes.reports.fit_panels import LOOKS, axis_label, drawing_style, figure_of_panels, new_panel
from stakes.reports.fit_report import REPORT
from stakes.reports.fit_tables import settings_table
from stakes.reports.page import Cell, Column, Figure, Report, Section, ShownCell, Table, write_report
from stakes.settings import to_plain
from stakes.training.run_folder import RunFolder
from stakes.training.run_settings import task_data

__all__ = ["build_run_report", "write_run_report"]

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
    """Judge the run in the folder, and write its report; returns where it is.

    Args:
        folder: The folder of a run that has come to its end.
        out: The file to write; None writes FOLDER/report.html.
    """
    run = RunFolder(folder)
    path = out or folder / REPORT
    write_report(build_run_report(judge_run(run), run.metrics()), path)
    return path


def build_run_report(judged: JudgedRun, lines: Lines) -> Report:
    """What a run can show, on one page.

    Args:
        judged: The run on the test cases of its task.
        lines: The lines of its metrics.jsonl.
    """
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
        Column("cases", kind="number", help="test cases"),
        *(Column(name.replace("_", " "), kind="number", help=_METRICS[name]) for name in metrics),
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
    panels = []
    with drawing_style():
        for name, values in known.items():
            panel, (axes,) = new_panel()
            heights = [np.nan if value is None else value for value in values]
            axes.plot([line["epoch"] for line in trained], heights, **{**LOOKS["plain"], "marker": ""})
            axes.axvline(judged.state.best_epoch, color="black", linewidth=0.8, linestyle="--")
            axes.set(xlabel="epoch", ylabel=axis_label(_CURVES[name], ""))
            panels.append(panel)
        caption = "On the validation cases. The dashed line is the epoch whose weights were kept."
        return figure_of_panels("training", "How the training went", caption, panels, to_plain(judged.run))


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
