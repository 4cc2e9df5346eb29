"""Decisions for many series on Ray, one of whose workers is killed at work: nothing is lost, the numbers are the same.

    python tests/soak/panel_on_ray.py

It starts Ray on this machine by its ordinary client, with three workers, and stops it afterwards.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from stakes import PanelForecaster
from stakes.data.tables.panels import Panel

_DAYS, _SERIES, _WORKERS = 200, 400, 3


def table() -> pd.DataFrame:
    """Simulated sales, a margin for each series."""
    random, days = np.random.default_rng(0), pd.date_range("2024-01-01", periods=_DAYS)
    level = np.exp(random.normal(2, 1, _SERIES))
    names = np.repeat([f"s{place:04}" for place in range(_SERIES)], _DAYS)
    demand = random.poisson(np.repeat(level, _DAYS)).astype(float)
    margin = np.repeat(random.uniform(1, 5, _SERIES), _DAYS)
    return pd.DataFrame({"unique_id": names, "ds": np.tile(days, _SERIES), "y": demand, "margin": margin})


def ray_workers() -> list[int]:
    """The processes of Ray that work on a part now."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if line.startswith(b"ray::_called"):
            found.append(int(entry.parent.name))
    return found


def kill_one(killed: list[int]) -> None:
    """Kill the first worker that is seen at work."""
    for _ in range(6000):
        if workers := ray_workers():
            os.kill(workers[0], signal.SIGKILL)
            killed.append(workers[0])
            return
        time.sleep(0.01)


def main() -> None:
    """Decide here and on Ray, and compare."""
    Panel.batches.__defaults__ = (20 * _DAYS,)  # 20 parts
    sales, ray = table(), [sys.executable, "-m", "ray.scripts.scripts"]
    forecaster = PanelForecaster(
        "newsvendor:underage=@margin,overage=1",
        target="y",
        lags=["0d", "6d"],
        windows=["28d"],
        leads="1d",
        model="linear",
    ).fit(sales)
    began = time.perf_counter()
    expected = forecaster.decide(sales)
    sys.stdout.write(f"{len(expected):,} decisions in one process: {time.perf_counter() - began:.1f} s\n")
    start = ["start", "--head", "--node-ip-address=127.0.0.1", f"--num-cpus={_WORKERS}", "--include-dashboard=false"]
    calm = {**os.environ, "RAY_worker_niceness": "0"}  # else a busy machine starves its workers
    subprocess.run([*ray, *start, "--disable-usage-stats"], check=True, stdout=subprocess.DEVNULL, env=calm)
    try:
        forecaster.settings = replace(forecaster.settings, engine="ray")
        killed: list[int] = []
        killer = threading.Thread(target=kill_one, args=(killed,))
        killer.start()
        began = time.perf_counter()
        found = forecaster.decide(sales)
        killer.join()
        sys.stdout.write(f"on {_WORKERS} workers of Ray, one killed: {time.perf_counter() - began:.1f} s\n")
        assert killed, "no worker was seen at work"
        pd.testing.assert_frame_equal(found, expected)
        sys.stdout.write(f"worker {killed[0]} was killed; all {len(found):,} decisions are there, and the same\n")
    finally:
        subprocess.run([*ray, "stop", "--force"], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
