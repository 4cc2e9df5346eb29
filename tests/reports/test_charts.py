"""Charts as scripts read them."""

import numpy as np
import pandas as pd
from refusals import refuses
from sample_reports import drawn

from stakes.errors import SettingError
from stakes.reports.page import Chart, ChartBand, ChartLimit, ChartLine, Figure, Report, Section, render

LINE = ChartLine("action", "orange dashed", [1.0, np.nan, 123456789012.0])


def test_places_are_times_numbers_or_names() -> None:
    times = pd.DatetimeIndex(["1970-01-01 00:00:10", "1970-01-02", "1970-01-03"])
    assert Chart("", "", times, (LINE,)).plain().items() >= {"xs": [10, 86400, 172800], "times": True}.items()
    assert Chart("", "", pd.Index([1.0, 2.5, 4.0]), (LINE,)).plain()["xs"] == [1.0, 2.5, 4.0]
    named = Chart("", "", ("north", "south", "west"), (LINE,)).plain()
    assert (named["xs"], named["names"]) == ([0, 1, 2], ["north", "south", "west"])


def test_numbers_have_nine_digits_and_what_is_not_known_is_null() -> None:
    band = ChartBand("forecast", "blue band", [1 / 3] * 3, [np.inf, 2.0, 2.0])
    told = Chart("Plan", "hour", ("a", "b", "c"), (LINE,), (band,), (ChartLimit((0, 1), "ramp"),), steps=True).plain()
    assert told["label"] == "Plan: action, forecast"
    assert told["lines"] == [
        {"name": "action", "kind": "orange dashed", "values": [1, None, 123456789000], "dots": False}
    ]
    assert (told["bands"][0]["low"][0], told["bands"][0]["high"][0]) == (0.333333333, None)
    assert told["limits"] == [{"parts": [0, 1], "text": "ramp", "line": 0}]


def test_a_report_without_charts_has_no_library() -> None:
    figure = Figure("f", "", "", drawn(3), {}, charts=((Chart("</script>'", "x", ("a", "b", "c"), (LINE,)),),))
    with_charts = render(Report("", "", (), sections=(Section("s", "", (), (figure,)),)))
    assert "Leon Sorokin" in with_charts  # whose licence goes with the library
    assert with_charts.count("</script>") == 1
    assert "uPlot" not in render(Report("", "", ()))


def test_there_are_charts_for_every_drawing_or_none() -> None:
    refuses(SettingError, "charts", Figure, "f", "", "", drawn(3), {}, (drawn(3),), ((),))
