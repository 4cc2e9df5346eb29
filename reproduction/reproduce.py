"""The paper, and the portfolios beyond it, with one command: train, evaluate, draw, judge, report."""

import hashlib
import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch

import stakes
from reproduction.claims.judging import claims_record, judge_claims
from reproduction.figures.all_figures import find_figure
from reproduction.figures.paper_figure import PaperFigure
from reproduction.plan import (
    CHOICES,
    NOT_SHIPPED,
    PROGRAMS,
    REDUCED,
    SUBJECTS,
    PlannedStudy,
    planned_studies,
    unknown_settings,
)
from reproduction.programs.reproduce import reproduce_programs
from reproduction.report import build_report, draw_figure, draw_figures
from reproduction.rivals import rival_rows
from reproduction.run_studies import is_trained, kept_study, run_studies
from reproduction.runs.jobs import Execution
from reproduction.runs.settings import RunSettings, task_data
from reproduction.studies import untrained_runs
from reproduction.study import Study
from reproduction.study_collection import Studies, StudyKey
from reproduction.tables_of_results import portfolio_rows, score_rows, summarise
from stakes.errors import InterruptedTraining, SettingError, StakesError
from stakes.files import locked, write_atomically
from stakes.reports.page import Figure, write_report
from stakes.settings import canonical_text, to_plain
from stakes.training.progress import StatusLines

# Members per second, through a training step and through one step of sampling, of the paper's networks: on one core of
# an AMD EPYC and on an H200 (benchmarks/README.md); other machines differ by a factor of a few.
_TRAINED = {
    ("cpu", "implicit"): 4e5,
    ("cpu", "diffusion"): 2.5e5,
    ("cuda", "implicit"): 1.1e8,
    ("cuda", "diffusion"): 5e7,
}
_SAMPLED = {("cpu", "implicit"): 2e6, ("cpu", "diffusion"): 1e6, ("cuda", "implicit"): 5e8, ("cuda", "diffusion"): 2e8}
_UNTIL_BEST = 150  # epochs: a run that stops early has its best epoch about here, and then waits for `patience`
_BYTES = 4
_WORKER, _HERE = 0.6, 1.0  # GiB: a process that trains, and this one


@dataclass(frozen=True)
class Effort:
    """What a reproduction takes."""

    models: int  # how many models are trained
    minutes: float  # how long that takes
    memory: float  # giB of main memory, of all processes together

    def sentence(self, quick: bool) -> str:
        """What to expect of a whole or a quick run, as one sentence."""
        kind = "a reduced run (--budget quick)" if quick else "the whole run"
        time = _counted(self.minutes, "minute") if self.minutes < 120 else _counted(self.minutes / 60, "hour")
        memory = f"{self.memory:.0f} GiB of memory"
        return f"{kind} of {_counted(self.models, 'model')}: about {time} and {memory}, if nothing is there yet"


def _counted(number: float, unit: str) -> str:
    return f"{number:.0f} {unit}{'' if round(number) == 1 else 's'}"


def expected_effort(planned: Sequence[PlannedStudy], execution: Execution) -> Effort:
    """Time and memory, from the number of members that pass through the networks; they may be wrong by a
    factor of two."""
    device = execution.resolved_device
    seconds, largest = 0.0, 0.0
    names: set[str] = set()
    for study in planned:
        if study.model == "policy":
            continue
        runs = {point.run.name: point.run for point in study.sweep.points if point.run.name not in names}
        names |= set(runs)
        some = next(iter(runs.values()), None)
        if some is None:
            continue
        kind = "diffusion" if study.model == "diffusion" else "implicit"
        trained = len(runs) * _training_members(some) / _TRAINED[device, kind]
        sampled = len(runs) * _sampled_members(some, study.assessment.members) / _SAMPLED[device, kind]
        processes = execution.processes if device == "cpu" else 1
        seconds += (trained + sampled) / processes
        data = task_data(some.task)
        largest = max(largest, len(data.test) * study.assessment.members * data.test.outcome.shape[1] * _BYTES)
    memory = _HERE + execution.processes * (_WORKER + 3 * largest / 2**30)  # members, and what is made of them
    return Effort(len(names), max(1.0, seconds / 60), memory)


def _training_members(run: RunSettings) -> float:
    settings = run.training
    epochs = min(settings.epochs, settings.patience + _UNTIL_BEST) + settings.pretraining_epochs / 3
    return float(epochs * len(task_data(run.task).train) * settings.members)


def _sampled_members(run: RunSettings, members: int) -> float:
    chain = cast(Any, run.model).steps if run.model.name == "diffusion" else 1
    return float(len(task_data(run.task).test) * members * chain)


