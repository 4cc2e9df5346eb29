"""Kills its process with SIGKILL at the n-th step that changes a folder, to test what a crash leaves behind (Linux).

A step is a call of one of `STEPS` of module `os` on a file under the folder. A moment is "before" the step, "after" it,
or "during", which counts writes alone and lets through half of the bytes. A process that outlives its saving had fewer
steps.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOMENTS = ("before", "during", "after")
STEPS = ("mkdir", "open", "write", "fsync", "replace", "rename", "unlink")


def install(nth: int, moment: str, under: Path) -> None:
    """From now on the n-th step under the folder, counted from 1, is the last."""
    assert moment in MOMENTS
    folder, count = f"{under.resolve()}{os.sep}", 0

    def deadly(step: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any, **options: Any) -> Any:
            nonlocal count
            if not f"{_path(target)}{os.sep}".startswith(folder):
                return step(target, *rest, **options)
            count += 1
            if count != nth:
                return step(target, *rest, **options)
            try:
                if moment == "during":
                    step(target, rest[0][: len(rest[0]) // 2])
                elif moment == "after":
                    step(target, *rest, **options)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)

        return call

    for name in ("write",) if moment == "during" else STEPS:
        setattr(os, name, deadly(getattr(os, name)))


def count_steps(under: Path) -> Counter[str]:
    """From now on, how often each step is taken under the folder."""
    folder, counts = f"{under.resolve()}{os.sep}", Counter[str]()

    def counted(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any, **options: Any) -> Any:
            counts[name] += f"{_path(target)}{os.sep}".startswith(folder)
            return step(target, *rest, **options)

        return call

    for name in STEPS:
        setattr(os, name, counted(name, getattr(os, name)))
    return counts


def _path(target: int | str | os.PathLike[str]) -> str:
    return os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else os.path.abspath(target)
