"""Any regressor as a maker of decisions, by the conventions of scikit-learn, and a scorer of decisions."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone, is_classifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import (
    _check_method_params,
    _check_y,
    _num_samples,
    check_is_fitted,
    column_or_1d,
    indexable,
)
from torch import Tensor, nn

from stakes.argument_checks import whole_number
from stakes.costs.cost import Cost, has_part_of_each, ranged_parameter, require_cost, with_parameter
from stakes.costs.member_weights import case_parts
from stakes.data.case_table import as_table, outcome_names
from stakes.data.outcome_bounds import outcome_bounds
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.case_metrics import todays_cost
from stakes.forecasting.decisions import Decisions, given_parameter, solve_decisions
from stakes.forecasting.error_model import quantile_levels
from stakes.forecasting.member_answers import MemberPart
from stakes.models.linear import LinearModel, time_blocks
from stakes.scores.member_reduction import reduce_members

Floats = NDArray[np.float64]
_BLOCKS = 5  # of time, each predicted by a fit on the others
_MOST_VECTORS = 5000  # of errors of several outcomes, from which members are chosen


class DecisionRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Decisions from any regressor of scikit-learn: `predict` is the action of least expected cost.

    Members of the forecast are the predictions plus out-of-fold errors of the regressor. A model that states its
    uncertainty provides them itself, by `sample`, `predict_quantiles`, `predict_proba`, `pred_dist` as in NGBoost, or
    `predict(X, quantiles=...)` as in quantile-forest; of a pipeline, the last step does. It works within a `Pipeline`,
    or around one.

    Args:
        estimator: Regressor that forecasts the outcome; None for ridge regression.
        cost: What a decision costs; None for the newsvendor of equal prices. One of its parameters may be a range: then
            `predict` and `score` take its value for each row.
        cv: How rows are set aside for errors, as scikit-learn's `cv`: a number of folds of neighbouring rows, or a
            splitter such as `TimeSeriesSplit()`.
        members: How many members stand for the errors of one outcome, at most for those of several.
        outcome_bounds: What outcomes cannot cross, (lower, upper); "auto" takes what the cost knows or the outcomes
            show; None for none.

    Attributes:
        estimator_: The fitted regressor.
        errors_: The errors that make members, (K, D); None where the model states its uncertainty.
        error_weights_: The weight of each, (K,); None for equal weights.
        target_names_: The names of the outcomes.
        n_features_in_: Number of features, where the regressor knows it.
        feature_names_in_: Their names, where it knows.

    >>> import numpy as np, stakes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> random = np.random.default_rng(0)
    >>> X = random.uniform(size=(400, 2))
    >>> y = 10 * X[:, 0] + random.normal(size=400)
    >>> cost = stakes.NewsvendorCost(underage=9.0, overage=1.0, lower=0.0, upper=20.0)
    >>> buyer = stakes.DecisionRegressor(RandomForestRegressor(random_state=0), cost).fit(X, y)
    >>> buyer.predict(X[:3]).shape, buyer.sample(X[:3]).shape, bool(np.mean(buyer.predict(X) > y) > 0.85)
    ((3,), (3, 100, 1), True)
    """

    def __init__(
        self,
        estimator: Any = None,
        cost: Cost | None = None,
        *,
        cv: Any = 5,
        members: int = 100,
        outcome_bounds: Any = "auto",
    ) -> None:
        self.estimator = estimator
        self.cost = cost
        self.cv = cv
        self.members = members
        self.outcome_bounds = outcome_bounds

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self._estimator)
        tags.input_tags = own.input_tags
        each = self.cost is not None and has_part_of_each(self.cost, 2)  # else one action is about all outcomes
        tags.target_tags.multi_output = own.target_tags.multi_output and each
        tags.regressor_tags.poor_score = True  # a cost, where scikit-learn expects R^2
        return tags

    @property
    def _estimator(self) -> Any:
        return Ridge() if self.estimator is None else self.estimator

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the regressor to all rows, and once more for each fold, whose errors make members.

        Args:
            X: Features (n, F), a table or whatever the regressor takes.
            y: Outcomes (n,) or (n, D).
            fit_params: What the regressor's `fit` takes besides, such as `sample_weight`; with metadata routing what it
                has asked for.
        """
        count = whole_number("members", self.members)
        rows, y = indexable(X if hasattr(X, "shape") else np.asarray(X), y)
        self.target_names_, outcome = _outcomes(y)
        width = len(self.target_names_)
        cost = _default_cost(outcome) if self.cost is None else self.cost
        require_cost(cost)
        self.cost_ = cost
        routed = get_config()["enable_metadata_routing"]
        params = process_routing(self, "fit", **fit_params).estimator.fit if routed else fit_params
        estimator = self._estimator
        self.estimator_ = clone(estimator).fit(rows, outcome, **params)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.errors_ = self.error_weights_ = None
        if not tells_uncertainty(self.estimator_):
            errors = []
            for train, test in check_cv(self.cv, outcome, classifier=is_classifier(estimator)).split(rows, outcome):
                fold = clone(estimator).fit(
                    _safe_indexing(rows, train), outcome[train], **_check_method_params(rows, params, indices=train)
                )
                expected = np.asarray(fold.predict(_safe_indexing(rows, test)), dtype=np.float64)
                errors.append(outcome[test].reshape(-1, width) - expected.reshape(-1, width))
            self.errors_, self.error_weights_ = _chosen_errors(np.concatenate(errors), count)
        self.bounds_ = outcome_bounds(self.outcome_bounds, cost, torch.from_numpy(outcome.reshape(-1, width)))
        return self

    def predict(self, X: Any, *, cost_parameters: Any = None) -> Floats:
        """The action of least expected cost for each row: (n,), or (n, A) where an action has several parts.

        Args:
            X: Features (n, F).
            cost_parameters: Where the cost has a range, its value: one number, one for each row, (n,), or either by the
                parameter's name.
        """
        return np.asarray(self.solve(X, cost_parameters=cost_parameters).action)

    def solve(self, X: Any, *, cost_parameters: Any = None) -> Decisions:
        """The best action for each row, what it is expected to cost, and whether it is certified.

        Args:
            X: Features (n, F).
            cost_parameters: As in `predict`.
        """
        check_is_fitted(self, "estimator_")
        found, done, values = [], 0, _values_of(self.cost_, cost_parameters, _num_samples(X))
        for members, weights in self._member_parts(X):
            rows = slice(done, done + len(members))
            own = _priced(self.cost_, values, rows)
            shares = None if weights is None else torch.from_numpy(weights)
            found.append(solve_decisions(own, [torch.from_numpy(members)], double=True, weights=shares))
            done += len(members)
        return Decisions.joined(found)

    def expected_cost(self, X: Any, *, cost_parameters: Any = None) -> Floats:
        """What the forecast expects the action to cost, (n,).

        Args:
            X: Features (n, F).
            cost_parameters: As in `predict`.
        """
        return np.asarray(self.solve(X, cost_parameters=cost_parameters).expected_cost)

    def sample(self, X: Any) -> Floats:
        """Members (n, M, D) of the forecast; weighted ones come as 100 equally likely ones for a single outcome.

        Args:
            X: Features (n, F).
        """
        return np.concatenate([_equal(*part) for part in self._member_parts(X)])

    def score(self, X: Any, y: Any, *, cost_parameters: Any = None) -> float:
        """The mean realised cost of the actions, negative: the higher the better.

        Args:
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            cost_parameters: As in `predict`.
        """
        check_is_fitted(self, "estimator_")
        return cost_scorer(self.cost_)(self, X, y, cost_parameters=cost_parameters)

    def get_metadata_routing(self) -> Any:
        """What `fit` hands on to the regressor."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self._estimator, method_mapping=mapping)

    def _member_parts(self, X: Any) -> Iterator[MemberPart]:
        """Members of the rows, some after the other, and what each of them weighs."""
        check_is_fitted(self, "estimator_")
        if self.errors_ is None:
            members, weights = told_members(self.estimator_, X, self.members)
        else:
            mean = np.asarray(self.estimator_.predict(X), dtype=np.float64)
            members = mean.reshape(len(mean), 1, -1) + self.errors_
            weights = self.error_weights_
        if members.shape[2] != len(self.target_names_):
            raise ShapeError(f"the model must predict {len(self.target_names_)} outcomes, got {members.shape[2]}")
        drawn = torch.from_numpy(np.ascontiguousarray(members, dtype=np.float64))
        drawn = drawn if self.bounds_ is None else self.bounds_.clip(drawn)
        for rows in case_parts(drawn):
            yield drawn[rows].numpy(), weights[rows] if weights is not None and weights.ndim > 1 else weights


