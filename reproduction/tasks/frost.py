"""The paper's frost protection: protect against tomorrow's frost, at a cost where there is none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from reproduction.tasks.task import (
    LITERAL_DIFFUSION,
    PaperSettings,
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
from stakes.costs.scalar_costs import ProtectionCost
from stakes.data.records import Record, load_record
from stakes.data.tables.lags import LaggedInput, LaggedSeries, Split
from stakes.evaluation.metrics import Region
from stakes.training.settings import ImplicitSettings, TrainingSettings

_STEP_HOURS = 6
_MONTHS = (11, 12, 1, 2, 3)
# The share of frost runs from 10 % in one winter to 48 % in another: no test on one winter alone.
_PERIODS = {
    "frost_merra2": consecutive_years(train=1997, validation=2013, test=2015, end=2019),
    "frost_era5": consecutive_years(train=1999, validation=2015, test=2017, end=2021),
}


@dataclass(frozen=True)
class FrostTask:
    """Forecast the 2 m temperature of November to March from every column of the record now, 6 and 12 h ago.

    The cost is `ProtectionCost` with its hazard below `threshold`. MERRA-2 has 9 columns at La Haute Borne, so 27
    inputs, as many as the paper's 3 x 3 patch around Berlin; ERA5 has 4.
    """

    name: ClassVar[str] = "frost"
    cost_parameters: ClassVar[tuple[str, ...]] = ("false_alarm_ratio",)
    paper: ClassVar[PaperSettings] = PaperSettings(
        models=(ImplicitSettings(), LITERAL_DIFFUSION),
        training=TrainingSettings(),
        grid={
            "decision_weight": tuple(tenth / 10 for tenth in range(10)),
            "seed": tuple(range(10)),  # the paper has three, and effects smaller than what seeds differ by
            "task.false_alarm_ratio": (0.2, 0.3, 0.5),
        },
    )

    false_alarm_ratio: float = 0.5
    record: str = "frost_merra2"
    lead_hours: int = 24  # the hours from the issue time to the target, a multiple of 6
    threshold: float = 0.0  # the temperature in degC below which there is frost
    sharpness: float = 2.0  # how sharply the severity rises below the threshold, per degC

    def __post_init__(self) -> None:
        require_record(self.record, tuple(_PERIODS))
        require_lead_hours(self.lead_hours, _STEP_HOURS)
        _ = self.cost  # which checks the rest

    @property
    def cost(self) -> ProtectionCost:
        return ProtectionCost(self.threshold, self.false_alarm_ratio, "below", self.sharpness)

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the temperature, below the threshold and above it."""
        return {
            "frost": region_between(only_outcome, upper=self.threshold),
            "no frost": region_between(only_outcome, lower=self.threshold),
        }

    def splits(self) -> dict[str, Split]:
        """The rows of each split, and how many were left out."""
        return self._splits(self._record())

    def data(self) -> TaskData:
        """6-hourly cases of the cold months."""
        record = self._record()
        return chronological_data(self._splits(record), "degC", record.attribution)

    def _splits(self, record: Record) -> dict[str, Split]:
        target = record.columns[:1]  # the 2 m temperature comes first
        rows = LaggedSeries((LaggedInput(record.columns, (0, 6, 12)),), target, self.lead_hours, months=_MONTHS)
        periods = _PERIODS.get(self.record) or years_of_file(record, test_years=2)
        return chronological_splits(rows, record, periods)

    def _record(self) -> Record:
        if self.record in _PERIODS:
            return load_record(self.record)
        from reproduction.series_files import read_temperature  # which imports pandas

        return read_temperature(self.record, _STEP_HOURS)
