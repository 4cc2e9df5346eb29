"""Adversarial tables and bundles through the commands: one line of error, no traceback, time in proportion to the size.

    python tests/soak/hostile_commands.py [--tables 1500] [--bundles 1500] [--seed 0] [--jobs 1] [--minutes M]

Every table goes to `decide`, `evaluate`, `check-cost` and `fit`, every changed bundle to `decide`, `evaluate`,
`report` and `refit`. The commands run in a fork of this process, which is killed where it takes too long.
Training takes as long as its settings say, whatever the input: that of changed bundles is left out. Several jobs take
the seeds in turn, each in a folder of its own; when the minutes are over, no further input is begun.
"""

import argparse
import io
import itertools
import math
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from adversarial_bundles import bundle_changes
from adversarial_inputs import parquet_files, tables

import stakes.cli
from stakes.errors import SettingError
from stakes.workflows import fit

COST = "imbalance:short=10,long=1,upper=150"
SMALL = ["--device", "cpu", "--workers", "1", "--quiet", "--epochs", "1", "--members", "5"]
SMALL += ["--decision-weight", "0", "--test-fraction"]  # and how much that is
SECONDS, SECONDS_A_BYTE = 5.0, 5e-5  # of computing that a command may take; a column of text takes half a thousandth
PATIENCE = 6  # times as long by the clock, since the machine may have other work
LONGEST_LINE = 2000 + len("stakes: ")  # characters


@dataclass(frozen=True)
class Said:
    """How a command ended.

    Attributes:
        code: The exit code; None where it raised, or was killed.
        errors: What it wrote to standard error.
        seconds: Of computing.
    """

    code: int | None
    errors: str
    seconds: float

    def fault(self, size: int) -> str:
        """What is wrong with this for an input of so many bytes; nothing where all is well."""
        lines = self.errors.splitlines()
        if self.code not in (0, 2):
            return f"ended with {self.code}: {' | '.join(lines[-3:])[-400:]}"
        if len(lines) != (self.code == 2) or not all(line.startswith("stakes: ") for line in lines):
            return f"said {len(lines)} lines: {' | '.join(lines)[:400]}"
        if any(len(line) > LONGEST_LINE or not line.isprintable() for line in lines):
            return f"said a line of {len(lines[0])} characters: {lines[0][:200]!a}"
        if self.seconds > limit(size):
            return f"took {self.seconds:.1f} s for {size} bytes"
        return ""


@dataclass
class Tally:
    """What came of the commands of one kind."""

    inputs: int = 0
    ended: Counter[int | None] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    faults: list[str] = field(default_factory=list)

    def add(self, said: Said, size: int, where: str) -> None:
        self.ended[said.code] += 1
        self.slowest = max(self.slowest, (said.seconds, where))
        if fault := said.fault(size):
            self.faults.append(f"{where}: {fault}")
            sys.stdout.write(f"{self.faults[-1]}\n")
            sys.stdout.flush()

    def __iadd__(self, other: "Tally") -> "Tally":
        self.inputs += other.inputs
        self.ended += other.ended
        self.slowest = max(self.slowest, other.slowest)
        self.faults += other.faults
        return self


def limit(size: int) -> float:
    return SECONDS + SECONDS_A_BYTE * size


# The commands, in a fork that can be killed


def called(words: Sequence[str]) -> Said:
    """A command in this process."""
    began = time.process_time()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as errors:
        try:
            code: int | None = stakes.cli.main(list(words))
        except Exception:
            code = None
            traceback.print_exc()
    return Said(code, errors.getvalue(), time.process_time() - began)


def serve(connection: Connection) -> None:
    """Commands one after the other; training is left out where the folder is that of a changed bundle."""
    train = fit._trained

    def trained(method: Any, cases: Any, out: Path, checkpoints: str) -> None:
        if out.name != "trained":
            raise SettingError("training is left out here")
        train(method, cases, out, checkpoints)

    fit._trained = trained
    while True:
        connection.send(called(connection.recv()))


