"""Kills training with SIGKILL over and over, resumes it, and compares what it comes to with an undisturbed training.

    python reproduction/tests/training_kills.py [--kills 50] [--seed 0] [--short] [--report FILE]

Random kills hit `python -m reproduction train`, and the parent and the workers of a `sweep` of two stacks, at any
moment; then `resume` goes on. Injected kills hit one run, and a stack of three runs, before, during and after every
step in which a training writes to its folder. Weights and metrics must come out bit for bit, and whatever a kill leaves
behind must be readable. Linux, without a GPU; everything is forked from one process, since importing torch takes
seconds.
"""

import argparse
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # the repository, where `reproduction` lies
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))
sys.path.insert(0, str(Path(__file__).parent))

from forks import become, living
from kill_injection import MOMENTS, count_steps, install
from small_sweeps import without_seconds

import reproduction.__main__
from reproduction.runs.folder import RunFolder
from reproduction.runs.jobs import ProgressTeller
from reproduction.runs.stacks import Stack
from reproduction.runs.stacks import train_stack as train_stack_here
from reproduction.runs.sweep import load_sweep, read_sweep
from stakes.errors import StakesError
from stakes.files import read_json
from stakes.training import processes
from stakes.training.trainer import load_latest

MODEL = {"name": "diffusion", "hidden": 8, "layers": 1, "noise": 2}
TRAINING = {"members": 2, "validation_members": 4, "batch": 400, "validate_every": 1, "learning_rate": 0.01}
RUN = {"task": "synthetic", "model": MODEL, "decision_weight": 0.5, "training": TRAINING}
GRID = {"decision_weight": [0.0, 0.3, 0.6], "model.hidden": [8, 9]}  # two stacks of three runs
LONGEST_TRAINING = 600.0  # seconds that one undisturbed may take
LONGEST_ORPHAN = 20.0  # seconds that a worker may outlive its parent


@dataclass
class Tally:
    """What came of the kills of one part."""

    part: str
    kills: int = 0
    trainings: int = 0
    seconds: float = 0.0
    troubles: list[str] = field(default_factory=list)  # what cannot be read after a kill, or comes out otherwise


# Processes


