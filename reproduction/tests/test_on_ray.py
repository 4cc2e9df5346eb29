"""Sweeps on a real Ray: a cluster of two nodes, and one that a command starts and stops itself.

Everything that imports Ray is a fork of this process or a process of Ray, so that no thread of it stays here.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from forked_processes import wait_until
from forks import become
from small_sweeps import LONG, results, without_seconds

import reproduction.__main__
from reproduction.runs import on_ray, sweep
from reproduction.runs.folder import RunFolder
from reproduction.runs.jobs import Execution, ProgressTeller
from reproduction.runs.on_ray import RayExecution, connected
from reproduction.runs.stacks import Stack, train_stack
from reproduction.runs.sweep import Sweep, read_sweep, run_sweep
from stakes.errors import SettingError, StakesError
from stakes.training.progress import Display

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="a process with a GPU cannot be forked once it has trained"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # Python 3.12 has doubts about threads
]

TRAINING = {**LONG["training"], "epochs": 40}
GOOD = read_sweep({**LONG, "training": TRAINING, "grid": {"decision_weight": [0, 0.5], "seed": [0, 1]}})
BAD = read_sweep({**LONG, "training": {**TRAINING, "learning_rate": 1e30}})
SWEEP = Sweep((*GOOD.points, *BAD.points))
SLOWED = """
import os, time
fsync = os.fsync
def slowly(file):
    if os.path.exists({marker!r}):
        time.sleep(0.1)
    fsync(file)
os.fsync = slowly
"""


# Processes


@contextmanager
def forked(command: Callable[[], int]) -> Iterator[subprocess.Popen[str]]:
    """A command in a fork of this process, which ends with the block."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(["command"], preexec_fn=partial(become, command), text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def holders(file: Path) -> list[int]:
    """Processes that have a file open."""
    found = []
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # it has ended meanwhile
            if os.readlink(path) == str(file):
                found.append(int(path.parts[2]))
    return found


def processes_of_ray() -> list[str]:
    """The command lines of those that were started here."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(path.read_bytes().decode(errors="replace"))
    return [line for line in lines if os.environ["RAY_TMPDIR"] in line]


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A marker; while it is there, processes of Ray take their time for every fsync, of which a checkpoint has many."""
    base = tmp_path_factory.mktemp("slow")
    (base / "sitecustomize.py").write_text(SLOWED.format(marker=str(base / "marker")))
    temporary = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets of Ray need a short path
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(base))
        patch.setenv("RAY_TMPDIR", temporary)
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # they would serve nobody: ours have an environment
        yield base / "marker"
    shutil.rmtree(temporary, ignore_errors=True)


def be_a_cluster() -> int:
    """Two nodes of one core each, until standard input closes."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = import_module("ray.cluster_utils").Cluster()
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=80 << 20, include_dashboard=False)
    sys.stdout.write(f"{cluster.address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()
    return 0


# Results


def train_here(stacks: Sequence[Stack], folder: Path, execution: Execution) -> dict[str, str]:
    for stack in stacks:
        train_stack(stack, "cpu", 30.0, lambda: False, ProgressTeller(lambda line: None))
    return {}


def train_locally(folder: Path) -> str:
    """The sweep in this process; returns what it complains of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "run_jobs", train_here)
        with pytest.raises(StakesError) as caught:
            run_sweep(SWEEP, folder, Execution("cpu", workers=2, quiet=True))
    return str(caught.value)


# A cluster


def sweep_thrice(address: str, base: Path) -> int:
    """A sweep in a folder that no node sees, one that something befalls, and its resumption."""

    def show(display: Display, stack: str, runs: int, line: dict[str, Any]) -> None:
        with (base / "shown").open("a") as file:
            file.write(f"{runs} runs, epoch {line['epoch']} of {line['epochs']}\n")

    with connected(address) as resources, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Display, "progressed", show)
        execution = RayExecution("cpu", checkpoint_seconds=0.0, resources=resources)
        for name, token in (("apart", hidden_token), ("sweep", on_ray._token), ("sweep", on_ray._token)):
            patch.setattr(on_ray, "_token", token)
            patch.setattr(on_ray, "_SECONDS_TO_SEE", 0.0 if name == "apart" else 60.0)
            try:
                run_sweep(SWEEP, base / name, execution)
            except StakesError as error:
                with (base / "said").open("a") as file:
                    file.write(f"{error}\n")
    return 0


@contextmanager
def hidden_token(folder: Path) -> Iterator[Path]:
    yield folder / ".ray-hidden"


