"""Any regressor as a maker of decisions, in what scikit-learn offers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from refusals import refuses
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import stakes
from stakes import (
    CostLossCost,
    DecisionRegressor,
    ImbalanceCost,
    NewsvendorCost,
    ParameterRange,
    ScheduleCost,
    cost_scorer,
)
from stakes.errors import CostError, SettingError, ShapeError

BUY = NewsvendorCost(9.0, 1.0, -50.0, 50.0)
RANGED = NewsvendorCost(ParameterRange(1, 20), 1.0, -50.0, 50.0)


def table(rows: int = 400, outcomes: int = 1) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    features = random.normal(size=(rows, 2))
    outcome = features[:, :1] + 0.5 * random.normal(size=(rows, outcomes))
    return features, outcome[:, 0] if outcomes == 1 else outcome


@parametrize_with_checks(
    [
        DecisionRegressor(LinearRegression(), ImbalanceCost(short=2.0, long=1.0, lower=-5.0, upper=5.0)),
        DecisionRegressor(),
    ]
)
def test_every_check_of_scikit_learn_passes(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_action_is_best_for_predictions_plus_errors_out_of_fold() -> None:
    features, outcome = table()
    fitted = DecisionRegressor(LinearRegression(), BUY, cv=4, members=400).fit(features, outcome)
    apart = []
    for fold in np.array_split(np.arange(400), 4):
        others = np.setdiff1d(np.arange(400), fold)
        apart.append(outcome[fold] - LinearRegression().fit(features[others], outcome[others]).predict(features[fold]))
    errors = np.sort(np.concatenate(apart))
    np.testing.assert_allclose(fitted.errors_[:, 0], errors)
    members = LinearRegression().fit(features, outcome).predict(features)[:, None] + errors
    np.testing.assert_allclose(fitted.sample(features)[..., 0], members)
    best = stakes.optimal_action(BUY, torch.from_numpy(members[..., None]))
    np.testing.assert_allclose(fitted.predict(features), best[:, 0])
    np.testing.assert_allclose(
        fitted.expected_cost(features), BUY(best, torch.from_numpy(members.T[..., None])).mean(0)
    )
    paid = BUY(best, torch.from_numpy(outcome[:, None])).mean()
    assert fitted.score(features, outcome) == pytest.approx(-float(paid))


def test_pipelines_searches_and_validation() -> None:
    features, outcome = table()
    named = pd.DataFrame(features, columns=["a", "b"]).assign(day=["mon", "tue"] * 200)
    inside = make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionRegressor(Ridge(), BUY))
    around = DecisionRegressor(make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge()), BUY)
    days = named[["day"]]
    np.testing.assert_allclose(
        inside.fit(days, outcome).predict(days)[:5], clone(around).fit(days, outcome).predict(days)[:5], rtol=0.1
    )
    pipe = make_pipeline(StandardScaler(), DecisionRegressor(Ridge(), BUY)).set_output(transform="pandas")
    search = GridSearchCV(pipe, {"decisionregressor__estimator__alpha": [0.1, 1e4]}, scoring=cost_scorer(BUY), cv=3)
    search.fit(named[["a", "b"]], outcome)
    assert search.best_params_ == {"decisionregressor__estimator__alpha": 0.1}
    assert list(search.best_estimator_[-1].feature_names_in_) == ["a", "b"]
    scores = cross_val_score(pipe, named[["a", "b"]], outcome, cv=TimeSeriesSplit(3))
    assert (
        scores > cross_val_score(LinearRegression(), features, outcome, scoring=cost_scorer(BUY), cv=3).mean()
    ).all()
    ordered = DecisionRegressor(Ridge(), BUY, cv=TimeSeriesSplit(4)).fit(features, outcome)
    assert ordered.errors_.shape == (100, 1)


def test_the_last_step_of_a_pipeline_keeps_its_decide_in_the_scorer() -> None:
    features, outcome = table(120)
    forecaster = stakes.DecisionAwareForecaster(BUY, model="linear", decision_weight=0.0)
    pipe = make_pipeline(StandardScaler(), forecaster).fit(features, outcome)
    direct = forecaster.fit(StandardScaler().fit_transform(features), outcome)
    scored = cost_scorer(BUY)(pipe, features, outcome)
    assert scored == pytest.approx(direct.score(StandardScaler().fit_transform(features), outcome))


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_whose_decision_each_row_is_goes_through_cross_validation(routing: None) -> None:
    features, outcome = table()
    prices = np.random.default_rng(1).uniform(1, 20, 400)
    fitted = DecisionRegressor(LinearRegression(), RANGED).fit(features, outcome)
    actions = fitted.predict(features, cost_parameters=prices)
    for row in (0, 17):
        single = DecisionRegressor(LinearRegression(), NewsvendorCost(prices[row], 1.0, -50.0, 50.0))
        assert actions[row] == pytest.approx(single.fit(features, outcome).predict(features[row : row + 1])[0])
    by_name = fitted.predict(features, cost_parameters={"underage": prices})
    np.testing.assert_array_equal(by_name, actions)
    deciding = DecisionRegressor(LinearRegression(), RANGED).set_score_request(cost_parameters=True)
    own = cross_val_score(deciding, features, outcome, params={"cost_parameters": prices}, cv=4)
    scorer = cost_scorer(RANGED).set_score_request(cost_parameters=True)
    theirs = cross_val_score(deciding, features, outcome, scoring=scorer, params={"cost_parameters": prices}, cv=4)
    np.testing.assert_allclose(own, theirs)
    weighted = DecisionRegressor(LinearRegression().set_fit_request(sample_weight=True), BUY)
    weights = (np.arange(400) < 200).astype(float)
    half = LinearRegression().fit(features[:200], outcome[:200])
    np.testing.assert_allclose(weighted.fit(features, outcome, sample_weight=weights).estimator_.coef_, half.coef_)


def test_weights_reach_the_regressor_without_routing_too() -> None:
    features, outcome = table()
    weights = (np.arange(400) < 200).astype(float)
    found = DecisionRegressor(LinearRegression(), BUY).fit(features, outcome, sample_weight=weights)
    half = LinearRegression().fit(features[:200], outcome[:200])
    np.testing.assert_allclose(found.estimator_.coef_, half.coef_)


class Telling(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A model that tells the normal distribution around its first feature, in one of several ways."""

    def __init__(self, way: str = "predict_quantiles") -> None:
        self.way = way

    def fit(self, *_: Any) -> "Telling":
        self.fitted_ = True
        return self

    def __getattr__(self, name: str) -> Any:
        ways: dict[str, Any] = {
            "predict_quantiles": lambda rows, levels: Told(rows).quantiles(levels),
            "sample": lambda rows: Told(rows).quantiles((np.arange(200) + 0.5) / 200)[..., None],
            "pred_dist": Told,
            "predict_proba": Told,
            "predict": lambda rows, quantiles=(0.5,): Told(rows).quantiles(quantiles),
        }
        if name not in ways or name not in (vars(self).get("way"), "predict"):
            raise AttributeError(name)
        return ways[name] if name == vars(self)["way"] else lambda rows: rows[:, 0]


