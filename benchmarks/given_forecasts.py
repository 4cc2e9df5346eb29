"""What commands on forecasts that exist already take: deciding for 10,000 cases, and learning from 3,000 past ones.

    python -m benchmarks.given_forecasts [--json FILE]

`stakes decide --members`, 50 members: seconds of one core of the whole command in a process of its own, of an
interpreter that imports torch and pandas and does nothing, and of the command's work in this process, where all is
imported; medians over the turns. `stakes recalibrate`, 50 members, with its report, and `stakes value` of two forecasts
of 10,000 cases by 50 members at 50 values: seconds of one core of the whole command, and by the clock. Reading a clean
CSV file of 12 MB: seconds of one core beside `pandas.read_csv`, by turns.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.timing import processor
from stakes.cli import main as stakes_command
from stakes.data.tables.files import read_table

CASES, PAST_CASES, MEMBERS, TURNS, READINGS = 10_000, 3_000, 50, 3, 15
COSTS = {
    "shortfall": "shortfall:penalty=5",
    "newsvendor": "newsvendor:underage=9,overage=1,upper=50",
    "imbalance": "imbalance:short=10,long=1,upper=50",
    "protection": "protection:threshold=3,false_alarm_ratio=0.3",
}


def child_seconds(*words: str) -> float:
    """Seconds of one core that an interpreter takes, with one thread."""
    before = os.times()
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=alone)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def own_seconds(words: Sequence[str]) -> float:
    with redirect_stdout(io.StringIO()):
        start = time.process_time()
        assert stakes_command(list(words)) == 0
        return time.process_time() - start


def deciding(folder: Path) -> dict[str, dict[str, float]]:
    values = np.random.default_rng(0).gamma(3.0, size=(CASES, MEMBERS)).round(4)
    times = pd.date_range("2000-01-01", periods=CASES, freq="h", name="time")
    pd.DataFrame(values, times, [f"m{number}" for number in range(MEMBERS)]).to_csv(folder / "members.csv")
    table = {}
    for name, cost in COSTS.items():
        words = ["decide", "--members", str(folder / "members.csv"), "--cost", cost, "--out", str(folder / "out.csv")]
        words += ["--force", "--quiet"]
        own_seconds(words)
        turns = [
            (own_seconds(words), child_seconds("-m", "stakes.cli", *words), child_seconds("-c", "import torch, pandas"))
            for _ in range(TURNS)
        ]
        work, whole, imports = (round(statistics.median(each), 2) for each in zip(*turns, strict=True))
        table[name] = {"work, s": work, "whole command, s": whole, "import of torch and pandas, s": imports}
        print(name, table[name], flush=True)
    return table


def recalibrating(folder: Path) -> dict[str, float]:
    """A forecast that is too low and too sure, and every candidate tried."""
    random = np.random.default_rng(0)
    known = random.normal(size=(PAST_CASES, 1))
    members = pd.DataFrame(9 + 3 * known + random.normal(size=(PAST_CASES, MEMBERS))).add_prefix("m").round(3)
    outcome = (11 + 3 * known[:, 0] + 2 * random.normal(size=PAST_CASES)).round(3)
    times = pd.date_range("2015-01-01", periods=PAST_CASES, freq="D")
    members.assign(time=times, outcome=outcome).to_csv(folder / "past.csv", index=False)
    words = ["-m", "stakes.cli", "recalibrate", str(folder / "past.csv"), "--forecast", f"m0:m{MEMBERS - 1}"]
    words += ["--outcome", "outcome", "--lead", "24", "--cost", COSTS["newsvendor"], "--out", str(folder / "made")]
    return whole_command(words)


def valuing(folder: Path) -> dict[str, float]:
    random = np.random.default_rng(0)
    known = random.uniform(0.2, 0.8, size=(CASES, 1))
    times = pd.date_range("2000-01-01", periods=CASES, freq="h", name="time")
    for name, width in (("new", 0.1), ("old", 0.3)):
        members = pd.DataFrame(known + width * random.normal(size=(CASES, MEMBERS)), times)
        members.add_prefix("m").round(5).to_csv(folder / f"{name}.csv")
    pd.DataFrame({"y": known[:, 0] + 0.1 * random.normal(size=CASES)}, times).to_csv(folder / "observed.csv")
    words = ["-m", "stakes.cli", "value", "--members", str(folder / "new.csv"), "--against", str(folder / "old.csv")]
    words += ["--outcomes", str(folder / "observed.csv"), "--cost", "shortfall:penalty=1..50", "--values", "50"]
    return whole_command(words)


def whole_command(words: Sequence[str]) -> dict[str, float]:
    start = time.perf_counter()
    of_core = child_seconds(*words)
    seconds = {"whole command, s": round(of_core, 1), "by the clock, s": round(time.perf_counter() - start, 1)}
    print(words[2], seconds, flush=True)
    return seconds


def reading(folder: Path) -> dict[str, float]:
    path = folder / "clean.csv"
    times = pd.date_range("2000-01-01", periods=24_000, freq="h", name="time")
    values = np.random.default_rng(0).normal(100, 20, size=(len(times), MEMBERS))
    pd.DataFrame(values, times).add_prefix("m").round(5).to_csv(path)
    turns = [(of_call(lambda: read_table(path)), of_call(lambda: pd.read_csv(path))) for _ in range(READINGS)]
    ours, theirs = (statistics.median(each) for each in zip(*turns, strict=True))
    seconds = {"MB": path.stat().st_size / 1e6, "ours, s": ours, "pandas, s": theirs, "ratio": ours / theirs}
    seconds = {name: round(value, 3) for name, value in seconds.items()}
    print("reading", seconds, flush=True)
    return seconds


def of_call(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.given_forecasts")
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        ways = {"decide": deciding, "recalibrate": recalibrating, "value": valuing, "reading": reading}
        found = {name: measure(Path(folder)) for name, measure in ways.items()}
    machine = f"{processor()}, 1 thread, torch {torch.__version__}, pandas {pd.__version__}"
    sizes = {"cases": CASES, "past cases": PAST_CASES, "members": MEMBERS, "turns": TURNS}
    record = {"machine": machine, **sizes, **found}
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
