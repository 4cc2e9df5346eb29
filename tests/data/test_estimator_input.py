"""Which validation rows decide what."""

import numpy as np
import pandas as pd
import pytest

from stakes.data.case_table import alternate_blocks
from stakes.evaluation.intervals import block_length


def test_the_parts_take_turns() -> None:
    assert [part.tolist() for part in alternate_blocks(5, 2)] == [[0, 1, 4], [2, 3]]
    assert [part.tolist() for part in alternate_blocks(5, 100)] == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize("step", ["1h", "6h", "1D"])
@pytest.mark.parametrize("days", [*range(40, 140, 20), 200])
def test_both_parts_see_every_hour_and_weekday(step: str, days: int) -> None:
    times = pd.date_range("2020-01-01T05", periods=days * int(pd.Timedelta("1D") / pd.Timedelta(step)), freq=step)
    for part in alternate_blocks(len(times), block_length(len(times), times)):
        seen = times[part]
        counts = np.unique_counts(seen.hour).counts
        assert len(counts) == times.hour.nunique()
        assert counts.max() - counts.min() <= 1
        weekdays = np.unique_counts(seen.day_of_week).counts
        assert len(weekdays) == 7
        assert weekdays.min() >= 0.5 * weekdays.max()


@pytest.mark.parametrize("days", range(1, 7))
def test_every_weekday_comes_as_often_within_fourteen_blocks(days: int) -> None:
    for part in alternate_blocks(14 * days, days):
        assert np.unique_counts(part % 7).counts.tolist() == [days] * 7
