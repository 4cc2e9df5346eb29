"""What a forecaster is trained on, and how: its parameters, checked, and its rows as a plan for the training."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state  # type: ignore[import-untyped]
from torch import Tensor

from stakes.data.cases import Cases
from stakes.data.estimator_input import alternate_blocks
from stakes.data.outcome_bounds import outcome_bounds
from stakes.data.time_axis import Times
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.headroom import resolved_block
from stakes.forecaster.base import based_factory, based_model
from stakes.forecaster.trees import TreeLocation, fit_trees
from stakes.method.argument_checks import require_decision_weight, require_finite, whole_number
from stakes.method.parameter_column import ParameterColumn
from stakes.method.training_settings import TrainingSettings
from stakes.training.many_weights import TrainingPlan, automatic_settings, resolved_device

__all__ = ["DividedRows", "PlannedFit", "divided_rows", "plan_fit"]

_MEMBERS_TO_CHOOSE = 200  # of the pooled forecasts by which a weight is chosen


class PlannedFit(NamedTuple):
    """A plan for the training, and how its rows are divided.

    Attributes:
        training: What is to be trained.
        validation_rows: How many rows, the last ones, do not train.
        block: How many neighbouring rows belong together.
        trees: What the model adds its forecast to, fitted to the training rows; None on another base.
        validation: The rows that do not train, with what trees forecast of them.
        judged_rows: Which of these choose a weight, and stop no training.
    """

    training: TrainingPlan
    validation_rows: int
    block: int
    trees: TreeLocation | None
    validation: Cases
    judged_rows: NDArray[np.int64]


class DividedRows(NamedTuple):
    """Which rows do what.

    Attributes:
        first: The first validation row; those before it train.
        block: How many neighbouring rows belong together.
        stopping: The validation rows that decide when to stop, counted from the first of them.
        judged: Those that choose the weight, likewise.
    """

    first: int
    block: int
    stopping: NDArray[np.int64]
    judged: NDArray[np.int64]


def plan_fit(
    parameters: Mapping[str, Any],
    features: Tensor,
    outcome: Tensor,
    times: Times | None,
    *,
    start: Sequence[Mapping[str, Tensor]] = (),
    score_only: bool = False,
    all_rows: bool = False,
) -> PlannedFit:
    """Plan the training of a forecaster; parameters that cannot be used are refused.

    Args:
        parameters: Of `stakes.DecisionAwareForecaster`, by name.
        features: All rows (n, F), in the order of time; the parameter of a cost with a range is their last column.
        outcome: Their outcomes (n, D).
        times: When these happened (n,); None where it is not known.
        start: The weights of the models to start from, one of each of the ensemble; none to start afresh.
        score_only: Whether weight 0 alone is trained, and judged on validation rows that do not stop the training.
        all_rows: Whether the validation rows are among those that train.
    """
    weights = (0.0,) if score_only else _weights(parameters)
    judging = score_only or parameters["decision_weight"] == "auto"
    members, ensemble = whole_number("members", parameters["members"], 2), _ensemble(parameters, start)
    if members < ensemble:
        raise SettingError(f"members must be at least one of each of the {ensemble} models, got {members}")
    if parameters["tolerance"] is not None:
        require_finite("tolerance", parameters["tolerance"])
    fraction = parameters["validation_fraction"]
    first, block, stopping, judged = divided_rows(fraction, parameters["block"], len(outcome), times, judging)
    lead = whole_number("gap", parameters["gap"], 0)
    judged = judged[judged >= lead] if judged[-1] >= lead else judged  # outcomes before that trained the models
    trained = len(outcome) if all_rows else first
    base = parameters["model"], parameters["base"], parameters["gap"]
    settings = _settings(parameters, first, linear=getattr(based_model(*base), "linear", False) is True)
    random = check_random_state(parameters["random_state"])
    seed, noise_seed = (int(random.randint(np.iinfo(np.int32).max)) for _ in range(2))
    trees, column = None, ParameterColumn.of(parameters["cost"], parameters["conditioned"])
    if parameters["base"] == "trees":
        trees, features = _with_locations(features, outcome[:trained], parameters["gap"], seed, column)
    validation = Cases(features[first:], outcome[first:])
    training = TrainingPlan(
        cost=parameters["cost"],
        factory=based_factory(*base),
        settings=replace(settings, pretraining_epochs=0) if start else settings,
        weights=weights,
        seeds=tuple(range(seed, seed + ensemble)),
        train=Cases(features[:trained], outcome[:trained]),
        stopping=validation.rows(stopping),
        judged=validation.rows(judged) if judging else None,
        members=max(ensemble, min(members, _MEMBERS_TO_CHOOSE)),
        noise_seed=noise_seed,
        device=resolved_device(parameters["device"]),
        start=tuple(dict(state) for state in start),
        bounds=outcome_bounds(parameters["outcome_bounds"], parameters["cost"], outcome),
        conditioned=column.conditioned,
    )
    return PlannedFit(training, len(validation), block, trees, validation, judged)


def divided_rows(
    validation_fraction: float, block: int | Literal["auto"], rows: int, times: Times | None, judging: bool = True
) -> DividedRows:
    """Which of so many rows train, stop the training and choose a weight.

    Args:
        validation_fraction: The share of the rows, the last ones, that do not train.
        block: How many neighbouring rows belong together; "auto" tells by their times.
        rows: How many rows there are.
        times: Their times (n,), in order; None where they have none.
        judging: Whether a weight is to be chosen; otherwise all validation rows stop the training.
    """
    held = _validation_rows(validation_fraction, rows, judging)
    first = rows - held
    together = resolved_block(block, held, None if times is None else times[first:])
    stopping, judged = alternate_blocks(held, together) if judging else (np.arange(held), np.arange(held))
    return DividedRows(first, together, stopping, judged)


def _with_locations(
    features: Tensor, outcome: Tensor, gap: int, seed: int, column: ParameterColumn
) -> tuple[TreeLocation, Tensor]:
    """Trees for the first rows, whose outcomes these are; and the features (n, F + D) with what trees forecast.

    The rows that the trees were fitted to have the forecasts of trees that saw neither them nor their neighbours. Trees
    see no parameter of the cost, which stays the last column.
    """
    if column.conditioned:
        raise SettingError("conditioned goes with base linear or none, got base trees")
    first, known = len(outcome), column.without(features)
    trees, out_of_fold = fit_trees(known[:first], outcome, gap, seed)
    locations = torch.cat([out_of_fold, trees(known[first:])])
    return trees, torch.cat([known, locations, features[:, known.shape[1] :]], 1)


def _weights(parameters: Mapping[str, Any]) -> tuple[float, ...]:
    weight = parameters["decision_weight"]
    if weight == "auto":
        return tuple(sorted({0.0, *map(float, parameters["weights"])}))
    require_decision_weight(weight, expected='be "auto" or lie in [0, 1]')
    return tuple(sorted({*([0.0] if parameters["baseline"] else ()), float(weight)}))


def _ensemble(parameters: Mapping[str, Any], start: Sequence[object]) -> int:
    ensemble = whole_number("ensemble", parameters["ensemble"])
    if start and len(start) != ensemble:
        raise SettingError(f"ensemble must be the {len(start)} of the fit before, with warm_start, got {ensemble}")
    return ensemble


def _validation_rows(fraction: Any, rows: int, judging: bool) -> int:
    least = 2 if judging else 1
    if isinstance(fraction, str | bool) or not 0 < fraction < 1:
        raise SettingError(f"validation_fraction must lie between 0 and 1, got {fraction!r}")
    if rows <= least:
        raise ShapeError(
            f"X must have at least {least + 1} rows, one to train on and {least} for validation, got "
            f"{rows} sample{'s' if rows > 1 else ''}"
        )
    return min(max(least, round(fraction * rows)), rows - 1)


def _settings(parameters: Mapping[str, Any], cases: int, linear: bool) -> TrainingSettings:
    """How to train on so many cases, from a linear start or not."""
    epochs = None if parameters["epochs"] is None else whole_number("epochs", parameters["epochs"])
    training = parameters["training"]
    if training is None:
        training = automatic_settings(cases, epochs, linear)
    if not isinstance(training, TrainingSettings):
        raise SettingError(f"training must be TrainingSettings, got {training!r}")
    count = parameters["decision_member_count"]
    members = None if count is None else whole_number("decision_member_count", count)
    given = {"epochs": epochs, "score": parameters["scoring_rule"], "decision_member_count": members}
    return replace(training, **{name: value for name, value in given.items() if value is not None})
