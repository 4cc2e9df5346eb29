"""Flags that several commands share, one spelling for all; light enough for --help."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token

from stakes.errors import SettingError

if TYPE_CHECKING:
    from stakes.fitting.fit import FitRequest

__all__ = [
    "COST_HELP",
    "BaselineAction",
    "Block",
    "Cases",
    "Cost",
    "Device",
    "Encoding",
    "FitFlags",
    "FitOrRun",
    "Folder",
    "Force",
    "Json",
    "NewFolder",
    "Quiet",
    "Seconds",
    "Separator",
    "SomeFitOrRun",
    "SomeFolder",
    "SomeTable",
    "Table",
    "Time",
    "Workers",
    "examples",
    "names",
    "numbers_of",
    "whole",
]

_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|((?:[^,]|,(?=-?\d+\]))+))')  # t2m[-1,0] is one, and "a,b"
COST_HELP = (
    "what a decision costs, NAME:key=value,... such as imbalance:short=10,long=1,upper=150,unit=EUR; or your own, "
    "FILE.py:function"
)


def _whole_number(_: Any, tokens: Sequence[Token]) -> int:
    """Not rounded, as cyclopts would."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"it must be a whole number, got {tokens[0].value!r}") from None


def whole(about: str) -> Parameter:
    """A whole number, and what it is for."""
    return Parameter(help=about, converter=_whole_number)


_TABLE = Parameter(help="table, CSV, parquet, NetCDF or Zarr, one row a case or a time")
_FOLDER = Parameter(help="folder of a fit")
_FIT_OR_RUN = Parameter(help="folder of a fit, or of a run of `stakes train`")
Table = Annotated[Path, _TABLE]
SomeTable = Annotated[Path | None, _TABLE]
Folder = Annotated[Path, _FOLDER]
SomeFolder = Annotated[Path | None, _FOLDER]
FitOrRun = Annotated[Path, _FIT_OR_RUN]
SomeFitOrRun = Annotated[Path | None, _FIT_OR_RUN]
NewFolder = Annotated[Path, Parameter(help="folder to make")]
Cost = Annotated[str | None, Parameter(help=COST_HELP)]
Device = Annotated[str, Parameter(help="cpu, cuda, or auto: the GPU where there is one")]
Workers = Annotated[int | None, whole("processes at once; one a core, or one on a GPU, by default")]
Quiet = Annotated[bool, Parameter(help="no progress and no notes", negative="", show_default=False)]
Seconds = Annotated[float, Parameter(help="time between checkpoints")]
Json = Annotated[
    bool,
    Parameter(name="--json", help="one JSON object on standard output, for machines", negative="", show_default=False),
]
Force = Annotated[bool, Parameter(help="overwrite files that are there already", negative="", show_default=False)]
Cases = Annotated[Path | None, Parameter(help="write every case to this file, .csv or .parquet")]
Time = Annotated[str | None, Parameter(help="column with the time, ISO, UTC unless a zone is written")]
Block = Annotated[
    int | None,
    whole("neighbouring cases that belong together; a week by default, in short records at least three days"),
]
BaselineAction = Annotated[str | None, Parameter(help="column with the action that is taken today")]
Separator = Annotated[str | None, Parameter(help="of CSV files; found by itself by default")]
Encoding = Annotated[str | None, Parameter(help="of CSV files; found by itself by default")]


@Parameter(name="*")
@dataclass(frozen=True)
class FitFlags:
    """What is fitted, and how: the flags of `fit` and `backtest`."""

    target: Annotated[str, Parameter(help="column to forecast, or several, separated by commas")]
    cost: Annotated[str, Parameter(help=COST_HELP)]
    time: Time = None
    lags: Annotated[
        str | None, Parameter(help="hours before the issue time whose columns are features, such as 0,6,24")
    ] = None
    lead: Annotated[float | None, Parameter(help="hours from the issue time to the target")] = None
    features: Annotated[str | None, Parameter(help="columns to forecast from; all of numbers by default")] = None
    known: Annotated[
        str | None, Parameter(help="columns known beforehand for the target time, such as weather forecasts")
    ] = None
    calendar: Annotated[str | None, Parameter(help="features of the target time, of hour,weekday,season")] = None
    baseline_action: BaselineAction = None
    model: Annotated[Literal["implicit", "diffusion"], Parameter(help="kind of the model")] = "implicit"
    decision_weight: Annotated[
        str, Parameter(help="auto, or between 0, the score alone, and 1, the decision alone")
    ] = "auto"
    weights: Annotated[
        str | None, Parameter(help="weights that auto chooses among, such as 0,0.1,0.3; 0 to 0.9 by tenths by default")
    ] = None
    members: Annotated[int, whole("members of a forecast")] = 500
    ensemble: Annotated[int, whole("models of different seeds, pooled")] = 1
    epochs: Annotated[int | None, whole("most epochs of the training")] = None
    test_fraction: Annotated[float, Parameter(help="share of the cases, the last ones, to judge by")] = 0.2
    validation_fraction: Annotated[
        float,
        Parameter(help="share of the others, their last ones, by which training stops and a weight is taken"),
    ] = 0.25
    tolerance: Annotated[float, Parameter(help="per cent by which the score may become worse")] = 2.0
    block: Block = None
    seed: Annotated[int, whole("of all that is random")] = 0
    separator: Separator = None
    encoding: Encoding = None

    def request(self, data: str) -> "FitRequest":
        """The same for `stakes.fitting.fit.run_fit`."""
        from stakes.data.layout import TableLayout
        from stakes.fitting.fit import FitRequest
        from stakes.settings import from_plain

        layout = {
            "targets": names(self.target),
            "features": names(self.features),
            "time": self.time,
            "lags": numbers_of("lags", self.lags),
            "lead": self.lead,
            "known": names(self.known),
            "calendar": names(self.calendar),
            "baseline_action": self.baseline_action,
        }
        weight = self.decision_weight
        return FitRequest(
            data,
            self.cost,
            from_plain(TableLayout, layout),
            model=self.model,
            decision_weight="auto" if weight == "auto" else _number("decision_weight", weight, "auto or a number"),
            weights=None if self.weights is None else numbers_of("weights", self.weights),
            members=self.members,
            ensemble=self.ensemble,
            epochs=self.epochs,
            test_fraction=self.test_fraction,
            validation_fraction=self.validation_fraction,
            tolerance=self.tolerance,
            block=self.block,
            seed=self.seed,
            separator=self.separator,
            encoding=self.encoding,
        )


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "Examples:\n\n```\n" + "\n".join(lines) + "\n```"


def names(text: str | None) -> tuple[str, ...]:
    """The names in `a, b` or `t2m[0,0], t2m[-1,0]`; in quotes, as CSV has them, a name may hold a comma: `"a, b",c`.

    >>> names('t2m[-1,0], "wind, north",load')
    ('t2m[-1,0]', 'wind, north', 'load')
    """
    found = [
        match[2].strip() if match[1] is None else match[1].replace('""', '"') for match in _NAME.finditer(text or "")
    ]
    return tuple(filter(None, found))


def numbers_of(field: str, text: str | None) -> tuple[float, ...]:
    """The numbers in "0, 6, 24"."""
    return tuple(_number(field, part, "numbers separated by commas") for part in names(text))


def _number(field: str, text: str, expected: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{field} must be {expected}, got {text!r}") from None
