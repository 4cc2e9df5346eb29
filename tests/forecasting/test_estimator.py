import copy
import os
import pickle
import signal
import threading
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from forked_processes import Forked, wait_until
from refusals import refuses
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from straight_model import StraightModel

import stakes
from stakes.actions.solve import solve_action
from stakes.errors import InterruptedTraining, NonFiniteError, SettingError, ShapeError, StakesError, StakesWarning
from stakes.models.sample_model import member_shares, pooled_members
from stakes.training.settings import (
    ESTIMATOR_MODELS,
    DiffusionSettings,
    ImplicitSettings,
    TrainingSettings,
    automatic_settings,
)

COST = stakes.ImbalanceCost(short=10.0, long=1.0, lower=-10.0, upper=10.0)
QUICK = TrainingSettings(epochs=2, pretraining_epochs=1, validate_every=1, batch=32, members=4, validation_members=4)
SMALL = ImplicitSettings(noise=2, hidden=8, layers=1)
DEFAULT = {"refit_on_all_rows": True, "recent_errors": True}  # what `forecaster` leaves out


def table(rows: int = 120, uneven: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A line with noise whose width rises with the first feature."""
    random = np.random.default_rng(seed)
    features = random.uniform(size=(rows, 2))
    return features, features[:, 0] + (0.3 + uneven * features[:, 0]) * random.normal(size=rows)


def forecaster(**settings: object) -> stakes.DecisionAwareForecaster:
    """A quick one, of the models of the search where a test does not ask for those of all rows."""
    given = {"model": SMALL, "decision_weight": 0.5, "members": 20, "training": QUICK, "random_state": 0}
    given |= {"refit_on_all_rows": False, "recent_errors": False, "model_selection": False, "ensemble": 1}
    return stakes.DecisionAwareForecaster(COST, **(given | settings))


@pytest.fixture(scope="module")
def fitted() -> stakes.DecisionAwareForecaster:
    return forecaster(decision_weight="auto", weights=(0.0, 0.5), **DEFAULT).fit(*table())


@pytest.mark.parametrize(
    "model", ["implicit", "diffusion", "linear", SMALL, DiffusionSettings(2, 8, 1, steps=21), StraightModel], ids=str
)
def test_every_kind_of_model(model: object, monkeypatch: pytest.MonkeyPatch) -> None:
    # a thousand steps would take seconds a forecast
    monkeypatch.setitem(ESTIMATOR_MODELS, "diffusion", lambda: DiffusionSettings(hidden=16, layers=2, steps=21))
    features, outcome = table(40)
    found = forecaster(model=model, epochs=1, members=5, **DEFAULT).fit(features, outcome)
    assert found.sample(features[:3]).shape == (3, 5, 1)
    assert found.sample(features[:3], members=7).shape == (3, 7, 1)
    assert np.isfinite(found.decide(features)).all()


def test_shapes_of_one_and_of_several_outcomes(fitted: stakes.DecisionAwareForecaster) -> None:
    features, outcome = table()
    both = forecaster().fit(features, np.stack([outcome, outcome], 1))
    column = forecaster().fit(features, outcome[:, None])
    assert fitted.predict(features).shape == (120,)
    assert column.predict(features).shape == (120, 1)
    assert both.predict(features).shape == (120, 2)
    assert fitted.predict_quantiles(features, [0.1, 0.5, 0.9]).shape == (120, 3)
    assert both.predict_quantiles(features, 0.5).shape == (120, 1, 2)
    assert both.decide(features).shape == (120,)
    assert (fitted.n_outputs_, both.n_outputs_) == (1, 2)
    assert (fitted.target_names_, both.target_names_) == (("y",), ("y0", "y1"))


def test_forecast_and_decision_agree(fitted: stakes.DecisionAwareForecaster) -> None:
    features, outcome = table()
    members = fitted.sample(features)
    np.testing.assert_allclose(fitted.predict(features), members[..., 0].mean(1), rtol=1e-5)
    np.testing.assert_allclose(
        fitted.predict_quantiles(features, 0.5)[:, 0], np.median(members[..., 0], 1), rtol=1e-6, atol=1e-6
    )
    expected = solve_action(COST, torch.from_numpy(members))
    found = fitted.solve(features)
    np.testing.assert_allclose(found.action, expected.action[:, 0], rtol=1e-5)
    np.testing.assert_array_equal(fitted.decide(features), found.action)
    np.testing.assert_allclose(fitted.expected_cost(features), expected.expected_cost, rtol=1e-5)
    assert found.certified.all()
    gap = np.maximum(outcome - found.action, 0), np.maximum(found.action - outcome, 0)
    assert fitted.score(features, outcome) == pytest.approx(-(10 * gap[0] ** 2 + gap[1] ** 2).mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("model", "base", "rounding"),
    [
        (SMALL, "none", 0.0),
        (DiffusionSettings(2, 8, 1, steps=21), "none", 0.0),
        ("linear", "linear", 1e-5),  # the last digit of a product in single precision may depend on the place of a row
        (SMALL, "linear", 1e-5),
    ],
    ids=["implicit", "diffusion", "linear", "linear start"],
)
def test_a_row_does_not_depend_on_the_others(model: object, base: str, rounding: float) -> None:
    features, outcome = table(150)
    found = forecaster(model=model, base=base, members=37, ensemble=2).fit(features, outcome)
    together, few, order = found.sample(features), features[:4], np.random.default_rng(1).permutation(150)
    alone = np.concatenate([found.sample(row[None]) for row in few])
    for one, other in ((alone, together[:4]), (found.sample(features[order]), together[order])):
        np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding / 10)
    np.testing.assert_allclose(found.decide(few), [found.decide(row[None])[0] for row in few], rtol=1e-5, atol=1e-5)


def test_models_are_pooled() -> None:
    features, outcome = table()
    found = forecaster(ensemble=3, members=20, **DEFAULT).fit(features, outcome)
    assert member_shares(20, 3) == [7, 7, 6]
    rows = torch.from_numpy(features[:4]).float()
    apart = [
        pooled_members([model], rows, share, found.forecast_.state.noise_seed + place)
        for place, (model, share) in enumerate(zip(found.forecast_.models, member_shares(20, 3), strict=True))
    ]
    np.testing.assert_array_equal(found.sample(features[:4]), torch.cat(apart, 1))
    alone = forecaster(ensemble=1, **DEFAULT).fit(features, outcome)
    for first, second in zip(
        found.forecast_.models[0].parameters(), alone.forecast_.models[0].parameters(), strict=True
    ):
        assert torch.equal(first, second)
    assert len({record["seed"] for record in found.training_}) == 3


LONG = TrainingSettings(
    epochs=20, pretraining_epochs=10, validate_every=10, batch=250, learning_rate=0.05, validation_members=20
)


def test_automatic_weight_is_positive_where_the_model_cannot_have_both() -> None:
    found = forecaster(
        model=StraightModel,
        decision_weight="auto",
        weights=[0.5, 0.9],
        ensemble=1,
        training=LONG,
        members=100,
        validation_fraction=0.5,
        tolerance=20.0,
        block=1,
    )
    found.fit(*table(2000, uneven=3.0))
    assert found.decision_weight_ > 0
    assert [record["decision_weight"] for record in found.training_] == [0.0, 0.5, 0.9]
    judged = found.evaluate(*table(2000, uneven=3.0, seed=1))
    assert judged.index.name == "metric"
    assert judged.loc["cost", "difference_high"] < 0
    assert judged.loc["cost", "difference"] == pytest.approx(
        judged.loc["cost", "value"] - judged.loc["cost", "baseline"]
    )
    assert judged.loc["climatology_skill", "value"] > judged.loc["climatology_skill", "baseline"]
    assert (judged["low"] <= judged["value"]).all()
    assert (judged["value"] <= judged["high"]).all()
    fixed = forecaster(model=StraightModel, decision_weight=found.decision_weight_)
    assert not fixed.fit(*table()).forecast_.baseline_models


def test_evaluation_has_what_assessment_says(fitted: stakes.DecisionAwareForecaster) -> None:
    features, outcome = table(90, seed=1)
    cases = fitted.assess(features, outcome)
    judged = fitted.evaluate(features, outcome)
    for name in ("energy_score", "cost", "expected_cost", "gap", "foresight_regret", "climatology_cost"):
        assert judged.loc[name, "value"] == pytest.approx(cases[name].mean())
    assert judged.loc["cost", "value"] == pytest.approx(-fitted.score(features, outcome), rel=1e-5)
    ratio = (cases["spread"] ** 2).mean() * 21 / 20 / (cases["error"] ** 2).mean()
    assert judged.loc["spread_skill", "value"] == pytest.approx(ratio**0.5)
    assert judged.loc["climatology_skill", "high"] <= 1
    assert judged.loc["climatology_skill", "value"] == pytest.approx(
        1 - cases["foresight_regret"].mean() / cases["climatology_cost"].mean()  # with foresight this cost is 0
    )
    shares = fitted.assess(features, outcome, regions={"high": lambda values: values[..., 0] > 0.5})["mass_high"]
    np.testing.assert_allclose(shares, (fitted.sample(features)[..., 0] > 0.5).mean(1), rtol=1e-6)


def test_evaluation_beside_the_action_of_today(fitted: stakes.DecisionAwareForecaster) -> None:
    features, outcome = table(90, seed=1)
    today = np.where(np.arange(90) < 60, 0.4, np.nan)
    judged = fitted.evaluate(features, outcome, baseline_action=today)
    pd.testing.assert_frame_equal(judged.iloc[:-4], fitted.evaluate(features, outcome))
    paid = fitted.cost(torch.full((60, 1), 0.4), torch.from_numpy(outcome[:60, None])).mean()
    cost = fitted.assess(features, outcome)["cost"][:60].mean()
    rows = judged.iloc[-4:]
    assert rows["value"].to_dict() == pytest.approx(
        {"today_cases": 60, "today_cost": float(paid), "cost_beside_today": cost, "cost_less_today": cost - float(paid)}
    )
    assert (rows["low"] < rows["value"])[1:].all()
    assert (rows["value"] < rows["high"])[1:].all()
    assert "today_cost" not in fitted.evaluate(features, outcome, baseline_action=np.full(90, np.nan)).index
    refuses(ShapeError, "baseline_action", fitted.evaluate, features, outcome, baseline_action=[0.1, 0.2, 0.3])
    infinite = np.full(90, np.inf)
    refuses(NonFiniteError, "baseline_action", fitted.evaluate, features, outcome, baseline_action=infinite)


def test_a_fixed_weight_with_weight_0_beside_it() -> None:
    features, outcome = table()
    alone, both, zero = (
        forecaster(**given).fit(features, outcome) for given in ({}, {"baseline": True}, {"decision_weight": 0.0})
    )
    assert (both.decision_weight_, both.frontier_) == (0.5, None)
    np.testing.assert_array_equal(both.sample(features), alone.sample(features))
    baseline = both.assess(features, outcome, "baseline")
    np.testing.assert_array_equal(baseline["cost"], zero.assess(features, outcome)["cost"])
    assert both.evaluate(features, outcome).loc["cost", "baseline"] == pytest.approx(baseline["cost"].mean())
    refuses(SettingError, "no forecast of weight 0 beside this one", alone.assess, features, outcome, "baseline")


# What it starts from


def test_a_linear_start_is_the_default_and_none_leaves_the_network_alone() -> None:
    features, outcome = table()
    linear, plain, none = (
        forecaster(**given).fit(features, outcome) for given in ({}, {"base": "linear"}, {"base": "none"})
    )
    np.testing.assert_array_equal(linear.sample(features), plain.sample(features))
    assert linear.forecast_.models[0].linear is not None
    assert none.forecast_.models[0].linear is None
    settings = replace(SMALL, linear=True, gap=3)
    assert forecaster(model=settings, base="none").fit(features, outcome).forecast_.models[0].linear.gap == 3
    assert forecaster(gap=5).fit(features, outcome).forecast_.models[0].linear.gap == 5
    refuses(SettingError, "base must", forecaster(base="ridge").fit, features, outcome)
    refuses(SettingError, "gap must", forecaster(gap=-1).fit, features, outcome)


def test_nothing_is_trained_of_a_linear_model() -> None:
    features, outcome = table()
    found = forecaster(model="linear", decision_weight="auto", weights=(0.0, 0.5)).fit(features, outcome)
    assert found.decision_weight_ == 0
    assert {(record["epoch"], record["steps"]) for record in found.training_} == {(0, 0)}
    with pytest.warns(StakesWarning, match="'x0' reproduces the outcome 'y'"):
        clear = forecaster(model="linear").fit(features, 3 * features[:, 0] + 0.01 * outcome)
    assert len(clear.leaks_) == 1
    np.testing.assert_allclose(clear.predict(features), 3 * features[:, 0], atol=0.05)


def test_no_member_leaves_the_bounds_of_the_outcomes() -> None:
    features, outcome = table(200)
    rectified = np.maximum(outcome, 0)
    bounded, free = (forecaster(outcome_bounds=bounds).fit(features, rectified) for bounds in ("auto", None))
    assert bounded.forecast_.state.outcome_bounds.pairs == ((0.0, None),)
    assert (free.forecast_.state.outcome_bounds, bounded.sample(features).min()) == (None, 0.0)
    np.testing.assert_array_equal(bounded.sample(features), np.maximum(free.sample(features), 0))
    scores = [found.assess(features, rectified)["energy_score"] for found in (bounded, free)]
    assert scores[0].mean() < scores[1].mean()
    given = forecaster(outcome_bounds=(0, 5.0)).fit(features, rectified)
    assert given.sample(features).max() <= 5
    refuses(SettingError, "outcome_bounds", forecaster(outcome_bounds=(0.0, 1.0)).fit, features, rectified)


# All rows


def shifted() -> tuple[np.ndarray, np.ndarray]:
    """The last quarter lies far above the others."""
    features, outcome = table(200)
    return features, outcome + np.where(np.arange(200) < 150, 0.0, 20.0)


def test_the_chosen_weight_is_trained_again_on_all_rows() -> None:
    found, held = (
        forecaster(decision_weight="auto", weights=(0.0, 0.5), refit_on_all_rows=again).fit(*shifted())
        for again in (True, False)
    )
    assert (found.frontier_, found.training_, found.validation_cases_) == (held.frontier_, held.training_, 50)
    mean = float(found.forecast_.models[0].state_dict()["outcome_scaling.mean"])
    assert mean == pytest.approx(shifted()[1].mean(), rel=1e-5)
    assert float(held.forecast_.models[0].state_dict()["outcome_scaling.mean"]) == pytest.approx(mean - 5, rel=0.1)
    assert found.forecast_.state.climatology_action > held.forecast_.state.climatology_action


def test_refit_trains_what_was_chosen_on_other_rows() -> None:
    features, outcome = shifted()
    early = forecaster(baseline=True, **DEFAULT).fit(features[:150], outcome[:150])
    before = early.decide(features)
    chosen, records = early.decision_weight_, early.training_
    later = copy.deepcopy(early).refit(features, outcome)
    assert (later.decision_weight_, later.training_, later.n_outputs_) == (chosen, records, 1)
    assert later.decide(features).mean() > before.mean() + 2
    again = copy.deepcopy(early).refit(features[:150], outcome[:150])
    np.testing.assert_array_equal(again.sample(features), early.sample(features))  # the same rows, the same models
    refuses(ValueError, "X has 1 features", early.refit, features[:, :1], outcome)
    refuses(NotFittedError, "", forecaster().refit, features, outcome)


# Inputs


def test_tables_of_pandas_and_xarray_give_the_same() -> None:
    features, outcome = table()
    frame = pd.DataFrame(features, columns=["wind", "load"])
    arrays = {
        "frame": (frame, pd.Series(outcome, name="price")),
        "array": (
            xr.DataArray(features, dims=("case", "feature"), coords={"feature": ["wind", "load"]}),
            xr.DataArray(outcome, dims="case", name="price"),
        ),
        "dataset": (xr.Dataset({name: ("case", frame[name]) for name in frame}), frame[[]].assign(price=outcome)),
    }
    expected = forecaster().fit(features, outcome)
    assert not hasattr(expected, "feature_names_in_")
    for given, target in arrays.values():
        found = forecaster().fit(given, target)
        assert list(found.feature_names_in_) == ["wind", "load"]
        assert found.target_names_ == ("price",)
        np.testing.assert_array_equal(found.sample(frame), expected.sample(features))
    refuses(ValueError, "feature names should match", found.predict, frame[["load", "wind"]])
    wrong = [
        frame[["load", "wind"]],
        frame * np.nan,
        frame.astype(str) + "?",
        np.ones((2, 3)),
        frame[:0],
        frame * 1e300,
    ]
    for each in wrong:  # refused by the forecast that is left where the estimator is not loaded
        refuses(StakesError, "X", found.forecast_.sample, each)
    plain = xr.DataArray(features, dims=("case", "feature"))
    np.testing.assert_array_equal(expected.predict(plain), expected.predict(features))


@pytest.mark.parametrize(
    "given", [xr.DataArray(np.ones((2, 2, 2))), xr.Dataset({"a": ("x", [1.0]), "b": ("y", [1.0, 2.0])})]
)
def test_tables_of_other_dimensions_are_refused(given: object) -> None:
    refuses(ShapeError, "X must", forecaster().fit, given, [1.0])


def test_few_rows() -> None:
    features, outcome = table(3)
    assert np.isfinite(forecaster(**DEFAULT).fit(features[:2], outcome[:2]).predict(features)).all()
    refuses(ShapeError, "X ", forecaster().fit, features[:1], outcome[:1])
    automatic = forecaster(decision_weight="auto", **DEFAULT)
    refuses(ShapeError, "X ", automatic.fit, features[:2], outcome[:2])
    assert automatic.fit(features, outcome).decision_weight_ == 0
    assert automatic.validation_cases_ == 2


def test_columns_and_outcomes_that_never_change() -> None:
    features, outcome = table()
    features[:, 1] = 7.0
    assert np.isfinite(forecaster().fit(features, outcome).decide(features)).all()
    assert np.isfinite(forecaster().fit(features, np.full(120, 3.0)).decide(features)).all()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"decision_weight": 1.5}, "decision_weight"),
        ({"decision_weight": "most"}, "decision_weight"),
        ({"decision_weight": None}, "decision_weight"),
        ({"decision_weight": [0.5]}, "decision_weight"),
        ({"training": "short"}, "training must"),
        ({"decision_weight": "auto", "weights": (0.0, 2.0)}, "decision_weight"),
        ({"model": "tree"}, "model must"),
        ({"model": 3}, "model must"),
        ({"model": lambda features, outcomes: torch.nn.Linear(features, outcomes)}, "model must"),
        ({"members": 1}, "members must"),
        ({"members": 3, "ensemble": 4}, "members must"),
        ({"ensemble": 0}, "ensemble"),
        ({"epochs": 0}, "epochs"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"block": 0}, "block"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"device": "abacus"}, "device"),
        pytest.param(
            {"device": "cuda"},
            "device",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="has a CUDA device"),
        ),
    ],
)
def test_settings_out_of_range(settings: dict[str, object], field: str) -> None:
    refuses(SettingError, field, forecaster(**settings).fit, *table(20))


def test_inputs_that_cannot_be_used(fitted: stakes.DecisionAwareForecaster) -> None:
    features, outcome = table(20)
    refuses(NonFiniteError, "X must", forecaster().fit, features * 1e300, outcome)
    refuses(ShapeError, "y must", fitted.score, features, np.stack([outcome, outcome], 1))
    refuses(SettingError, "alpha must", fitted.predict_quantiles, features, 1.2)
    times = np.datetime64("2020-01-01") + np.arange(20)
    refuses(ShapeError, "times must", forecaster().fit, features, outcome, times=times[1:])
    refuses(ShapeError, "row 1 comes before the one above", forecaster().fit, features, outcome, times=times[::-1])


# Failures


def test_a_weight_that_fails_is_left_out() -> None:
    tiny = stakes.cost_function(lambda action, outcome: 1e-60 * (action - outcome) ** 2, lower=0.0, upper=1.0)
    found = forecaster(decision_weight="auto", weights=(0.0, 0.5), **DEFAULT).set_params(cost=tiny)
    with pytest.warns(RuntimeWarning, match=r"weight 0\.5 failed"):
        found.fit(*table())
    assert found.decision_weight_ == 0
    assert [point.failed for point in found.frontier_.points] == [False, True]
    refuses(StakesError, "all models failed", forecaster().set_params(cost=tiny).fit, *table())
    with (
        pytest.warns(RuntimeWarning, match="left out"),
        pytest.raises(StakesError, match=r"all models of weight 0\.5 failed"),
    ):
        forecaster(baseline=True).set_params(cost=tiny).fit(*table())


# scikit-learn


def test_searches_and_pipelines() -> None:
    features, outcome = table(90)
    grid = {"decisionawareforecaster__decision_weight": [0.0, 0.5], "decisionawareforecaster__epochs": np.array([1])}
    search = GridSearchCV(
        make_pipeline(StandardScaler(), forecaster()), grid, cv=TimeSeriesSplit(2), error_score="raise"
    )
    search.fit(features, outcome)
    assert search.best_score_ < 0
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    assert search.predict(features).shape == (90,)


def test_copies_and_pickles(fitted: stakes.DecisionAwareForecaster) -> None:
    features, _ = table()
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.sample(features), fitted.sample(features))
    forecast = pickle.loads(pickle.dumps(fitted.forecast_))  # which needs no estimator
    np.testing.assert_array_equal(forecast.sample(features), fitted.sample(features))
    np.testing.assert_array_equal(forecast.decide(features), fitted.decide(features))
    other.set_params(members=7, block=3)
    assert (other.forecast.state.members, other.forecast.state.block, other.forecast_.state.members) == (7, 3, 20)
    unfitted = clone(fitted)
    assert unfitted.get_params() == fitted.get_params()
    assert not hasattr(unfitted, "forecast_")
    assert "ImbalanceCost(short=10.0" in repr(fitted)
    assert len(pickle.dumps(fitted)) < 60_000  # no data inside


def test_random_state_decides_everything() -> None:
    features, outcome = table()
    first, second, other = (forecaster(random_state=seed, **DEFAULT).fit(features, outcome) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.sample(features), second.sample(features))
    assert (first.sample(features) != other.sample(features)).any()


def test_threads_of_torch_come_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        forecaster(epochs=1).fit(*table(20))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# Interruptions and processes


def stop_after(epochs: int):
    calls = count(1)
    return lambda: next(calls) >= epochs


def assert_same(first: stakes.DecisionAwareForecaster, second: stakes.DecisionAwareForecaster) -> None:
    features, _ = table()
    np.testing.assert_array_equal(first.sample(features), second.sample(features))
    assert first.frontier_ == second.frontier_
    assert first.training_ == second.training_


INTERRUPTED = {"decision_weight": "auto", "weights": (0.0, 0.5), "ensemble": 2, **DEFAULT}


@pytest.fixture(scope="module")
def uninterrupted() -> stakes.DecisionAwareForecaster:
    return forecaster(**INTERRUPTED).fit(*table())


@pytest.mark.parametrize(("epochs", "where"), [(1, "1-of-1"), (2, "1-of-1"), (4, "all-rows/1-of-1")])
def test_a_fit_goes_on_where_it_was(
    uninterrupted: stakes.DecisionAwareForecaster, tmp_path: Path, epochs: int, where: str
) -> None:
    with pytest.raises(InterruptedTraining):
        forecaster(**INTERRUPTED).fit(*table(), checkpoints=tmp_path, stop=stop_after(epochs))
    assert list(tmp_path.glob(f"{where}/*"))
    assert_same(forecaster(**INTERRUPTED).fit(*table(), checkpoints=tmp_path), uninterrupted)


@pytest.mark.usefixtures("workers")
def test_processes_change_nothing() -> None:
    cost = stakes.cost_function(lambda action, outcome: (action - outcome).abs() + 0.1 * action, -5.0, 5.0)
    local = lambda features, outcomes: StraightModel(features, outcomes)
    given = {"decision_weight": "auto", "weights": (0.0, 0.3, 0.6), "model": local, "epochs": 1, **DEFAULT}
    two, one = (forecaster(**given, n_jobs=jobs).set_params(cost=cost).fit(*table()) for jobs in (2, 1))
    assert_same(two, one)


def endless() -> stakes.DecisionAwareForecaster:
    """Two processes that train until they are asked to stop."""
    return forecaster(decision_weight="auto", weights=(0.0, 0.5), n_jobs=2, epochs=100_000)


def test_an_interrupt_ends_every_process(tmp_path: Path, workers: list[Forked]) -> None:
    def interrupt() -> None:
        wait_until(lambda: len(workers) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    refuses(KeyboardInterrupt, "", endless().fit, *table(), checkpoints=tmp_path)
    interrupter.join()
    assert all(process.returncode is not None for process in workers)
    assert {path.name for path in tmp_path.iterdir()} == {"1-of-2", "2-of-2"}
    assert all(list(path.glob("epoch-*.json")) for path in tmp_path.iterdir())


@pytest.mark.usefixtures("workers")
def test_who_asks_for_an_end_hears_of_it(tmp_path: Path) -> None:
    both_began = stop_after(4)
    refuses(InterruptedTraining, "", endless().fit, *table(), checkpoints=tmp_path, stop=both_began)
    refuses(InterruptedTraining, "", endless().fit, *table(), stop=lambda: True)


def test_without_one_part_the_others_end_with_a_checkpoint(tmp_path: Path, workers: list[Forked]) -> None:
    (tmp_path / "1-of-2").write_text("no folder")
    refuses(StakesError, "1-of-2", endless().fit, *table(), checkpoints=tmp_path)
    assert list((tmp_path / "2-of-2").glob("epoch-*.json"))
    assert len(workers) == 2


def test_what_processes_cannot_share_is_refused() -> None:
    lock = threading.Lock()
    local = lambda features, outcomes: lock and StraightModel(features, outcomes)
    refuses(SettingError, "pickle", forecaster(model=local, decision_weight="auto", n_jobs=2).fit, *table(20))


def test_epochs_set_the_length_of_everything() -> None:
    few = automatic_settings(375, epochs=10)
    assert (few.epochs, few.pretraining_epochs, few.validate_every, few.patience) == (10, 3, 1, 3)
    found = forecaster(training=None, epochs=2).fit(*table(60))
    assert [line["phase"] for line in found.training_[0]["history"]].count("training") == 3  # with the start


def test_a_fit_that_failed_is_no_fit() -> None:
    found = forecaster(device="abacus")
    refuses(SettingError, "device", found.fit, *table(20))
    refuses(NotFittedError, "", found.predict, table(20)[0])


def test_a_warm_start_goes_on_from_the_fit_before() -> None:
    features, outcome = table(300)
    found = forecaster(baseline=True, **DEFAULT).fit(features, outcome)
    before = found.forecast_.baseline_models[0].state_dict()
    features, outcome = table(300, seed=1)  # new rows, which the start has not seen
    found.set_params(warm_start=True, epochs=1).fit(features, outcome)
    afresh = forecaster(baseline=True, epochs=1, **DEFAULT).fit(features, outcome)
    near, far = (_distance(each.forecast_.baseline_models[0].state_dict(), before) for each in (found, afresh))
    assert 0 < near < far
    assert all(line["phase"] == "training" for record in found.training_ for line in record["history"])


def test_a_warm_start_keeps_the_scaling_and_needs_the_same_model() -> None:
    features, outcome = table()
    found = forecaster().fit(features, outcome)
    mean = found.forecast_.models[0].state_dict()["outcome_scaling.mean"].clone()
    found.set_params(warm_start=True).fit(features, outcome + 5)
    assert torch.equal(found.forecast_.models[0].state_dict()["outcome_scaling.mean"], mean)
    refuses(SettingError, "ensemble must", clone_with(found, ensemble=2).fit, features, outcome)
    refuses(SettingError, "warm_start", clone_with(found, ensemble=1).fit, features[:, :1], outcome)


def clone_with(found: stakes.DecisionAwareForecaster, **settings: object) -> stakes.DecisionAwareForecaster:
    return copy.deepcopy(found).set_params(**settings)


def _distance(state: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return sum(float((value - other[name]).norm()) for name, value in state.items())
