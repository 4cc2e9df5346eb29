"""The paper, and the portfolios beyond it, with one command: train, evaluate, draw, judge, report.

    python -m stakes.reporting.reproduce synthetic|wind|frost|portfolio|all [--quick] [--out FOLDER] ...

Everything is kept in one folder and nothing is done twice: a second start goes on where the first was interrupted.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import stakes
from stakes.errors import StakesError
from stakes.evaluation.assessment import assess
from stakes.evaluation.policies import assess_policies
from stakes.evaluation.study import Study, StudyError
from stakes.evaluation.summary import summarise
from stakes.guard import guarded
from stakes.reporting.claims.claim import Judgement
from stakes.reporting.claims.register import all_claims
from stakes.reporting.claims.summary import claims_record
from stakes.reporting.contents import build_report, draw_figures
from stakes.reporting.estimate import estimate
from stakes.reporting.figures.registry import find_figure
from stakes.reporting.plan import REDUCED, SUBJECTS, Part, planned_parts
from stakes.reporting.report import Figure, write_report
from stakes.reporting.studies import Key, Studies
from stakes.reporting.tables import portfolio_rows
from stakes.training.checkpoints import write_atomically
from stakes.training.execution import Execution
from stakes.training.results import InterruptedTraining
from stakes.training.run_folder import locked
from stakes.training.runs import task_data
from stakes.training.sweep import Point, Sweep, run_sweep
from stakes.typed import canonical_text, to_plain

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
    def subjects(self) -> tuple[str, ...]:
        if self.subject == "all":
            return ("wind", "frost") if self.record is not None else SUBJECTS
        return (self.subject,)

    def parts(self) -> list[Part]:
        """What has to be trained and evaluated."""
        parts = planned_parts(self.subjects, self.quick, self.model, self.record)
        if self.figure is None:
            return parts
        needs = find_figure(self.figure).needs
        return [part for part in parts if part.key in needs]


def reproduce(wanted: Reproduction, out: Path, execution: Execution) -> Path:
    """Do all of it; returns the path of the report."""
    started = time.monotonic()
    parts = wanted.parts()
    say = _Voice(execution.quiet)
    parts, notes = _with_data(parts, say)
    say(estimate(parts, execution).sentence(wanted.quick))
    with locked(out):
        studies = study_parts(parts, out, execution, say)
        say("drawing and judging")
        figures = draw_figures(studies, None if wanted.figure is None else [wanted.figure])
        for label, figure in figures.items():
            write_atomically(_folder(out / "figures") / f"{label}.svg", figure.svg.encode())
        judgements = [] if wanted.figure is not None else _judged(wanted, studies)
        seconds = time.monotonic() - started
        return _report(wanted, studies, figures, judgements, notes, out, execution, seconds)


class _Voice:
    """One line of progress at a time, on standard error."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def __call__(self, sentence: str) -> None:
        if not self.quiet:
            sys.stderr.write(f"{sentence}\n")
            sys.stderr.flush()


def _with_data(parts: Sequence[Part], say: _Voice) -> tuple[list[Part], list[str]]:
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
    for note in dict.fromkeys(notes):
        say(note)
    return kept, list(dict.fromkeys(notes))


def study_parts(parts: Sequence[Part], out: Path, execution: Execution, say: _Voice | None = None) -> Studies:
    """Train and evaluate what is not yet there."""
    say = say or _Voice(execution.quiet)
    found: dict[Key, Study] = {}
    missing = []
    for part in parts:
        study = _kept(part, out)
        if study is None:
            missing.append(part)
        else:
            found[part.key] = study
    _train([part for part in missing if part.model != "policy"], out / "sweep", execution, say)
    for done, part in enumerate(missing, 1):
        say(f"evaluating {part.key} ({done} of {len(missing)})")
        found[part.key] = _evaluated(part, out, execution)
    return Studies({part.key: found[part.key] for part in parts})