@pytest.mark.soak
def test_a_sweep_on_a_cluster(slow: Path, tmp_path: Path) -> None:
    """One test for all of it, since a cluster takes its time to start."""
    said, folder, local = tmp_path / "said", tmp_path / "sweep", tmp_path / "local"
    slow.touch()
    with forked(be_a_cluster) as cluster:
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        with forked(partial(sweep_thrice, address, tmp_path)) as driver:
            wait_until(lambda: list(folder.glob("stacks/*/checkpoints/epoch-00000003.json")), driver)
            stack = next(folder.glob("stacks/*/checkpoints/epoch-*.json")).parents[1]
            (worker,) = holders(stack / ".lock")
            os.kill(worker, signal.SIGKILL)
            told = stack / "progress.jsonl"
            wait_until(lambda: told.read_text().partition(" was lost;")[2].count('"epoch"') > 1, driver)
            told_by_the_second = told.read_text().partition(" was lost;")[2].splitlines()[1:]
            driver.send_signal(signal.SIGINT)
            wait_until(lambda: said.read_text().count("\n") > 1, driver)
            interrupted = without_seconds(folder)
            slow.unlink()
            output, errors = driver.communicate(timeout=300)
        assert (driver.returncode, output) == (0, "")
        cluster.stdin.close()
        cluster.wait(timeout=60)
    unseen, stopped, failed = said.read_text().splitlines()

    # a folder that a node does not see is refused
    assert re.fullmatch(
        rf"node \S+ does not see what this machine writes into {tmp_path / 'apart'}: .* share.*", unseen
    )
    assert not list((tmp_path / "apart").rglob("metrics.jsonl"))

    # a lost worker is replaced, and the next one goes on from its checkpoint
    assert errors == f"a worker of job {stack.name} was lost; another goes on from its last checkpoint\n"
    assert json.loads(told_by_the_second[0])["epoch"] > 1

    # Ctrl-C ends the tasks, with a table
    assert stopped == "interrupted; everything is saved, and the same command continues from there"
    assert len(interrupted) == len(SWEEP.points)
    assert "not finished" in {row["status"] for row in interrupted}

    # progress reaches the display
    shown = (tmp_path / "shown").read_text()
    assert "2 runs, epoch 3 of 40\n" in shown
    assert "2 runs, epoch 40 of 40\n" in shown

    # the results, and the complaint about the run that fails, are those of a local sweep
    assert failed == train_locally(local).replace(str(local), str(folder))
    assert "not finite in epoch 2 of training" in failed
    assert without_seconds(folder) == without_seconds(local)
    assert results(folder) == results(local)
    assert not list(folder.glob(".ray-*"))


# A Ray of the command's own


@pytest.mark.soak
def test_a_second_ctrl_c_ends_a_ray_of_our_own_at_once(slow: Path, tmp_path: Path) -> None:
    file, folder = tmp_path / "sweep.json", tmp_path / "sweep"
    file.write_text(json.dumps({**LONG, "training": {**TRAINING, "epochs": 100_000}}))
    words = ["sweep", str(file), "--out", str(folder), "--on", "ray", "--device", "cpu", "--workers", "1"]
    name = next(iter(read_sweep(json.loads(file.read_text())).runs))
    with forked(partial(reproduction.__main__.main, words)) as process:
        wait_until((folder / "runs" / name / "metrics.jsonl").exists, process)
        (stack,) = (folder / "stacks").iterdir()
        (worker,) = holders(stack / ".lock")
        os.kill(worker, signal.SIGSTOP)  # a worker that does not end by itself
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (130, "", "stakes: interrupted\n")
    assert RunFolder(folder / "runs" / name).state() is None
    wait_until(lambda: not processes_of_ray() and not holders(stack / ".lock"), seconds=20)


# Without a cluster


def test_half_a_line_of_a_lost_worker_is_skipped(tmp_path: Path) -> None:
    heard = on_ray._Heard(Stack(tmp_path, ("run",)))
    assert heard.lines() == []
    heard.file.parent.mkdir(parents=True)
    heard.file.write_text('{"epoch": 1}\n{"epo')
    assert heard.lines() == [{"epoch": 1}]
    with heard.file.open("a") as file:
        file.write('\n{"epoch": 2}\n')
    assert heard.lines() == [{"epoch": 2}]
    assert heard.lines() == []


def test_stacks_are_as_many_as_the_cluster_has_room_for() -> None:
    cluster = {"CPU": 8.0, "GPU": 2.0}
    assert RayExecution(resources=cluster).resolved_device == "cuda"
    assert RayExecution(resources=cluster).needs == {"num_cpus": 1, "num_gpus": 1}
    assert RayExecution(resources=cluster).stack_size(100) == 50
    assert RayExecution("cpu", resources=cluster).needs == {"num_cpus": 1}
    assert RayExecution("cpu", resources=cluster).stack_size(40) == 5
    with pytest.raises(SettingError, match="device is cuda, but the Ray cluster has no GPU"):
        RayExecution("cuda", resources={"CPU": 8.0})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--on", "ray", "--address", "here"], "'here'"),
        (["--on", "ray", "--address", "ray://here:1"], "'ray://here:1'"),
        (["--on", "ray", "--address", "127.0.0.1:1"], "127.0.0.1:1"),
        (["--address", "auto"], "'auto'"),
    ],
)
def test_an_address_that_is_none_is_refused(words: list[str], message: str, tmp_path: Path) -> None:
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps(LONG))
    command = partial(reproduction.__main__.main, ["sweep", str(file), "--out", str(tmp_path / "sweep"), *words])
    with forked(command) as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    assert errors.startswith("stakes: ")
    assert message in errors
    assert errors.count("\n") == 1
    assert not (tmp_path / "sweep").exists()


def test_without_ray_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps(LONG))
    assert reproduction.__main__.main(["sweep", str(file), "--out", str(tmp_path / "sweep"), "--on", "ray"]) == 2
    assert "stakes[ray]" in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()
