import json
import math
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import refuses

from stakes.errors import SettingError
from stakes.json_values import json_value


@dataclass(frozen=True)
class Settings:
    levels: tuple[float, ...] = (0.5, math.nan)
    folder: Path = Path("a/b")


def test_everything_that_a_record_holds() -> None:
    table = pd.DataFrame({"time": pd.to_datetime(["2020-01-01", None]), "number": [np.float32(0.5), np.inf]})
    value = {"table": table, "path": Path("a/b"), "array": np.arange(2), "nothing": None, "3": (np.bool_(True),)}
    expected = {
        "table": [{"time": "2020-01-01T00:00:00", "number": 0.5}, {"time": None, "number": None}],
        "path": "a/b",
        "array": [0, 1],
        "nothing": None,
        "3": [True],
    }
    assert json_value(value) == expected
    assert json.loads(json.dumps(json_value(value), allow_nan=False)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(1.5), 1.5),
        (np.int64(3), 3),
        (np.array(2.0), 2.0),
        (np.array([[1.0, np.nan], [np.inf, 2.0]]), [[1.0, None], [None, 2.0]]),
        (math.inf, None),
        (pd.NaT, None),
        (pd.NA, None),
        (date(2020, 1, 2), "2020-01-02"),
        (np.datetime64("2020-01-02T03", "ns"), "2020-01-02T03:00:00"),
        (pd.Timestamp("2020-07-01 12:00", tz="Europe/Dublin").tz_convert("UTC"), "2020-07-01T11:00:00Z"),
        (Settings(), {"levels": [0.5, None], "folder": "a/b"}),
        ([Settings((1.0,))], [{"levels": [1.0], "folder": "a/b"}]),
    ],
)
def test_one_value(value: object, expected: object) -> None:
    found = json_value(value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (json_value, "a function cannot be written as JSON"),
        ({"a": [Decimal(1)]}, "'1'"),
        (Settings, "a type cannot be written as JSON"),
        ({1: 2}, "a mapping must have texts as keys, got 1"),
    ],
)
def test_what_could_not_be_read_again_is_refused(value: object, words: str) -> None:
    refuses(SettingError, words, json_value, value)


def test_a_cell_of_any_kind_is_its_text() -> None:
    assert json_value(pd.DataFrame({"label": [Decimal("1.50")], 2020: [1]})) == [{"label": "1.50", "2020": 1}]