# Models that tell their uncertainty


def tells_uncertainty(model: Any) -> bool:
    """Whether a fitted model tells more than one number a row."""
    last = model[-1] if hasattr(model, "named_steps") else model
    named = any(hasattr(last, name) for name in ("predict_quantiles", "pred_dist", "predict_proba"))
    return named or _samples_rows(last) or "quantiles" in _parameters(getattr(last, "predict", None))


def _samples_rows(model: Any) -> bool:
    """Whether a model draws members of rows; methods of that name mean other things elsewhere."""
    needed = [each for each in _parameters(getattr(model, "sample", None)).values() if each.default is each.empty]
    return len([each for each in needed if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]) == 1


def last_step(model: Any, X: Any) -> tuple[Any, Any]:
    """The last step of a pipeline, which alone has methods of its own, and what it sees of the rows; or the model."""
    if not hasattr(model, "named_steps"):
        return model, X
    return model[-1], model[:-1].transform(X) if len(model) > 1 else X


def told_members(model: Any, X: Any, count: int) -> MemberPart:
    """The members (n, M, D) that a model tells, so many where it tells quantiles, and weights of rows, (n, M)."""
    last, rows = last_step(model, X)
    levels = quantile_levels(count).tolist()
    if _samples_rows(last):
        members = np.asarray(last.sample(rows))
        return (members[..., None] if members.ndim == 2 else members), None
    if hasattr(last, "predict_quantiles"):
        values = np.asarray(last.predict_quantiles(rows, levels), dtype=np.float64)
    elif hasattr(last, "pred_dist"):
        distribution = last.pred_dist(rows)
        values = np.stack([np.asarray(distribution.ppf(level)) for level in levels], 1)
    elif "quantiles" in _parameters(last.predict):
        values = np.asarray(last.predict(rows, quantiles=levels), dtype=np.float64)
    else:
        told = last.predict_proba(rows)
        if hasattr(last, "classes_"):
            classes = np.asarray(last.classes_, dtype=np.float64)
            shares = np.asarray(told, dtype=np.float64)
            return np.broadcast_to(classes[None, :, None], (*shares.shape, 1)), shares
        values = np.asarray(told.quantile(levels))
    values = np.sort(values.reshape(len(values), len(levels), -1), axis=1)
    return values, None


