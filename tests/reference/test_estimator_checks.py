"""scikit-learn's own checks of an estimator."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import stakes
from stakes.training.settings import ImplicitSettings, TrainingSettings

TINY = {
    "model": ImplicitSettings(noise=2, hidden=4, layers=1),
    "members": 37,  # an odd number, for which float32 products depend on their shape
    "training": TrainingSettings(epochs=1, validate_every=1, batch=500, members=4, validation_members=4),
}
COST = stakes.ImbalanceCost(short=2.0, long=1.0, lower=-5.0, upper=5.0)


@pytest.fixture(autouse=True)
def _without_skpro(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn takes the answer of every `predict_proba` for an array, and compares it."""
    monkeypatch.setattr("stakes.forecasting.member_answers.find_spec", lambda name: None)


# No check may fail. One skips itself, check_array_api_input, unless SciPy is told to take arrays of other libraries.
# The tag poor_score leaves out one line, that the score exceeds 0.5: it is R^2 there, and a negative cost here.


@parametrize_with_checks(
    [
        stakes.DecisionAwareForecaster(COST, decision_weight=0.5, ensemble=1, **TINY),
        stakes.DecisionAwareForecaster(COST, weights=(0.0, 0.5), ensemble=2, refit_on_all_rows=False, **TINY),
    ]
)
def test_every_check_passes(estimator: stakes.DecisionAwareForecaster, check: Any) -> None:
    check(estimator)


def test_tags_claim_no_more_than_is_true() -> None:
    tags = stakes.DecisionAwareForecaster(COST).__sklearn_tags__()
    assert tags.regressor_tags.poor_score
    assert tags.target_tags.multi_output
    assert not tags.non_deterministic
    assert not tags.no_validation
    assert not tags.input_tags.allow_nan
