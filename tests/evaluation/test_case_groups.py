import pytest

from stakes.errors import SettingError, ShapeError
from stakes.forecasting.corrections import group_names

TIMES = ["2020-12-31T23:00+01:00", "2021-03-01T00", "2021-08-31T05:59", "2021-11-30T06"]


def test_nothing_makes_one_group() -> None:
    assert group_names((), 3).tolist() == ["", "", ""]


def test_seasons_and_hours_in_utc() -> None:
    assert group_names(("season",), 4, TIMES).tolist() == [
        "December to February",
        "March to May",
        "June to August",
        "September to November",
    ]
    assert group_names(("hour",), 4, TIMES).tolist() == ["hour 22", "hour 00", "hour 05", "hour 06"]


def test_groups_of_several_kinds() -> None:
    assert group_names(("lead", "hour"), 1, TIMES[1:2], [36]).tolist() == ["lead 36, hour 00"]


def test_what_is_missing() -> None:
    with pytest.raises(SettingError, match="times must be given where cases are grouped by hour"):
        group_names(("hour",), 4)
    with pytest.raises(SettingError, match="leads must be given where cases are grouped by lead"):
        group_names(("lead",), 4, TIMES)
    with pytest.raises(ShapeError, match="times must be one for each of the 3 cases, got 4"):
        group_names(("season",), 3, TIMES)
