"""The decision in models of neuralforecast (extra `neuralforecast`): `NHITS(..., loss=DecisionAwareLoss(...))`."""

from typing import Any

from torch import Tensor, nn
from torch.distributions import Normal

from stakes.argument_checks import require_count
from stakes.costs.cost import Cost
from stakes.errors import SettingError, ShapeError
from stakes.integrations import require_package
from stakes.integrations.forecast_objective import (
    Across,
    FactorForecast,
    FactorHead,
    ForecastObjective,
    SecondTerm,
    refuse_unknown,
)

require_package("neuralforecast", least="3.3", extra="neuralforecast")

from neuralforecast import register_loss  # noqa: E402

_LAYOUT = 1  # of the arguments and of the numbers that a network emits; another one is another version


class DecisionAwareLoss(nn.Module):
    """A loss for the models of neuralforecast that trains joint members by a score and by the cost of a decision.

    A model forecasts location, scale and loadings of a `FactorHead`, and `predict` writes its mean and the columns
    `-sample-1` to `-sample-100`. Members are joint draws of all hours, and of all series where the model is
    multivariate, as TSMixerx is. The cost sees the unit of `y`, whatever the model's `scaler_type`, which should be
    "standard" or the like; a `local_scaler_type` of `NeuralForecast` would change that unit and must be left out.

    A model with this loss is saved and loaded as any other where the cost is text and this module is imported.

    Args:
        cost: What a decision costs, a cost or its text, such as "shortfall:penalty=20".
        across: What belongs to one decision and is scored together: "hours" of a series, "series" at an hour, "both",
            or "none".
        score: "energy", "pointwise", or both, as in "energy=1,pointwise=1".
        second_term: "decision", or "total" for the CRPS of what the decision is about.
        decision_weight: The share of the second term, from 0 to 1.
        factors: How many kinds of noise the hours and series of a forecast share.
        members: How many members each forecast has in a training step.
        samples: How many members `predict` writes.
        pretraining_steps: Training steps on the score alone that come first.
        layout: What a saved model keeps to be known by; leave it as it is.
        others: What another version of stakes has saved, which is refused.
    """

    return_params = False  # which neuralforecast asks for
    is_distribution_output = True

    def __init__(
        self,
        cost: Cost | str,
        across: Across,
        score: str = "energy",
        second_term: SecondTerm = "decision",
        decision_weight: float = 0.1,
        factors: int = 8,
        members: int = 32,
        samples: int = 100,
        pretraining_steps: int = 0,
        layout: int = _LAYOUT,
        **others: Any,
    ) -> None:
        super().__init__()
        refuse_unknown("DecisionAwareLoss", layout, _LAYOUT, others)
        require_count("samples", samples)
        self.objective = ForecastObjective(
            cost, across, score, second_term, decision_weight, members, pretraining_steps
        )
        self.head = FactorHead(factors)
        # neuralforecast reads the arguments of a loss that it saves from its attributes.
        self.cost, self.across, self.score, self.second_term = cost, across, score, second_term
        self.decision_weight, self.factors, self.members, self.samples = decision_weight, factors, members, samples
        self.pretraining_steps, self.layout = pretraining_steps, layout
        self.outputsize_multiplier = self.head.outputs
        self.output_names = ["", *(f"-sample-{place + 1}" for place in range(samples))]

    def domain_map(self, output: Tensor) -> FactorForecast:
        """The forecast, in the unit that the model sees, of what a network emits.

        Args:
            output: (batch, hours, series x numbers a value), as every model of neuralforecast emits it.
        """
        if output.shape[-1] % self.head.outputs:
            raise ShapeError(
                f"a model must emit {self.head.outputs} numbers for each hour and series, got {tuple(output.shape)}"
            )
        return self.head.forecast(output.reshape(*output.shape[:2], -1, self.head.outputs))

    def scale_decouple(self, output: FactorForecast, loc: Tensor, scale: Tensor) -> tuple[FactorForecast, Tensor]:
        """The forecast in the unit of `y`, and what the model's scaler had divided that by.

        Args:
            output: What `domain_map` has made.
            loc: What the scaler had subtracted, (batch, 1, series).
            scale: What it had divided by, likewise.
        """
        return output.in_units(loc, scale), scale

    def forward(self, y: Tensor, distr_args: tuple[FactorForecast, Tensor], mask: Tensor | None = None) -> Tensor:
        """The mean objective of a batch, one number.

        Args:
            y: What happened, (batch, hours, series).
            distr_args: What `scale_decouple` has made.
            mask: What each value counts, 0 where it is not known; a decision about it is left out. None counts all.
        """
        forecast, unit = distr_args
        return self.objective(forecast, y, unit, mask)

    def sample(
        self, distr_args: tuple[FactorForecast, Tensor], num_samples: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Members, means, and again the members, where neuralforecast expects quantiles and writes a column for each.

        Args:
            distr_args: What `scale_decouple` has made.
            num_samples: None; recurrent models, which draw hour by hour, give a number and are refused.
        """
        if num_samples is not None:
            raise SettingError(
                "a recurrent model samples each hour by itself, so its members are not joint draws of all hours; use a "
                "model that forecasts all hours at once, such as NHITS or TSMixerx, or recurrent=False"
            )
        forecast, _ = distr_args
        members = forecast.draw(self.samples).movedim(1, -1)
        return members, forecast.location[..., None], members

    def get_distribution(self, distr_args: tuple[FactorForecast, Tensor]) -> Normal:
        """The distribution of each value by itself, for a `valid_loss` of point forecasts.

        Args:
            distr_args: What `scale_decouple` has made.
        """
        forecast, _ = distr_args
        return Normal(forecast.location, forecast.spread())

    def update_quantile(self, q: list[float] | None = None) -> None:
        """Refuse quantiles: `predict` writes members.

        Args:
            q: Levels; None asks for none.
        """
        if q is not None:
            raise SettingError(
                "DecisionAwareLoss writes members, so predict takes no level or quantiles; compute quantiles from the "
                "columns -sample-1, -sample-2, ..."
            )


register_loss(DecisionAwareLoss, "stakes.DecisionAwareLoss")
