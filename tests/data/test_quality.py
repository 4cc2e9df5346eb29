import numpy as np

from stakes.data.tables.layout import DataQuality, data_quality

HOURS = np.datetime64("2020-01-01T00:00:00") + np.timedelta64(3600, "s") * np.array([0, 1, 2, 5, 4])


def test_the_facts_of_a_table() -> None:
    columns = {
        "load": np.array([1.0, np.nan, 3.0, 4.0, 4.0]),
        "flat": np.array([2.0, 2.0, np.nan, 2.0, 2.0]),
        "empty": np.full(5, np.nan),
    }
    assert data_quality(columns, HOURS, rows=5, used=3, left_out={"a feature is missing": 2}) == DataQuality(
        rows=5,
        used=3,
        left_out={"a feature is missing": 2},
        first="2020-01-01T00:00:00",
        last="2020-01-01T05:00:00",
        step_hours=1.0,
        gaps=1,
        constant=("flat",),
        columns={
            "load": {"min": 1.0, "mean": 3.0, "max": 4.0, "missing": 1.0},
            "flat": {"min": 2.0, "mean": 2.0, "max": 2.0, "missing": 1.0},
            "empty": {"missing": 5.0},
        },
        unsorted=1,
    )


def test_without_times_and_with_one() -> None:
    none = data_quality({}, None, rows=2, used=2, left_out={})
    assert (none.first, none.last, none.step_hours, none.gaps, none.unsorted) == (None, None, None, 0, 0)
    one = data_quality({}, HOURS[:1], rows=1, used=1, left_out={})
    assert (one.first, one.last, one.step_hours, one.gaps) == ("2020-01-01T00:00:00", "2020-01-01T00:00:00", None, 0)
