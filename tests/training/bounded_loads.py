"""Loads of checkpoints in processes of their own with little CPU time and memory: whoever takes more is killed.

Each line on standard input names a folder; the answer is a line with how the process that loaded its latest checkpoint
ended, 0 where all went well. The processes are forked from a small one: nobody else's garbage is collected in them.
"""

import os
import resource
import sys
import traceback
from pathlib import Path

from stakes.training.checkpoints import load_latest

CPU_SECONDS = 5  # the slowest needs tenths of one
MEMORY = 200 * 2**20  # bytes beyond what is there before


def bounded_load(folder: Path) -> int:
    process = os.fork()
    if not process:
        try:
            before = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (before + MEMORY, before + MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            load_latest(folder)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(f"{bounded_load(Path(line.rstrip()))}\n")
        sys.stdout.flush()
