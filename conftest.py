"""One thread for every test, since the tests themselves run in parallel; and the fixtures that several rooms share."""

import gc
import os
import shutil
from importlib import import_module
from pathlib import Path

import pytest

# the modules that define them
FIXTURES = ("browsers", "forked_processes", "quick_figures", "sample_reports", "small_studies")
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 8 << 30:  # a disk takes milliseconds for each of 11,000 files
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") != "no":
        return  # the process that hands the tests out runs none, and would import torch before the others can begin
    import torch

    torch.set_num_threads(1)
    for name in FIXTURES:  # which a single file may have imported already
        config.pluginmanager.register(import_module(name), name)


def pytest_collection_finish() -> None:
    """Nothing that is there by now is garbage, and there is memory enough for more of it before it is looked for."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # else a tenth of the time where figures are drawn
