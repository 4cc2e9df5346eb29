"""A run on disk: settings, state, weights and metrics, and checkpoints/ while it is trained."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reproduction.runs.settings import WEIGHTS, RunSettings, build_model, run_from_plain, saved_weights
from reproduction.runs.settings_files import read_settings_file
from stakes.errors import CheckpointError, SettingError, StakesError
from stakes.files import check_sha256, content_digest, read_bytes, write_atomically, write_json
from stakes.settings import canonical_text, from_plain, shown, to_plain
from stakes.training.progress import Observer, Phase, ReplicaRecord, Trained
from stakes.training.stored_models import (
    TENSOR_LIMIT,
    model_keys,
    read_json_table,
    save_models,
    versions_here,
)

SETTINGS, STATE, METRICS = "settings.json", "state.json", "metrics.jsonl"
_MOST_METRICS = 2**28  # bytes


def is_run(path: Path) -> bool:
    """Whether the folder is that of a run, finished or not."""
    file = path / SETTINGS
    if not file.is_file():
        return False
    try:
        return "task" in read_settings_file(file)
    except StakesError:
        return True  # and whoever reads it is told


@dataclass(frozen=True)
class RunState(ReplicaRecord):
    """How a run ended."""

    seconds: float  # how long the stack that it was trained in had taken by then
    score_scale: float | None
    decision_scale: float | None
    weights_sha256: str  # the SHA-256 of weights.safetensors
    versions: dict[str, str]  # the versions of stakes, torch and Python that trained it
    metrics_sha256: str | None = None


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path  # the folder

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics_file(self) -> Path:
        return self.path / METRICS

    def create(self, run: RunSettings) -> None:
        """Make the folder, or see that it belongs to the same run; whoever makes it has locked it."""
        if (self.path / SETTINGS).exists():
            if canonical_text(to_plain(self.settings().distinct)) != canonical_text(to_plain(run.distinct)):
                raise SettingError(f"{self.path} holds a run with other settings; choose another folder")
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(f"the run folder {self.path} cannot be made: {error.strerror}") from error
        write_json(self.path / SETTINGS, to_plain(run))

    def settings(self) -> RunSettings:
        """What was asked for."""
        file = self.path / SETTINGS
        values = read_json_table(file)
        try:
            return run_from_plain(values)
        except StakesError as error:
            raise SettingError(f"{file}: {error}") from error

    def state(self) -> RunState | None:
        """How the run ended, or None while it has not."""
        file = self.path / STATE
        return from_plain(RunState, read_json_table(file)) if os.path.lexists(file) else None

    def finish(self, trained: Trained) -> None:
        """Write the weights, and then the state that says they are there."""
        (key,) = model_keys(1)
        self.sync_metrics()
        state = RunState(
            **to_plain(trained.record()),
            score_scale=_finite(trained.score_scale),
            decision_scale=_finite(trained.decision_scale),
            seconds=round(trained.seconds, 3),
            weights_sha256=save_models(self.path / WEIGHTS, {key: trained.weights}),
            versions=versions_here(),
            metrics_sha256=content_digest(self.metrics_file) if self.metrics_file.exists() else None,
        )
        write_json(self.path / STATE, to_plain(state))
        for stale in self.path.glob(".*.tmp"):  # of writers that were killed
            stale.unlink(missing_ok=True)

    def check_results(self) -> None:
        """Raise where the weights or metrics of a run that has ended are gone, or no longer those that it wrote."""
        state = self.state()
        if state is None:
            return
        results: dict[Path, str | None] = {self.path / WEIGHTS: state.weights_sha256}
        if state.metrics_sha256 or state.epoch:
            results[self.metrics_file] = state.metrics_sha256
        try:
            for file, sha256 in results.items():
                content = read_bytes(file, TENSOR_LIMIT)
                if sha256 is not None:
                    check_sha256(str(file), content, sha256)
        except CheckpointError as error:
            again = f"to train the run again, delete {self.path / STATE} and resume"
            raise CheckpointError(f"{error}; {again}") from error

    def model(self) -> torch.nn.Module:
        """The trained model."""
        state, run = self.state(), self.settings()
        if state is None:
            raise SettingError(
                f"the run in {self.path} has not finished; `python -m reproduction resume {self.path}` goes on with it"
            )
        model = build_model(run)
        model.load_state_dict(saved_weights(self.path / WEIGHTS, state.weights_sha256, model))
        return model

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, up to the last whole one."""
        if not self.metrics_file.exists():
            return []
        lines = _read_lines(self.metrics_file)
        for line in lines:
            if not isinstance(line.get("epoch"), int) or "phase" not in line:
                raise CheckpointError(
                    f"{self.metrics_file} is damaged: a line must have a phase and an epoch, got {line}"
                )
        return lines

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
        write_atomically(self.metrics_file, "".join(f"{json.dumps(line, allow_nan=False)}\n" for line in kept).encode())


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """The tables of a file with one a line, up to its last whole line."""
    try:
        texts = [line.decode() for line in read_bytes(path, _MOST_METRICS).split(b"\n")[:-1]]
        lines = [json.loads(text, parse_constant=_refused) for text in texts]
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    for line in lines:
        if not isinstance(line, dict):
            raise CheckpointError(f"{path} is damaged: a line must be a table, got {shown(line)}")
    return lines


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no number")


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
