"""What a forecast starts from, before a network is trained to improve on it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from stakes.method.argument_checks import require_one_of, whole_number
from stakes.method.training_settings import ImplicitSettings, LinearSettings, ModelSettings
from stakes.training.located_model import LocatedFactory
from stakes.training.many_weights import ESTIMATOR_MODELS, ModelFactory, model_factory

__all__ = ["Base", "ForecastKind", "based_factory", "based_model", "parameters_of_kind"]

Base = Literal["linear", "trees", "none"]
"""What a forecast starts from; see `stakes.DecisionAwareForecaster`."""

ForecastKind = Literal["climatology", "linear", "network"]
"""What the models of a forecast are: without features, linear, or the model that the parameters ask for."""


def parameters_of_kind(parameters: Mapping[str, Any], kind: ForecastKind) -> dict[str, Any]:
    """The parameters of a forecaster for one of its rungs.

    Args:
        parameters: Of `stakes.DecisionAwareForecaster`, by name.
        kind: What its models are to be; linear ones and climatology take no base, one model, and see no parameter of
            the cost.
    """
    if kind == "network":
        return dict(parameters)
    model = LinearSettings(constant=kind == "climatology")
    simple = {"model": model, "base": "none", "ensemble": 1, "decision_weight": "auto", "weights": (0.0,)}
    simple |= {"conditioned": False}
    return {**parameters, **simple}


def based_model(
    model: str | ModelSettings | ModelFactory, base: str, gap: int = 0
) -> str | ModelSettings | ModelFactory:
    """The model on its base: an implicit one gets a linear start unless the base is "none".

    Args:
        model: A name of `ESTIMATOR_MODELS`, settings, or the user's own function; of these an implicit model can have a
            linear start, and all others are left as they are.
        base: "linear", "trees" or "none".
        gap: How many rows the lead time has, which the cross-validation of a linear model leaves out beside its blocks.
    """
    require_one_of("base", base, get_args(Base))
    gap = whole_number("gap", gap, 0)
    if isinstance(model, str):
        model = ESTIMATOR_MODELS.get(model, model)
    if isinstance(model, ImplicitSettings) and (base != "none" or model.linear):
        return replace(model, linear=True, gap=gap or model.gap)
    return replace(model, gap=gap or model.gap) if isinstance(model, LinearSettings) else model


def based_factory(model: str | ModelSettings | ModelFactory, base: str, gap: int = 0) -> ModelFactory:
    """What makes the model on its base from the numbers of features and outcomes.

    Args:
        model: A name of `ESTIMATOR_MODELS`, settings, or the user's own function.
        base: "linear", "trees" or "none". With trees the model takes their forecasts as D more features, and adds them.
        gap: How many rows the lead time has.
    """
    factory = model_factory(based_model(model, base, gap))
    return LocatedFactory(factory) if base == "trees" else factory
