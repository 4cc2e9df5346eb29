"""Where parts of the series are worked on."""

import os
import subprocess
import sys

import pytest

_ASKED = """import os
from stakes.training.execution import Engine
print(os.nice(0), *Engine('ray', 1).map(os.nice, [(0,)]))"""


def test_workers_of_ray_do_not_give_way_to_others() -> None:
    pytest.importorskip("ray")
    known = {name: value for name, value in os.environ.items() if name != "RAY_worker_niceness"}
    asked = subprocess.run(
        [sys.executable, "-c", _ASKED], env=known, capture_output=True, text=True, check=True, timeout=120
    )
    own, worker = asked.stdout.split()
    assert worker == own
