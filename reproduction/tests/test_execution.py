import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from forked_processes import Forked, children, forked, lines, slow, wait_until
from forks import living
from small_sweeps import (
    LONG,
    OF_COST,
    ONE,
    TINY,
    TRAINING,
    TWO_STACKS,
    planned,
    results,
    stamps,
    table,
    train_here,
    without_seconds,
    written,
)

import reproduction.__main__
from reproduction.runs import settings as run_settings
from reproduction.runs.folder import RunFolder
from reproduction.runs.jobs import Execution, ProgressTeller
from reproduction.runs.stacks import Stack
from reproduction.runs.sweep import read_sweep, resume_folder, run_sweep
from reproduction.tasks import portfolio
from stakes.errors import SettingError, StakesError
from stakes.training import progress
from stakes.training.progress import Progress


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep of two stacks that nothing befell, trained in this process."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    train_here(TWO_STACKS, folder)
    return folder


# Workers that die


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_dies_is_reported_and_others_go_on(
    number: signal.Signals, tmp_path: Path, workers: list[Forked], uninterrupted: Path
) -> None:
    def kill_the_first() -> None:
        wait_until(lambda: workers and lines(tmp_path) > 5)
        workers[0].send_signal(number)

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    with slow(0.03), pytest.raises(StakesError, match=re.escape(str(tmp_path / "table.csv"))) as caught:
        run_sweep(TWO_STACKS, tmp_path, ONE)
    killer.join()
    dead, living = (Stack(tmp_path, names) for names in planned(tmp_path, TWO_STACKS))
    assert dead.name in str(caught.value)
    assert living.name not in str(caught.value)
    reason = "its process was ended by SIGKILL" if number == signal.SIGKILL else "everything up to it is saved"
    assert f"{reason}; a second start resumes it" in str(caught.value)
    statuses = {row["run"]: row["status"] for row in table(tmp_path)}
    assert statuses == dict.fromkeys(dead.runs, "not finished") | dict.fromkeys(living.runs, "finished")
    before = {name: stamp for name, stamp in stamps(tmp_path).items() if name.split("/")[1] in living.runs}
    assert len(workers) == 2
    assert resume_folder(tmp_path, Execution("cpu", quiet=True)) == tmp_path / "table.csv"
    assert len(workers) == 3
    assert before.items() <= stamps(tmp_path).items()
    assert without_seconds(tmp_path) == without_seconds(uninterrupted)
    assert results(tmp_path) == results(uninterrupted)


def test_a_run_that_fails_is_a_line_of_the_table(tmp_path: Path, workers: list[Forked]) -> None:
    points = read_sweep({**TINY, "training": {**TRAINING, "learning_rate": 1e30}, "grid": {"seed": [0, 1]}})
    with pytest.raises(StakesError, match="not finite in epoch 1 of training"):
        run_sweep(points, tmp_path, ONE)
    assert {row["status"] for row in table(tmp_path)} == {"failed"}
    assert all("not finite in epoch" in row["failure"] for row in table(tmp_path))


# Interrupts


@pytest.mark.usefixtures("warm")
def test_ctrl_c_during_training_and_resume_give_the_same_weights(tmp_path: Path) -> None:
    file, folder, other = written(tmp_path, LONG), tmp_path / "run", tmp_path / "other" / "run"
    main = partial(reproduction.__main__.main, ["train", str(file), "--out", str(folder), "--device", "cpu"])
    with slow(0.03), forked(main) as process:
        wait_until(lambda: lines(folder) > 3, process)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
    assert (process.returncode, output) == (130, "")
    message = (
        r"stakes: interrupted after epoch \d+ of training; everything up to it is saved; "
        rf"`python -m reproduction resume {folder}`"
    )
    assert re.match(message, errors)
    assert errors.count("\n") == 1
    assert RunFolder(folder).state() is None
    assert resume_folder(folder, Execution("cpu", quiet=True)) == folder
    assert reproduction.__main__.main(["train", str(file), "--out", str(other), "--device", "cpu"]) == 0
    assert results(folder) == results(other)
    assert not (folder / "checkpoints").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_during_a_sweep_and_resume_give_the_same_table(
    number: signal.Signals, tmp_path: Path, workers: list[Forked], uninterrupted: Path
) -> None:
    file = written(tmp_path, {**LONG, "decision_weight": 0.5, "grid": {"model.hidden": [4, 5], "seed": [0, 1]}})
    folder = tmp_path / "sweep"
    words = ["sweep", str(file), "--out", str(folder)]
    main = partial(reproduction.__main__.main, [*words, "--device", "cpu", "--workers", "2"])
    with slow(0.03), forked(main) as process:
        wait_until(lambda: lines(folder) > 5, process)
        process.send_signal(number)
        output, errors = process.communicate()
    assert (process.returncode, output) == (130, "")
    assert errors == "stakes: interrupted; everything is saved, and the same command continues from there\n"
    assert "not finished" in {row["status"] for row in table(folder)}
    assert reproduction.__main__.main(["resume", str(folder), "--device", "cpu"]) == 0
    assert without_seconds(folder) == without_seconds(uninterrupted)
    assert results(folder) == results(uninterrupted)


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("command", ["train", "sweep"])
def test_a_second_ctrl_c_ends_at_once(command: str, tmp_path: Path) -> None:
    file, folder = written(tmp_path, LONG), tmp_path / "folder"
    words = [str(file), "--out", str(folder), "--device", "cpu"]
    main = partial(reproduction.__main__.main, [command, *words])
    with slow(60.0, first=3) as asleep, forked(main) as process:
        wait_until(asleep.is_set, process)
        own = [process.pid, *children(process.pid)]
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    assert (process.returncode, output) == (130, "")
    assert "Traceback" not in errors
    wait_until(lambda: not living().keys() & own, seconds=10)


