"""A run on disk: settings.json, state.json, metrics.jsonl, weights.safetensors and checkpoints/."""

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import stakes
from stakes.errors import CheckpointError, SettingError, StakesError
from stakes.files import read_bytes, read_json, write_atomically, write_json
from stakes.settings import canonical_text, from_plain, read_settings_file, to_plain
from stakes.training.results import Observer, Phase, ReplicaRecord, Trained
from stakes.training.run_settings import RunSettings, build_model, run_from_plain
from stakes.training.tensor_files import load_tensors, save_tensors

__all__ = ["RunFolder", "RunRecorder", "RunState"]

_METRICS_LIMIT = 1 << 28  # bytes


@dataclass(frozen=True)
class RunState(ReplicaRecord):
    """How a run ended."""

    seconds: float
    score_scale: float | None
    decision_scale: float | None
    weights_sha256: str
    versions: dict[str, str]


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    def create(self, run: RunSettings) -> None:
        """Make the folder, or see that it belongs to the same run."""
        file = self.path / "settings.json"
        if file.exists():
            if canonical_text(to_plain(self.settings().distinct)) != canonical_text(to_plain(run.distinct)):
                raise SettingError(f"{self.path} holds a run with other settings; choose another folder")
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(f"the run folder {self.path} cannot be made: {error.strerror}") from error
        write_atomically(file, (json.dumps(to_plain(run), indent=1) + "\n").encode())

    def settings(self) -> RunSettings:
        file = self.path / "settings.json"
        values = read_settings_file(file)
        try:
            return run_from_plain(values)
        except StakesError as error:
            raise SettingError(f"{file}: {error}") from error

    def state(self) -> RunState | None:
        """How the run ended, or None while it has not."""
        file = self.path / "state.json"
        return from_plain(RunState, read_json(file)) if os.path.lexists(file) else None

    def finish(self, trained: Trained) -> None:
        """Write the weights, and then the state that says they are there."""
        state = RunState(
            **to_plain(trained.record()),
            score_scale=_finite(trained.score_scale),
            decision_scale=_finite(trained.decision_scale),
            seconds=round(trained.seconds, 3),
            weights_sha256=save_tensors(self.path / "weights.safetensors", trained.weights),
            versions={"stakes": stakes.__version__, "torch": torch.__version__, "python": platform.python_version()},
        )
        write_json(self.path / "state.json", to_plain(state))
        for stale in self.path.glob(".*.tmp"):  # of writers that were killed
            stale.unlink(missing_ok=True)

    def model(self) -> torch.nn.Module:
        """The trained model."""
        state, run = self.state(), self.settings()
        if state is None:
            raise SettingError(f"the run in {self.path} has not finished; `stakes resume {self.path}` goes on with it")
        model = build_model(run)
        expected = {name: (value.dtype, tuple(value.shape)) for name, value in model.state_dict().items()}
        model.load_state_dict(load_tensors(self.path / "weights.safetensors", state.weights_sha256, expected))
        return model

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, up to the last whole one."""
        if not self.metrics_file.exists():
            return []
        lines = read_bytes(self.metrics_file, _METRICS_LIMIT).decode(errors="replace").split("\n")[:-1]
        try:
            found = [json.loads(line) for line in lines]
        except ValueError as error:
            raise CheckpointError(f"{self.metrics_file} is damaged: {error}") from error
        for line in found:
            if not isinstance(line, dict) or not isinstance(line.get("epoch"), int) or "phase" not in line:
                raise CheckpointError(
                    f"{self.metrics_file} is damaged: a line must have a phase and an epoch, got {line}"
                )
        return found

    def add_metrics(self, line: dict[str, Any]) -> None:
        plain = {name: _finite(value) if isinstance(value, float) else value for name, value in line.items()}
        try:
            with self.metrics_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(plain, allow_nan=False) + "\n")
        except OSError as error:
            raise CheckpointError(f"{self.metrics_file} cannot be written: {error.strerror}") from error

    def sync_metrics(self) -> None:
        """See that the lines written so far outlive a power cut, before a checkpoint relies on them."""
        if self.metrics_file.exists():
            with self.metrics_file.open("rb") as file:
                os.fsync(file.fileno())

    def clear_metrics(self) -> None:
        """Start again."""
        self.metrics_file.unlink(missing_ok=True)

    def cut_metrics(self, phase: Phase, epoch: int) -> None:
        """Keep the lines up to this moment; what came after is trained again."""
        if not self.metrics_file.exists():
            return
        # "pretraining" comes before "training" in the alphabet too
        kept = [line for line in self.metrics() if (line["phase"], line["epoch"]) <= (phase, epoch)]
        write_atomically(self.metrics_file, "".join(json.dumps(line) + "\n" for line in kept).encode())


class RunRecorder(Observer):
    """Keeps the run folders of a stack."""

    def __init__(self, folders: Sequence[RunFolder]) -> None:
        self.folders = folders
        self._fresh = True

    def resumed(self, phase: Phase, epoch: int, skipped: Sequence[str]) -> None:
        self._fresh = False
        for folder in self.folders:
            folder.cut_metrics(phase, epoch)

    def validated(self, replica: int, line: dict[str, Any]) -> None:
        if self._fresh:  # a run that was killed before its first checkpoint starts again
            self._fresh = False
            for folder in self.folders:
                folder.clear_metrics()
        self.folders[replica].add_metrics(line)

    def saving(self) -> None:
        for folder in self.folders:
            folder.sync_metrics()

    def done(self, replica: int, trained: Trained) -> None:
        self.folders[replica].finish(trained)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