class RegressorModel(nn.Module):
    """A user's regressor as a model: members are what it tells, or predictions and errors made out of fold."""

    at_once = True  # a row's members do not depend on how many rows are asked for

    def __init__(self, estimator: Any, features: int, outcomes: int, gap: int) -> None:
        super().__init__()
        self.estimator, self.outcomes, self.gap = estimator, outcomes, gap
        self.errors = LinearModel(features, outcomes, constant=True)

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Fit it to all rows, and once more for each block of time, whose errors make members."""
        rows, seen = features.double().numpy(), outcome.double().numpy()
        single = seen[:, 0] if self.outcomes == 1 else seen
        unfitted, self.estimator = self.estimator, clone(self.estimator).fit(rows, single)
        if tells_uncertainty(self.estimator):
            return
        expected = np.empty_like(seen)
        for block, left_out in time_blocks(len(rows), self.gap, _BLOCKS):
            fold = clone(unfitted).fit(np.delete(rows, left_out, 0), np.delete(single, left_out, 0))
            expected[block] = self._per_row(fold.predict(rows[block]), seen[block].shape)
        self.errors.fit_scaling(features, outcome - torch.from_numpy(expected).to(outcome))

    def sample(
        self, features: Tensor, members: int, generator: torch.Generator | None = None, *, share_noise: bool = False
    ) -> Tensor:
        """Members (N, M, D); without shared noise each row draws its own from what the model tells."""
        rows = features.double().cpu().numpy()
        if not tells_uncertainty(self.estimator):
            location = self._per_row(self.estimator.predict(rows), (len(rows), self.outcomes))
            errors = self.errors.sample(features, members, generator, share_noise=share_noise)
            return torch.from_numpy(location).to(features)[:, None] + errors
        told, weights = told_members(self.estimator, rows, members)
        if weights is not None or told.shape[1] != members:
            told = _equal(told, np.ones(told.shape[1]) if weights is None else weights, members)
        drawn = torch.from_numpy(self._per_row(told, (len(rows), members, self.outcomes))).to(features)
        if share_noise:
            return drawn
        chosen = torch.randint(members, (len(rows), members, 1), generator=generator, device=features.device)
        return drawn.gather(1, chosen.expand_as(drawn))

    def _per_row(self, values: Any, shape: tuple[int, ...]) -> Floats:
        numbers = np.array(values, dtype=np.float64)
        if numbers.size != np.prod(shape):
            raise ShapeError(f"the model must predict {self.outcomes} outcomes of {shape[0]} rows, got {numbers.shape}")
        return numbers.reshape(shape)


@dataclass(frozen=True, eq=False)
class RegressorFactory:
    """Makes models of a user's regressor; unlike a lambda it can be sent to other processes."""

    estimator: Any
    gap: int

    def __call__(self, features: int, outcomes: int) -> RegressorModel:
        """An unfitted model of so many features and outcomes."""
        return RegressorModel(self.estimator, features, outcomes, self.gap)


