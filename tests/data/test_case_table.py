"""One table of cases: parts of it, tables below each other, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refuses

from stakes.data.case_table import CaseTable, Category, alternate_blocks
from stakes.errors import NonFiniteError, ShapeError, StakesError
from stakes.evaluation.intervals import block_length

TIMES = np.arange("2020-01-01", "2020-01-05", dtype="datetime64[D]").astype("datetime64[s]")


def panel(words: tuple[str, ...] = ("calm", "storm", "calm", "gale")) -> CaseTable:
    return CaseTable(
        torch.arange(8.0).reshape(4, 2),
        torch.arange(4.0)[:, None],
        TIMES,
        ("ws10", "temp"),
        ("load",),
        pd.DatetimeIndex(TIMES, name="time"),
        np.array(["007", "007", "12", "12"]),
        {"weather": Category.of(words)},
        {"penalty": torch.tensor([1.0, 2.0, 3.0, 4.0])},
        torch.tensor([1.0, torch.nan, 3.0, 4.0]),
    )


def told(cases: CaseTable) -> pd.DataFrame:
    """All that is known of each case."""
    beside = {"series": cases.series, "today": cases.today.numpy(), "penalty": cases.parameters["penalty"].numpy()}
    words = {"weather": cases.categories["weather"].words}
    return pd.concat([cases.feature_table, cases.outcome_table], axis=1).assign(**beside, **words)


@pytest.mark.parametrize("chosen", [slice(1, 3), np.array([2, 0]), np.array([False, True, False, True])])
def test_a_part_has_all_that_is_known_of_its_cases(chosen: slice | np.ndarray) -> None:
    every, part = panel(), panel().rows(chosen)
    expected = told(every).iloc[chosen]
    pd.testing.assert_frame_equal(told(part), expected, check_freq=False)
    assert part.times.tolist() == TIMES[chosen].tolist()
    assert len(part) == len(expected)


def test_tables_below_each_other_keep_every_word_and_the_text_of_keys() -> None:
    first, second = panel(), panel(("fog", "calm", "fog", "storm"))
    both = first.followed_by(second)
    pd.testing.assert_frame_equal(told(both), pd.concat([told(first), told(second)]), check_freq=False)
    assert both.categories["weather"].levels == ("calm", "gale", "storm", "fog")
    assert both.rows(slice(4, None)).series is not None
    assert list(both.series if both.series is not None else ()) == ["007", "007", "12", "12"] * 2


@pytest.mark.parametrize(
    ("given", "error", "field"),
    [
        ({"features": torch.ones(4, 2, dtype=torch.int64)}, ShapeError, "features"),
        ({"features": torch.ones(4)}, ShapeError, "features"),
        ({"outcome": torch.full((4, 1), torch.nan)}, NonFiniteError, "outcome"),
        ({"outcome": torch.ones(3, 1)}, ShapeError, "features and outcome"),
        ({"feature_names": ("one",)}, ShapeError, "feature_names"),
        ({"times": TIMES[:3]}, ShapeError, "times"),
        ({"series": np.array(["a"])}, ShapeError, "series"),
        ({"categories": {"weather": Category.of(("calm",))}}, ShapeError, "weather"),
        ({"parameters": {"penalty": torch.ones(2)}}, ShapeError, "penalty"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given: dict, error: type[StakesError], field: str) -> None:
    refuses(error, field, CaseTable, **{"features": torch.ones(4, 2), "outcome": torch.ones(4, 1)} | given)


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
