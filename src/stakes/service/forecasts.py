"""The forecasts that can be asked for: the selected weight of a fit, its weight 0, and that of a second fit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stakes.artifacts.fits import Bundle, load_bundle
from stakes.cost_spec.spec import CostSpec
from stakes.costs.parameter_column import RangedParameter
from stakes.data.case_table import CaseTable, as_tensor
from stakes.data.forecasts.quantiles import within_bounds
from stakes.data.stored_cases import STORED_CASES, load_cases
from stakes.errors import SettingError, StakesError
from stakes.forecasting.corrections import Correction, corrected
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.models.ensemble import pooled_members
from stakes.service.refusals import RequestError, naming_field
from stakes.training.settings import resolved_device

_MEMBERS_AT_ONCE = 1 << 16  # after which it is asked whether anybody still waits


@dataclass(frozen=True, eq=False)
class ServedForecast:
    """A forecast that can be asked for by name: some models of a fitted forecaster."""

    name: str  # what requests call it: "chosen", "weight_0" or "second"
    title: str  # what people call it
    decision_weight: float  # that of its training
    forecaster: DecisionAwareForecaster  # the fitted forecaster that the models are of
    models: Sequence[nn.Module]  # the models whose members make the forecast
    correction: Correction | None  # how past errors correct these; None where they do not
    warnings: tuple[str, ...] = ()  # what the test cases of its fit say against it

    @property
    def depends_on(self) -> RangedParameter | None:
        """The parameter of the cost that the models see; None where they see none."""
        column = self.forecaster.parameter_column
        return column.parameter if column.conditioned else None

    def sample(
        self,
        features: NDArray[np.float64],
        members: int,
        field: str = "features",
        parameter: float | Sequence[float] | None = None,
    ) -> Iterator[Tensor]:
        """Members (n, M, D) of some rows after the other, the same whichever rows are asked for together."""
        with naming_field(field):
            rows = as_tensor(features, "features")
        rows = self._with_parameter(rows, parameter)
        device = resolved_device(self.forecaster.device)
        for part in rows.split(max(1, _MEMBERS_AT_ONCE // members)):
            drawn = pooled_members(self.models, part, members, self.forecaster.noise_seed_, device)
            yield within_bounds(corrected(drawn, self.correction), self.forecaster.outcome_bounds_)

    def _with_parameter(self, rows: Tensor, parameter: float | Sequence[float] | None) -> Tensor:
        """What the models see of rows (N, F)."""
        if (ranged := self.depends_on) is None:
            return rows
        if parameter is None:
            raise RequestError("cost", f"the forecast {self.name} depends on {ranged}: the cost must have it")
        values = torch.tensor(parameter, dtype=torch.float64)
        with naming_field(f"cost.{ranged.name}"):
            ranged.require_inside(float(values.min()), float(values.max()))
        column = values.expand(len(rows))[:, None].to(rows)
        return self.forecaster.parameter_column.seen(torch.cat([rows, column], 1))


@dataclass(frozen=True, eq=False)
class ServedFits:
    """One fit, or two that forecast the same targets from the same features."""

    bundles: dict[str, Bundle]  # the fits, by the names of their folders
    forecasts: dict[str, ServedForecast]  # what can be asked for, by name
    cases: CaseTable | None  # cases to look at, that the first fit was judged by; None where it kept none
    notes: tuple[str, ...]  # sentences for whoever starts the service

    @property
    def first(self) -> Bundle:
        """The one that decides unless another is named."""
        return next(iter(self.bundles.values()))

    @property
    def forecaster(self) -> DecisionAwareForecaster:
        """That of the first fit."""
        return self.first.forecaster

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns that a forecast is made from."""
        return _features(self.forecaster)

    @property
    def seen(self) -> bool | None:
        """Whether the first fit was trained on the cases to look at after it was judged; None where nobody knows."""
        known = self.first.known
        if self.cases is None or known.fitted is None or known.quality is None:
            return None
        return known.fitted.cases == known.quality.used

    @property
    def outcome_scale(self) -> float:
        """By how much an outcome differs from another, in its unit."""
        scaling = getattr(self.forecaster.models_[0], "outcome_scaling", None)
        return 1.0 if scaling is None else float(scaling.scale.mean())

    @property
    def typical(self) -> list[float]:
        """A value of each feature to begin with."""
        if self.cases is not None and len(self.cases.features):
            return [float(value) for value in np.median(self.cases.features.numpy(), axis=0)]
        scaling = getattr(self.forecaster.models_[0], "feature_scaling", None)
        return [0.0] * len(self.features) if scaling is None else scaling.mean.double().tolist()


