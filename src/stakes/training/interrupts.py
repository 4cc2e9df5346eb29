"""Ctrl-C during training: the first asks for a checkpoint and an orderly end, the second ends at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["stop_on_interrupt"]


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """A function that says whether SIGINT or SIGTERM has come; a second one raises KeyboardInterrupt."""
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield asked.is_set
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
