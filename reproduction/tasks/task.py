"""What a task is: data, a cost, regions of interest and training settings; splits in time, and simulation."""

import hashlib
import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from stakes.argument_checks import require_count
from stakes.costs.cost import Cost
from stakes.data.case_table import CaseTable, require_single_precision
from stakes.data.records import Record
from stakes.data.tables.lags import LaggedSeries, Split
from stakes.errors import SettingError, TableError, did_you_mean
from stakes.evaluation.metrics import Region
from stakes.training.settings import DiffusionSettings, ImplicitSettings, ModelSettings, TrainingSettings

"""Which cases belong to a region, by their outcome (the paper's way) or forecast: (..., D) to bool (...)."""


@dataclass(frozen=True, eq=False)
class TaskData:
    """The three splits of a task, chronological where there are times."""

    train: CaseTable  # the cases to train on
    validation: CaseTable  # the cases that choose when to stop
    test: CaseTable  # the cases to judge on
    feature_names: tuple[str, ...]  # the names of the features
    outcome_names: tuple[str, ...]  # the names of the outcomes
    unit: str  # the unit of the outcomes
    attribution: str = ""  # what the licence of the data asks to be said; empty where they are simulated


@dataclass(frozen=True)
class PaperSettings:
    """How the paper (or, beyond it, we) trains a task."""

    models: tuple[ModelSettings, ...]  # the models that are trained
    training: TrainingSettings  # how they are trained
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    test_members: int = 500  # how many members a forecast of a test case has


class Task(Protocol):
    """A decision problem with its data: a frozen dataclass whose fields are its settings."""

    name: ClassVar[str]  # the name by which it is found
    cost_parameters: ClassVar[tuple[str, ...]]
    paper: ClassVar[PaperSettings]  # how it is trained
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def cost(self) -> Cost:
        """What a decision costs."""
        ...

    @property
    def regions(self) -> Mapping[str, Region]:
        """Parts of the outcomes that are judged apart, by name."""
        ...

    def data(self) -> TaskData:
        """Training, validation and test cases."""
        ...


LITERAL_DIFFUSION = DiffusionSettings(prediction="epsilon", endpoints="raw")
"""The diffusion model as the paper says: it predicts epsilon, on DDPM's linear schedule at T = 100."""


def only_outcome(outcome: Tensor) -> Tensor:
    """The value of a case with a single outcome."""
    return outcome.squeeze(-1)


def region_between(value: Callable[[Tensor], Tensor], lower: float = -inf, upper: float = inf) -> Region:
    """The region of the cases whose value lies in [lower, upper)."""

    def belongs(outcome: Tensor) -> Tensor:
        values = value(outcome)
        return (values >= lower) & (values < upper)

    return belongs


