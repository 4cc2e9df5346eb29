"""What `stakes fit` keeps in a bundle beside the forecaster: its judgement, its settings, and what it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from stakes.bundle.manifest import DataFingerprint
from stakes.data.quality import DataQuality
from stakes.errors import SettingError
from stakes.evaluation.headroom import Headroom
from stakes.evaluation.judged_parts import JudgedParts
from stakes.evaluation.worth_by_parameter import WorthAtValue
from stakes.settings import from_plain, shown

__all__ = ["AboutFit", "FittedSpan"]


@dataclass(frozen=True)
class FittedSpan:
    """Which cases a forecaster was fitted on.

    Attributes:
        cases: How many there are.
        first: The time of the first one, ISO in UTC; None without times.
        last: The time of the last one, likewise.
    """

    cases: int
    first: str | None = None
    last: str | None = None

    def __post_init__(self) -> None:
        if (self.first is None) != (self.last is None):
            raise SettingError(f"first and last must both be times or none, got {self.first!r} and {self.last!r}")
        for name, value in (("first", self.first), ("last", self.last)):
            try:
                np.datetime64(value or "NaT", "s")
            except ValueError as error:
                raise SettingError(f"{name} must be an ISO time, got {shown(value)}") from error


@dataclass(frozen=True)
class AboutFit:
    """What is known of a fit, each part checked; a bundle that was saved from Python need not have any.

    Attributes:
        data: The table.
        metrics: The columns of each row of the evaluation, by the name of its metric.
        headroom: What a policy trained on the cost alone gains; None where none was trained.
        quality: What the table was like.
        outcomes: Some of the training outcomes, (N, D).
        reason: Why its decision weight was taken.
        bounds: A sentence for each bound of an outcome that nobody gave.
        leaks: A sentence for each outcome that features reproduce almost exactly.
        correction: How members are corrected by past errors, in a sentence; empty where they are not.
        fitted: Which cases it was fitted on.
        settings: The settings of the fit, nested by name.
        provenance: What it was made with and from, by name.
        parts: What a report shows of decisions with many parts; None where they are about one number.
        by_parameter: What it is worth at some values of the cost's range; none where the cost has no range.
        alarms: Sentences on what its test cases say against it.
    """

    data: DataFingerprint | None = None
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    headroom: Headroom | None = None
    quality: DataQuality | None = None
    outcomes: tuple[tuple[float, ...], ...] = ()
    reason: str = ""
    bounds: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    correction: str = ""
    fitted: FittedSpan | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    parts: JudgedParts | None = None
    by_parameter: tuple[WorthAtValue, ...] = ()
    alarms: tuple[str, ...] = ()

    @classmethod
    def read(cls, about: Mapping[str, Any]) -> Self:
        """From `stakes.bundle.Bundle.about`; what does not fit is refused by its name.

        Args:
            about: Plain values, others among them.
        """
        settings = about.get("settings", {})
        if not isinstance(settings, Mapping):
            raise SettingError(f"about.settings must be a table, got {shown(settings)}")
        names = {each.name for each in fields(cls)} - {"settings"}
        typed = {name: value for name, value in about.items() if name in names}
        return replace(from_plain(cls, typed, "about"), settings=dict(settings))
