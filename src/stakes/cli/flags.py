"""Flags that several commands share, one spelling for all, and flags made of settings; light enough for --help."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, make_dataclass
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from cyclopts import Group, Parameter, Token

from stakes.data.forecasts.layout import ForecastFormat, ForecastLayout, GridPoint
from stakes.data.tables.roles import ColumnRoles, Hours
from stakes.errors import SettingError
from stakes.forecasting.parameters import FitSettings, RecalibratorSettings
from stakes.text import attribute_texts, duration_hours

if TYPE_CHECKING:
    from stakes.costs.cost import Cost
    from stakes.data.forecasts.forecast_set import ForecastSet
    from stakes.data.tables.files import CsvOptions
    from stakes.workflows.inputs import FitRequest
    from stakes.workflows.panels import PanelRequest
    from stakes.workflows.recalibrate import RecalibrateRequest

_DURATIONS = "numbers of hours, or durations such as 6d, 12h, 1w, separated by commas"
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|((?:[^,]|,(?=-?\d+\]))+))')  # t2m[-1,0] is one, and "a,b"
COST_HELP = (
    "NAME:key=value,... such as imbalance:short=10,long=1,upper=150,unit=EUR; a value may be @COLUMN; or your own "
    "FILE.toml or FILE.py:function"
)

# The panels of --help, in this order
TABLE = Group("Table", sort_key=1)
SERIES = Group("Long table of many series", sort_key=2)
FORECASTS = Group("Existing forecasts", sort_key=3)
COST = Group("Decision", sort_key=4)
MODEL = Group("Model and training", sort_key=5)
SELECTION = Group("Selection and test", sort_key=6)
OUTPUT = Group("Output", sort_key=7)
_GROUPS: dict[Group, str] = {
    TABLE: "directions separator encoding gap outcome_bounds",
    COST: "today baseline_action",
    MODEL: "base conditioned members ensemble decision_member_count epochs model score seed",
    SELECTION: "decision_weight weights decision_weights tolerance model_selection recent_errors validation_fraction "
    "test_fraction block",
}
_GROUP_OF = {name: group for group, listed in _GROUPS.items() for name in listed.split()}
_HOMES = {ColumnRoles: TABLE, ForecastFormat: FORECASTS, ForecastLayout: FORECASTS}  # of fields in no other group
_NAMES = {"targets": "--target", "today": "--baseline-action"}  # of flags that are not called like their field


def whole_number(_: Any, tokens: Sequence[Token]) -> int:
    """Convert what was typed to a whole number, not rounded as cyclopts would."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"it must be a whole number, got {tokens[0].value!r}") from None


def whole(about: str, group: Group) -> Parameter:
    """A flag that takes a whole number."""
    return Parameter(help=about, converter=whole_number, group=group)


_TABLE = Parameter(help="CSV, parquet, NetCDF or Zarr file with one row for each case or time")
_FOLDER = Parameter(help="folder written by stakes fit or stakes recalibrate")
TableFile = Annotated[Path, _TABLE]
SomeTable = Annotated[Path | None, _TABLE]
Folder = Annotated[Path, _FOLDER]
SomeFolder = Annotated[Path | None, _FOLDER]
NewFolder = Annotated[Path, Parameter(group=OUTPUT, help="folder to create")]
CostWords = Annotated[str | None, Parameter(group=COST, help=COST_HELP)]
Device = Annotated[str, Parameter(group=MODEL, help="cpu, cuda, or auto: a GPU if there is one")]
Workers = Annotated[int | None, whole("number of processes; default: one per core, or one on a GPU", MODEL)]
EngineKind = Annotated[
    Literal["serial", "processes", "ray"],
    Parameter(group=SERIES, help="how work on the series is distributed; results do not depend on it"),
]
EngineWorkers = Annotated[int | None, whole("number of processes with --engine; default: one per core", SERIES)]
Quiet = Annotated[bool, Parameter(group=OUTPUT, help="show no progress and no notes", negative="", show_default=False)]
Json = Annotated[
    bool,
    Parameter(
        name="--json", group=OUTPUT, help="print one JSON object to standard output", negative="", show_default=False
    ),
]
Force = Annotated[bool, Parameter(group=OUTPUT, help="overwrite existing files", negative="", show_default=False)]
CasesFile = Annotated[Path | None, Parameter(group=OUTPUT, help="write one row for each case to this .csv or .parquet")]
_TEXTS = attribute_texts(FitSettings) | attribute_texts(ColumnRoles)
Block = Annotated[int | None, whole(_TEXTS["block"], SELECTION)]
BaselineAction = Annotated[str | None, Parameter(group=COST, help=_TEXTS["baseline_action"])]
Separator = Annotated[str | None, Parameter(group=TABLE, help=_TEXTS["separator"])]
Encoding = Annotated[str | None, Parameter(group=TABLE, help=_TEXTS["encoding"])]


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "Examples:\n\n```\n" + "\n".join(lines) + "\n```"


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
    """The numbers in "0, 6, 24"; no numbers in "none"."""
    parts = () if text == "none" else names(text)
    return tuple(number_of(field, part, "numbers separated by commas") for part in parts)


