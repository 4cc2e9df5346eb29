"""Planned studies and the direct policy, trained and evaluated in one folder; what is there already stays."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

from reproduction.plan import PlannedStudy
from reproduction.policy import PolicySettings, train_policy
from reproduction.runs.evaluations import (
    Assessment,
    MetricArrays,
    ProgressListener,
    against_truth,
    evaluate_runs,
    place_of_task,
)
from reproduction.runs.folder import RunFolder
from reproduction.runs.jobs import Execution
from reproduction.runs.settings import task_data
from reproduction.runs.sweep import Point, Sweep, run_sweep
from reproduction.studies import assess, build_study
from reproduction.study import Study, StudyError
from reproduction.study_collection import Studies
from reproduction.tasks.task import KnownTruth, Task
from stakes.errors import InterruptedTraining, SettingError, StakesError
from stakes.files import read_json, write_json
from stakes.settings import canonical_text, to_plain
from stakes.training.progress import StatusLines

_SETTINGS = PolicySettings(epochs=200, patience=40)


def assess_policies(
    tasks: Sequence[Task],
    seeds: Sequence[int],
    settings: Assessment,
    about: Mapping[str, Any],
    report: ProgressListener | None = None,
) -> Study:
    """Train a policy for every task (a cost parameter each) and seed; what its actions cost on the test cases.

    A policy sees the cost alone, so it stands at decision weight 1.
    """
    evaluations: dict[tuple[float, ...], MetricArrays] = {}
    for task, seed in product(tasks, seeds):
        evaluations[(*place_of_task(task, settings), 1.0, float(seed))] = _assessed(task, seed, settings.device)
        if report is not None:
            report(len(evaluations), len(tasks) * len(seeds))
    return build_study(evaluations, {place_of_task(task, settings): task for task in tasks}, settings, about)


def _assessed(task: Task, seed: int, device: str) -> MetricArrays:
    data, cost = task_data(task), task.cost
    network = cast(Any, task.paper.models[0])
    settings = replace(_SETTINGS, hidden=network.hidden, layers=network.layers)
    policy = train_policy(cost, data.train, data.validation, settings, seed, device)
    action = policy(data.test.features)
    metrics = {"action": action[:, 0], "cost": cost(action, data.test.outcome)}
    if isinstance(task, KnownTruth):
        metrics |= against_truth(task, data.test, action)
    return {name: values.float().numpy() for name, values in metrics.items()}


def run_studies(
    planned: Sequence[PlannedStudy],
    out: Path,
    execution: Execution,
    say: StatusLines | None = None,
    training: bool = True,
) -> Studies:
    """Train and evaluate what is not yet there; a planned study of which every run failed is left out."""
    say = say or StatusLines(execution.quiet)
    _require_same_data(planned, out)
    done = {each.key: study for each in planned if (study := kept_study(each, out)) is not None}
    missing = [each for each in planned if each.key not in done]
    _train([each for each in missing if training and each.model != "policy"], out / "sweep", execution, say)
    if missing:
        forecasts = [(each.sweep, _assessment(each, execution)) for each in missing if each.model != "policy"]
        with say.counting(f"evaluating {len(missing)} {'study' if len(missing) == 1 else 'studies'}") as report:
            evaluate_runs(forecasts, out / "sweep", execution.processes, report)
    for each in missing:
        with suppress(StudyError):
            done[each.key] = _evaluated(each, out, execution)
    return Studies({each.key: done[each.key] for each in planned if each.key in done})


def kept_study(planned: PlannedStudy, out: Path) -> Study | None:
    """The study of an earlier start, or None if it is not there, cannot be read or has other settings."""
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


def is_trained(planned: PlannedStudy, out: Path) -> bool:
    """Whether nothing of it is left to train; policies are trained as they are judged."""
    return planned.model == "policy" or not _untrained(planned.sweep, out / "sweep")


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
