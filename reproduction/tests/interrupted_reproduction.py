"""Reproduces the synthetic task twice, at once and with interruptions, and prints what each start said, as JSON.

    python interrupted_reproduction.py FOLDER

In FOLDER/whole nothing happens. In FOLDER/interrupted Ctrl-C comes during training, Ctrl-C and then SIGKILL during
evaluation, and the fourth start comes to the end.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from tiny_reproduction import tiny, tiny_studies

from reproduction import reproduce
from reproduction.plan import PlannedStudy
from reproduction.runs import evaluations as run_evaluations

_PATIENCE = 120.0  # seconds until what is waited for must have come


def longer(planned: PlannedStudy) -> PlannedStudy:
    """Long enough to be interrupted."""
    small = tiny(planned)
    return replace(small, settings={**small.settings, "training.epochs": 150, "training.validate_every": 10})


def started(out: Path, workers: bool, pause: bool) -> int:
    """The process that reproduces into the folder; in a pause it waits before its second evaluation."""
    process = os.fork()
    if process:
        return process
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    for name, stream in (("output", 1), ("errors", 2)):
        os.dup2(os.open(out.with_suffix(f".{name}"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    if pause:
        run_evaluations._evaluate = pausing(out, run_evaluations._evaluate)
    with tiny_studies(longer, workers):
        os._exit(
            reproduce.main(["synthetic", "--budget", "quick", "--device", "cpu", "--workers", "1", "--out", str(out)])
        )


def pausing(out: Path, evaluate: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    calls = 0

    def paused(*arguments: Any) -> Iterator[Any]:
        nonlocal calls
        calls += 1
        if calls == 2:
            out.with_suffix(".paused").touch()
            time.sleep(_PATIENCE)
        return evaluate(*arguments)

    return paused


def ended(process: int, out: Path, ready: Callable[[], bool] | None = None, number: int = signal.SIGINT) -> Any:
    """Sends the signal as soon as the process is ready for it; returns what came of it."""
    until = time.monotonic() + _PATIENCE
    while ready is not None and not ready():
        if time.monotonic() > until or os.waitpid(process, os.WNOHANG)[0]:
            raise SystemExit(f"not interrupted in time: {out.with_suffix('.errors').read_text()}")
        time.sleep(0.02)
    if ready is not None:
        os.kill(process, number)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    out.with_suffix(".paused").unlink(missing_ok=True)
    said = {name: out.with_suffix(f".{name}").read_text() for name in ("output", "errors")}
    return {"code": code, **said, "evaluated": len(list(out.glob("sweep/evaluations/*.metrics")))}


def trains(out: Path) -> bool:
    return any(file.stat().st_size for file in out.glob("sweep/runs/*/metrics.jsonl"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    reproduce.draw_figures = lambda studies, subjects: ({}, [])  # which would take long
    base = Path(sys.argv[1])
    whole, cut = base / "whole", base / "interrupted"
    result = {"whole": ended(started(whole, workers=False, pause=False), whole)}
    result["training"] = ended(started(cut, workers=True, pause=False), cut, lambda: trains(cut))
    pauses = cut.with_suffix(".paused").exists
    result["evaluation"] = ended(started(cut, workers=True, pause=True), cut, pauses)
    result["killed"] = ended(started(cut, workers=True, pause=True), cut, pauses, signal.SIGKILL)
    result["end"] = ended(started(cut, workers=True, pause=False), cut)
    sys.stdout.write(json.dumps(result) + "\n")