def _parameters(function: Any) -> Mapping[str, Any]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _chosen_errors(errors: Floats, count: int) -> tuple[Floats, Floats | None]:
    """Errors (K, D) that stand for all, and their weights: quantiles of one outcome, support points of several."""
    if errors.shape[1] == 1:
        return np.quantile(errors[:, 0], quantile_levels(count), method="hazen")[:, None], None
    if len(errors) <= count:
        return errors, None
    some = errors[np.linspace(0, len(errors) - 1, min(len(errors), _MOST_VECTORS)).round().astype(int)]
    scale = np.where((spread := some.std(0)) > 0, spread, 1.0)
    reduced = reduce_members(torch.from_numpy(some / scale), count)
    return reduced.members.numpy() * scale, reduced.weights.numpy()


def _equal(members: NDArray[Any], weights: NDArray[Any] | None, count: int = 100) -> NDArray[Any]:
    """Equally likely members, by whole copies of weighted ones in the order in which they stand."""
    if weights is None:
        return members
    shares = np.broadcast_to(weights, members.shape[:2])
    totals = np.cumsum(shares / shares.sum(1, keepdims=True), axis=1)
    places = (totals[:, None, :] < quantile_levels(count)[:, None]).sum(2).clip(max=members.shape[1] - 1)  # (n, 100)
    return np.take_along_axis(members, places[..., None], 1)


# What rows pay


def _outcomes(y: Any) -> tuple[tuple[str, ...], Floats]:
    """The names of the outcomes, and their numbers (n,) or (n, D)."""
    if y is None:
        raise ValueError("This DecisionRegressor estimator requires y to be passed, but the target y is None.")
    values = _check_y(y, multi_output=True, y_numeric=True, estimator="DecisionRegressor").astype(np.float64)
    if values.ndim == 2 and values.shape[1] == 1:
        values = column_or_1d(values, warn=True)
    return outcome_names(as_table(y, "y"), 1 if values.ndim == 1 else values.shape[1]), values


