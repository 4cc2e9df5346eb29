import json
import math
from pathlib import Path
from typing import Any

import pytest

from stakes.errors import CheckpointError
from stakes.files import write_json
from stakes.training.progress import ValidationHistory


def line(phase: str, epoch: int, loss: float) -> dict[str, Any]:
    return {"phase": phase, "epoch": epoch, "loss": loss, "score": 0.1 + 0.2, "gradient_score": 1.0}


def test_lines_after_the_checkpoint_are_forgotten_and_all_others_come_back(tmp_path: Path) -> None:
    history = ValidationHistory(tmp_path)
    for phase, epoch, loss in (("pretraining", 0, math.inf), ("pretraining", 9, -math.inf), ("training", 0, 1e-300)):
        for replica in (0, 3):
            history.validated(replica, line(phase, epoch, loss))
    history.saving()
    resumed = ValidationHistory(tmp_path)
    resumed.resumed("training", 0, ())
    assert json.dumps(resumed.lines) == json.dumps(history.lines)
    resumed = ValidationHistory(tmp_path)
    resumed.resumed("pretraining", 9, ())
    assert resumed.lines == {replica: lines[:2] for replica, lines in history.lines.items()}


def test_no_number_comes_back_as_none(tmp_path: Path) -> None:
    history, resumed = ValidationHistory(tmp_path), ValidationHistory(tmp_path)
    history.validated(0, line("training", 1, math.nan))
    history.saving()
    resumed.resumed("training", 1, ())
    assert math.isnan(resumed.lines[0][0]["loss"])


def test_a_checkpoint_without_a_history_goes_on(tmp_path: Path) -> None:
    for folder in (tmp_path, None):
        history = ValidationHistory(folder)
        history.resumed("training", 1, ())
        assert not history.lines


@pytest.mark.parametrize("content", [3, [3], [[0, 3]], [[0, [{"phase": "training"}]]], {"a": 1}, [[[], []]]])
def test_another_file_of_that_name_is_refused(content: object, tmp_path: Path) -> None:
    write_json(tmp_path / "history.json", content)
    with pytest.raises(CheckpointError, match=r"history\.json does not list the validations"):
        ValidationHistory(tmp_path).resumed("training", 1, ())
