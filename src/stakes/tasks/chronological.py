"""What tasks on real records share: splits that follow each other in time, and the checks of their settings."""

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stakes.data.cases import Cases
from stakes.data.lagged_series import LaggedSeries, Split
from stakes.data.records import Record
from stakes.data.single_precision import require_single_precision
from stakes.data.xarray_files import GRIDDED
from stakes.errors import SeriesError, SettingError, did_you_mean
from stakes.method.argument_checks import require_count
from stakes.tasks.task import TaskData

__all__ = [
    "Periods",
    "chronological_data",
    "chronological_splits",
    "consecutive_years",
    "judged_every",
    "require_folder",
    "require_lead_hours",
    "require_record",
    "years_of_file",
]

Periods = Mapping[str, tuple[str, str]]
"""[start, end) of "train", "validation" and "test"."""

_FILES = (*GRIDDED, ".csv", ".csv.gz", ".parquet")
_LEAST_TRAINING_YEARS = 2
_DAY = np.timedelta64(1, "D")


def consecutive_years(train: int, validation: int, test: int, end: int) -> Periods:
    """Splits of whole years, one after the other.

    Args:
        train: The year in which the training split starts.
        validation: The year in which the validation split starts and the training split ends.
        test: The year in which the test split starts and the validation split ends.
        end: The first year after the test split.
    """
    starts = {"train": (train, validation), "validation": (validation, test), "test": (test, end)}
    return {name: (str(first), str(last)) for name, (first, last) in starts.items()}


def years_of_file(record: Record, test_years: int, paper: Periods | None = None) -> Periods:
    """The paper's years where the record covers them, or else: the last full years test, the one before validates.

    All earlier times train. A year is full if the record reaches from its first day to its last.

    Args:
        record: The record of a user's own file.
        test_years: How many years test.
        paper: The paper's years; None where they do not count.
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
    """The rows of each split, none of which may be empty.

    Args:
        rows: Which features and outcomes a row has.
        record: The series.
        periods: [start, end) of each split.
    """
    splits = {}
    for name, (start, end) in periods.items():
        try:
            splits[name] = rows.split(record, start, end)
        except SeriesError as error:
            raise SeriesError(
                f"the {name} split of record {record.name!r}, [{start}, {end}), is empty: the record has "
                f"{_span(record)}, and no row there is complete"
            ) from error
    return splits


def chronological_data(splits: Mapping[str, Split], unit: str, attribution: str) -> TaskData:
    """The splits as the data of a task; single precision must not lose what varies in a column.

    Args:
        splits: The rows of "train", "validation" and "test".
        unit: The unit of the outcomes.
        attribution: What the licence of the record asks to be said.
    """
    train, validation, test = (splits[name] for name in ("train", "validation", "test"))
    require_single_precision(train.features, train.feature_names, "feature")
    require_single_precision(train.outcomes, train.outcome_names, "target")
    return TaskData(
        Cases.from_split(train),
        Cases.from_split(validation),
        Cases.from_split(test),
        feature_names=train.feature_names,
        outcome_names=train.outcome_names,
        unit=unit,
        attribution=attribution,
    )


def judged_every(rows: int, splits: Mapping[str, Split]) -> dict[str, Split]:
    """The splits with every so-many-th row of those that judge: neighbouring hours err alike.

    Args:
        rows: How many rows there are to one that is kept.
        splits: The rows of "train", which all stay, and of the other splits.
    """
    judged = {
        name: replace(
            split, features=split.features[::rows], outcomes=split.outcomes[::rows], times=split.times[::rows]
        )
        for name, split in splits.items()
        if name != "train"
    }
    return {**splits, **judged}


def require_folder(name: str, folder: object) -> None:
    """Raise unless it is the path of a folder as text, or None; it is opened when its data are asked for.

    Args:
        name: What the setting is called.
        folder: What came.
    """
    if not isinstance(folder, str | None):
        raise SettingError(f"{name} must be the path of a folder as text or None, got {folder!r}")


def require_record(record: str, known: Sequence[str]) -> None:
    """Raise unless the task knows the record or it is a path; the file is opened when its data are asked for.

    Args:
        record: The name of a record, or the path of a user's own file.
        known: The records that the task knows.
    """
    if not isinstance(record, str) or not (record in known or _is_path(record)):
        names, hint = ", ".join(map(repr, known)), did_you_mean(str(record), known)
        raise SettingError(
            f"record must be one of {names} or the path of a .nc, .zarr, .csv or .parquet file as text, got "
            f"{record!r}; {hint}"
        )


def require_lead_hours(lead_hours: int, step_hours: int) -> None:
    """Raise unless the lead is a whole number of steps.

    Args:
        lead_hours: The hours from the issue time to the target.
        step_hours: The step of the record.
    """
    require_count("lead_hours", lead_hours)
    if lead_hours % step_hours:
        raise SettingError(f"lead_hours must be a multiple of {step_hours}, got {lead_hours}")


def _is_path(text: str) -> bool:
    return text.lower().endswith(_FILES) or "/" in text or os.sep in text or os.path.exists(text)


def _year(time: np.datetime64) -> int:
    return int(time.astype("datetime64[Y]").astype(int)) + 1970


def _span(record: Record) -> str:
    return f"times from {record.times[0]} to {record.times[-1]}"