@dataclass(frozen=True)
class Reproduction:
    """What is reproduced."""

    subject: str = "all"
    quick: bool = False  # whether it is a reduced run, with fewer weights, seeds, epochs and members
    model: str | None = None  # "implicit" or "diffusion" alone; None for both
    record: str | None = None  # another record, or a NetCDF file, for wind or frost; None for the task's own
    figure: str | None = None  # the label of the only figure to draw; None for the whole report
    tables: str | None = None  # the folder of the portfolios' tables that are not shipped; None for the current one
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings on top of the plan's, by dotted name
    kept: bool = False  # whether only what is trained already is judged

    @property
    def folder(self) -> Path:
        """Where it goes by default: another folder for all that gives other results."""
        record = [] if self.record is None else [Path(self.record).stem]
        parts = [self.subject, *record, *([self.model] if self.model else []), *(["quick"] if self.quick else [])]
        if self.overrides:
            parts.append(hashlib.sha256(canonical_text(dict(self.overrides)).encode()).hexdigest()[:8])
        return Path("build", "reproduction", "-".join(parts))

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects that "all" stands for, or the one."""
        return SUBJECTS if self.subject == "all" else (self.subject,)

    def planned(self) -> list[PlannedStudy]:
        """What has to be trained and evaluated."""
        if self.record is not None and self.subject == "all":
            raise SettingError("a record belongs to one task: --record needs the subject wind or frost, got all")
        planned = planned_studies(self.subjects, self.quick, self.model, self.record, self.tables, self.overrides)
        return planned if self.figure is None else self._needed(find_figure(self.figure), planned)

    def _needed(self, figure: PaperFigure, planned: Sequence[PlannedStudy]) -> list[PlannedStudy]:
        if figure.subject not in (*self.subjects, "method"):
            raise SettingError(f"the figure {figure.label} belongs to {figure.subject}, not to {self.subject}")
        missing = set(figure.needs) - {study.key for study in planned}
        if missing:
            model = sorted(missing)[0].model
            raise SettingError(f"the figure {figure.label} needs the {model} model, but model is {self.model}")
        return [study for study in planned if study.key in figure.needs]


def reproduce(wanted: Reproduction, out: Path, execution: Execution) -> Path:
    """Train, evaluate, draw, judge and report; returns the path of the report, or of the only figure that is wanted."""
    started = time.monotonic()
    say = StatusLines(execution.quiet)
    if wanted.subject == PROGRAMS:
        return _programs(wanted, out, execution, say)
    planned, notes = _with_data(wanted.planned())
    notes += [f"{name} was left aside: nothing here has it." for name in unknown_settings(wanted.overrides, planned)]
    with locked(out), _resumable():
        if wanted.kept:
            trained = [study for study in planned if is_trained(study, out)]
            forecast = {study.task for study in trained if study.model != "policy"}
            absent = [study for study in planned if study not in trained or study.task not in forecast]
            planned = [study for study in trained if study.task in forecast]
            notes += [f"{study.key} was not run: {CHOICES[study.choice][0]}." for study in absent]
        for note in notes:
            say(note)
        if planned:
            say(expected_effort(planned, execution).sentence(wanted.quick))
        studies = run_studies(planned, out, execution, say, training=not wanted.kept)
        if wanted.figure is not None:
            return _write_figure(draw_figure(Studies({**_others(wanted, out), **studies}), wanted.figure), out)
        say("drawing and judging")
        figures, undrawn = draw_figures(studies, wanted.subjects)
        for figure in figures.values():
            _write_figure(figure, out)
        notes = [*notes, *_left_out(planned, studies), *undrawn]
        return _report(wanted, studies, figures, notes, out, execution, started)


def _programs(wanted: Reproduction, out: Path, execution: Execution, say: StatusLines) -> Path:
    for name in ("model", "record"):
        if getattr(wanted, name) is not None:
            raise SettingError(f"programs has no {name} to choose: --{name} is for other subjects")
    provenance = {"command": _command(wanted), **_versions()}
    with locked(out), _resumable():
        given = (wanted.quick, wanted.tables, wanted.figure)
        return reproduce_programs(out, *given, execution.processes, say, provenance)


@contextmanager
def _resumable() -> Iterator[None]:
    """However it is interrupted, it says how to go on."""
    try:
        yield
    except (InterruptedTraining, KeyboardInterrupt):
        sentence = "interrupted; everything is saved, and the same command continues from there"
        raise InterruptedTraining(sentence) from None


def _with_data(planned: Sequence[PlannedStudy]) -> tuple[list[PlannedStudy], list[str]]:
    """The studies whose data are there; those that are not shipped are left out with a note where they are absent."""
    kept, notes = [], []
    for study in planned:
        try:
            task_data(study.sweep.points[0].run.task)
            kept.append(study)
        except StakesError as error:
            if study.task not in NOT_SHIPPED:
                raise
            notes.append(f"{NOT_SHIPPED[study.task]} was left out: {error}.")
    return kept, list(dict.fromkeys(notes))


def _others(wanted: Reproduction, out: Path) -> dict[StudyKey, Study]:
    """What was evaluated before, and which a figure shows beside what it needs."""
    given = (wanted.quick, wanted.model, wanted.record, wanted.tables, wanted.overrides)
    planned = planned_studies(wanted.subjects, *given)
    return {each.key: study for each in planned if (study := kept_study(each, out)) is not None}


def _left_out(planned: Sequence[PlannedStudy], studies: Studies) -> list[str]:
    """A sentence for every run that failed, and for every study of which all did."""
    lost = [f"{each.key} was left out: all of its runs failed." for each in planned if each.key not in studies]
    failed = [(key, name) for key, study in studies.items() for name in study.about.get("failed", ())]
    return [*lost, *(f"Training failed for {name}, which is left out of {key}." for key, name in failed)]


def _write_figure(figure: Figure, out: Path) -> Path:
    path = out / "figures" / f"{figure.label}.svg"
    write_atomically(path, figure.drawings[0].encode())
    return path


def _report(
    wanted: Reproduction,
    studies: Studies,
    figures: dict[str, Figure],
    notes: Sequence[str],
    out: Path,
    execution: Execution,
    started: float,
) -> Path:
    judgements = judge_claims(studies, wanted.subjects)
    summaries = {key: summarise(study) for key, study in studies.items() if key.model != "policy"}
    if summaries:
        table = pd.concat([frame.assign(study=str(key)) for key, frame in summaries.items()], ignore_index=True)
        write_atomically(out / "summary.parquet", table.to_parquet(compression="zstd"))
    portfolios, scores = portfolio_rows(studies), score_rows(studies)
    provenance = _provenance(wanted, studies, execution, time.monotonic() - started)
    reduced = REDUCED if wanted.quick else None
    record: dict[str, Any] = {
        "reproduction": to_plain(wanted),
        "reduced": reduced,
        "claims": claims_record(judgements),
        "rivals": _without_nan(rival_rows(studies)),
        "untrained": {str(key): count for key, study in studies.items() if (count := untrained_runs(study))},
        "portfolios": json.loads(portfolios.to_json(orient="records")),
        "scores": json.loads(scores.to_json(orient="records")),
        "figures": {
            label: {"subject": find_figure(label).subject, "title": figure.title, "caption": figure.caption}
            for label, figure in figures.items()
        },
        "notes": list(notes),
        "provenance": provenance,
    }
    write_atomically(out / "results.json", (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    page = build_report(studies, judgements, figures, summaries, portfolios, scores, reduced, notes, provenance)
    write_report(page, out / "report.html")
    return out / "report.html"


def _without_nan(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows for JSON, in which what could not be measured is null."""
    text = json.dumps(rows)  # which writes NaN, and infinity, as words
    return cast(list[dict[str, Any]], json.loads(text, parse_constant=lambda word: None))


def _provenance(wanted: Reproduction, studies: Studies, execution: Execution, seconds: float) -> dict[str, str]:
    device = execution.resolved_device
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    sources = sorted({str(study.about.get("attribution", "")) for study in studies.values()} - {""})
    return {
        "command": _command(wanted),
        **_versions(),
        "drawn on": f"{device} ({name})",
        "time of this call": f"{seconds:.0f} s",
        "studies": ", ".join(sorted(str(key) for key in studies)),
        "data": " ".join(sources) or "simulated",
    }


def _versions() -> dict[str, str]:
    return {
        "stakes": stakes.__version__,
        "torch, numpy, pandas": f"{torch.__version__}, {np.__version__}, {pd.__version__}",
        "python": platform.python_version(),
    }


def _command(wanted: Reproduction) -> str:
    flags = [
        f"--{name} {value}" for name in ("model", "record", "figure", "tables") if (value := getattr(wanted, name))
    ]
    flags += [f"--set {name}={json.dumps(value)}" for name, value in wanted.overrides.items()]
    return " ".join(["python -m reproduction", wanted.subject, *(["--budget quick"] if wanted.quick else []), *flags])
