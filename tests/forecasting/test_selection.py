"""The estimator selects what is expected to cost least."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import stakes
from stakes.actions.check_cost import gradient_objection
from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.data.case_table import CaseTable, neighbouring_sets
from stakes.errors import InterruptedTraining
from stakes.evaluation.selection import CANDIDATES
from stakes.models.linear import LinearModel
from stakes.training.settings import ImplicitSettings, TrainingSettings

COST = stakes.ImbalanceCost(short=9.0, long=1.0, lower=-50.0, upper=50.0)
SMALL = ImplicitSettings(noise=2, hidden=8, layers=1)
QUICK = TrainingSettings(epochs=2, pretraining_epochs=0, validate_every=1, batch=400, members=4, validation_members=4)
LONGER = TrainingSettings(epochs=12, pretraining_epochs=0, validate_every=3, batch=64, learning_rate=2e-2, members=6)


def rows(kind: str, count: int = 800, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    features, noise = random.normal(size=(count, 3)), 0.5 * random.normal(size=count)
    location = {"nothing": 0.0, "linear": features @ [1.0, 0.5, 0.0], "curved": 2 * np.abs(features[:, 0])}[kind]
    return features, location + noise


def forecaster(**settings: Any) -> stakes.DecisionAwareForecaster:
    given = {"model": SMALL, "weights": (0.0, 0.5), "members": 30, "training": QUICK, "block": 4, "random_state": 0}
    given |= {"ensemble": 2}
    return stakes.DecisionAwareForecaster(COST, **(given | settings))


@pytest.fixture(scope="module")
def straight() -> stakes.DecisionAwareForecaster:
    return forecaster(training=LONGER, weights=(0.0, 0.1, 0.3), ensemble=4).fit(*rows("linear", seed=4))


@pytest.fixture(scope="module")
def curved() -> stakes.DecisionAwareForecaster:
    return forecaster(training=LONGER, weights=(0.0,)).fit(*rows("curved"))


WEIGHED = {"training": LONGER, "weights": (0.0, 0.1, 0.3), "ensemble": 4}


@pytest.fixture(scope="module")
def weighed() -> stakes.DecisionAwareForecaster:
    """A decision weight is selected."""
    return forecaster(**WEIGHED).fit(*rows("linear", seed=3))


def test_where_the_truth_is_linear_the_forecast_is(straight: stakes.DecisionAwareForecaster) -> None:
    assert straight.selection_ is not None
    assert straight.selection_.selected.name == straight.kind_ == "linear"
    assert [candidate.name for candidate in straight.selection_.candidates] == [
        "climatology",
        "linear",
        "trees",
        "network",
        "decision",
        "pool",
        "recent_errors",
    ]
    (model,) = straight.forecast_.models
    assert isinstance(model, LinearModel)
    assert straight.decision_weight_ == 0.0
    assert not straight.forecast_.baseline_models
    features, outcome = rows("linear", seed=1)
    assert np.corrcoef(straight.predict(features), outcome)[0, 1] > 0.8


def test_the_linear_candidate_is_fitted_again_on_all_rows(straight: stakes.DecisionAwareForecaster) -> None:
    features, outcome = rows("linear", seed=4)
    alone = forecaster(model="linear", decision_weight=0.0, recent_errors=False).fit(features, outcome)
    np.testing.assert_array_equal(straight.sample(features[:3]), alone.sample(features[:3]))


def test_where_there_is_nothing_to_know_climatology_stays() -> None:
    features, outcome = rows("nothing", seed=5)
    found = forecaster().fit(features, outcome)
    assert found.selection_ is not None
    assert found.selection_.selected.name == found.kind_ == "climatology"
    members = found.sample(features[:5])
    np.testing.assert_array_equal(members, np.repeat(members[:1], 5, 0))
    near = np.abs(members[0] - outcome).min(1)  # each member is something that happened
    assert near.max() < 1e-6


def test_where_the_truth_is_curved_a_network_is_accepted(curved: stakes.DecisionAwareForecaster) -> None:
    assert curved.selection_ is not None
    assert curved.selection_.selected.name == curved.kind_ == "network"
    by_name = {candidate.name: candidate for candidate in curved.selection_.candidates}
    assert not by_name["linear"].accepted
    assert by_name["trees"].proven  # against climatology
    assert by_name["network"].below == "trees"


@pytest.mark.parametrize("name", ["straight", "curved"])
def test_every_candidate_is_judged_on_test_rows(name: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(name)
    kind = "linear" if name == "straight" else "curved"
    features, outcome = rows(kind, 300, seed=2)
    tested = found.tested_selection(features, outcome).tested
    judged = [candidate.name for candidate in found.selection_.candidates if candidate.cost is not None]
    assert [candidate.name for candidate in tested] == judged
    paid = -found.score(features, outcome)
    for candidate in tested:
        assert candidate.cost + candidate.cost_change.mean == pytest.approx(paid)
    assert tested[0].cost_change.high < 0  # climatology is far more expensive
    selected = next(candidate for candidate in tested if candidate.name == found.selection_.selected.name)
    assert abs(selected.cost_change.mean) < 0.1 * abs(tested[0].cost_change.mean)


@pytest.mark.parametrize("name", ["straight", "curved"])
def test_a_bundle_holds_the_candidate_that_was_selected(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    found = request.getfixturevalue(name)
    features, outcome = rows("linear", 50, seed=3)
    save_bundle(tmp_path / "fit", found)
    again = load_bundle(tmp_path / "fit", cost=COST).forecaster
    np.testing.assert_array_equal(again.sample(features), found.sample(features))
    assert (again.kind_, again.selection_) == (found.kind_, found.selection_)
    assert again.tested_selection(features, outcome) == found.selection_  # the other candidates are not kept
    assert np.isfinite(again.refit(*rows("linear", 200, seed=4)).sample(features)).all()


def test_a_second_fit_from_a_linear_one_starts_afresh() -> None:
    warm = forecaster(warm_start=True, ensemble=4, weights=(0.0,))
    first = warm.fit(*rows("linear", seed=4)).sample(np.zeros((1, 3)))
    np.testing.assert_array_equal(warm.fit(*rows("linear", seed=4)).sample(np.zeros((1, 3))), first)
    assert warm.refit(*rows("linear", seed=4)).kind_ == "linear"


@pytest.mark.parametrize("count", [3, 40])
def test_few_rows_prove_nothing_and_are_forecast_linearly(count: int) -> None:
    found = forecaster().fit(*rows("linear", count))
    assert found.selection_ is not None
    assert (found.selection_.selected.name, len(found.selection_.candidates)) == ("linear", 2)
    assert "too few" in found.selection_.reason
    assert np.isfinite(found.predict(np.zeros((2, 3)))).all()


def test_outcomes_that_never_change() -> None:
    features, outcome = rows("linear")
    found = forecaster().fit(features, np.full_like(outcome, 3.0))
    assert found.selection_ is not None
    assert found.selection_.selected.name == "climatology"
    np.testing.assert_allclose(found.predict(features[:3]), 3.0)


def test_weights_that_fail_leave_the_candidates_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stakes.forecasting.decisions.gradient_objection", lambda *_: "")  # which would train none
    free = stakes.cost_function(lambda action, outcome: 0 * action * outcome, lower=0.0, upper=1.0)
    found = forecaster(recent_errors=False).set_params(cost=free).fit(*rows("linear"))
    assert found.selection_ is not None
    assert found.selection_.selected.name in ("linear", "network")  # nothing costs anything, so the score decides
    unfitted = {candidate.name: candidate.why for candidate in found.selection_.candidates if candidate.cost is None}
    assert unfitted["decision"] == "it failed"


def test_errors_that_stay_are_corrected() -> None:
    """The level of the newest rows is another than that of those before: a forecast that is not fitted again is off."""
    features, outcome = rows("linear", 1600)
    outcome[1200:] += 2.0
    stale = forecaster(refit_on_all_rows=False, weights=(0.0,)).fit(features, outcome)
    assert stale.selection_ is not None
    assert stale.selection_.selected.name == "recent_errors"
    assert stale.forecast_.state.correction is not None
    assert stale.forecast_.state.correction.shift[0] > 1.5
    fresh = forecaster(members=10).fit(features, outcome)
    assert fresh.selection_ is not None
    last = fresh.selection_.candidates[-1]
    assert last.name == "recent_errors"
    assert (fresh.forecast_.state.correction is not None) == last.accepted


def test_the_score_of_the_total_is_tried_for_costs_with_a_total() -> None:
    features, outcome = rows("linear", 900)
    several = np.stack([outcome, features[:, 1] - outcome], 1)
    found = forecaster().fit(features, several)
    with_total = found.selection_
    assert with_total is not None
    assert len(found.training_) == 3 + 2 + 1 + 1  # one network was enough to tell that neither it nor a weight helps
    assert tuple(candidate.name for candidate in with_total.candidates) == CANDIDATES
    assert with_total.candidates[CANDIDATES.index("total_score")].parameters == {"score": "energy=1,total=1"}
    already = forecaster(scoring_rule="energy=1,total=1", recent_errors=False).fit(features, several).selection_
    assert already is not None
    named = [candidate.name for candidate in already.candidates]
    assert named == ["climatology", "linear", "trees", "network", "decision", "pool"]


def test_a_selection_goes_on_where_it_was(tmp_path: Path) -> None:
    features, outcome = rows("curved", 400)
    asked = iter([False] * 3)  # the two epochs of the network and one of the decision weights
    with pytest.raises(InterruptedTraining):
        forecaster().fit(features, outcome, checkpoints=tmp_path, stop=lambda: next(asked, True))
    assert {path.name for path in tmp_path.iterdir()} == {"decision"}
    went_on = forecaster().fit(features, outcome, checkpoints=tmp_path)
    at_once = forecaster().fit(features, outcome)
    assert went_on.selection_ == at_once.selection_
    np.testing.assert_array_equal(went_on.sample(features[:3]), at_once.sample(features[:3]))


def test_a_decision_weight_is_trained_with_more_members_than_the_score_and_with_all_models(
    weighed: stakes.DecisionAwareForecaster,
) -> None:
    found = weighed
    assert found.found_.settings.decision_member_count == 30
    weights = [record["decision_weight"] for record in found.training_]
    assert weights.count(found.decision_weight_) == 4
    assert weights.count(0.1 if found.decision_weight_ == 0.3 else 0.3) == 1  # which was enough to tell
    assert len(found.forecast_.models) == len(found.forecast_.baseline_models) == 4


def test_a_forecast_on_trees_may_be_a_linear_one() -> None:
    pytest.importorskip("lightgbm")
    found = forecaster(base="trees", ensemble=4).fit(*rows("linear", seed=4))
    assert "trees" not in [candidate.name for candidate in found.selection_.candidates]
    assert (found.kind_, found.trees_) == ("linear", None)
    tested = found.tested_selection(*rows("linear", 200, seed=5))
    assert tested is not None
    assert len(tested.tested) == len(tested.candidates)


def test_who_asks_for_a_linear_model_is_not_given_trees() -> None:
    found = forecaster(model="linear").fit(*rows("curved", 400)).selection_
    assert found is not None
    assert {candidate.name for candidate in found.candidates}.isdisjoint({"trees", "pool"})


def test_a_saving_too_small_to_pay_for_the_training_is_forgone(
    weighed: stakes.DecisionAwareForecaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert weighed.decision_weight_ > 0
    monkeypatch.setattr("stakes.evaluation.selection.LEAST_SAVING", 0.5)
    plain = forecaster(**WEIGHED).fit(*rows("linear", seed=3))
    assert plain.decision_weight_ == 0
    assert {record["decision_weight"] for record in plain.training_} == {0.0, 0.1, 0.3}
    assert len(plain.training_) == 3 + 4 + 2  # one network for each weight


def test_without_the_selection_the_network_is_selected_whatever_is_proven() -> None:
    found = forecaster(model_selection=False).fit(*rows("linear"))
    assert (found.selection_, found.kind_) == (None, "network")
    assert found.tested_selection(*rows("linear")) is None
    assert found.frontier_ is not None
    given = forecaster(decision_weight=0.0).fit(*rows("linear"))
    assert (given.selection_, given.frontier_, given.kind_) == (None, None, "network")


def test_rows_within_a_lead_time_of_training_judge_nothing() -> None:
    from stakes.forecasting.plan import plan_fit

    features, outcome = (torch.from_numpy(values).float() for values in rows("linear"))
    near, far = (
        plan_fit(forecaster(gap=gap).parameters, CaseTable(features, outcome[:, None])).judged_rows for gap in (0, 30)
    )
    assert near.min() < 30 <= far.min()
    assert set(far) == {row for row in near if row >= 30}


@pytest.mark.parametrize("model_selection", [True, False])
def test_decision_weights_without_a_gradient_are_not_trained(
    model_selection: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(80, 2))
    outcomes = 60 + 10 * features @ random.normal(size=(2, 2)) + 20 * random.normal(size=(80, 2))
    asked = forecaster(members=10, block=1, ensemble=1, model_selection=model_selection, verbose=1)
    found = asked.set_params(cost=EMPTIED).fit(features, outcomes)
    assert {record["decision_weight"] for record in found.training_} == {0.0}
    reason = "does not depend on the members"
    assert reason in capsys.readouterr().err.partition("decision weights are not trained: ")[2]
    if model_selection:
        assert found.selection_ is not None
        last = next(each for each in found.selection_.candidates if each.name == "decision")
        assert (last.name, last.cost, last.accepted) == ("decision", None, False)
        assert reason in last.why


EMPTIED = stakes.ArbitrageCost(power=1.0, energy=2.0, efficiency=0.9, quadratic=0.0)
HINGE = stakes.cost_function(lambda a, y: torch.relu(y - a) + 2 * torch.relu(a - y), 0.0, 150.0, convex=True)
FAR = stakes.NewsvendorCost(1.0, 1.0, lower=500.0, upper=600.0)


@pytest.mark.parametrize(
    ("cost", "objection"),
    [
        (COST, ""),
        (FAR, "at a bound in every set"),
        (HINGE, "at a kink"),
        (EMPTIED, "does not depend on the members"),
        (stakes.StorageCost(30.0, 60.0, 5.0, power=20 / 3, energy=40 / 3), "do not agree with finite"),  # in half
        (stakes.ScheduleCost(3.0, 1.0, quadratic=0.1, ramp=5.0), ""),
        (stakes.StorageCost(40.0, 60.0, 0.1, power=10.0, energy=20.0, efficiency=0.7), ""),
    ],
)
def test_only_costs_without_a_usable_gradient_are_objected_to(cost: stakes.Cost, objection: str) -> None:
    outcomes = np.random.default_rng(0).normal(60, 20, size=(200, 4))
    scalar = getattr(cost, "program", None) is None
    sets = neighbouring_sets(outcomes[:, : 1 if scalar else 4], *((24, 25) if objection else (12, 20)))
    found = gradient_objection(cost, sets)
    assert objection in found
    assert bool(found) == bool(objection)
    check = (stakes.check_cost if scalar else stakes.check_program)(cost, sets)
    assert check.fit_for_training == (not objection)
    assert scalar or not objection or objection in check.objections[-1]
