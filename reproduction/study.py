"""A study: the evaluated forecasts of one task and model at every decision weight, as labelled arrays.

`forecasts` has the axes parameter (of the cost), group (data set), decision_weight, seed and case; `cases` what does
not depend on the forecast: outcome, time, the observed regions, climatology's cost, the truth where it is known.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from stakes.data.tables.columns import column_times, require_columns
from stakes.errors import SettingError, StakesError, did_you_mean
from stakes.evaluation.intervals import Resampling, Sampled
from stakes.evaluation.metrics import LEVELS
from stakes.files import JSON_LIMIT, read_bytes, write_atomically
from stakes.settings import shown


class StudyError(StakesError):
    """A study's files are missing or damaged, or it does not have what is asked of it."""


AXES = ("parameter", "group", "decision_weight", "seed", "case")
RegionBy = Literal["observed", "forecast"]
_CASE_AXES = ("parameter", "group", "case")
_LARGEST_FILE = 2**30  # bytes
_MAY_BE_TIMES = ("time", "case")  # columns of a table
_NUMBERS = {"boolean", "integer", "floating", "empty"}  # what pandas calls a column's values, missing ones apart


@dataclass(frozen=True, eq=False)
class Study:
    """Forecasts of one task, one model and one choice of settings, judged on the test cases."""

    forecasts: xr.Dataset
    cases: xr.Dataset
    about: Mapping[str, Any]
    block: int = 1  # how many neighbouring cases depend on each other

    @property
    def weights(self) -> list[float]:
        """The decision weights."""
        return [float(weight) for weight in self.forecasts.variables["decision_weight"].values]

    @property
    def parameters(self) -> list[float]:
        """The parameters of the cost."""
        return [float(value) for value in self.forecasts.variables["parameter"].values]

    @property
    def seeds(self) -> int:
        """How many seeds were trained."""
        return self.forecasts.sizes["seed"]

    @property
    def groups(self) -> int:
        """How many data sets there are."""
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
        variable = _variable(self.cases, name)
        if "parameter" in variable.dims:
            variable = variable.isel(parameter=self._parameter(parameter))
        return variable.transpose("group", "case").values

    def region(self, name: str | None, by: RegionBy = "observed") -> NDArray[np.bool_] | None:
        """Which cases belong to a region, (groups, 1, cases); None for all.

        "observed" goes by the outcome, as the paper does: such scores reward forecasts that exaggerate, since cases are
        chosen by what only became known later (the forecaster's dilemma, Lerch et al. 2017). "forecast" takes as many
        cases, those to which all forecasts of the study, of every weight, parameter and seed, give the region the
        highest mean probability: known beforehand, the same for every weight, and not by the errors of one of them.
        """
        if name is None:
            return None
        if name not in self.regions:
            raise SettingError(f"there is no region {name!r}; {did_you_mean(name, tuple(self.regions))}")
        if (name, by) not in self._known_regions:
            self._known_regions[name, by] = self._region(name, by)
        return self._known_regions[name, by]

    @cached_property
    def _known_regions(self) -> dict[tuple[str, RegionBy], NDArray[np.bool_]]:
        return {}

    def _region(self, name: str, by: RegionBy) -> NDArray[np.bool_]:
        observed = self.case_values(f"observed_{name}").astype(bool)  # (groups, cases)
        if by == "observed":
            return observed[:, None]
        every = _variable(self.forecasts, f"mass_{name}").transpose("group", "case", ...).values
        mass = defined_mean(every.reshape(*every.shape[:2], -1), -1)  # (groups, cases)
        ranks = np.argsort(np.argsort(-mass, axis=1, kind="stable"), axis=1)
        return (ranks < observed.sum(1, keepdims=True))[:, None]

    def chosen(
        self,
        metric: str,
        weight: float,
        parameter: float | None = None,
        region: str | None = None,
        by: RegionBy = "observed",
    ) -> NDArray[np.float64]:
        """A metric of every forecast at a weight, NaN outside a region, (groups, seeds, cases)."""
        values, mask = self.values(metric, weight, parameter), self.region(region, by)
        return values if mask is None else np.where(mask, values, np.nan)

    def mean(
        self,
        metric: str,
        weight: float,
        parameter: float | None = None,
        region: str | None = None,
        by: RegionBy = "observed",
    ) -> Sampled:
        """The mean of a metric over seeds and cases, all or those of a region, with its replicates."""
        return self.resampling.mean(self.chosen(metric, weight, parameter, region, by))

    def pair(
        self,
        metric: str,
        weight: float,
        parameter: float | None = None,
        region: str | None = None,
        by: RegionBy = "observed",
    ) -> tuple[Sampled, Sampled]:
        """The means of a metric at a weight and at weight 0, over the forecasts and cases that are finite at both.

        A seed that failed at one weight is left out of the other too, so that no difference comes of the seeds.
        """
        values, baseline = (self.chosen(metric, each, parameter, region, by) for each in (weight, 0.0))
        return self.resampling.pair(values, baseline)

    def seed_means(
        self,
        metric: str,
        weight: float,
        parameter: float | None = None,
        region: str | None = None,
        by: RegionBy = "observed",
    ) -> NDArray[np.float64]:
        """The mean of a metric for every group and seed, (groups seeds,)."""
        return defined_mean(self.chosen(metric, weight, parameter, region, by), -1).reshape(-1)

    def validation(self, metric: str, weight: float, parameter: float | None = None) -> NDArray[np.float64]:
        """The mean cost or energy score on the validation cases, (groups, seeds)."""
        variable = _variable(self.forecasts, f"validation_{metric}")
        return self._at(variable, weight, parameter).transpose("group", "seed").values

    def quantile(self, level: float, weight: float, parameter: float | None = None) -> NDArray[np.float64]:
        """A quantile of every forecast, (groups, seeds, cases)."""
        if level not in LEVELS:
            raise SettingError(f"level must be one of {', '.join(map(str, LEVELS))}, got {level}")
        return self.values("quantile", weight, parameter)[..., LEVELS.index(level)]

    def save(self, folder: Path) -> None:
        """Two tables in parquet and what the study is about in JSON, written last: without it there is no study."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "study.json").unlink(missing_ok=True)  # an interrupted save must not pass for a whole one
        tables = {"forecasts": _to_table(self.forecasts, AXES), "cases": _to_table(self.cases, _CASE_AXES)}
        for name, table in tables.items():
            write_atomically(folder / f"{name}.parquet", table.to_parquet(compression="zstd"))
        about = json.dumps({"about": dict(self.about), "block": self.block}, indent=1)
        write_atomically(folder / "study.json", (about + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> "Study":
        """The study that was saved in a folder."""
        try:
            about, block = _described(read_bytes(folder / "study.json", JSON_LIMIT).decode())
            forecasts = _to_dataset(_read_table(folder / "forecasts.parquet", AXES), AXES)
            cases = _to_dataset(_read_table(folder / "cases.parquet", ("group", "case", "outcome")), _CASE_AXES)
            if not forecasts.indexes["case"].equals(cases.indexes["case"]):
                raise ValueError("forecasts.parquet and cases.parquet must be of the same cases")
            return cls(forecasts, cases, about, block)
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise StudyError(f"the study in {folder} cannot be read: {error}") from error

    def _at(self, array: xr.Variable, weight: float, parameter: float | None) -> xr.Variable:
        places = {"decision_weight": _place("weights", self.weights, weight), "parameter": self._parameter(parameter)}
        return array.isel(places)  # by place: several times as fast as by value

    def _parameter(self, parameter: float | None) -> int:
        return 0 if parameter is None else _place("cost parameters", self.parameters, parameter)


def defined_mean(values: ArrayLike, axis: int | None = None) -> NDArray[np.float64]:
    """The mean along an axis, or of all, of what is finite; NaN where nothing is, as where every run failed."""
    numbers = np.asarray(values, dtype=np.float64)
    kept = np.isfinite(numbers)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(kept, numbers, 0.0).sum(axis) / kept.sum(axis))


def defined_deviation(values: ArrayLike, axis: int) -> NDArray[np.float64]:
    """The standard deviation along an axis of what is finite; NaN where nothing is."""
    numbers = np.asarray(values, dtype=np.float64)
    return np.sqrt(defined_mean((numbers - np.expand_dims(defined_mean(numbers, axis), axis)) ** 2, axis))


def _place(what: str, known: list[float], wanted: float) -> int:
    near = 1e-8 + 1e-5 * abs(wanted)  # as numpy's `isclose`, which takes as long as all else that a figure looks up
    for place, value in enumerate(known):
        if abs(value - wanted) <= near:
            return place
    raise SettingError(f"this study has the {what} {known}, not {wanted}")


def _variable(dataset: xr.Dataset, name: str) -> xr.Variable:
    """Without its coordinates, which a figure would look up thousands of times."""
    if name not in dataset:
        known = tuple(str(variable) for variable in dataset.data_vars)
        raise StudyError(f"this study has no {name!r}; {did_you_mean(name, known)}")
    return dataset.variables[name]


def _described(text: str) -> tuple[Mapping[str, Any], int]:
    """What a study is about, and its block."""
    described = json.loads(text)
    about, block = described["about"], described["block"]
    if not isinstance(about, Mapping):
        raise ValueError(f"about must be an object, got {about!r}")
    members, targets = about.get("members", 1), about.get("targets", [])
    if type(members) is not int or members < 1:
        raise ValueError(f"about.members must be a positive whole number, got {shown(members)}")
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise ValueError(f"about.targets must be a list of names, got {shown(targets)}")
    if type(block) is not int or block < 1:
        raise ValueError(f"block must be a positive whole number, got {block!r}")
    return about, block


def _read_table(path: Path, known: tuple[str, ...]) -> pd.DataFrame:
    """One of the tables of a study: numbers, times in a column time, either in a column case; `known` must be there."""
    table = pd.read_parquet(io.BytesIO(read_bytes(path, _LARGEST_FILE)))
    require_columns(table, known, path.name)
    for name in table.columns:
        times = pd.api.types.is_datetime64_dtype(table[name])
        if name == "time" and not times:
            raise ValueError(f"time in {path.name} must hold times without a zone")
        if not (times and name in _MAY_BE_TIMES) and pd.api.types.infer_dtype(table[name]) not in _NUMBERS:
            raise ValueError(f"{name} in {path.name} must hold numbers")
        if name in AXES and not np.isfinite(table[name]).all():
            raise ValueError(f"{name} in {path.name} must be a finite number in every row")
    if "time" in table:
        column_times(table, "time", unique=False)
    if any(table[name].isna().all() for name in known):  # as where there are no rows
        raise ValueError(f"{path.name} must have at least one case, and all of {', '.join(known)}")
    return table


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
