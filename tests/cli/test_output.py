"""What a command takes from its flags, and how it prints."""

import io
from contextlib import redirect_stdout

import numpy as np
import pandas as pd
import pytest

from stakes.cli.flags import names
from stakes.cli.output import print_table
from stakes.data.tables.files import csv_text

TABLE = pd.DataFrame({"metric": ["cost", "[bold]"], "value": [1234.5678, np.nan], "low": [0.00012345, 2.0]})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_for_a_file() -> None:
    with redirect_stdout(io.StringIO()) as output:
        print_table(TABLE, "title")
    assert output.getvalue() == (
        "title\nmetric  value        low\ncost    1,235  0.0001234\n[bold]                 2\n"
    )


def test_a_table_for_a_terminal() -> None:
    with redirect_stdout(Terminal()) as output:
        print_table(TABLE, "title")
    assert "│ [bold]" in output.getvalue()
    assert "title" in output.getvalue()


def test_times_in_utc() -> None:
    times = pd.to_datetime(["2020-07-01 12:00", None]).tz_localize("Europe/Dublin")
    table = pd.DataFrame({"time": times, "naive": times.tz_localize(None), "value": [1, 2]})
    assert csv_text(table) == "time,naive,value\n2020-07-01T11:00:00Z,2020-07-01 12:00:00,1\n,,2\n"
    assert table["time"].dtype == times.dtype  # the table itself is as it was


NAMES = {
    "": (),
    "a, b": ("a", "b"),
    "a,,b,": ("a", "b"),
    "t2m[0,0], t2m[-1,0],wind": ("t2m[0,0]", "t2m[-1,0]", "wind"),
    '"a,b"': ("a,b",),
    'x, "a, b" ,y': ("x", "a, b", "y"),
    '"say ""no"", or",b': ('say "no", or', "b"),
    'pipe 5",b': ('pipe 5"', "b"),
    '"a" b,c': ('"a" b', "c"),
    "m1:m50,control": ("m1:m50", "control"),
}


@pytest.mark.parametrize("text", NAMES)
def test_names_between_commas(text: str) -> None:
    assert names(text) == NAMES[text]
    assert names(None) == ()
