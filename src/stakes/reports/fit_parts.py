"""What decisions cost in parts of the test cases: thirds of the outcome, months, hours of the day."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.evaluation.intervals import Difference
from stakes.evaluation.study import RegionBy
from stakes.reports.fit_story import FitStory

__all__ = ["HOUR", "MONTH", "MONTHS", "OBSERVED", "PREDICTED", "Part", "parts"]

OBSERVED, PREDICTED, MONTH, HOUR = "third by outcome", "third by forecast", "month", "hour"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Part(NamedTuple):
    """Some of the cases: mean cost at weight 0 and at the weight taken, and their paired difference."""

    group: str
    name: str
    place: int  # within its group
    cases: int
    plain: float
    taken: float
    change: Difference


def parts(story: FitStory) -> list[Part]:
    """All parts that hold a case; times are UTC."""
    plain, taken = (story.values("cost", weight) for weight in (0.0, story.weight))
    chosen = [each for each in _masks(story) if each[-1].any()]
    if not chosen:
        return []
    apart = np.stack([np.where(mask, taken - plain, np.nan) for *_, mask in chosen])
    changes = story.study.resampling.means(apart[:, None, None])
    return [
        Part(
            group,
            name,
            place,
            int(mask.sum()),
            float(plain[mask].mean()),
            float(taken[mask].mean()),
            story.stated(change, mask),
        )
        for (group, name, place, mask), change in zip(chosen, changes, strict=True)
    ]


def _masks(story: FitStory) -> Iterator[tuple[str, str, int, NDArray[np.bool_]]]:
    """Group, name, place within the group, and which cases."""
    study = story.study
    for place, name in enumerate(study.regions):
        yield OBSERVED, name, place, _of_region(story, name, "observed")
    for place, name in enumerate(study.regions):
        if f"mass_{name}" in study.forecasts:
            yield PREDICTED, name, place, _of_region(story, name, "forecast")
    if story.times is None:
        return
    times = pd.DatetimeIndex(story.times)
    for group, values in ((MONTH, times.month.to_numpy()), (HOUR, times.hour.to_numpy())):
        found = np.unique(values)
        for value in found if len(found) > 1 else ():
            name = MONTHS[value - 1] if group == MONTH else f"{value:02d}:00"
            yield group, name, int(value), values == value


def _of_region(story: FitStory, name: str, by: RegionBy) -> NDArray[np.bool_]:
    mask = story.study.region(name, by)
    assert mask is not None  # the region has a name
    return mask[0, 0]