Draw = Callable[[int, torch.Generator], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Truth:
    """What the true conditional distribution says of N cases."""

    action: Tensor  # the best actions (N, 1)
    expected_cost: Callable[[Tensor], Tensor]  # the expected cost (N,) of any actions (N, 1)

    def regret(self, action: Tensor) -> Tensor:
        """Expected cost of actions (N, 1) above that of the best ones, (N,)."""
        return self.expected_cost(action) - self.expected_cost(self.action)


@runtime_checkable
class KnownTruth(Protocol):
    """A task whose true conditional distribution is known."""

    def draw_outcomes(self, features: Tensor, members: int, generator: torch.Generator) -> Tensor:
        """Members (N, M, D) of the true conditional distribution."""
        ...

    def truth(self, features: Tensor) -> Truth:
        """The best actions for features (N, F) and what others cost."""
        ...


def data_generator(name: str, seed: int) -> torch.Generator:
    """A generator that shares no numbers with those that others seed with the same number."""
    digest = hashlib.sha256(f"data of {name}, seed {seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))


def draw_splits(
    draw: Draw, sizes: tuple[int, int, int], generator: torch.Generator
) -> tuple[CaseTable, CaseTable, CaseTable]:
    """Training, validation and test cases, drawn one after the other."""
    train, validation, test = (CaseTable(*draw(cases, generator)) for cases in sizes)
    return train, validation, test


_NETWORK = (64, 3)  # wider, with fewer layers than the paper's

MANY_WIND_SITES = PaperSettings(
    models=(ImplicitSettings(16, *_NETWORK), DiffusionSettings(16, *_NETWORK)),
    training=TrainingSettings(epochs=40, pretraining_epochs=40, validate_every=2, validation_members=20),
    grid={
        "decision_weight": tuple(tenth / 10 for tenth in range(10)),
        "seed": (0, 1, 2),
        "task.penalty": (5.0, 20.0),
    },
)
MANY_LOADS = PaperSettings(
    models=MANY_WIND_SITES.models,
    training=replace(
        MANY_WIND_SITES.training, epochs=30, pretraining_epochs=30, members=20, decision_estimator="debiased"
    ),
    grid={axis: values for axis, values in MANY_WIND_SITES.grid.items() if axis != "task.penalty"},
)


Periods = Mapping[str, tuple[str, str]]
"""[start, end) of "train", "validation" and "test"."""

_LEAST_TRAINING_YEARS = 2
_DAY = np.timedelta64(1, "D")


def consecutive_years(train: int, validation: int, test: int, end: int) -> Periods:
    """Splits of whole years, one after the other."""
    starts = {"train": (train, validation), "validation": (validation, test), "test": (test, end)}
    return {name: (str(first), str(last)) for name, (first, last) in starts.items()}


def years_of_file(record: Record, test_years: int, paper: Periods | None = None) -> Periods:
    """The paper's years where the record covers them, or else: the last full years test, the one before validates.

    All earlier times train. A year is full if the record reaches from its first day to its last.
    """
    begin, first, end = (_year(time) for time in (record.times[0], record.times[0] - _DAY, record.times[-1] + _DAY))
    first += 1  # the first full year; `end` is the one after the last
    if paper is not None and first <= int(paper["train"][0]) and int(paper["test"][1]) <= end:
        return paper
    needed = _LEAST_TRAINING_YEARS + 1 + test_years
    if end - first < needed:
        raise SettingError(
            f"record must have at least {needed} full years, {_LEAST_TRAINING_YEARS} to train, 1 to validate and "
            f"{test_years} to test, got {max(end - first, 0)} in {record.name!r}, {_span(record)}"
        )
    return consecutive_years(train=begin, validation=end - test_years - 1, test=end - test_years, end=end)


def chronological_splits(rows: LaggedSeries, record: Record, periods: Periods) -> dict[str, Split]:
    """The rows of each split, none of which may be empty."""
    splits = {}
    for name, (start, end) in periods.items():
        try:
            splits[name] = rows.split(record, start, end)
        except TableError as error:
            raise TableError(
                f"the {name} split of record {record.name!r}, [{start}, {end}), is empty: the record has "
                f"{_span(record)}, and no row there is complete"
            ) from error
    return splits


def chronological_data(splits: Mapping[str, Split], unit: str, attribution: str) -> TaskData:
    """The splits as the data of a task; single precision must not lose what varies in a column."""
    train, validation, test = (splits[name] for name in ("train", "validation", "test"))
    require_single_precision(train.features.numpy(), train.feature_names, "feature")
    require_single_precision(train.outcome.numpy(), train.outcome_names, "target")
    return TaskData(
        train.in_single_precision(),
        validation.in_single_precision(),
        test.in_single_precision(),
        feature_names=train.feature_names,
        outcome_names=train.outcome_names,
        unit=unit,
        attribution=attribution,
    )


def judged_every(rows: int, splits: Mapping[str, Split]) -> dict[str, Split]:
    """The splits with every so-many-th row of those that judge: neighbouring hours err alike."""
    judged = {name: split.rows(slice(None, None, rows)) for name, split in splits.items() if name != "train"}
    return {**splits, **judged}


def require_folder(name: str, folder: object) -> None:
    """Raise unless it is the path of a folder as text, or None; it is opened when its data are asked for."""
    if not isinstance(folder, str | None):
        raise SettingError(f"{name} must be the path of a folder as text or None, got {folder!r}")


def require_record(record: str, known: Sequence[str]) -> None:
    """Raise unless the task knows the record or it is a path; the file is opened when its data are asked for."""
    if not isinstance(record, str) or not (record in known or _is_path(record)):
        names, hint = ", ".join(map(repr, known)), did_you_mean(str(record), known)
        raise SettingError(
            f"record must be one of {names} or the path of a .nc, .zarr, .csv or .parquet file as text, got "
            f"{record!r}; {hint}"
        )


def require_lead_hours(lead_hours: int, step_hours: int) -> None:
    """Raise unless the lead is a whole number of steps."""
    require_count("lead_hours", lead_hours)
    if lead_hours % step_hours:
        raise SettingError(f"lead_hours must be a multiple of {step_hours}, got {lead_hours}")


def _is_path(text: str) -> bool:
    from stakes.data.tables.files import GRIDDED  # which imports pandas

    known = (*GRIDDED, ".csv", ".csv.gz", ".parquet")
    return text.lower().endswith(known) or "/" in text or os.sep in text or os.path.exists(text)


def _year(time: np.datetime64) -> int:
    return int(time.astype("datetime64[Y]").astype(int)) + 1970


def _span(record: Record) -> str:
    return f"times from {record.times[0]} to {record.times[-1]}"
