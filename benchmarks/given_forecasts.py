"""What commands on forecasts that exist already take: deciding for 10,000 cases, and learning from 3,000 past ones.

    python -m benchmarks.given_forecasts [--json FILE]

`stakes decide --members`, 50 members: seconds of one core of the whole command in a process of its own, of an
interpreter that imports torch and pandas and does nothing, and of the command's work in this process, where all is
imported; medians over the turns. `stakes recalibrate`, 50 members, with its report: seconds of one core of the whole
command, and by the clock.
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
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.timing import processor
from stakes.cli import main as stakes_command

CASES, PAST_CASES, MEMBERS, TURNS = 10_000, 3_000, 50, 3
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
    start = time.process_time()
    with redirect_stdout(io.StringIO()):
        assert stakes_command(words) == 0
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
    start = time.perf_counter()
    of_core = child_seconds(*words)
    seconds = {"whole command, s": round(of_core, 1), "by the clock, s": round(time.perf_counter() - start, 1)}
    print("recalibrate", seconds, flush=True)
    return seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.given_forecasts")
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        decide, recalibrate = deciding(Path(folder)), recalibrating(Path(folder))
    machine = f"{processor()}, 1 thread, torch {torch.__version__}, pandas {pd.__version__}"
    sizes = {"cases": CASES, "past cases": PAST_CASES, "members": MEMBERS, "turns": TURNS}
    record = {"machine": machine, **sizes, "decide": decide, "recalibrate": recalibrate}
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
