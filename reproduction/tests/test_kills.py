"""The short form of `reproduction/tests/training_kills.py`."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import training_kills
from forked_processes import forked

PARTS = {
    "train, random kills": 2,
    "sweep, random kills": 2,
    "a run, injected kills": 3,  # before, during and after a step
    "a stack of three, injected kills": 3,
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.mark.usefixtures("warm")
def test_killed_training_resumes_to_the_same_weights(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = ["--short", "--kills", "2", "--report", str(report)]
    with forked(partial(training_kills.main, words)) as process:
        _, errors = process.communicate()
    assert report.exists(), errors
    tallies = {tally["part"]: tally for tally in json.loads(report.read_text())}
    assert tallies.keys() == PARTS.keys()
    for part, tally in tallies.items():
        assert tally["kills"] >= PARTS[part], part
        assert tally["trainings"] >= 1
        assert tally["troubles"] == []
