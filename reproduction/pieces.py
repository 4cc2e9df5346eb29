"""Studies of the plan in pieces, on a machine that has torch and numpy and little time.

    python -m reproduction.pieces FOLDER synthetic-diffusion-main frost-implicit-main --seconds 280
    python -m reproduction.pieces FOLDER synthetic wind --pack RESULTS.tar

Trains and evaluates the studies that are named, or all of a subject, one after the other, in a folder that
`python -m reproduction --out FOLDER` goes on with; what is done is skipped. No study begins after the seconds.
`--pack` writes what judging needs, which leaves out the weights; `--weights` takes them along, so that what was not
evaluated (`--evaluating 0`) can be.
"""

import argparse
import json
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from reproduction.plan import SUBJECTS, PlannedStudy, planned_studies
from reproduction.runs.evaluations import evaluate_runs
from reproduction.runs.folder import METRICS, SETTINGS, STATE
from reproduction.runs.jobs import Execution
from reproduction.runs.settings import WEIGHTS
from reproduction.runs.sweep import run_sweep
from stakes.errors import InterruptedTraining, SettingError, StakesError, exit_code_of

_TRIAL = {"training.epochs": 10, "training.pretraining_epochs": 10, "training.validate_every": 5}


def chosen_studies(names: Sequence[str]) -> list[PlannedStudy]:
    """The studies of these names, in their order; a subject stands for all of its own."""
    known = {str(study.key): study for study in planned_studies(SUBJECTS) if study.model != "policy"}
    chosen: list[PlannedStudy] = []
    for name in names:
        found = [study for key, study in known.items() if name in (key, study.subject)]
        if not found:
            raise SettingError(f"there is no study {name!r}; known are {', '.join(known)}")
        chosen += [study for study in found if study not in chosen]
    return chosen


def run_pieces(
    studies: Sequence[PlannedStudy], out: Path, execution: Execution, seconds: float, evaluating: int
) -> Iterator[dict[str, object]]:
    """Train and evaluate study after study; yields how long each took, or why it failed."""
    started = time.monotonic()
    for study in studies:
        if time.monotonic() - started > seconds:
            yield {"study": str(study.key), "left out": "no time"}
            continue
        begun = time.monotonic()
        line: dict[str, object] = {"study": str(study.key), "runs": len(study.sweep.runs)}
        try:
            run_sweep(study.sweep, out / "sweep", execution)
        except InterruptedTraining:
            raise
        except StakesError as error:  # some runs failed; the others are judged
            line["failed"] = str(error)
        trained = time.monotonic()
        if evaluating:
            assessment = replace(study.assessment, device=execution.resolved_device)
            try:
                evaluate_runs([(study.sweep, assessment)], out / "sweep", evaluating)
            except StakesError as error:
                line["not evaluated"] = str(error)
        yield line | {"training": round(trained - begun, 1), "evaluation": round(time.monotonic() - trained, 1)}


def pack(out: Path, archive: Path, curves: bool, weights: bool = False) -> None:
    """One file of the settings, ends and evaluations of all runs; with curves of training and weights, if wanted."""
    names = [SETTINGS, STATE, *([METRICS] if curves else []), *([WEIGHTS] if weights else [])]
    files = [file for name in names for file in sorted((out / "sweep" / "runs").glob(f"*/{name}"))]
    with tarfile.open(archive, "w") as tar:
        for file in [*files, *sorted((out / "sweep" / "evaluations").glob("*.metrics"))]:
            tar.add(file, file.relative_to(out))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the reproduction")
    parser.add_argument("studies", nargs="*", help="names of studies, such as wind-implicit-main, or subjects")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--workers", type=int, help="processes that train at once")
    parser.add_argument(
        "--evaluating", type=int, default=1, help="processes that evaluate at once; 0 leaves that for later"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no study after so many")
    parser.add_argument("--trial", action="store_true", help="ten epochs of each, to see that all works")
    parser.add_argument("--pack", type=Path, help="write what judging needs to this archive")
    parser.add_argument("--weights", action="store_true", help="pack the weights too")
    parser.add_argument("--curves", action="store_true", help="pack the curves of training too")
    chosen = parser.parse_args(arguments)

    def command() -> None:
        studies = chosen_studies(chosen.studies)
        if chosen.trial:
            studies = [replace(study, settings={**study.settings, **_TRIAL}) for study in studies]
        execution = Execution(chosen.device, chosen.workers, quiet=True)
        for line in run_pieces(studies, chosen.out, execution, chosen.seconds, chosen.evaluating):
            sys.stdout.write(f"{json.dumps(line)}\n")
            sys.stdout.flush()
        if chosen.pack is not None:
            pack(chosen.out, chosen.pack, chosen.curves, chosen.weights)

    return exit_code_of(command)


if __name__ == "__main__":
    sys.exit(main())
