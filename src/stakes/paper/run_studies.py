"""Planned studies trained and evaluated in one folder; what is there already is not done again."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from stakes.errors import InterruptedTraining, SettingError, StakesError, StudyError
from stakes.evaluation.study import Study
from stakes.files import read_json, write_json
from stakes.paper.assess import assess
from stakes.paper.plan import PlannedStudy
from stakes.paper.policies import assess_policies
from stakes.paper.run_evaluations import Assessment, evaluate_runs
from stakes.paper.study_collection import Studies
from stakes.settings import canonical_text, to_plain
from stakes.status_lines import StatusLines
from stakes.training.execution import Execution
from stakes.training.run_folder import RunFolder
from stakes.training.sweep import Point, Sweep, run_sweep

__all__ = ["kept_study", "run_studies"]


def run_studies(
    planned: Sequence[PlannedStudy], out: Path, execution: Execution, say: StatusLines | None = None
) -> Studies:
    """Train and evaluate what is not yet there; a planned study of which every run failed is left out.

    Args:
        planned: What is wanted, in this order.
        out: The folder of the reproduction.
        execution: On what, and in how many processes.
        say: Tells people of the progress; by default on stderr, unless the execution is quiet.
    """
    say = say or StatusLines(execution.quiet)
    _require_same_data(planned, out)
    done = {each.key: study for each in planned if (study := kept_study(each, out)) is not None}
    missing = [each for each in planned if each.key not in done]
    _train([each for each in missing if each.model != "policy"], out / "sweep", execution, say)
    if missing:
        forecasts = [(each.sweep, _assessment(each, execution)) for each in missing if each.model != "policy"]
        with say.counting(f"evaluating {len(missing)} {'study' if len(missing) == 1 else 'studies'}") as report:
            evaluate_runs(forecasts, out / "sweep", execution.processes, report)
    for each in missing:
        with suppress(StudyError):
            done[each.key] = _evaluated(each, out, execution)
    return Studies({each.key: done[each.key] for each in planned if each.key in done})


def kept_study(planned: PlannedStudy, out: Path) -> Study | None:
    """The study of an earlier start, or None if it is not there, cannot be read or has other settings.

    Args:
        planned: What is wanted.
        out: The folder of the reproduction.
    """
    try:
        study = Study.load(out / "studies" / str(planned.key))
        return study if study.about.get("fingerprint") == planned.fingerprint else None
    except StakesError:  # it cannot be read, or the data it was made of are gone
        return None


def _require_same_data(planned: Sequence[PlannedStudy], out: Path) -> None:
    """Raise if a file has changed under its name since models of this folder were trained on it."""
    file = out / "data.json"
    known: dict[str, str] = read_json(file) if file.exists() else {}
    now = {task: digest for each in planned for task, digest in each.data_digests().items()}
    changed = [task for task, digest in now.items() if known.get(task, digest) != digest]
    if changed:
        raise SettingError(f"the data of {changed[0]} are not those that {out} was made of; choose another folder")
    if now:
        out.mkdir(parents=True, exist_ok=True)
        write_json(file, known | now)


def _train(planned: Sequence[PlannedStudy], folder: Path, execution: Execution, say: StatusLines) -> None:
    """All runs as one sweep; those that fail are left out of their studies."""
    sweep = Sweep(tuple(Point({}, point.run) for each in planned for point in each.sweep.points))
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


def _assessment(planned: PlannedStudy, execution: Execution) -> Assessment:
    return replace(planned.assessment, device=execution.resolved_device)


def _evaluated(planned: PlannedStudy, out: Path, execution: Execution) -> Study:
    settings = _assessment(planned, execution)
    about = {"choice": planned.choice, "fingerprint": planned.fingerprint}
    sweep = planned.sweep
    if planned.model == "policy":
        tasks = list({canonical_text(to_plain(point.run.task)): point.run.task for point in sweep.points}.values())
        seeds = sorted({point.run.seed for point in sweep.points})
        about |= {"model": "policy", "settings": to_plain(tasks[0])}
        study = assess_policies(tasks, seeds, settings, about)
    else:
        study = assess(sweep, out / "sweep", settings, about)
    folder = out / "studies" / str(planned.key)
    (folder / "study.json").unlink(missing_ok=True)  # one of other settings, whose tables are about to change
    study.save(folder)
    return study
