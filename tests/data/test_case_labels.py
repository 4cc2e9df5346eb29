import pandas as pd

from stakes.data.tables.columns import case_labels, in_utc, newest_cases


def test_rows_are_counted_from_1_and_all_else_stays() -> None:
    assert case_labels(pd.RangeIndex(3, name="row")).tolist() == [1, 2, 3]
    for index in (pd.Index(["a", "b"], name="case"), pd.DatetimeIndex(["2020-01-01"], name="time")):
        assert case_labels(index) is index


def test_times_in_the_first_column_are_marked_as_utc() -> None:
    times = pd.to_datetime(["2020-07-01 12:00"])
    table = pd.DataFrame({"time": times, "other": times, "action": [1.0]})
    marked = in_utc(table)
    assert marked["time"].tolist() == [pd.Timestamp("2020-07-01 12:00", tz="UTC")]
    assert marked["other"].tolist() == times.tolist()
    assert in_utc(table[["action"]])["action"].tolist() == [1.0]


def test_rows_and_the_newest_case_of_each_site() -> None:
    each = pd.MultiIndex.from_product([[0, 1], ["north", "west"]], names=["row", "site"])
    assert case_labels(each).tolist() == [(1, "north"), (1, "west"), (2, "north"), (2, "west")]
    assert newest_cases(each).tolist() == [2, 3]
    assert newest_cases(pd.Index([3, 9, 4])).tolist() == [1]