@pytest.mark.usefixtures("workers")
def test_workers_end_with_a_checkpoint_when_their_parent_is_killed(
    tmp_path: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)  # as where an epoch takes longer than that
    main = partial(run_sweep, TWO_STACKS, tmp_path, Execution("cpu", workers=2, quiet=True))
    with slow(0.03), forked(lambda: not main()) as process:
        wait_until(lambda: sum(lines(tmp_path / "runs" / name) > 1 for name in TWO_STACKS.runs) == 2, process)
        orphans = children(process.pid)
        assert len(orphans) == 2
        process.kill()
    wait_until(lambda: not living().keys() & orphans, seconds=10)
    every = [Stack(tmp_path, names) for names in planned(tmp_path, TWO_STACKS)]
    started = [stack for stack in every if lines(tmp_path / "runs" / stack.runs[0])]
    assert len(started) == 2
    left = [list(stack.checkpoints.glob("epoch-*.json")) for stack in started]
    assert reproduction.__main__.main(["resume", str(tmp_path), "--device", "cpu", "--quiet"]) == 0
    assert without_seconds(tmp_path) == without_seconds(uninterrupted)
    assert results(tmp_path) == results(uninterrupted)
    assert all(left), "a worker ended without a checkpoint"


@pytest.mark.usefixtures("workers")
def test_a_run_of_a_sweep_at_work_cannot_be_resumed_beside_it(tmp_path: Path) -> None:
    points = read_sweep(LONG)
    run = tmp_path / "runs" / points.points[0].run.name
    with slow(60.0, first=3) as asleep:
        process = forked(lambda: not run_sweep(points, tmp_path, ONE))
    with process:
        wait_until(asleep.is_set, process)
        own = [process.pid, *children(process.pid)]
        try:
            with pytest.raises(SettingError, match="another process is training in"):
                resume_folder(run, Execution("cpu", quiet=True))
        finally:
            for number in own:
                os.kill(number, signal.SIGKILL)


@pytest.fixture
def few_cases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Portfolios of few simulated cases."""
    monkeypatch.setattr(portfolio, "_SPLITS", (300, 100, 100))
    run_settings._load.cache_clear()
    yield
    run_settings._load.cache_clear()


@pytest.mark.usefixtures("workers", "few_cases")
def test_the_companion_can_be_an_axis(tmp_path: Path) -> None:
    companions = ["decision", "crps_of_total", "variogram"]
    task = {"name": "simulated_portfolio", "sites": 3}
    few = {"training": {**TRAINING, "epochs": 2, "pretraining_epochs": 1, "batch": 1500}}
    grid = {"training.companion": companions, "decision_weight": [0, 0.5]}
    file = written(tmp_path, {**TINY, **few, "task": task, "grid": grid})
    assert (
        reproduction.__main__.main(["sweep", str(file), "--out", str(tmp_path / "out"), "--device", "cpu", "--quiet"])
        == 0
    )
    rows = table(tmp_path / "out")
    assert [row["training.companion"] for row in rows] == [each for each in companions for _ in range(2)]
    assert {row["status"] for row in rows} == {"finished"}
    shared, own = rows[::2], rows[1::2]
    assert len({row["run"] for row in shared}) == 1, "at weight 0 the companion does not matter"
    assert len({row["run"] for row in own}) == len({row["energy_score"] for row in own}) == 3
    assert len({row["decision"] for row in own}) == 3
    assert [bool(row["decision"]) for row in shared] == [True, False, False]
    assert all(row[name] for row in rows for name in OF_COST if name != "decision")


def test_a_process_tells_how_far_it_is_every_quarter_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    teller = ProgressTeller(lambda line: told.append(line["epoch"]))
    for epoch in range(1, 6):
        monkeypatch.setattr("time.monotonic", lambda epoch=epoch: 100.0 + 0.2 * epoch)
        teller.progressed(Progress("training", epoch, 100, 1, epoch, 0.2 * epoch, None))
    assert told == [1, 3, 5]
