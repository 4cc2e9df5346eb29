"""The paper, and the portfolios beyond it, with one command: train, evaluate, draw, judge, report.

    python -m stakes.paper.reproduce synthetic|wind|frost|portfolio|all [--quick] [--out FOLDER] ...

Everything is kept in one folder and nothing is done twice: a second start goes on where the first was interrupted.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import stakes
from stakes.errors import InterruptedTraining, SettingError, StakesError, StudyError
from stakes.evaluation.study import Study
from stakes.evaluation.summary import summarise
from stakes.exit_codes import exit_code_of
from stakes.files import locked, read_json, write_atomically, write_json
from stakes.paper.assess import Assessment, assess, evaluate_runs
from stakes.paper.claims.register import judge_all
from stakes.paper.claims.summary import claims_record
from stakes.paper.contents import build_report, draw_figure, draw_figures
from stakes.paper.estimate import estimate
from stakes.paper.figures.registry import FigureSpec, find_figure
from stakes.paper.plan import REDUCED, SUBJECTS, Part, planned_parts
from stakes.paper.policies import assess_policies
from stakes.paper.studies import Key, Studies
from stakes.paper.tables import portfolio_rows
from stakes.reports.page import Figure, write_report
from stakes.settings import canonical_text, to_plain
from stakes.status_lines import StatusLines
from stakes.training.execution import Execution
from stakes.training.run_folder import RunFolder
from stakes.training.run_settings import task_data
from stakes.training.sweep import Point, Sweep, run_sweep

__all__ = ["Reproduction", "main", "reproduce", "study_parts"]


@dataclass(frozen=True)
class Reproduction:
    """What is reproduced: `subject` is a task or "all"; `figure` is the label of the only one to draw."""

    subject: str = "all"
    quick: bool = False
    model: str | None = None
    record: str | None = None
    figure: str | None = None

    @property
    def folder(self) -> Path:
        """Where it goes by default: another folder for all that gives other results."""
        record = [] if self.record is None else [Path(self.record).stem]
        parts = [self.subject, *record, *([self.model] if self.model else []), *(["quick"] if self.quick else [])]
        return Path("reproduction", "-".join(parts))

    @property
    def subjects(self) -> tuple[str, ...]:
        return SUBJECTS if self.subject == "all" else (self.subject,)

    def parts(self) -> list[Part]:
        """What has to be trained and evaluated."""
        if self.record is not None and self.subject == "all":
            raise SettingError("a record belongs to one task: --record needs the subject wind or frost, got all")
        parts = planned_parts(self.subjects, self.quick, self.model, self.record)
        return parts if self.figure is None else self._needed(find_figure(self.figure), parts)

    def _needed(self, figure: FigureSpec, parts: Sequence[Part]) -> list[Part]:
        if figure.subject not in (*self.subjects, "method"):
            raise SettingError(f"the figure {figure.label} belongs to {figure.subject}, not to {self.subject}")
        missing = set(figure.needs) - {part.key for part in parts}
        if missing:
            model = sorted(missing)[0].model
            raise SettingError(f"the figure {figure.label} needs the {model} model, but model is {self.model}")
        return [part for part in parts if part.key in figure.needs]


def reproduce(wanted: Reproduction, out: Path, execution: Execution) -> Path:
    """Do all of it; returns the path of the report, or of the only figure that is wanted."""
    started = time.monotonic()
    parts, notes = _with_data(wanted.parts())
    say = StatusLines(execution.quiet)
    with locked(out), _resumable():
        for note in notes:
            say(note)
        if parts:
            say(estimate(parts, execution).sentence(wanted.quick))
        studies = study_parts(parts, out, execution, say)
        if wanted.figure is not None:
            return _write_figure(draw_figure(Studies({**_others(wanted, out), **studies}), wanted.figure), out)
        say("drawing and judging")
        figures, undrawn = draw_figures(studies, wanted.subjects)
        for figure in figures.values():
            _write_figure(figure, out)
        notes = [*notes, *_left_out(parts, studies), *undrawn]
        return _report(wanted, studies, figures, notes, out, execution, started)


@contextmanager
def _resumable() -> Iterator[None]:
    """However it is interrupted, it says how to go on."""
    try:
        yield
    except (InterruptedTraining, KeyboardInterrupt):
        sentence = "interrupted; what is done is kept, and the same command goes on from there"
        raise InterruptedTraining(sentence) from None


def _with_data(parts: Sequence[Part]) -> tuple[list[Part], list[str]]:
    """The parts whose data are there; European wind is not shipped, and left out with a note where it is not found."""
    kept, notes = [], []
    for part in parts:
        try:
            task_data(part.sweep().points[0].run.task)
            kept.append(part)
        except StakesError as error:
            if part.task != "european_wind":
                raise
            notes.append(f"European wind was left out: {error}.")
    return kept, list(dict.fromkeys(notes))


def study_parts(parts: Sequence[Part], out: Path, execution: Execution, say: StatusLines | None = None) -> Studies:
    """Train and evaluate what is not yet there; a part of which every run failed has no study."""
    say = say or StatusLines(execution.quiet)
    _require_same_data(parts, out)
    found = {part.key: study for part in parts if (study := _kept(part, out)) is not None}
    missing = [part for part in parts if part.key not in found]
    _train([part for part in missing if part.model != "policy"], out / "sweep", execution, say)
    if missing:
        forecasts = [(part.sweep(), _assessment(part, execution)) for part in missing if part.model != "policy"]
        with say.counting(f"evaluating {len(missing)} {'study' if len(missing) == 1 else 'studies'}") as report:
            evaluate_runs(forecasts, out / "sweep", execution.processes, report)
    for part in missing:
        with suppress(StudyError):
            found[part.key] = _evaluated(part, out, execution)
    return Studies({part.key: found[part.key] for part in parts if part.key in found})


def _require_same_data(parts: Sequence[Part], out: Path) -> None:
    """Raise if a file has changed under its name since models of this folder were trained on it."""
    file = out / "data.json"
    known: dict[str, str] = read_json(file) if file.exists() else {}
    now = {task: digest for part in parts for task, digest in part.data_digests().items()}
    changed = [task for task, digest in now.items() if known.get(task, digest) != digest]
    if changed:
        raise SettingError(f"the data of {changed[0]} are not those that {out} was made of; choose another folder")
    if now:
        out.mkdir(parents=True, exist_ok=True)
        write_json(file, known | now)


def _kept(part: Part, out: Path) -> Study | None:
    """The study of a part, if it is there and of the same settings."""
    try:
        study = Study.load(out / "studies" / str(part.key))
        return study if study.about.get("fingerprint") == part.fingerprint else None
    except StakesError:  # it cannot be read, or the data it was made of are gone
        return None


def _others(wanted: Reproduction, out: Path) -> dict[Key, Study]:
    """What was evaluated before, and which a figure shows beside what it needs."""
    parts = planned_parts(wanted.subjects, wanted.quick, wanted.model, wanted.record)
    return {part.key: study for part in parts if (study := _kept(part, out)) is not None}


def _train(parts: Sequence[Part], folder: Path, execution: Execution, say: StatusLines) -> None:
    """All runs as one sweep; those that fail are left out of their studies."""
    sweep = Sweep(tuple(Point({}, point.run) for part in parts for point in part.sweep().points))
    if not sweep.points:
        return
    if untrained := _untrained(sweep, folder):
        say(f"training {untrained} models")
    try:
        run_sweep(sweep, folder, execution)
    except InterruptedTraining:
        raise
    except StakesError as error:
        if _untrained(sweep, folder):
            raise
        say(str(error))  # every run came to an end, some by failing


def _untrained(sweep: Sweep, folder: Path) -> int:
    return sum(RunFolder(folder / "runs" / name).state() is None for name in sweep.runs)


def _assessment(part: Part, execution: Execution) -> Assessment:
    return replace(part.assessment, device=execution.resolved_device)


def _evaluated(part: Part, out: Path, execution: Execution) -> Study:
    settings = _assessment(part, execution)
    about = {"choice": part.choice, "fingerprint": part.fingerprint}
    sweep = part.sweep()
    if part.model == "policy":
        tasks = list({canonical_text(to_plain(point.run.task)): point.run.task for point in sweep.points}.values())
        seeds = sorted({point.run.seed for point in sweep.points})
        about |= {"model": "policy", "settings": to_plain(tasks[0])}
        study = assess_policies(tasks, seeds, settings, about)
    else:
        study = assess(sweep, out / "sweep", settings, about)
    folder = out / "studies" / str(part.key)
    (folder / "study.json").unlink(missing_ok=True)  # one of other settings, whose tables are about to change
    study.save(folder)
    return study


def _left_out(parts: Sequence[Part], studies: Studies) -> list[str]:
    """A sentence for every run that failed, and for every part of which all did."""
    lost = [f"{part.key} was left out: all of its runs failed." for part in parts if part.key not in studies.found]
    failed = [(key, name) for key, study in studies.items() for name in study.about.get("failed", ())]
    return [*lost, *(f"Training failed for {name}, which is left out of {key}." for key, name in failed)]


def _write_figure(figure: Figure, out: Path) -> Path:
    path = out / "figures" / f"{figure.label}.svg"
    write_atomically(path, figure.svg.encode())
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
    judgements = judge_all(studies, wanted.subjects)
    summaries = {key: summarise(study) for key, study in studies.items() if key.model != "policy"}
    if summaries:
        table = pd.concat([frame.assign(study=str(key)) for key, frame in summaries.items()], ignore_index=True)
        write_atomically(out / "summary.parquet", table.to_parquet(compression="zstd"))
    portfolios = portfolio_rows(studies)
    provenance = _provenance(wanted, studies, execution, time.monotonic() - started)
    reduced = REDUCED if wanted.quick else None
    record: dict[str, Any] = {
        "reproduction": to_plain(wanted),
        "reduced": reduced,
        "claims": claims_record(judgements),
        "portfolios": json.loads(portfolios.to_json(orient="records")),
        "figures": {
            label: {"subject": find_figure(label).subject, "title": figure.title, "caption": figure.caption}
            for label, figure in figures.items()
        },
        "notes": list(notes),
        "provenance": provenance,
    }
    write_atomically(out / "results.json", (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    page = build_report(studies, judgements, figures, summaries, portfolios, reduced, notes, provenance)
    write_report(page, out / "report.html")
    return out / "report.html"


def _provenance(wanted: Reproduction, studies: Studies, execution: Execution, seconds: float) -> dict[str, str]:
    device = execution.resolved_device
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    sources = sorted({str(study.about.get("attribution", "")) for study in studies.values()} - {""})
    return {
        "command": _command(wanted),
        "stakes": stakes.__version__,
        "torch, numpy, pandas": f"{torch.__version__}, {np.__version__}, {pd.__version__}",
        "python": platform.python_version(),
        "drawn on": f"{device} ({name})",
        "time of this call": f"{seconds:.0f} s",
        "studies": ", ".join(sorted(str(key) for key in studies)),
        "data": " ".join(sources) or "simulated",
    }


def _command(wanted: Reproduction) -> str:
    flags = [f"--{name} {value}" for name in ("model", "record", "figure") if (value := getattr(wanted, name))]
    return " ".join(["stakes reproduce", wanted.subject, *(["--quick"] if wanted.quick else []), *flags])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command without the command line's libraries; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stakes.paper.reproduce", description=__doc__)
    parser.add_argument("subject", help=f"{', '.join(SUBJECTS)} or all")
    parser.add_argument("--quick", action="store_true", help="a reduced run")
    parser.add_argument("--model", help="implicit or diffusion; both by default")
    parser.add_argument("--record", help="another record, or a NetCDF file, for wind or frost")
    parser.add_argument("--figure", help="draw this figure only")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--workers", type=int, help="processes at once")
    parser.add_argument("--out", type=Path, help="folder of the reproduction; reproduction/SUBJECT by default")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    chosen = parser.parse_args(arguments)

    def command() -> None:
        wanted = Reproduction(chosen.subject, chosen.quick, chosen.model, chosen.record, chosen.figure)
        path = reproduce(wanted, chosen.out or wanted.folder, Execution(chosen.device, chosen.workers, chosen.quiet))
        sys.stdout.write(f"{path}\n")

    return exit_code_of(command)


if __name__ == "__main__":
    sys.exit(main())