def _kept(part: Part, out: Path) -> Study | None:
    """The study of a part, if it is there and of the same settings."""
    try:
        study = Study.load(out / "studies" / str(part.key))
    except StudyError:
        return None
    return study if study.about.get("fingerprint") == part.fingerprint else None


def _train(parts: Sequence[Part], folder: Path, execution: Execution, say: _Voice) -> None:
    """All runs as one sweep; those that fail are left out of their studies."""
    points = [point for part in parts for point in part.sweep().points]
    if not points:
        return
    say(f"training {len({point.run.name for point in points})} models")
    try:
        run_sweep(Sweep(tuple(Point({}, point.run) for point in points)), folder, execution)
    except InterruptedTraining:
        raise
    except StakesError as error:
        if "failed in part" not in str(error):
            raise
        say(str(error))


def _evaluated(part: Part, out: Path, execution: Execution) -> Study:
    settings = replace(part.assessment, device=execution.resolved_device)
    about = {"choice": part.choice, "fingerprint": part.fingerprint}
    sweep = part.sweep()
    if part.model == "policy":
        tasks = list({canonical_text(to_plain(point.run.task)): point.run.task for point in sweep.points}.values())
        seeds = sorted({point.run.seed for point in sweep.points})
        study = assess_policies(tasks, seeds, settings, {**about, "model": "policy", "settings": to_plain(tasks[0])})
    else:
        study = assess(sweep, out / "sweep", settings, about)
    study.save(out / "studies" / str(part.key))
    return study


def _judged(wanted: Reproduction, studies: Studies) -> list[Judgement]:
    claims = [claim for claim in all_claims() if claim.subject in (*wanted.subjects, "method")]
    return [judgement for claim in claims for judgement in claim.judgements(studies)]


def _report(
    wanted: Reproduction,
    studies: Studies,
    figures: dict[str, Figure],
    judgements: Sequence[Judgement],
    notes: Sequence[str],
    out: Path,
    execution: Execution,
    seconds: float,
) -> Path:
    summaries = {key: summarise(study) for key, study in studies.items() if key.model != "policy"}
    portfolios = portfolio_rows(studies)
    table = pd.concat([frame.assign(study=str(key)) for key, frame in summaries.items()]) if summaries else None
    if table is not None:
        write_atomically(out / "summary.parquet", table.to_parquet(compression="zstd"))
    provenance = _provenance(wanted, studies, execution, seconds)
    failed = [f"Training failed for {name}." for study in studies.values() for name in study.about.get("failed", ())]
    reduced = REDUCED if wanted.quick else None
    record: dict[str, Any] = {
        "reproduction": to_plain(wanted),
        "reduced": reduced,
        "claims": claims_record(judgements),
        "portfolios": json.loads(portfolios.to_json(orient="records")),
        "figures": sorted(figures),
        "notes": [*notes, *failed],
        "provenance": provenance,
    }
    write_atomically(out / "results.json", (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    page = build_report(studies, judgements, figures, summaries, portfolios, reduced, [*notes, *failed], provenance)
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


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """The command without the command line's libraries; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stakes.reporting.reproduce", description=__doc__)
    parser.add_argument("subject", help=f"{', '.join(SUBJECTS)} or all")
    parser.add_argument("--quick", action="store_true", help="a reduced run")
    parser.add_argument("--model", help="implicit or diffusion; both by default")
    parser.add_argument("--record", help="another record, or a NetCDF file, for wind or frost")
    parser.add_argument("--figure", help="draw this figure only")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--workers", type=int, help="processes at once")
    parser.add_argument("--out", type=Path, default=Path("reproduction"), help="folder of the reproduction")
    chosen = parser.parse_args(arguments)

    def command() -> None:
        wanted = Reproduction(chosen.subject, chosen.quick, chosen.model, chosen.record, chosen.figure)
        path = reproduce(wanted, chosen.out, Execution(chosen.device, chosen.workers))
        sys.stdout.write(f"{path}\n")

    return guarded(command)


if __name__ == "__main__":
    sys.exit(main())
