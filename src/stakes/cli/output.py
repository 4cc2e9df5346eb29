"""What a command leaves: a table or one JSON object on standard output, files that nobody loses, notes beside them."""

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from stakes.data.tables.files import csv_text, without_noise, write_table
from stakes.errors import SettingError, short_line
from stakes.json_values import json_value
from stakes.text import number_text

if TYPE_CHECKING:
    from stakes.reports.tables import Result

TABLE_FILES = (".csv", ".csv.gz", ".parquet")
"""How the names of files end that tables are written to."""


def require_writable(
    path: Path | None, force: bool, endings: Sequence[str] = TABLE_FILES, inputs: Iterable[Path | None] = ()
) -> None:
    """Raise, before any work is done, unless a file may be written there."""
    if path is None:
        return
    if path.resolve() in (each.resolve() for each in inputs if each is not None):
        raise SettingError(f"the output {str(path)!r} is an input too; choose another file")
    if not path.name.lower().endswith(tuple(endings)):
        raise SettingError(f"the output must be a file that ends in {' or '.join(endings)}, got {str(path)!r}")
    if path.is_dir():
        raise SettingError(f"the output {str(path)!r} is a folder, expected a file")
    if path.exists() and not force:
        raise SettingError(f"{str(path)!r} exists already; --force overwrites it")
    if not path.parent.is_dir():
        raise SettingError(f"there is no folder {str(path.parent)!r} for the output")


def print_text(text: str) -> None:
    """Write to standard output; a reader that has gone, such as `head`, is no fault."""
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(record: Mapping[str, Any]) -> None:
    """Write one JSON object to standard output, in one line."""
    print_text(json.dumps(json_value(record), allow_nan=False, ensure_ascii=False))


def print_table(table: pd.DataFrame, title: str = "") -> None:
    """Write a table for people, numbers to four digits: drawn on a terminal, plain otherwise."""
    cells = [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    if sys.stdout.isatty():
        _draw([str(column) for column in table.columns], cells, title)
        return
    lines = [[str(column) for column in table.columns], *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numeric = [pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes]
    rows = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    ]
    print_text("\n".join([title, *rows] if title else rows))


def print_fit(result: "Result", as_json: bool) -> None:
    """Write the tables of a fit or a backtest with their titles, its sentences and its folder."""
    if as_json:
        print_json(result.record())
        return
    for title, table in result.tables:
        if len(table):
            print_table(table, title)
            print_text("")
    print_text("\n".join([*result.sentences, str(result.folder)]))


def print_or_write_table(table: pd.DataFrame, record: Mapping[str, Any], out: Path | None, as_json: bool) -> None:
    """Write the table to its file, or as CSV to standard output."""
    table = without_noise(table)
    if out is not None:
        write_table(table, out)
    if as_json:
        kept = {key: value for key, value in record.items() if key != "rows"}
        print_json(kept | ({"rows": table} if out is None else {"out": str(out)}))
    else:
        print_text(csv_text(table) if out is None else str(out))


def print_notes(sentences: Iterable[str], quiet: bool = False) -> None:
    """Write what is good to know to standard error."""
    for sentence in () if quiet else sentences:
        sys.stderr.write(f"note: {short_line(sentence)}\n")


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "" if math.isnan(value) else number_text(float(value))
    return "" if value is None else str(value)


def _draw(columns: Sequence[str], cells: Sequence[Sequence[str]], title: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*columns, title=title or None)
    for row in cells:
        drawn.add_row(*map(Text, row))
    Console().print(drawn)