class Told:
    """A distribution, as NGBoost and skpro have it."""

    def __init__(self, rows: Any) -> None:
        self.centre = np.asarray(rows)[:, 0]

    def ppf(self, level: float) -> Any:
        return self.centre + 0.5 * norm.ppf(level)

    def quantiles(self, levels: Any) -> Any:
        return np.stack([self.ppf(level) for level in levels], 1)

    def quantile(self, levels: Any) -> Any:
        return pd.DataFrame(self.quantiles(levels))


@pytest.mark.parametrize("way", ["predict_quantiles", "sample", "pred_dist", "predict_proba", "predict"])
@pytest.mark.parametrize("scaled", [False, True])
def test_models_that_tell_their_uncertainty_are_taken_at_their_word(way: str, scaled: bool) -> None:
    features, outcome = table()
    features[:, 0] = (features[:, 0] - features[:, 0].mean()) / features[:, 0].std()
    model = make_pipeline(StandardScaler(), Telling(way)) if scaled else Telling(way)
    fitted = DecisionRegressor(model, BUY).fit(features, outcome)
    assert fitted.errors_ is None
    np.testing.assert_allclose(fitted.predict(features), features[:, 0] + 0.5 * 1.2816, atol=0.03)


def test_a_classifier_tells_the_probability_of_an_event() -> None:
    features, outcome = table()
    event = (outcome > 0.5).astype(int)
    fitted = DecisionRegressor(LogisticRegression(), CostLossCost(0.5, 0.2)).fit(features, event)
    np.testing.assert_array_equal(fitted.predict(features), fitted.estimator_.predict_proba(features)[:, 1] > 0.2)


def test_several_outcomes_keep_their_errors_together() -> None:
    features, outcome = table(600, 3)
    cost = ScheduleCost(short=4.0, long=1.0, ramp=0.2)
    fitted = DecisionRegressor(RandomForestRegressor(5, random_state=0), cost, members=20).fit(features, outcome)
    assert fitted.predict(features[:4]).shape == (4, 3)
    assert (np.abs(np.diff(fitted.predict(features[:4]), axis=1)) <= 0.2 + 1e-6).all()
    assert fitted.errors_.shape == (20, 3)
    assert fitted.sample(features[:4]).shape == (4, 100, 3)
    assert fitted.score(features, outcome) < 0


def test_members_stay_within_what_outcomes_cannot_cross() -> None:
    features, outcome = table()
    fitted = DecisionRegressor(LinearRegression(), BUY, outcome_bounds=(0.0, None)).fit(features, np.abs(outcome))
    assert fitted.sample(features).min() == 0


def test_refusals() -> None:
    features, outcome = table(60)
    fitted = DecisionRegressor(LinearRegression(), BUY).fit(features, outcome)
    ranged = DecisionRegressor(LinearRegression(), RANGED).fit(features, outcome)
    refuses(SettingError, "cost_parameters", fitted.predict, features, cost_parameters=3)
    refuses(SettingError, "cost_parameters", ranged.predict, features)
    refuses(SettingError, "must name underage", ranged.predict, features, cost_parameters={"overage": 3})
    refuses(ShapeError, "cost_parameters", ranged.predict, features, cost_parameters=[3, 4])
    refuses(CostError, "underage", ranged.predict, features, cost_parameters=99)
    refuses(CostError, "cost must", DecisionRegressor(LinearRegression(), 5.0).fit, features, outcome)  # type: ignore[arg-type]
    refuses(CostError, "cost must", cost_scorer, NewsvendorCost)  # type: ignore[arg-type]
    refuses(
        ShapeError,
        "2 outcomes",
        DecisionRegressor(Telling(), BUY).fit(features, table(60, 2)[1]).predict,
        features,
    )
    refuses(ValueError, "requires y", fitted.fit, features, None)
