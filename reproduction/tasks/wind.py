"""The paper's wind power dispatch: commit the power of an offshore wind farm six hours ahead."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from reproduction.tasks.task import (
    LITERAL_DIFFUSION,
    PaperSettings,
    Periods,
    TaskData,
    chronological_data,
    chronological_splits,
    consecutive_years,
    only_outcome,
    region_between,
    require_lead_hours,
    require_record,
    years_of_file,
)
from stakes.argument_checks import require_count
from stakes.costs.scalar_costs import PowerCurve, WindDispatchCost
from stakes.data.records import Record, load_record
from stakes.data.tables.lags import LaggedInput, LaggedSeries, Split
from stakes.errors import SettingError
from stakes.evaluation.metrics import Region
from stakes.training.settings import ImplicitSettings, TrainingSettings

_STEP_HOURS = 6
_RAMP, _RATED, _CUT_OFF = 3.0, 15.0, 20.0  # m/s at hub height, where the paper's regions begin
_PAPER_YEARS = consecutive_years(train=2005, validation=2020, test=2021, end=2022)
_FILE_SHEAR = 0.143
_YEARS, _WEEKS = 15, 52  # of training before a test year, and how many whole weeks of a year every split has


@dataclass(frozen=True)
class _WindRecord:
    """The 10 m wind speed of a record, the shear exponent that takes it to hub height, and the years."""

    column: str
    shear: float
    periods: Periods


_RECORDS = {
    "wind_north_sea": _WindRecord("ws10", 0.143, _PAPER_YEARS),
    "wind_nora10": _WindRecord("W10", 0.11, consecutive_years(train=1963, validation=1978, test=1979, end=1980)),
}


@dataclass(frozen=True)
class WindTask:
    """Forecast the 10 m wind speed from those now, 6 and 12 h ago; commit power a for that time.

    c(a, y) = -a + penalty relu(a - P(y))^2, with P the `PowerCurve`. The record of the northern North Sea has the
    paper's years, the hindcast NORA10 earlier ones. With `test_year` the 15 years before it but one train, the year
    before it validates, and every split has as many cases, whole weeks, in every test year.
    """

    name: ClassVar[str] = "wind"
    cost_parameters: ClassVar[tuple[str, ...]] = ("penalty",)
    paper: ClassVar[PaperSettings] = PaperSettings(
        models=(ImplicitSettings(), LITERAL_DIFFUSION),
        training=TrainingSettings(pretraining_epochs=200),
        grid={
            "decision_weight": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9),
            "seed": (0, 1, 2),
            "task.penalty": (3.0, 5.0, 10.0),
        },
    )

    penalty: float = 5.0
    record: str = "wind_north_sea"
    lead_hours: int = 6  # the hours from the issue time to the target, a multiple of 6
    hub_height: float = 100.0  # the height of the hub, in m
    shear: float | None = None
    ramp_speed: float = PowerCurve.ramp_speed  # the speed at hub height at which half the capacity is reached, in m/s
    ramp_sharpness: float = PowerCurve.ramp_sharpness  # how steeply the power rises there, per m/s
    cutoff_speed: float = PowerCurve.cutoff_speed
    cutoff_sharpness: float = 1.0  # how steeply the power falls there, per m/s: at 20 m/s it is falling already
    test_year: int | None = None

    def __post_init__(self) -> None:
        require_record(self.record, tuple(_RECORDS))
        require_lead_hours(self.lead_hours, _STEP_HOURS)
        if self.test_year is not None:
            require_count("test_year", self.test_year)
        _ = self.cost  # which checks the rest

    @property
    def power_curve(self) -> PowerCurve:
        """The power of the farm by the 10 m wind speed."""
        return PowerCurve(
            self.ramp_speed,
            self.ramp_sharpness,
            self.cutoff_speed,
            self.cutoff_sharpness,
            self.hub_height,
            shear=self._shear() if self.shear is None else self.shear,
        )

    @property
    def cost(self) -> WindDispatchCost:
        return WindDispatchCost(self.penalty, self.power_curve)

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the speed at hub height: 3-15, 15-20 and from 20 m/s on, as the paper counts them."""
        curve = self.power_curve

        def hub_speed(outcome: Tensor) -> Tensor:
            return curve.hub_speed(only_outcome(outcome))

        return {
            "ramp": region_between(hub_speed, _RAMP, _RATED),
            "rated": region_between(hub_speed, _RATED, _CUT_OFF),
            "cut-off": region_between(hub_speed, _CUT_OFF),
        }

    def splits(self) -> dict[str, Split]:
        """The rows of each split, and how many were left out."""
        return self._splits(self._record())

    def data(self) -> TaskData:
        """6-hourly cases: of the paper's years 15, one and one."""
        record = self._record()
        return chronological_data(self._splits(record), "m/s", record.attribution)

    def _splits(self, record: Record) -> dict[str, Split]:
        known = _RECORDS.get(self.record)
        periods = years_of_file(record, test_years=1, paper=_PAPER_YEARS) if known is None else known.periods
        rows = LaggedSeries((LaggedInput(record.columns, (0, 6, 12)),), record.columns, self.lead_hours)
        if self.test_year is None:
            return chronological_splits(rows, record, periods)
        year = self.test_year
        splits = chronological_splits(rows, record, consecutive_years(year - _YEARS - 1, year - 1, year, year + 1))
        return {name: _last(split, _WEEKS * (_YEARS if name == "train" else 1)) for name, split in splits.items()}

    def _record(self) -> Record:
        """The 6-hourly wind speed, the only column."""
        if self.record in _RECORDS:
            return load_record(self.record).select(_RECORDS[self.record].column).every(_STEP_HOURS)
        from reproduction.series_files import read_wind  # which imports pandas

        return read_wind(self.record, _STEP_HOURS)

    def _shear(self) -> float:
        return _RECORDS[self.record].shear if self.record in _RECORDS else _FILE_SHEAR


def _last(split: Split, weeks: int) -> Split:
    """The last weeks of a split."""
    rows = weeks * 7 * 24 // _STEP_HOURS
    if len(split) < rows:
        raise SettingError(f"test_year needs {rows} cases, its record has {len(split)}")
    return split.rows(slice(-rows, None))
