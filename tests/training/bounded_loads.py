"""Loads of checkpoints in a fork of the process of the tests with little CPU time and memory: who takes more dies."""

import math
import resource
import subprocess
import sys
import time
from pathlib import Path

from forked_processes import ForkedCommand

from stakes.training.trainer import load_latest

CPU_SECONDS = 5  # for each; the slowest needs tenths of one
MEMORY = 200 * 2**20  # bytes beyond what is there before


class BoundedLoads:
    """How the load of the latest checkpoint of a folder ends, 0 where all goes well; one fork until a load ends it."""

    def __init__(self) -> None:
        self.process: ForkedCommand | None = None

    def __call__(self, folder: Path) -> int:
        if self.process is None:
            self.process = ForkedCommand(load_each, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        asked, answers = self.process.stdin, self.process.stdout
        assert asked is not None
        assert answers is not None
        print(folder, file=asked, flush=True)
        return 0 if answers.readline() else self.end()

    def end(self) -> int:
        """The exit code of the fork, which has nothing more to do."""
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.communicate()
        return process.returncode


def load_each() -> None:
    """Load the folders that standard input names, one per line, each answered with a line."""
    there = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (there + MEMORY, there + MEMORY))
    for line in sys.stdin:
        seconds = math.ceil(time.process_time()) + CPU_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        load_latest(Path(line.rstrip()))
        sys.stdout.write("loaded\n")
        sys.stdout.flush()
