"""The validations of a training in short, kept beside its checkpoints so that an interruption loses none."""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stakes.errors import CheckpointError
from stakes.files import read_json, write_json
from stakes.training.results import Observer, Phase

__all__ = ["ValidationHistory"]

_KEPT = ("phase", "epoch", "loss", "score", "decision", "energy_score", "cost", "expected_cost")
_FILE = "history.json"


class ValidationHistory(Observer):
    """The validations of each replica, those before a resumption as well.

    Args:
        checkpoints: The folder of the training's checkpoints; None where it keeps none.
    """

    def __init__(self, checkpoints: Path | None) -> None:
        self.lines: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        self._file = None if checkpoints is None else checkpoints / _FILE

    def validated(self, replica: int, line: dict[str, Any]) -> None:
        self.lines[replica].append({name: line[name] for name in _KEPT if name in line})

    def saving(self) -> None:
        if self._file is not None:
            write_json(self._file, [[replica, _to_plain(lines)] for replica, lines in self.lines.items()])

    def resumed(self, phase: Phase, epoch: int, skipped: Sequence[str]) -> None:
        """Take up the validations until this moment; those after it are made again."""
        if self._file is None or not self._file.exists():  # beside a checkpoint of an older version
            return
        try:
            for replica, lines in read_json(self._file):
                # "pretraining" comes before "training" in the alphabet too
                earlier = [line for line in lines if (line["phase"], line["epoch"]) <= (phase, epoch)]
                self.lines[replica] = _from_plain(earlier)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self._file} does not list the validations of each replica: {error}") from error


def _to_plain(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With text for the numbers that JSON lacks."""
    return [{name: str(value) if _is_lacking(value) else value for name, value in line.items()} for line in lines]


def _from_plain(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: float(line[name]) if name not in ("phase", "epoch") else line[name] for name in _KEPT if name in line}
        for line in lines
    ]


def _is_lacking(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
