"""One thread for every test, since the tests themselves run in parallel; and the fixtures that several rooms share."""

import gc
import os
import shutil
from pathlib import Path

import torch
from forked_processes import no_workers, warm, workers  # noqa: F401  fixtures
from sample_reports import sample_report  # noqa: F401  a fixture
from small_studies import make_study  # noqa: F401  a fixture

torch.set_num_threads(1)

MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 8 << 30:  # a disk takes milliseconds for each of 11,000 files
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_finish() -> None:
    """Nothing that is there by now is garbage: looking through it again and again takes a thirtieth of all the time."""
    gc.collect()
    gc.freeze()
