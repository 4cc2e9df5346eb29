"""The decision in torch models of Darts (extra `darts`): `TiDEModel(..., likelihood=DecisionAwareLikelihood(...))`."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.distributions import Normal

from stakes.argument_checks import require_finite, require_positive
from stakes.costs.cost import Cost
from stakes.errors import SettingError, ShapeError
from stakes.integrations import require_package
from stakes.integrations.forecast_objective import Across, FactorHead, ForecastObjective, SecondTerm, refuse_unknown

require_package("darts", least="0.48", extra="darts")

from darts.utils.likelihood_models.base import LikelihoodType  # noqa: E402
from darts.utils.likelihood_models.torch import TorchLikelihood  # noqa: E402
from darts.utils.serialization import add_safe_globals  # noqa: E402

_LAYOUT = 1  # of the settings and of the numbers that a network emits; another one is another version


class DecisionAwareLikelihood(TorchLikelihood):  # type: ignore[misc] # Darts is not there when types are checked
    """A likelihood for the torch models of Darts that trains joint members by a score and by the cost of a decision.

    A model forecasts location, scale and loadings of a `FactorHead`; `predict(n, num_samples=100)` draws members, each
    a joint draw of all hours and components of a series. Darts models see series as they are given, mostly scaled;
    `scale` and `shift` say what they were before, since the cost is in that unit. Leave
    `use_reversible_instance_norm` off: it takes every number of the head for a location.

    A model with this likelihood is saved, and loaded without `trusted=True`, where the cost is text and this module is
    imported.
    """

    def __init__(
        self,
        cost: Cost | str,
        across: Across,
        scale: ArrayLike | None = None,
        shift: ArrayLike = 0.0,
        score: str = "energy",
        second_term: SecondTerm = "decision",
        decision_weight: float = 0.1,
        factors: int = 8,
        members: int = 32,
        pretraining_steps: int = 0,
    ) -> None:
        if scale is None and decision_weight:
            raise SettingError(
                "scale must be given, since the cost is in physical units: what the series were divided by before "
                "training, such as the factors of their Scaler, or 1.0 where they are in the unit of the cost"
            )
        settings = {"cost": cost, "across": across, "scale": 1.0 if scale is None else _plain(scale)}
        settings |= {"shift": _plain(shift), "score": score, "second_term": second_term}
        settings |= {"decision_weight": decision_weight, "factors": factors, "members": members}
        self._set(settings | {"pretraining_steps": pretraining_steps})
        super().__init__(LikelihoodType.Gaussian, self.head.names)

    def _set(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        own = ("scale", "shift", "factors")
        require_positive("scale", torch.as_tensor(settings["scale"], dtype=torch.float64))
        require_finite("shift", torch.as_tensor(settings["shift"], dtype=torch.float64))
        self.head = FactorHead(settings["factors"])
        self.objective = ForecastObjective(**{name: value for name, value in settings.items() if name not in own})

    def compute_loss(self, model_output: Tensor, target: Tensor, sample_weight: Tensor | None) -> Tensor:
        """The mean objective of a batch, one number."""
        shift, scale = (self._of_components(name, target) for name in ("shift", "scale"))
        forecast = self.head.forecast(model_output).in_units(shift, scale)
        if sample_weight is not None:
            sample_weight = sample_weight.expand_as(target)
        return self.objective(forecast, shift + scale * target, scale.expand_as(target), sample_weight)

    def _of_components(self, name: str, target: Tensor) -> Tensor:
        """Scale or shift, as a tensor that broadcasts against (batch, hours, components)."""
        value = torch.as_tensor(self.settings[name], dtype=target.dtype, device=target.device)
        if value.dim() > 1 or value.numel() not in (1, target.shape[-1]):
            raise ShapeError(
                f"{name} must be one number, or one for each of {target.shape[-1]} components, got {value.numel()}"
            )
        return value

    def sample(self, model_output: Tensor) -> Tensor:
        """One member of each forecast, (batch, hours, components): Darts repeats a forecast for each that it wants."""
        return self.head.forecast(model_output).draw(1).squeeze(1)

    def _params_from_output(self, model_output: Tensor) -> tuple[Tensor, ...]:
        forecast = self.head.forecast(model_output)
        return forecast.location, forecast.scale, *forecast.loadings.unbind(-1)

    def _distr_from_params(self, params: tuple[Tensor, ...]) -> Normal:
        location, scale, *loadings = params
        return Normal(location, torch.sqrt(scale**2 + sum(loading**2 for loading in loadings)))

    def __getstate__(self) -> dict[str, Any]:
        """Numbers and texts alone, which Darts loads without trust in the file."""
        others = {name: value for name, value in vars(self).items() if name not in ("head", "objective")}
        kept = {"scales": self.objective.scales.tolist(), "steps": int(self.objective.steps)}
        return {"layout": _LAYOUT, "likelihood": others | {"_likelihood_type": None}, "kept": kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        refuse_unknown("DecisionAwareLikelihood", state.get("layout", 0), _LAYOUT, {})
        self.__dict__ |= state["likelihood"] | {"_likelihood_type": LikelihoodType.Gaussian}
        self._set(self.settings)
        self.objective.scales.copy_(torch.tensor(state["kept"]["scales"]))
        self.objective.steps.fill_(state["kept"]["steps"])


def _plain(values: ArrayLike) -> float | list[float]:
    """Numbers as Python's own, which are saved without trust in the file."""
    numbers: float | list[float] = np.asarray(values, dtype=np.float64).tolist()
    return numbers


add_safe_globals([DecisionAwareLikelihood])