def number_of(field: str, text: str, expected: str, kind: Callable[[str], float] = float) -> float:
    """The number that a text is."""
    try:
        return kind(text)
    except ValueError:
        raise SettingError(f"{field} must be {expected}, got {text!r}") from None


def _points(field: str, text: str) -> tuple[GridPoint, ...]:
    """The points in "52.1,4.3;55,8"."""
    points = []
    for part in text.split(";"):
        numbers = numbers_of(field, part)
        if len(numbers) != 2 or not -90 <= numbers[0] <= 90 or not -180 <= numbers[1] <= 360:
            raise SettingError(f"{field} must be LATITUDE,LONGITUDE in degrees, got {part.strip()!r}")
        points.append((numbers[0], numbers[1]))
    return tuple(points)


def hours_or_name(field: str, text: str) -> float | str:
    """A duration in hours, or the column that has them."""
    try:
        return duration_hours(field, text)
    except SettingError:
        return text


def durations_of(field: str, text: str | None) -> tuple[float, ...]:
    """The hours in "0, 6h, 1d"; none in "none"."""
    parts = () if text == "none" else names(text)
    return tuple(duration_hours(field, part, _DURATIONS) for part in parts)


# Flags made of settings: one for each field, with its text in the docstring as help; lists are typed as text

_READERS: tuple[tuple[Any, Callable[[str, str], Any]], ...] = (
    (tuple[str, ...], lambda _, text: names(text)),
    (tuple[float, ...], numbers_of),
    (tuple[GridPoint, ...], _points),
    (tuple[Hours, ...], durations_of),
    (Hours, duration_hours),
    (float | Literal["auto"], lambda field, text: number_of(field, text, "auto or a number")),
    (int | Literal["auto"], lambda field, text: int(number_of(field, text, "auto or a whole number", int))),
    (str | float | None, hours_or_name),
)


def _reader(kind: Any) -> Callable[[str, str], Any] | None:
    """What reads a value of this annotation from text; None where cyclopts does."""
    return next((read for known, read in _READERS if known == kind or known in get_args(kind)), None)


def flags_of(methods: type, *settings: type, without: Sequence[str] = (), **others: Any) -> Any:
    """A dataclass of flags with these methods: one for each field of the settings, as the last tell it, and others."""
    made: dict[str, tuple[Any, Any]] = {}
    for each in settings:
        hints, texts = get_type_hints(each, include_extras=True), attribute_texts(each)
        for field in fields(each):
            if field.name in without:
                continue
            kind, default = hints[field.name], field.default
            if _reader(kind) is not None and default is MISSING:
                kind = str
            elif _reader(kind) is not None:
                kind, default = (str, default) if isinstance(default, str) else (str | None, None)
            text, group = texts[field.name], _GROUP_OF.get(field.name) or _HOMES[each]
            about = Parameter(name=_NAMES.get(field.name), help=text, group=group)
            about = whole(text, group) if kind in (int, int | None) else about
            made[field.name] = Annotated[kind, about], default
    flags = [(name, *each) for name, each in made.items()] + [(name, kind, None) for name, kind in others.items()]
    where = {"__module__": methods.__module__}  # in which cyclopts looks up annotations
    kind = make_dataclass(methods.__name__, flags, bases=(methods,), namespace=where, frozen=True, kw_only=True)
    return Parameter(name="*")(kind)


