"""What is read from users takes time in proportion to its length, whatever it says."""

import time
from collections.abc import Callable
from contextlib import suppress

import pandas as pd
import pytest
from refusals import refuses

from stakes.cli.flags import names
from stakes.cost_spec.spec import CostSpec
from stakes.data.forecasts.columns import member_columns
from stakes.data.tables.columns import column_numbers, column_times, zone_notes
from stakes.data.tables.files import parse_delimited
from stakes.errors import StakesError

LENGTH = 100_000
SECONDS = 10.0  # of computing: in proportion it is a few hundredths, by backtracking many minutes
REPEATED = ("1", " ", '"', ",", ".", "(", "( ", "T", "1,", " 111", ",111", ".py:", '"",', '"a",', "a=1,")
ENDS = ("", ",x", '"')
TEXTS = [repeated * (LENGTH // len(repeated)) + end for repeated in REPEATED for end in ENDS]


def in_a_header(text: str) -> object:
    return parse_delimited(f"{text},b\n1,2\n".encode(), "'a.csv'")


def in_a_cell(text: str) -> object:
    cell = text.replace('"', '""')
    return column_numbers(parse_delimited(f'a;b\n1;"{cell}"\n'.encode(), "'a.csv'"), ["b"], "features")


def in_a_time(text: str) -> object:
    table = pd.DataFrame({"time": pd.Series([f"2020{text}"], dtype="object")})
    return zone_notes(table, "time"), column_times(table, "time")


READERS: dict[str, Callable[[str], object]] = {
    "header": in_a_header,
    "cell": in_a_cell,
    "time": in_a_time,
    "member": lambda text: member_columns([text, "m1"], "'a.csv'"),
    "names": names,
    "cost": CostSpec.parse,
    "cost's keys": lambda text: CostSpec.parse(f"imbalance:{text}"),
}


def seconds(read: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    with suppress(StakesError):
        read(text)
    return time.process_time() - start


@pytest.mark.parametrize("reader", READERS)
def test_long_texts_are_read_or_refused_at_once(reader: str) -> None:
    with suppress(StakesError):
        READERS[reader]("a")  # imports
    for text in TEXTS:
        assert seconds(READERS[reader], text) < SECONDS, text[:10]


def test_spaces_in_quotes_are_an_empty_file() -> None:
    refuses(StakesError, r"'a\.csv' is empty", parse_delimited, b'"   "', "'a.csv'")


def test_a_cost_whose_file_has_too_long_a_name_is_refused() -> None:
    refuses(StakesError, "cannot be read: File name too long", CostSpec.parse, f"{'a' * 5000}.py:f")
