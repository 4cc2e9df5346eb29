"""The short form of `tests/soak/training_kills.py`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOAK = Path(__file__).parents[1] / "soak" / "training_kills.py"
PARTS = {
    "stakes train, random kills": 6,
    "stakes sweep, random kills": 6,
    "a run, injected kills": 4,
    "a stack of three, injected kills": 5,
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(scope="module")
def tallies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    report = tmp_path_factory.mktemp("kills") / "report.json"
    command = [sys.executable, str(SOAK), "--short", "--kills", "6", "--report", str(report)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert report.exists(), result.stderr
    return {tally["part"]: tally for tally in json.loads(report.read_text())}


@pytest.mark.parametrize(("part", "least"), PARTS.items())
def test_killed_training_resumes_to_the_same_weights(part: str, least: int, tallies: dict[str, dict[str, Any]]) -> None:
    tally = tallies[part]
    assert tally["kills"] >= least
    assert tally["trainings"] >= 1
    assert tally["troubles"] == []
    for fault in ("unreadable", "different_weights", "different_metrics", "different_rest"):
        assert tally[fault] == 0, fault