def forked_worker(words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """What `stakes.training.processes` starts, as a fork."""
    assert words[:3] == [sys.executable, "-P", "-c"]
    return subprocess.Popen(words, preexec_fn=partial(become, lambda: processes.serve() or 0), **options)


def start(command: Callable[[], int], log: Path) -> subprocess.Popen[str]:
    with log.open("a") as errors:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": errors}
        return subprocess.Popen(["training"], preexec_fn=partial(become, command), text=True, **streams)


def stakes_command(*words: object) -> int:
    """A command line of `stakes`, with a checkpoint every epoch and two workers that are forks."""
    processes.subprocess = SimpleNamespace(Popen=forked_worker)  # type: ignore[assignment]
    workers = [] if words[0] == "train" else ["--workers", "2"]
    flags = ["--device", "cpu", "--quiet", "--checkpoint-seconds", "0", *workers]
    return reproduction.__main__.main([*map(str, words), *flags])


def ended(process: subprocess.Popen[str], seconds: float | None) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


# What is left, and what it came to


def unreadable(folder: Path) -> list[str]:
    """What cannot be read in a folder of a run or a sweep that may have been left at any moment."""
    found = []
    for file in [*folder.rglob("settings.json")]:
        run = RunFolder(file.parent)
        for read in (run.settings, run.state, run.metrics, partial(load_latest, run.checkpoints)):
            found += _trouble(read, file.parent)
        if run.path.joinpath("state.json").exists():
            found += _trouble(run.model, file.parent)
    for stack in folder.glob("stacks/*"):
        found += _trouble(partial(load_latest, stack / "checkpoints"), stack)
    for file in (*folder.glob("plan.json"), *folder.glob("stacks/*/stack.json")):
        found += _trouble(partial(read_json, file), file)
    if (folder / "sweep.json").exists():
        found += _trouble(partial(load_sweep, folder), folder)
    return found


def _trouble(read: Callable[[], object], place: Path) -> list[str]:
    try:
        read()
    except (StakesError, OSError, ValueError, KeyError, TypeError) as error:
        return [f"{place}: {type(error).__name__}: {error}"]
    return []


def compare(folder: Path, reference: Path, tally: Tally) -> None:
    """All runs under a folder with those under the reference."""
    tally.trainings += 1
    for expected in sorted(file.parent for file in reference.rglob("weights.safetensors")):
        run = folder / expected.relative_to(reference)
        try:
            both = [_came_to(path) for path in (run, expected)]
            tally.troubles += [f"{run}: other {name}" for name in both[1] if both[0][name] != both[1][name]]
        except (StakesError, OSError, ValueError) as error:
            tally.troubles.append(f"{run}: {error}")
    if (reference / "table.csv").exists() and without_seconds(folder) != without_seconds(reference):
        tally.troubles.append(f"{folder}: another table")


def _came_to(run: Path) -> dict[str, Any]:
    """Weights, metrics and state of a run, bit for bit; all but the seconds."""
    state = {name: value for name, value in read_json(run / "state.json").items() if "seconds" not in name}
    weights = (run / "weights.safetensors").read_bytes()
    return {"weights": weights, "metrics": (run / "metrics.jsonl").read_bytes(), "state": state}


# Random kills


@dataclass(frozen=True)
class Soak:
    """The settings of a soak, and where it happens."""

    base: Path
    chance: random.Random
    log: Path

    def settings_file(self, name: str, values: dict[str, Any]) -> Path:
        file = self.base / f"{name}.json"
        file.write_text(json.dumps(values))
        return file

    def reference(self, command: str, file: Path) -> Path:
        """The folder of an undisturbed training."""
        folder = self.base / f"{file.stem}-undisturbed"
        process = start(partial(stakes_command, command, file, "--out", folder), self.log)
        assert process.wait() == 0, self.log.read_text()
        assert not unreadable(folder)
        return folder

    def random_kills(self, command: str, file: Path, kills: int, life: float) -> Tally:
        """So many kills of so many trainings as that takes; `life` is the mean time between kills."""
        tally = Tally(f"{command}, random kills")
        reference = self.reference(command, file)
        began = time.perf_counter()
        while tally.kills < kills and not tally.troubles:
            folder = self.base / f"{file.stem}-{tally.trainings}"
            self._until_done(command, file, folder, kills, life, tally)
            compare(folder, reference, tally)
            if not tally.troubles:
                shutil.rmtree(folder)
        tally.seconds = time.perf_counter() - began
        return tally

    def _until_done(self, command: str, file: Path, folder: Path, kills: int, life: float, tally: Tally) -> None:
        made = folder / ("sweep.json" if command == "sweep" else "settings.json")
        process = None
        while True:
            if process is None:
                words = ["resume", folder] if made.exists() else [command, file, "--out", folder]
                process = start(partial(stakes_command, *words), self.log)
            if ended(process, self.chance.uniform(0, 2 * life) if tally.kills < kills else LONGEST_TRAINING):
                if process.returncode == 0:
                    return
                if process.returncode != 2 or command == "train":  # a sweep with a dead worker says so and ends with 2
                    tally.troubles.append(f"{folder}: exit code {process.returncode}, see {self.log}")
                    return
                process = None
                continue
            if tally.kills >= kills:
                process.kill()
                tally.troubles.append(f"{folder}: training has not ended after {LONGEST_TRAINING} s, see {self.log}")
                return
            family = [number for number, parent in living().items() if parent == process.pid]
            victim = self.chance.choice(family) if family and tally.kills % 2 else process.pid  # by turns
            with suppress(ProcessLookupError):  # a worker may have ended meanwhile
                os.kill(victim, signal.SIGKILL)
                tally.kills += 1
            if victim == process.pid:
                process.wait()
                self._wait_for_orphans(family, tally)
                process = None
            tally.troubles += unreadable(folder) if process is None else []

    def _wait_for_orphans(self, family: list[int], tally: Tally) -> None:
        end = time.monotonic() + LONGEST_ORPHAN
        while orphans := living().keys() & family:
            if time.monotonic() > end:
                tally.troubles.append(f"workers {orphans} outlived their parent by {LONGEST_ORPHAN} s")
                for number in orphans:
                    os.kill(number, signal.SIGKILL)
                return
            time.sleep(0.005)

    # Injected kills

    def injected_kills(
        self, part: str, command: Callable[[Path], int], prepare: Callable[[Path], None], every: int
    ) -> Tally:
        """A kill at every step, or every so many, of a training that writes to a folder."""

        def doomed(nth: int, moment: str, folder: Path) -> int:
            install(nth, moment, folder)
            return command(folder)

        def counted(folder: Path) -> int:
            steps = count_steps(folder)
            code = command(folder)
            counts.write_text(json.dumps(steps))
            return code

        tally = Tally(f"{part}, injected kills")
        reference = self.base / f"{part}-undisturbed".replace(" ", "-")
        counts = reference.with_suffix(".json")
        prepare(reference)
        assert start(partial(counted, reference), self.log).wait() == 0, self.log.read_text()
        steps = json.loads(counts.read_text())
        began = time.perf_counter()
        for moment in MOMENTS:
            last = steps["write"] if moment == "during" else sum(steps.values())
            stride = min(every, last)  # at least one kill at every moment
            for nth in range(1 + self.chance.randrange(stride), last + 1, stride):
                folder = self.base / f"{part}-{moment}-{nth}".replace(" ", "-")
                prepare(folder)
                code = start(partial(doomed, nth, moment, folder), self.log).wait()
                before = len(tally.troubles)
                tally.kills += 1
                if code != -signal.SIGKILL:
                    tally.troubles.append(f"{folder}: exit code {code} before the kill, see {self.log}")
                tally.troubles += unreadable(folder)
                if (code := start(partial(command, folder), self.log).wait()) != 0:
                    tally.troubles.append(f"{folder}: exit code {code} after the kill, see {self.log}")
                compare(folder, reference, tally)
                if len(tally.troubles) == before:
                    shutil.rmtree(folder)
        tally.seconds = time.perf_counter() - began
        return tally


def train_run(file: Path, folder: Path) -> int:
    """The same command before and after a kill: it resumes, too."""
    return stakes_command("train", file, "--out", folder)


def train_stack(folder: Path) -> int:
    """The three runs that a folder was made for, as a worker trains them."""
    runs = sorted(path.name for path in (folder / "runs").iterdir())
    train_stack_here(Stack(folder, tuple(runs)), "cpu", 0.0, lambda: False, ProgressTeller(lambda line: None))
    return 0


def make_runs(values: dict[str, Any], folder: Path) -> None:
    for name, run in read_sweep(values).runs.items():
        RunFolder(folder / "runs" / name).create(run)


def soak(base: Path, kills: int, seed: int, short: bool) -> list[Tally]:
    """All parts; a long one takes minutes."""
    each = Soak(base, random.Random(seed), base / "log.txt")
    shrink, life, every = (60, 0.05, 1000) if short else (1, 0.6, 1)
    batch = {"batch": 1600 if short else TRAINING["batch"]}
    long = {**TRAINING, **batch, "pretraining_epochs": 300 // shrink, "epochs": 1200 // shrink}
    many = {**TRAINING, **batch, "pretraining_epochs": 60 // shrink, "epochs": 240 // shrink}
    many["patience"] = 3 if short else 30
    brief = {**TRAINING, "pretraining_epochs": 1, "epochs": 1 if short else 3, "batch": 1600}
    run_file = each.settings_file("run", {**RUN, "training": long})
    sweep_file = each.settings_file("sweep", {**RUN, "training": many, "grid": GRID})
    brief_file = each.settings_file("brief", {**RUN, "training": brief})
    stack = {**RUN, "training": brief, "grid": {"decision_weight": [0.0, 0.3, 0.6]}}
    with redirect_stdout(io.StringIO()):
        assert train_run(brief_file, base / "warm") == 0  # all that the first training of a process has to import
    parts: list[Callable[[], Tally]] = [
        lambda: each.random_kills("train", run_file, kills, life),
        lambda: each.random_kills("sweep", sweep_file, kills, life),
        lambda: each.injected_kills("a run", partial(train_run, brief_file), lambda folder: None, every),
        lambda: each.injected_kills("a stack of three", train_stack, partial(make_runs, stack), every),
    ]
    tallies = []
    for part in parts:
        tallies.append(part())
        done = tallies[-1]
        sys.stdout.write(f"{done.part}: {done.kills} kills, {done.trainings} trainings, {done.seconds:.0f} s\n")
        sys.stdout.flush()
    return tallies


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="random kills of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--short", action="store_true", help="smaller trainings, and a few of the injected kills")
    parser.add_argument("--report", type=Path, help="the tallies as JSON")
    chosen = parser.parse_args(arguments)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a process that has seen a GPU cannot be forked
    torch.set_num_threads(1)
    base = Path(tempfile.mkdtemp(prefix="stakes-soak-"))
    tallies = soak(base, chosen.kills, chosen.seed, chosen.short)
    if chosen.report:
        chosen.report.write_text(json.dumps([asdict(tally) for tally in tallies]))
    for sentence in [sentence for tally in tallies for sentence in tally.troubles][:20]:
        sys.stdout.write(f"{sentence}\n")
    if any(tally.troubles for tally in tallies):
        sys.stdout.write(f"what was left is in {base}\n")
        return 1
    shutil.rmtree(base)
    return 0


if __name__ == "__main__":
    sys.exit(main())
