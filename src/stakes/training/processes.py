"""A function called for many arguments in several processes, which end with this one however it ends."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

import torch

from stakes.errors import StakesError

__all__ = ["called_for_each"]

Key = TypeVar("Key")
Result = TypeVar("Result")


def called_for_each(
    function: Callable[..., Result], arguments: Mapping[Key, tuple[Any, ...]], processes: int
) -> Iterator[tuple[Key, Result]]:
    """The result for each key as it comes; in this process where one is enough."""
    if min(processes, len(arguments)) < 2:
        for key, given in arguments.items():
            yield key, function(*given)
        return
    context = get_context("spawn")  # torch's threads do not outlive a fork
    with ProcessPoolExecutor(min(processes, len(arguments)), context, _start) as pool:
        futures = {pool.submit(function, *given): key for key, given in arguments.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            raise StakesError(
                "a process that was to help ended at once: it was killed, or a script that uses several processes is "
                'not under `if __name__ == "__main__":`'
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start() -> None:
    """One core a process; Ctrl-C is the parent's business, and without a parent there is nothing to do."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
