"""Flags that several commands share, one spelling for all; light enough for --help."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from stakes.errors import SettingError

_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|((?:[^,]|,(?=-?\d+\]))+))')  # t2m[-1,0] is one, and "a,b"
COST_HELP = (
    "what a decision costs, NAME:key=value,... such as imbalance:short=10,long=1,upper=150,unit=EUR; or your own, "
    "FILE.toml or FILE.py:function"
)


def whole_number(_: Any, tokens: Sequence[Token]) -> int:
    """Convert what was typed to a whole number, not rounded as cyclopts would."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"it must be a whole number, got {tokens[0].value!r}") from None


def whole(about: str) -> Parameter:
    """A flag that takes a whole number."""
    return Parameter(help=about, converter=whole_number)


_TABLE = Parameter(help="table, CSV, parquet, NetCDF or Zarr, one row a case or a time")
_FOLDER = Parameter(help="folder of a fit, or of a recalibration")
TableFile = Annotated[Path, _TABLE]
SomeTable = Annotated[Path | None, _TABLE]
Folder = Annotated[Path, _FOLDER]
SomeFolder = Annotated[Path | None, _FOLDER]
NewFolder = Annotated[Path, Parameter(help="folder to make")]
CostWords = Annotated[str | None, Parameter(help=COST_HELP)]
CostParameter = Annotated[
    str | None,
    Parameter(
        help="of a fit whose cost has a range: whose decision it is, such as penalty=5, or penalty=COLUMN of the table"
    ),
]
Device = Annotated[str, Parameter(help="cpu, cuda, or auto: the GPU where there is one")]
Workers = Annotated[int | None, whole("processes at once; one per core, or one on a GPU, by default")]
Quiet = Annotated[bool, Parameter(help="no progress and no notes", negative="", show_default=False)]
Seconds = Annotated[float, Parameter(help="time between checkpoints")]
Json = Annotated[
    bool,
    Parameter(name="--json", help="one JSON object on standard output, for machines", negative="", show_default=False),
]
Force = Annotated[bool, Parameter(help="overwrite files that are there already", negative="", show_default=False)]
CasesFile = Annotated[Path | None, Parameter(help="write every case to this file, .csv or .parquet")]
Time = Annotated[str | None, Parameter(help="column with the time, ISO, UTC unless a zone is written")]
Block = Annotated[
    int | None,
    whole("neighbouring cases that belong together; a week by default, in short records at least three days"),
]
BaselineAction = Annotated[
    str | None,
    Parameter(help="column with the action that is taken today, or one for each of its parts, such as did00:did23"),
]
Separator = Annotated[str | None, Parameter(help="of CSV files; found by itself by default")]
Encoding = Annotated[str | None, Parameter(help="of CSV files; found by itself by default")]


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "Examples:\n\n```\n" + "\n".join(lines) + "\n```"


def refuse_cost_parameter(told: str | None) -> None:
    """Raise where members are given, whose cost has no range."""
    if told is not None:
        raise SettingError(f"--cost-parameter is for a fit whose cost has a range, got {told!r} besides --members")


def names(text: str | None) -> tuple[str, ...]:
    """The names in `a, b` or `t2m[0,0], t2m[-1,0]`; in quotes, as CSV has them, a name may hold a comma: `"a, b",c`.

    >>> names('t2m[-1,0], "wind, north",load')
    ('t2m[-1,0]', 'wind, north', 'load')
    """
    typed = [
        match[2].strip() if match[1] is None else match[1].replace('""', '"') for match in _NAME.finditer(text or "")
    ]
    return tuple(filter(None, typed))


def numbers_of(field: str, text: str | None) -> tuple[float, ...]:
    """The numbers in "0, 6, 24"."""
    return tuple(number_of(field, part, "numbers separated by commas") for part in names(text))


def number_of(field: str, text: str, expected: str) -> float:
    """The number that a text is."""
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{field} must be {expected}, got {text!r}") from None