def open_fits(folders: Sequence[Path], cost: str | None) -> ServedFits:
    """Read one fit, or two to compare."""
    first = load_bundle(folders[0], cost=None if cost is None else CostSpec.parse(cost))
    bundles = {_name(folders[0]): first}
    forecasts = _forecasts(first)
    for folder in folders[1:]:
        other = load_bundle(folder, cost=first.forecast.cost)
        _require_alike(first.forecaster, other.forecaster, folders[0], folder)
        name = _name(folder)
        bundles[name if name not in bundles else f"{name} (2)"] = other
        title = f"{name}, {_called(other.forecaster)}"
        forecasts["second"] = _chosen("second", title, other)
    cases, trouble = _cases(folders[0], first)
    notes = tuple(note for bundle in bundles.values() for note in bundle.notes)
    return ServedFits(bundles, forecasts, cases, (*notes, *trouble))


def _forecasts(bundle: Bundle) -> dict[str, ServedForecast]:
    forecaster, called = bundle.forecaster, _called(bundle.forecaster)
    forecasts = {"chosen": _chosen("chosen", f"{called[0].upper()}{called[1:]}", bundle)}
    if models := forecaster.baseline_models_:
        correction = forecaster.baseline_correction_
        forecasts["weight_0"] = ServedForecast("weight_0", "Weight 0", 0.0, forecaster, models, correction)
    return forecasts


def _called(forecaster: DecisionAwareForecaster) -> str:
    """By its decision weight, or by the candidate where that is below decision weights."""
    selection, weight = forecaster.selection_, forecaster.decision_weight_
    return f"weight {weight:g}" if weight or selection is None else selection.forecast_words()


def _chosen(name: str, title: str, bundle: Bundle) -> ServedForecast:
    forecaster = bundle.forecaster
    warnings = tuple(sentence.removesuffix(".") for sentence in bundle.known.alarms)
    weight, models = forecaster.decision_weight_, forecaster.models_
    return ServedForecast(name, title, weight, forecaster, models, forecaster.correction_, warnings)


def _require_alike(first: DecisionAwareForecaster, other: DecisionAwareForecaster, *folders: Path) -> None:
    for what, one, two in (
        ("features", _features(first), _features(other)),
        ("targets", first.target_names_, other.target_names_),
    ):
        if one != two:
            raise SettingError(
                f"two fits are compared on the same cases: the {what} of {folders[0]} are {', '.join(one)}, those of "
                f"{folders[1]} {', '.join(two)}"
            )


def _cases(folder: Path, bundle: Bundle) -> tuple[CaseTable | None, tuple[str, ...]]:
    """The cases that the manifest of the bundle vouches for, or a sentence on why they cannot be read."""
    sha256, state = bundle.files.get(STORED_CASES.as_posix()), bundle.forecast.state
    if sha256 is None:
        return None, ()
    try:
        return load_cases(folder, state.named_features, state.target_names, sha256), ()
    except StakesError as error:
        return None, (f"the cases to look at cannot be read: {error}",)


def _features(forecaster: DecisionAwareForecaster) -> tuple[str, ...]:
    names = getattr(forecaster, "feature_names_in_", None)
    if names is None:
        return tuple(f"x{place}" for place in range(forecaster.n_features_in_))
    return tuple(map(str, names))


def _name(folder: Path) -> str:
    return folder.resolve().name