def settings_of(flags: object, settings: type, without: Sequence[str] = ()) -> dict[str, Any]:
    """What was typed, as the settings have it."""
    hints, found = get_type_hints(settings, include_extras=True), {}
    for field in fields(settings):
        if field.name not in without:
            value, kind = getattr(flags, field.name), hints[field.name]
            words = [word for part in get_args(kind) if get_origin(part) is Literal for word in get_args(part)]
            if (read := _reader(kind)) is not None and value not in words:
                value = field.default if value is None else read(field.name, value)
            found[field.name] = value
    return found


# Forecasts that a user already has


class _FormatFlags:
    """How forecasts that a user already has are read, and tables beside them."""

    members: Path | None
    separator: str | None
    encoding: str | None
    columns: str | None
    outcome_bounds: str
    sites: str

    @property
    def format(self) -> ForecastFormat:
        """How forecasts are read."""
        return ForecastFormat(**settings_of(self, ForecastFormat))

    @property
    def csv(self) -> "CsvOptions":
        """How a CSV file is read."""
        return {"separator": self.separator, "encoding": self.encoding}

    @property
    def describes_members(self) -> bool:
        """Whether there is a flag that only an ensemble needs."""
        return self.format != NO_ENSEMBLE.format

    def of_folder(
        self, folder: Path | None, data: Path | None, needed: str, others: object = None
    ) -> tuple[Path, Path] | None:
        """A folder and the data for it; None where members are given in place of both."""
        if self.members is not None:
            if folder is not None:
                raise SettingError(f"give --members or a folder, not both; got {str(folder)!r} besides --members")
            return None
        if folder is None or data is None:
            raise SettingError(needed)
        if others or self.describes_members:
            raise SettingError(ONLY_OF_MEMBERS)
        return folder, data

    def read(
        self,
        target: str | None,
        cost: "Cost",
        outcomes: Path | None = None,
        today: str | None = None,
        points: bool = False,
        joint: bool = False,
        members: Path | None = None,
        prices: Mapping[str, str] | None = None,
    ) -> "ForecastSet":
        """The forecast that is given, for this cost, with the outcomes where there is a file of them, and prices."""
        from stakes.data.forecasts.reading import read_members

        path = members or self.members
        assert path is not None
        layout = ForecastLayout(
            **settings_of(self, ForecastFormat),
            prices=prices or {},
            outcomes=names(target),
            today=names(today),
            own_file=True,
        )
        return read_members(layout, path, outcomes, cost=cost, points=points, joint=joint, **self.csv)


_MEMBERS = Annotated[
    Path | None,
    Parameter(
        group=FORECASTS,
        help="file with existing forecasts: members, quantiles or single numbers, in CSV, parquet, NetCDF or Zarr",
    ),
]
if TYPE_CHECKING:
    EnsembleFlags = _FormatFlags
else:
    EnsembleFlags = flags_of(_FormatFlags, ForecastFormat, members=_MEMBERS, separator=Separator, encoding=Encoding)
NO_ENSEMBLE = EnsembleFlags()
_OF_MEMBERS = [f"--{each.name.replace('_', '-')}" for each in fields(ForecastFormat)]
ONLY_OF_MEMBERS = (
    f"--target, {', '.join(_OF_MEMBERS[:-1])} and {_OF_MEMBERS[-1]} belong to --members; a folder knows its own "
    "columns, and that of a recalibration turns forecasts in a NetCDF file into its own unit by itself"
)