class Commands:
    """A process that runs commands, and another one when that had to be killed."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def __call__(self, words: Sequence[str], size: int) -> Said:
        self.connection.send(words)
        try:
            if self.connection.poll(PATIENCE * limit(size)):
                return self.connection.recv()
            said = Said(None, "killed after its time", PATIENCE * limit(size))
        except EOFError:
            said = Said(None, "the process died", 0.0)
        self.end()
        self.start()
        return said

    def end(self) -> None:
        self.process.kill()
        self.process.join()


# Inputs


def good_table(rows: int = 80) -> pd.DataFrame:
    """Members and features m0, m1, m2 by the hour."""
    values = np.random.default_rng(0).normal(50, 10, (rows, 3)).round(2)
    times = pd.date_range("2020-01-01", periods=rows, freq="h", name="time")
    return pd.DataFrame(values, times, ["m0", "m1", "m2"]).reset_index()


def good_fit(base: Path) -> Path:
    """The folder of a small fit with its evaluation and report."""
    good_table().to_csv(base / "good.csv", index=False)
    words = ["fit", str(base / "good.csv"), "--target", "m0", "--time", "time", "--cost", COST]
    words += [*SMALL, "0.3", "--out", str(base / "trained")]
    said = called(words)
    assert said.code == 0, said.errors
    return (base / "trained").rename(base / "fit")


def table_commands(file: Path, base: Path) -> Iterator[list[str]]:
    members, cost, fresh = ["--members", str(file)], ["--cost", COST], [*SMALL, "0", "--out", str(base / "trained")]
    lags = ["--time", "time", "--lags", "0,24", "--lead", "24"]
    yield ["decide", *members, *cost, "--quiet"]
    yield ["evaluate", *members, "--outcomes", str(file), *cost, "--quiet", "--target", "m0"]
    yield ["evaluate", *members, "--outcomes", str(base / "good.csv"), *cost, "--quiet", "--target", "m0"]
    yield ["check-cost", *members, *cost, "--quiet"]
    yield ["check-cost", str(file), "--target", "m0", *cost]
    yield ["decide", str(base / "fit"), str(file), "--quiet"]
    yield ["evaluate", str(base / "fit"), str(file), "--quiet"]
    yield ["fit", str(file), "--target", "m0", *cost, *fresh]
    yield ["fit", str(file), "--target", "m0", *lags, *cost, *fresh]


def bundle_commands(folder: Path, base: Path) -> Iterator[list[str]]:
    table, here = str(base / "good.csv"), ["--quiet", "--device", "cpu", "--workers", "1"]
    again = ["refit", str(folder), table, *here, "--out", str(base / "refit")]
    yield ["decide", str(folder), table, "--quiet"]
    yield ["evaluate", str(folder), table, "--quiet"]
    yield ["report", str(folder)]
    yield again


Input = tuple[str, int, Callable[[], object], Iterator[list[str]]]  # its name, its bytes, how it is made, what follows


def table_inputs(base: Path, seed: int) -> Iterator[Input]:
    for suffix, contents in ((".csv", tables(seed)), (".parquet", parquet_files(seed))):
        for name, content in contents:
            packed = ".gz" if content.startswith(b"\x1f\x8b") else ""
            file = base / f"table{suffix}{packed}"
            size = 1 << 23 if packed else len(content)  # what is packed may be large
            yield name, size, lambda file=file, content=content: file.write_bytes(content), table_commands(file, base)


def bundle_inputs(base: Path, seed: int) -> Iterator[Input]:
    copy, size = base / "copies" / "fit", sum(file.stat().st_size for file in (base / "fit").rglob("*"))
    for name, change in bundle_changes(base / "fit", seed):

        def make(change: Callable[[Path], object] = change) -> None:
            shutil.rmtree(copy.parent, ignore_errors=True)
            shutil.copytree(base / "fit", copy)
            change(copy)

        yield name, size, make, bundle_commands(copy, base)


def endless(
    inputs: Callable[[Path, int], Iterator[Input]], base: Path, seeds: Iterator[int], shuffled: bool
) -> Iterator[Input]:
    """Inputs of one seed after the other; all of a seed, or a few of each where they are very many."""
    for seed in seeds:
        some = inputs(base, seed)
        yield from random.Random(seed).sample(every, len(every)) if shuffled and (every := list(some)) else some


def in_turn(first: Iterator[Input], second: Iterator[Input]) -> Iterator[tuple[str, Input]]:
    """Tables and bundles one after the other, and then the rest of those that are more."""
    for pair in itertools.zip_longest(first, second):
        yield from ((kind, each) for kind, each in zip(("tables", "bundles"), pair, strict=True) if each is not None)


def soak(inputs: Iterator[tuple[str, Input]], base: Path, until: float) -> dict[str, Tally]:
    """What came of the inputs that were begun until then, by kind and command."""
    commands = Commands()
    tallies: dict[str, Tally] = {}
    for kind, (name, size, make, lines) in inputs:
        if time.monotonic() > until:
            break
        make()
        tallies.setdefault(kind, Tally()).inputs += 1
        for words in lines:
            for left in ("trained", "refit"):
                shutil.rmtree(base / left, ignore_errors=True)
            tally = tallies.setdefault(f"{kind}: {words[0]}", Tally())
            tally.add(commands(words, size), size, f"{words[0]} {name}")
    commands.end()
    return tallies


def job(number: int, chosen: argparse.Namespace, until: float) -> dict[str, Tally]:
    """The part of one of the processes."""
    torch.set_num_threads(1)
    counts = [len(range(number, count, chosen.jobs)) for count in (chosen.tables, chosen.bundles)]
    with tempfile.TemporaryDirectory(prefix="stakes-soak-", ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        good_fit(base)
        seeds = [itertools.count(chosen.seed + number, chosen.jobs) for _ in counts]
        tables_made = endless(table_inputs, base, seeds[0], shuffled=False)
        bundles_made = endless(bundle_inputs, base, seeds[1], shuffled=True)
        inputs = in_turn(itertools.islice(tables_made, counts[0]), itertools.islice(bundles_made, counts[1]))
        return soak(inputs, base, until)


def row(name: str, tally: Tally) -> str:
    counts = [sum(tally.ended.values()), tally.ended[0], tally.ended[2], len(tally.faults)]
    seconds, where = tally.slowest
    return f"{name:<24}{''.join(f'{count:>10,}' for count in counts)}{seconds:>10.2f} s  {where}"


def summary(tallies: dict[str, Tally]) -> str:
    lines = [f"{'':<24}{'commands':>10}{'exit 0':>10}{'exit 2':>10}{'faults':>10}{'slowest':>12}"]
    lines += [row(name, tally) for name, tally in sorted(tallies.items()) if not tally.inputs]
    lines += [f"{name}: {tally.inputs:,} inputs" for name, tally in sorted(tallies.items()) if tally.inputs]
    faults = [fault for tally in tallies.values() for fault in tally.faults]
    return "\n".join([*lines, f"{len(faults)} faults", *faults]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=1500, help="how many of them")
    parser.add_argument("--bundles", type=int, default=1500, help="how many of them")
    parser.add_argument("--seed", type=int, default=0, help="of what is generated")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the inputs")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no input is begun")
    chosen = parser.parse_args(arguments)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a process that has seen a GPU cannot be forked
    until = time.monotonic() + 60 * chosen.minutes
    tallies: dict[str, Tally] = {}
    with ProcessPoolExecutor(chosen.jobs, multiprocessing.get_context("fork")) as processes:
        for done in [processes.submit(job, number, chosen, until) for number in range(chosen.jobs)]:
            for name, tally in done.result().items():
                tallies[name] = tallies.get(name, Tally())
                tallies[name] += tally
    sys.stdout.write(summary(tallies))
    return 1 if any(tally.faults for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
