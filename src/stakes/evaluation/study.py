"""A study: the evaluated forecasts of one task and model at every decision weight, as labelled arrays.

`forecasts` has the axes parameter (of the cost), group (data set), decision_weight, seed and case; `cases` what does
not depend on the forecast: outcome, time, the observed regions, climatology's cost, the truth where it is known.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from stakes.data.names import did_you_mean
from stakes.errors import SettingError, StakesError
from stakes.evaluation.metrics import LEVELS
from stakes.evaluation.significance import Resampling, Sampled
from stakes.training.checkpoints import write_atomically

__all__ = ["AXES", "RegionBy", "Study", "StudyError"]

AXES = ("parameter", "group", "decision_weight", "seed", "case")
RegionBy = Literal["observed", "forecast"]
_CASE_AXES = ("parameter", "group", "case")


class StudyError(StakesError):
    """A study's files are missing or damaged, or it does not have what is asked of it."""


@dataclass(frozen=True, eq=False)
class Study:
    """Forecasts of one task, one model and one choice of settings, judged on the test cases.

    `about` says what they are: task, model, choice, record, the name of the cost's parameter, the unit of the
    outcomes, the settings of the sweep, members a forecast. `block` is how many neighbouring cases the bootstrap keeps
    together.
    """

    forecasts: xr.Dataset
    cases: xr.Dataset
    about: Mapping[str, Any]
    block: int = 1

    @property
    def weights(self) -> list[float]:
        return [float(weight) for weight in self.forecasts["decision_weight"].values]

    @property
    def parameters(self) -> list[float]:
        return [float(value) for value in self.forecasts["parameter"].values]

    @property
    def seeds(self) -> int:
        return self.forecasts.sizes["seed"]

    @property
    def groups(self) -> int:
        return self.forecasts.sizes["group"]

    @property
    def regions(self) -> list[str]:
        """The regions of the task."""
        return [
            str(name).removeprefix("observed_") for name in self.cases.data_vars if str(name).startswith("observed_")
        ]

    @cached_property
    def resampling(self) -> Resampling:
        """One for all statistics of the study, so that their differences are paired."""
        count = self.forecasts.sizes["case"]
        return Resampling(count, self.seeds, self.groups, block=min(self.block, count))

    def values(self, metric: str, weight: float, parameter: float | None = None) -> NDArray[np.float64]:
        """A metric of every forecast at a weight, (groups, seeds, cases)."""
        chosen = self._at(_variable(self.forecasts, metric), weight, parameter)
        return chosen.transpose("group", "seed", "case", ...).values.astype(np.float64)

    def case_values(self, name: str, parameter: float | None = None) -> NDArray[Any]:
        """What does not depend on the forecast, (groups, cases)."""
        found = _variable(self.cases, name)
        if "parameter" in found.dims:
            found = found.sel(parameter=self._parameter(parameter), method="nearest")
        return found.transpose("group", "case").values

    def region(self, name: str | None, by: RegionBy = "observed") -> NDArray[np.bool_] | None:
        """Which cases belong to a region, (groups, 1, cases); None for all.

        "observed" goes by the outcome, as the paper does: such scores reward forecasts that exaggerate, since cases are
        chosen by what only became known later (the forecaster's dilemma, Lerch et al. 2017). "forecast" takes as many
        cases, those to which the forecasts at weight 0 give the region the highest probability: known beforehand, and
        the same for every weight.
        """
        if name is None:
            return None
        if name not in self.regions:
            raise SettingError(f"there is no region {name!r}; {did_you_mean(name, tuple(self.regions))}")
        observed = self.case_values(f"observed_{name}").astype(bool)  # (groups, cases)
        if by == "observed":
            return observed[:, None]
        mass = np.nanmean(self.values(f"mass_{name}", 0.0), 1)  # (groups, cases); a seed that failed is NaN
        ranks = np.argsort(np.argsort(-mass, axis=1, kind="stable"), axis=1)
        return (ranks < observed.sum(1, keepdims=True))[:, None]

    def mean(
        self,
        metric: str,
        weight: float,
        parameter: float | None = None,
        region: str | None = None,
        by: RegionBy = "observed",
    ) -> Sampled:
        """The mean of a metric over seeds and cases, all or those of a region, with its bootstrap replicates."""
        return self.resampling.mean(self.values(metric, weight, parameter), self.region(region, by))

    def seed_means(
        self,
        metric: str,
        weight: float,
        parameter: float | None = None,
        region: str | None = None,
        by: RegionBy = "observed",
    ) -> NDArray[np.float64]:
        """The mean of a metric for every group and seed, (groups seeds,)."""
        values, mask = self.values(metric, weight, parameter), self.region(region, by)
        kept = np.isfinite(values) if mask is None else np.isfinite(values) & mask
        with np.errstate(invalid="ignore"):
            return (np.where(kept, values, 0.0).sum(-1) / kept.sum(-1)).reshape(-1)

    def validation(self, metric: str, weight: float, parameter: float | None = None) -> NDArray[np.float64]:
        """The mean cost or energy score on the validation cases, (groups, seeds)."""
        found = _variable(self.forecasts, f"validation_{metric}")
        return self._at(found, weight, parameter).transpose("group", "seed").values

    def quantile(self, level: float, weight: float, parameter: float | None = None) -> NDArray[np.float64]:
        """A quantile of every forecast, (groups, seeds, cases)."""
        if level not in LEVELS:
            raise SettingError(f"level must be one of {', '.join(map(str, LEVELS))}, got {level}")
        return self.values("quantile", weight, parameter)[..., LEVELS.index(level)]

    def save(self, folder: Path) -> None:
        """Two tables in parquet and what the study is about in JSON, which is written last."""
        folder.mkdir(parents=True, exist_ok=True)
        tables = {"forecasts": _to_table(self.forecasts, AXES), "cases": _to_table(self.cases, _CASE_AXES)}
        for name, table in tables.items():
            write_atomically(folder / f"{name}.parquet", table.to_parquet(compression="zstd"))
        about = json.dumps({"about": dict(self.about), "block": self.block}, indent=1)
        write_atomically(folder / "study.json", (about + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> "Study":
        try:
            described = json.loads((folder / "study.json").read_text(encoding="utf-8"))
            forecasts = _to_dataset(pd.read_parquet(folder / "forecasts.parquet"), AXES)
            cases = _to_dataset(pd.read_parquet(folder / "cases.parquet"), _CASE_AXES)
            return cls(forecasts, cases, described["about"], described["block"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StudyError(f"the study in {folder} cannot be read: {error}") from error

    def _at(self, array: xr.DataArray, weight: float, parameter: float | None) -> xr.DataArray:
        if not np.isclose(self.weights, weight).any():
            raise SettingError(f"this study has the weights {self.weights}, not {weight}")
        array = array.sel(decision_weight=weight, method="nearest")
        return array.sel(parameter=self._parameter(parameter), method="nearest")

    def _parameter(self, parameter: float | None) -> float:
        if parameter is None:
            return self.parameters[0]
        if not np.isclose(self.parameters, parameter).any():
            raise SettingError(f"this study has the cost parameters {self.parameters}, not {parameter}")
        return parameter


def _variable(dataset: xr.Dataset, name: str) -> xr.DataArray:
    if name not in dataset:
        known = tuple(str(variable) for variable in dataset.data_vars)
        raise StudyError(f"this study has no {name!r}; {did_you_mean(name, known)}")
    return dataset[name]


def _to_table(dataset: xr.Dataset, axes: tuple[str, ...]) -> pd.DataFrame:
    """One line a forecast (or case); quantiles become columns, values single precision."""
    flat = dataset.drop_vars(["quantile", "level"], errors="ignore")
    if "quantile" in dataset:
        columns = {f"quantile_{level}": dataset["quantile"].isel(level=place) for place, level in enumerate(LEVELS)}
        flat = flat.assign({name: column.drop_vars("level", errors="ignore") for name, column in columns.items()})
    present = [axis for axis in axes if axis in flat.dims]
    return flat.to_dataframe(dim_order=present).reset_index()


def _to_dataset(table: pd.DataFrame, axes: tuple[str, ...]) -> xr.Dataset:
    dataset = xr.Dataset.from_dataframe(table.set_index([axis for axis in axes if axis in table.columns]))
    whole_runs = [name for name in dataset.data_vars if str(name).startswith("validation_")]
    dataset = dataset.assign({name: dataset[name].isel(case=0, drop=True) for name in whole_runs})
    columns = [f"quantile_{level}" for level in LEVELS]
    if columns[0] not in dataset:
        return dataset
    quantiles = xr.concat([dataset[name] for name in columns], pd.Index(LEVELS, name="level"))
    return dataset.drop_vars(columns).assign(quantile=quantiles)