def _default_cost(outcome: Floats) -> Cost:
    from stakes.costs.scalar_costs import NewsvendorCost

    total = outcome.reshape(len(outcome), -1).sum(1)
    room = float(np.ptp(total)) or 1.0
    return NewsvendorCost(1.0, 1.0, float(total.min()) - room, float(total.max()) + room)


def _values_of(cost: Cost, given: Any, rows: int) -> torch.Tensor | None:
    """The parameter of each row, (n,); None where the cost has no range."""
    ranged = ranged_parameter(cost)
    if ranged is not None:
        return given_parameter(ranged, given, rows)
    if given is not None:
        raise SettingError("cost_parameters are for a cost with a range; change the cost")
    return None


def _priced(cost: Cost, values: torch.Tensor | None, rows: slice) -> Cost:
    ranged = ranged_parameter(cost)
    return cost if ranged is None or values is None else with_parameter(cost, ranged.name, values[rows])


class CostScorer(BaseEstimator):  # type: ignore[misc]
    """The mean realised cost of an estimator's actions, negative, as `cost_scorer` makes it.

    Args:
        cost: What an action costs.
    """

    __metadata_request__score = {"estimator": UNUSED}  # noqa: RUF012  where scikit-learn looks for it

    def __init__(self, cost: Cost) -> None:
        self.cost = cost

    def score(self, estimator: Any, X: Any, y: Any, *, cost_parameters: Any = None) -> float:
        """The mean realised cost of what a fitted estimator would do, negative.

        Args:
            estimator: A fitted estimator, or pipeline.
            X: Features (n, F).
            y: What happened, (n,) or (n, D).
            cost_parameters: Where the cost has a range, its value: one number, or one for each row, (n,).
        """
        values, rows = _values_of(self.cost, cost_parameters, _num_samples(X)), _num_samples(X)
        outcome = torch.from_numpy(np.array(as_table(y, "y"), dtype=np.float64).reshape(rows, -1))
        action = _actions(estimator, X, cost_parameters)
        return -float(todays_cost(_priced(self.cost, values, slice(None)), action, outcome).mean())

    __call__ = score  # as scikit-learn asks for it


def cost_scorer(cost: Cost) -> CostScorer:
    """A scorer for `cross_val_score`, `GridSearchCV` and the like: the mean realised cost of actions, negative.

    The action is what `decide` says where the estimator, or the last step of a pipeline, has it; otherwise what
    `predict` says: that of a `DecisionRegressor`, or of a plain regressor its prediction, taken as the action. With
    metadata routing `set_score_request(cost_parameters=True)` hands on the parameter of each row.

    >>> import numpy as np, stakes
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(300, 1))
    >>> y = X[:, 0] + random.normal(size=300)
    >>> cost = stakes.NewsvendorCost(underage=9.0, overage=1.0, lower=-9.0, upper=9.0)
    >>> plain, deciding = LinearRegression(), stakes.DecisionRegressor(LinearRegression(), cost)
    >>> scores = [cross_val_score(each, X, y, scoring=stakes.cost_scorer(cost)) for each in (plain, deciding)]
    >>> [round(float(each.mean()), 1) for each in scores]
    [-3.9, -1.6]

    Args:
        cost: What an action costs, which may differ from the cost that an estimator decides by. One of its parameters
            may be a range: then the scorer is told `cost_parameters`.
    """
    require_cost(cost)
    return CostScorer(cost)


def _actions(estimator: Any, X: Any, cost_parameters: Any) -> Floats:
    """What an estimator would do."""
    told = {} if cost_parameters is None else {"cost_parameters": cost_parameters}
    if hasattr(estimator[-1] if hasattr(estimator, "named_steps") else estimator, "decide"):
        last, rows = last_step(estimator, X)
        action = np.asarray(last.decide(rows, **told))
    else:
        action = np.asarray(estimator.predict(X, **told))
    return action[:, 0] if action.ndim == 2 and action.shape[1] == 1 else action