# Fits

_OF_PANELS = ("leads", "horizon", "windows", "static", "mask", "calendar_zone", "reported_after", "integer")
_SHARED = ("members", "test_fraction", "validation_fraction", "seed", "model")  # settings that panels have as well


def _cost_columns(words: str) -> dict[str, str]:
    """The parameters of a cost that stand in columns."""
    if "=@" not in words:
        return {}
    from stakes.cost_spec.spec import CostSpec

    return CostSpec.parse(words).columns


@dataclass(frozen=True, kw_only=True)
class _FitFlags:
    """What is of neither `ColumnRoles` nor `FitSettings`: the cost, and a long table of many series."""

    if TYPE_CHECKING:  # of `ColumnRoles`, as panels have them too
        targets: str
        time: str | None
        lags: str | None
        lead: str | None
        features: str | None
        known: str | None
        calendar: str | None
        baseline_action: str | None
    cost: Annotated[str, Parameter(group=COST, help=COST_HELP)]
    series: Annotated[
        str | None,
        Parameter(group=SERIES, help="columns that identify a series; auto takes unique_id or item_id"),
    ] = None
    leads: Annotated[str | None, Parameter(group=SERIES, help="several leads, such as 24,48,72 or 1d,2d")] = None
    horizon: Annotated[int | None, whole("number of leads: 1, 2, ... times --lead", SERIES)] = None
    windows: Annotated[
        str | None, Parameter(group=SERIES, help="spans before issue time whose means are features, such as 7d,28d")
    ] = None
    static: Annotated[str | None, Parameter(group=SERIES, help="columns with one value for each series")] = None
    categorical: Annotated[str | None, Parameter(group=SERIES, help="columns that hold categories, not numbers")] = None
    mask: Annotated[
        str | None, Parameter(group=SERIES, help="column that is 0 where there is no outcome, such as closed days")
    ] = None
    calendar_zone: Annotated[
        str | None, Parameter(group=SERIES, help="time zone of --calendar, such as Europe/Madrid")
    ] = None
    reported_after: Annotated[
        str | None, Parameter(group=SERIES, help="delay until an outcome is known, such as 2d")
    ] = None
    integer: Annotated[bool, Parameter(group=SERIES, help="whole-number actions", negative="", show_default=False)] = (
        False
    )

    def panel_request(
        self,
        data: Path,
        hold_test: bool = False,
        engine: Literal["serial", "processes", "ray"] = "serial",
        workers: int | None = None,
    ) -> "PanelRequest | None":
        """What is asked of a fit to a long table, or to one of prices and words; None of any other."""
        columns = _cost_columns(self.cost)
        if self.series is None and not columns and self.categorical is None:
            told = [name for name in _OF_PANELS if getattr(self, name)]
            if told := [*told, *(["engine"] if engine != "serial" else [])]:
                raise SettingError(f"--{told[0].replace('_', '-')} is for a long table: name its --series")
            return None
        what = (
            "--series" if self.series else "--categorical" if self.categorical else f"@{next(iter(columns.values()))}"
        )
        settings, defaults = settings_of(self, FitSettings), FitSettings()
        for name, value in settings.items():
            if name not in _SHARED and value != getattr(defaults, name):
                raise SettingError(f"--{name.replace('_', '-')} does not go with {what}, got {value!r}")
        if settings["model"] == "diffusion":
            raise SettingError(f"--model diffusion does not go with {what}, whose candidates are linear and trees")
        if self.features is not None:
            raise SettingError(f"--features does not go with {what}: name --known, --static or --categorical columns")
        from stakes.forecasting.panels import PanelSettings
        from stakes.workflows.panels import PanelRequest

        leads = self.leads or self.lead
        if leads is None:
            raise SettingError(f"{what} needs --lead or --leads")
        hours = durations_of("leads", leads)
        if self.horizon is not None:
            hours = tuple(hours[0] * place for place in range(1, self.horizon + 1))
        layout = {
            "target": self.targets,
            "series": None if self.series is None else () if self.series == "auto" else names(self.series),
            "time": self.time,
            "lags": durations_of("lags", self.lags),
            "leads": hours,
            "windows": durations_of("windows", self.windows),
            **{name: names(getattr(self, name)) for name in ("known", "static", "categorical", "calendar")},
            "calendar_zone": self.calendar_zone,
            "mask": self.mask,
            "reported_after": self.reported_after or 0.0,
            "baseline_action": self.baseline_action,
        }
        members = PanelSettings().members if settings["members"] == defaults.members else settings["members"]
        fitted = PanelSettings(
            members=members,
            integer=self.integer,
            test_fraction=settings["test_fraction"],
            validation_fraction=settings["validation_fraction"],
            seed=settings["seed"],
            engine=engine,
            workers=workers,
            model="linear" if settings["model"] == "linear" else "auto",
        )
        return PanelRequest(data, self.cost, layout, fitted, hold_test)

    def request(self, data: Path) -> "FitRequest":
        """What is asked of a fit to the table in the file `data`."""
        from stakes.data.tables.layout import TableLayout
        from stakes.workflows.inputs import FitRequest

        settings = settings_of(self, FitSettings)
        settings["directions"] = () if settings["directions"] == ("none",) else settings["directions"]
        layout = TableLayout(**settings_of(self, ColumnRoles, ("directions",)))
        return FitRequest(str(data), self.cost, layout, **settings)


