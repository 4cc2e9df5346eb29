"""Models of one's own among the candidates of a forecaster."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from refusals import refuses
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import stakes
from stakes.errors import SettingError, StakesWarning
from stakes.training.settings import ImplicitSettings, TrainingSettings

COST = stakes.NewsvendorCost(9.0, 1.0, -30.0, 30.0)
QUICK = TrainingSettings(epochs=1, pretraining_epochs=0, validate_every=1, members=4, validation_members=4)
CUBIC = make_pipeline(PolynomialFeatures(3), LinearRegression())


class Told(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Knows the distribution that `bent` draws from, and tells its quantiles."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong

    def fit(self, features: Any, outcome: Any) -> "Told":
        if self.wrong == "fails":
            raise RuntimeError("no licence")
        return self

    def predict(self, features: Any) -> Any:
        return self.predict_quantiles(features, [0.5])[:, 0]

    def predict_quantiles(self, features: Any, levels: Any) -> Any:
        values = features[:, :1] ** 3 + (0.2 + (features[:, 1:] > 0)) * norm.ppf(levels)
        return np.stack([values, values], 2) if self.wrong == "two outcomes" else values


def bent(rows: int = 400, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    random = np.random.default_rng(seed)
    features = random.uniform(-2, 2, size=(rows, 2))
    return features, features[:, 0] ** 3 + (0.2 + (features[:, 1] > 0)) * random.normal(size=rows)


def forecaster(candidates: Any, **given: Any) -> stakes.DecisionAwareForecaster:
    model = ImplicitSettings(noise=2, hidden=4, layers=1)
    settings = {"model": model, "training": QUICK, "weights": (0.0,), "ensemble": 1, "members": 40, "random_state": 0}
    return stakes.DecisionAwareForecaster(COST, candidates=candidates, **(settings | given))


def test_a_regressor_is_selected_with_its_errors_out_of_fold_around_it(tmp_path: Path) -> None:
    features, outcome = bent()
    fitted = forecaster({"cubic": CUBIC}, recent_errors=False).fit(features, outcome)
    assert fitted.selection_ is not None
    assert fitted.selection_.selected.name == fitted.kind_ == "cubic"
    assert fitted.selection_.reason.startswith("Cubic was selected")
    members = fitted.sample(features[:5])[..., 0]
    location = clone(CUBIC).fit(features, outcome).predict(features[:5])
    errors = members - location[:, None]
    np.testing.assert_allclose(errors, errors[:1].repeat(5, 0), atol=1e-4)  # the same for all rows
    assert errors[0].std() == pytest.approx(np.std(outcome - features[:, 0] ** 3), rel=0.1)
    best = stakes.optimal_action(COST, torch.from_numpy(members)[..., None].double())
    np.testing.assert_allclose(fitted.decide(features[:5]), best[:, 0], rtol=1e-6)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).decide(features), fitted.decide(features))
    np.testing.assert_allclose(clone(fitted).fit(features, outcome).decide(features), fitted.decide(features))
    refuses(SettingError, "cubic.*joblib", stakes.save_bundle, tmp_path / "fit", fitted)
    assert not (tmp_path / "fit").exists()
    later = bent(seed=1)
    np.testing.assert_allclose(fitted.refit(*later).sample(features[:5]).mean(1)[:, 0], features[:5, 0] ** 3, atol=0.3)
    tested = fitted.tested_selection(*later)
    assert tested is not None
    assert {each.name for each in tested.tested} >= {"climatology", "linear", "cubic"}


def test_a_model_that_tells_quantiles_is_judged_by_what_it_tells() -> None:
    features, outcome = bent()
    fitted = forecaster({"cubic": CUBIC, "told": Told()}, recent_errors=False, gap=3).fit(features, outcome)
    assert fitted.kind_ == "told"
    levels = (np.arange(40) + 0.5) / 40
    np.testing.assert_allclose(
        fitted.sample(features[:5])[..., 0], Told().predict_quantiles(features[:5], levels), rtol=1e-5
    )
    np.testing.assert_array_equal(fitted.sample(features)[7], fitted.sample(features[7:8])[0])


def test_a_candidate_that_fails_or_loses_is_told_of_and_the_others_stand(tmp_path: Path) -> None:
    features, outcome = bent()
    with pytest.warns(StakesWarning, match="'broken'.*no licence"):
        fitted = forecaster({"broken": Told("fails"), "line": LinearRegression()}).fit(features, outcome)
    assert fitted.kind_ not in ("broken", "line")
    stakes.save_bundle(tmp_path, fitted)
    opened = stakes.load_bundle(tmp_path).forecaster
    assert opened.selection_ == fitted.selection_
    assert opened.candidates is None
    with pytest.warns(StakesWarning, match="'wide'.*1 outcomes"):
        forecaster({"wide": Told("two outcomes")}).fit(features, outcome)


@pytest.mark.parametrize(
    ("candidates", "given", "named"),
    [
        ({"linear": CUBIC}, {}, "candidates"),
        ({"<b>": CUBIC}, {}, "candidates"),
        ({"mean": np.mean}, {}, "mean"),
        ([CUBIC], {}, "candidates"),
        ({"cubic": CUBIC}, {"decision_weight": 0.3}, "candidates"),
        ({"cubic": CUBIC}, {"model_selection": False}, "candidates"),
    ],
)
def test_what_cannot_be_a_candidate_is_refused(candidates: Any, given: Any, named: str) -> None:
    refuses(SettingError, named, forecaster(candidates, **given).fit, *bent(60))
