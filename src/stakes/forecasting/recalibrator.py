"""The estimator for forecasts that somebody else makes: corrected by their past errors where that should pay."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from stakes.costs.cost import Cost, refuse_range, require_cost
from stakes.data.case_table import as_table, outcome_names
from stakes.data.forecasts.columns import forecast_columns
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.layout import Pair
from stakes.data.forecasts.quantiles import weighted_vectors
from stakes.data.leaks import forecast_leaks, warn_of_leaks
from stakes.data.outcome_bounds import outcome_bounds
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.intervals import block_length
from stakes.evaluation.selection import ModelSelection
from stakes.forecasting.correction_candidates import CorrectionSelection, SelectionProgress
from stakes.forecasting.corrections import Correction
from stakes.forecasting.decisions import Decisions, solve_decisions, untrained_decision
from stakes.forecasting.member_answers import MemberAnswers, MemberPart
from stakes.forecasting.parameters import RecalibratorSettings
from stakes.forecasting.recalibration import JudgedCorrection, judge_correction
from stakes.training.weight_search import one_thread

Floats = NDArray[np.float64]
Columns = tuple[tuple[str, ...], ...]


_BESIDE = ("weights", "times", "issued", "leads", "sites", "features")


def given_of_arrays(
    X: Any,
    y: Any,
    beside: Mapping[str, Any],
    targets: tuple[str, ...] = (),
    bounds: Pair | Literal["auto"] | None = "auto",
    cost: object = None,
) -> ForecastSet:
    """The forecasts, what happened, and what is known beside them, as `stakes.Recalibrator` takes them."""
    if unknown := set(beside) - set(_BESIDE):
        raise TypeError(f"forecasts take no {', '.join(sorted(unknown))}, only {', '.join(_BESIDE)}")
    given: dict[str, Any] = dict.fromkeys(_BESIDE) | dict(beside)
    outcomes, names = _outcomes(y)
    if isinstance(X, ForecastSet):
        if said := [name for name, value in given.items() if value is not None]:
            raise SettingError(f"{said[0]} must be a field of the ForecastSet X, not a separate argument")
        return (X if outcomes is None else replace(X, outcomes=outcomes)).require_one_outcome("y")
    table = as_table(X, "X")
    width = len(targets) or (1 if outcomes is None else outcomes.shape[1])
    notes: tuple[str, ...] = ()
    columns: Columns = ()
    if isinstance(table, pd.DataFrame):
        members, given["weights"], notes, columns = _of_table(table, targets or names, given["weights"], bounds, cost)
    else:
        members = _of_array(np.asarray(table), width)
    if given["leads"] is not None and np.ndim(given["leads"]) == 0:
        given["leads"] = np.full(len(members), given["leads"])
    return ForecastSet(
        members,
        **given,
        targets=targets or names or outcome_names(None, members.shape[2]),
        index=table.index if isinstance(table, pd.DataFrame) else pd.RangeIndex(len(members), name="row"),
        outcomes=outcomes,
        notes=notes,
        columns=columns,
    ).require_one_outcome("y")


def _outcomes(y: Any) -> tuple[Floats | None, tuple[str, ...]]:
    """Outcomes (N, D), and their names."""
    if y is None:
        return None, ()
    table = as_table(y, "y")
    values = np.asarray(table)
    if values.ndim not in (1, 2):
        raise ShapeError(f"y must have the shape (cases,) or (cases, outcomes), got {values.shape}")
    values = values.reshape(len(values), -1)
    return values, outcome_names(table, values.shape[1])


def _of_array(values: NDArray[Any], width: int) -> NDArray[Any]:
    """Members (N, M, D): of one outcome (N, M) are members, of several (N, D) are points."""
    if values.ndim == 3:
        return values
    if values.ndim == 1:
        return values[:, None, None]
    if values.ndim != 2:
        raise ShapeError(f"X must have the shape (cases, members) or (cases, members, outcomes), got {values.shape}")
    if width == 1:
        return values[:, :, None]
    if values.shape[1] != width:
        raise ShapeError(
            f"X of {width} outcomes must have the shape (cases, members, {width}), or (cases, {width}) for points, got "
            f"{values.shape}"
        )
    return values[:, None]


def _of_table(
    table: pd.DataFrame, targets: tuple[str, ...], weights: Any, bounds: Pair | Literal["auto"] | None, cost: object
) -> tuple[Floats, Any, tuple[str, ...], Columns]:
    """Members (N, M, D), their weights, what is to be said about them, and what their columns are called."""
    named = table.set_axis([str(column) for column in table.columns], axis=1)
    as_points = len(targets) > 1 and set(targets) == set(named.columns)
    columns = list(targets) if as_points else list(named.columns)
    roles = forecast_columns(columns, "X", "points" if as_points else "auto", chosen=True)
    values = np.stack([named[list(each)].to_numpy(np.float64) for each in roles.of_target.values()], axis=-1)
    if roles.levels is None:
        return values, weights, roles.notes, tuple(map(tuple, roles.of_target.values()))
    weighted = weighted_vectors(roles.levels, values, "X", bounds=bounds, cost=cost)
    return weighted.members, weighted.weights, roles.notes + weighted.notes, ()


_AT_ONCE = 2000  # cases whose corrected members are held


@dataclass(frozen=True, eq=False, repr=False)
class RecalibratorParameters(RecalibratorSettings):
    """What a recalibrator is asked for."""

    cost: Cost


class Recalibrator(RecalibratorParameters, MemberAnswers, BaseEstimator):  # type: ignore[misc]
    """Decisions from existing forecasts, corrected by their past errors where that is expected to lower the cost.

    It selects among these candidates (`stakes.evaluation.selection`): the raw forecast; corrected bias and spread,
    by season, hour, lead and site where there are enough cases; further statistics of the forecast and features;
    recent errors that count more; the dependence of past errors between outcomes; and training on the decision.
    Cases may come in any order: errors that were not known when a forecast was issued never judge or correct it.

    Args:
        cost: What a decision costs.
        outcome_bounds: What the outcomes cannot cross, (lower, upper), of which one may be None; "auto" takes what the
            cost knows, or 0 and a capacity at which the data have many exact ties; None for none.
        decision_weights: Decision weights to try, in [0, 1); empty for none.
        tolerance: Largest increase of the score, in percent, that a decision weight may cause; None for no limit.
        test_fraction: Share of the cases, the latest, that are held out as test cases.
        gap: Number of cases before a forecast whose outcomes were not yet known; 0 if times and leads say it.
        block: How many neighbouring cases depend on each other; "auto" derives it from their times.

    Attributes:
        selection_: How each candidate was judged, and which one was selected.
        state_: What was learned from all cases, as `stakes.Correction`: small, to be looked at, and saved as JSON.
        judged_: The test cases, raw and corrected, as `JudgedCorrection`; None without test cases.
        notes_: Notes for the user.

    >>> import numpy as np, stakes
    >>> random = np.random.default_rng(0)
    >>> known = random.normal(size=(600, 1))
    >>> members = known + 0.5 * random.normal(size=(600, 20))  # too narrow, and 2 too low
    >>> outcomes = known[:, 0] + 2 + random.normal(size=600)
    >>> cost = stakes.NewsvendorCost(underage=9.0, overage=1.0, lower=-10.0, upper=10.0)
    >>> recalibrator = stakes.Recalibrator(cost, decision_weights=()).fit(members, outcomes)
    >>> recalibrator.selection_.selected.name
    'bias_and_spread'
    >>> recalibrator.sample(members[:3]).shape, recalibrator.decide(members[:3]).shape
    ((3, 100, 1), (3,))
    """

    selection_: ModelSelection
    state_: Correction
    judged_: JudgedCorrection | None

    __setattr__ = object.__setattr__  # parameters of an estimator can be set
    __delattr__ = object.__delattr__
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        weights: Any = None,
        times: Any = None,
        issued: Any = None,
        leads: Any = None,
        sites: Any = None,
        features: Any = None,
        progress: SelectionProgress | None = None,
    ) -> Self:
        """Select a candidate and learn it from all cases.

        A `StakesWarning` and `notes_` name forecasts and features that reproduce an outcome almost exactly.

        Args:
            X: Past forecasts: members (N, M) or (N, M, D), points (N,) or (N, D); a table whose columns are members or
                named by levels of quantiles, or points named as the outcomes are; or a `ForecastSet`, whose
                `prices` are parameters of the cost that each case has of its own.
            y: What happened, (N,) or (N, D); None if X is a `ForecastSet` with outcomes.
            weights: The weight of each member, (M,); None for equal weights.
            times: When the outcomes happened, (N,); None if unknown.
            issued: When the forecasts were made, (N,); None if unknown.
            leads: Lead times in hours, one number or (N,); None if unknown.
            sites: Site of each case, (N,), if each site has its own decision; None for one site.
            features: What else was known when the forecasts were made, (N, F); None for nothing.
            progress: Called now and then with how many of about how many corrections are learned; None for none.
        """
        require_cost(self.cost)
        refuse_range(self.cost)  # at once, rather than after all has been learned
        beside = dict(zip(_BESIDE, (weights, times, issued, leads, sites, features), strict=True))
        past = given_of_arrays(X, y, beside, (), self.outcome_bounds, self.cost)
        if past.outcomes is None:
            raise ShapeError("y must be given: a recalibrator learns from outcomes")
        told = forecast_leaks(past)
        warn_of_leaks(told)
        bounds = outcome_bounds(self.outcome_bounds, self.cost, torch.from_numpy(past.outcomes))
        pairs = ((None, None),) * len(past.targets) if bounds is None else bounds.pairs
        settings, tell = self._settings(), progress or (lambda done, of: None)
        with one_thread():
            why = untrained_decision(self.cost, past.outcomes) if any(settings.decision_weights) else ""
            found = CorrectionSelection(past.in_order(), self.cost, pairs, settings, tell, why).run()
        self.selection_, self.state_, self.judged_ = found.selection, found.state, found.judged
        self.notes_ = past.notes + told + (() if bounds is None else bounds.sentences(past.targets))
        return self

    def sample(self, X: Any, **beside: Any) -> Floats:
        """Corrected, equally likely members (N, K, D).

        Args:
            X: New forecasts, as in `fit`.
            beside: `weights`, `times`, `issued`, `leads`, `sites` and `features`, as in `fit`.
        """
        given = self._known(X, None, beside)
        return self.state_.corrected(given).equal_members

    def solve(self, X: Any, **beside: Any) -> Decisions:
        """The action of least expected cost for each case, what it is expected to cost, and whether it is certified.

        Args:
            X: New forecasts, as in `fit`.
            beside: `weights`, `times`, `issued`, `leads`, `sites` and `features`, as in `fit`.
        """
        parts = []
        for given in self._some(X, beside):
            members, weights = self.state_.corrected(given)
            shared = None if weights is None else torch.from_numpy(weights)
            own = given.priced(self.cost)
            parts.append(solve_decisions(own, [torch.from_numpy(members)], double=True, weights=shared))
        return Decisions.joined(parts)

    def _member_parts(self, X: Any, **beside: Any) -> Iterator[MemberPart]:
        """Corrected members of the cases, some after the other."""
        return map(self.state_.corrected, self._some(X, beside))

    def _some(self, X: Any, beside: Mapping[str, Any]) -> Iterator[ForecastSet]:
        """The cases, some after the other."""
        given = self._known(X, None, beside)
        return (given.rows(slice(first, first + _AT_ONCE)) for first in range(0, len(given), _AT_ONCE))

    @property
    def _single_output(self) -> bool:
        return len(self.state_.targets) == 1

    @property
    def target_names_(self) -> tuple[str, ...]:
        """The names of the outcomes."""
        return self.state_.targets

    def decide(self, X: Any, **beside: Any) -> Floats:
        """The action of least expected cost for each case: (N,), or (N, A) where an action has A > 1 parts.

        Args:
            X: New forecasts, as in `fit`.
            beside: `weights`, `times`, `issued`, `leads`, `sites` and `features`, as in `fit`.
        """
        return np.asarray(self.solve(X, **beside).action)

    def judge(self, X: Any, y: Any = None, **beside: Any) -> JudgedCorrection:
        """What the forecasts of some cases were worth, as they came and corrected.

        Args:
            X: Forecasts, as in `fit`.
            y: What happened, (N,) or (N, D); None if X is a `ForecastSet` with outcomes.
            beside: `weights`, `times`, `issued`, `leads`, `sites` and `features`, as in `fit`.
        """
        given = self._known(X, y, beside)
        if given.outcomes is None:
            raise ShapeError("y must be given: without outcomes nothing can be judged")
        members, weights = self.state_.corrected(given)
        block = block_length(len(given), given.times, self.block)
        return judge_correction(given, members, self.cost, block, weights)

    def score(self, X: Any, y: Any = None, **beside: Any) -> float:
        """The mean realised cost, negative.

        Args:
            X: Forecasts, as in `fit`.
            y: What happened, (N,) or (N, D); None if X is a `ForecastSet` with outcomes.
            beside: `weights`, `times`, `issued`, `leads`, `sites` and `features`, as in `fit`.
        """
        return -float(self.judge(X, y, **beside).values("cost", "corrected").mean())

    def _settings(self) -> RecalibratorSettings:
        settings = RecalibratorSettings(
            **{each.name: getattr(self, each.name) for each in fields(RecalibratorSettings)}
        )
        settings.check()
        return settings

    def _known(self, X: Any, y: Any, beside: Mapping[str, Any]) -> ForecastSet:
        check_is_fitted(self, "state_")
        targets = () if y is not None else self.state_.targets
        return given_of_arrays(X, y, beside, targets, self.outcome_bounds, self.cost)