if TYPE_CHECKING:
    FitFlags = _FitFlags
else:
    FitFlags = flags_of(_FitFlags, ColumnRoles, FitSettings)


# Recalibrations

_LEARNED = ("outcomes", "prices", "own_file", "learned")  # of a layout, which no flag says


@dataclass(frozen=True)
class _RecalibrateFlags:
    """What is of neither `ForecastLayout` nor `RecalibratorSettings`."""

    forecast: Annotated[
        str,
        Parameter(group=FORECASTS, help="columns of the forecasts in PAST, such as m1:m50, or a file of forecasts"),
    ]
    outcome: Annotated[str, Parameter(group=FORECASTS, help="column of the outcome, or one column for each target")]
    cost: Annotated[str, Parameter(group=COST, help=COST_HELP)]

    def request(self, past: Path) -> "RecalibrateRequest":
        """What is to be learned from the outcomes, or the table of both, in the file `past`."""
        from stakes.data.outcome_bounds import written_pair
        from stakes.workflows.recalibrate import RecalibrateRequest

        said = settings_of(self, ForecastLayout, _LEARNED)
        file = self._file(columns_are_said=bool(said["columns"]))
        if file is None:
            said["columns"] = names(self.forecast)
        layout = ForecastLayout(**said, outcomes=names(self.outcome), own_file=file is not None)
        bounds = written_pair(layout.outcome_bounds)
        settings = RecalibratorSettings(
            **settings_of(self, RecalibratorSettings, ("outcome_bounds",)), outcome_bounds=bounds
        )
        csv: CsvOptions = {"separator": self.separator, "encoding": self.encoding}  # type: ignore[attr-defined]
        return RecalibrateRequest(past, self.cost, layout, file, settings, csv)

    def _file(self, columns_are_said: bool) -> Path | None:
        """The file that --forecast names; None where it names columns."""
        from stakes.data.tables.files import TABLES, is_gridded

        path = Path(self.forecast)
        if isfile(path) or is_gridded(path) or self.forecast.lower().endswith(TABLES):
            return path
        if columns_are_said:
            raise SettingError(f"--columns are those of a file of forecasts, and there is no file {self.forecast!r}")
        return None


if TYPE_CHECKING:
    RecalibrateFlags = _RecalibrateFlags
else:
    RecalibrateFlags = flags_of(
        *(_RecalibrateFlags, RecalibratorSettings, ForecastLayout),
        without=_LEARNED,
        separator=Separator,
        encoding=Encoding,
    )
