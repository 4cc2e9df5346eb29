"""What tasks on real records share: splits that follow each other in time, and the checks of their settings."""

from collections.abc import Mapping, Sequence

from stakes.checks import require_count
from stakes.data.cases import Cases
from stakes.data.names import did_you_mean
from stakes.data.series import Split
from stakes.errors import SettingError
from stakes.tasks.task import TaskData

__all__ = ["Periods", "chronological_data", "consecutive_years", "require_lead_hours", "require_record"]

Periods = Mapping[str, tuple[str, str]]
"""[start, end) of "train", "validation" and "test"."""


def consecutive_years(train: int, validation: int, test: int, end: int) -> Periods:
    """The year in which each split starts, and the one in which the test split no longer goes on."""
    starts = {"train": (train, validation), "validation": (validation, test), "test": (test, end)}
    return {name: (str(first), str(last)) for name, (first, last) in starts.items()}


def chronological_data(splits: Mapping[str, Split], unit: str, attribution: str) -> TaskData:
    """The splits as tensors."""
    train, validation, test = (splits[name] for name in ("train", "validation", "test"))
    return TaskData(
        Cases.from_split(train),
        Cases.from_split(validation),
        Cases.from_split(test),
        feature_names=train.feature_names,
        outcome_names=train.outcome_names,
        unit=unit,
        attribution=attribution,
    )


def require_record(record: str, known: Sequence[str]) -> None:
    """Raise unless the task knows the record."""
    if record not in known:
        hint = did_you_mean(str(record), known)
        raise SettingError(f"record must be one of {', '.join(known)}, got {record!r}; {hint}")


def require_lead_hours(lead_hours: int, step_hours: int) -> None:
    """Raise unless the lead is a whole number of steps."""
    require_count("lead_hours", lead_hours)
    if lead_hours % step_hours:
        raise SettingError(f"lead_hours must be a multiple of {step_hours}, got {lead_hours}")
