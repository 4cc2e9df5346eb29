"""What decisions cost in groups of the test cases: thirds of the outcome, months, hours of the day."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.evaluation.intervals import Difference
from stakes.evaluation.study import RegionBy
from stakes.reports.judged_fit import JudgedFit

__all__ = ["HOUR", "MONTH", "MONTHS", "OBSERVED", "PREDICTED", "CaseGroup", "case_groups"]

OBSERVED, PREDICTED, MONTH, HOUR = "third by outcome", "third by forecast", "month", "hour"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class CaseGroup(NamedTuple):
    """Some of the test cases, and what decisions cost in them.

    Attributes:
        kind: What the cases are grouped by: `OBSERVED`, `PREDICTED`, `MONTH` or `HOUR`.
        name: The name of the group, such as "high", "Jan" or "06:00".
        place: Where the group stands among those of its kind; the number of the month, the hour of the day.
        cases: How many cases it holds.
        weight_0_cost: Their mean cost at weight 0.
        cost: Their mean cost at the weight that was taken.
        change: Their paired difference, cost less weight_0_cost.

    """

    kind: str
    name: str
    place: int
    cases: int
    weight_0_cost: float
    cost: float
    change: Difference


def case_groups(fit: JudgedFit) -> list[CaseGroup]:
    """All groups that hold a case; times are UTC.

    Args:
        fit: The fit whose test cases are grouped.

    """
    weight_0, taken = (fit.values("cost", weight) for weight in (0.0, fit.weight))
    chosen = [each for each in _masks(fit) if each[-1].any()]
    if not chosen:
        return []
    apart = np.stack([np.where(mask, taken - weight_0, np.nan) for *_, mask in chosen])
    changes = fit.study.resampling.means(apart[:, None, None])
    return [
        CaseGroup(
            kind,
            name,
            place,
            int(mask.sum()),
            float(weight_0[mask].mean()),
            float(taken[mask].mean()),
            fit.stated(change, mask),
        )
        for (kind, name, place, mask), change in zip(chosen, changes, strict=True)
    ]


def _masks(fit: JudgedFit) -> Iterator[tuple[str, str, int, NDArray[np.bool_]]]:
    """Kind, name, place within the kind, and which cases."""
    study = fit.study
    for place, name in enumerate(study.regions):
        yield OBSERVED, name, place, _of_region(fit, name, "observed")
    for place, name in enumerate(study.regions):
        if f"mass_{name}" in study.forecasts:
            yield PREDICTED, name, place, _of_region(fit, name, "forecast")
    if fit.times is None:
        return
    times = pd.DatetimeIndex(fit.times)
    for kind, values in ((MONTH, times.month.to_numpy()), (HOUR, times.hour.to_numpy())):
        present = np.unique(values)
        for value in present if len(present) > 1 else ():
            name = MONTHS[value - 1] if kind == MONTH else f"{value:02d}:00"
            yield kind, name, int(value), values == value


def _of_region(fit: JudgedFit, name: str, by: RegionBy) -> NDArray[np.bool_]:
    mask = fit.study.region(name, by)
    assert mask is not None  # the region has a name
    return mask[0, 0]
