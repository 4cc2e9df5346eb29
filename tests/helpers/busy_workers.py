"""Workers that answer when somebody says so, and some that go wrong; told by files, since they are other processes."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cloudpickle  # type: ignore[import-untyped]

from stakes.service.workers import Answering, Reply

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers have no path to the tests
SPACES = {b"much": 2_000_000, b"very much": 20_000_000}
DONE = Reply(200, b'{"done": true}')


@dataclass(frozen=True)
class Busy:
    """Answers, all of which wait for one word."""

    folder: Path

    def __call__(self, name: str, content: bytes) -> Reply:
        (self.folder / f"begun {os.getpid()}").touch()
        while not (self.folder / "end").exists():
            time.sleep(0.01)
        return DONE

    @property
    def make(self) -> Callable[[], Answering]:
        return partial(Busy, self.folder)

    def wait_until_begun(self) -> int:
        """The process that is at work."""
        while not (begun := [*self.folder.glob("begun *")]):
            time.sleep(0.01)
        return int(begun[0].name.split()[1])

    def may_end(self) -> None:
        (self.folder / "end").touch()


class Wayward:
    """Does what the body of a request says."""

    def __call__(self, name: str, content: bytes) -> Reply:
        if content == b"spin":
            while True:  # holds the interpreter, as a pattern that backtracks does
                sum(range(10_000_000))
        if content == b"die":
            os._exit(1)
        if content == b"fail":
            return Reply(500, b"", "Traceback: secret of somebody")
        return Reply(200, str(os.getpid()).encode() + b" " * SPACES.get(content, 0))
