"""Whether and how a forecaster learns from its newest errors."""

from itertools import count

import numpy as np
import pytest
import torch
from own_corrections import moving
from torch import Tensor

import stakes
from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.data.case_table import CaseTable
from stakes.errors import InterruptedTraining
from stakes.evaluation.selection import Candidate
from stakes.forecasting.forecast_candidates import recent_corrections
from stakes.training.settings import ImplicitSettings, TrainingSettings

TIMES = torch.arange(100.0)[:, None]
ROWS = CaseTable(TIMES, TIMES)
fit = stakes.Correction.fit


class Trainings(Candidate[CaseTable, int]):
    """Forecasts that say how many rows they were fitted on."""

    def __init__(self, *which: str) -> None:
        self.which, self.known = which or ("chosen",), []

    @property
    def name(self) -> str:
        return "linear"

    def fit(self, cases: CaseTable, like: int | None = None) -> int:
        self.known.append(len(cases))
        return len(cases)

    def members(self, fitted: int, cases: CaseTable) -> dict[str, Tensor]:
        return {each: torch.full((len(cases), 2, 1), float(fitted)) for each in self.which}


def corrections_of(trainings: Trainings, judge: object, first: int = 60, again: bool = True) -> dict[str, object]:
    return dict(recent_corrections(trainings, 57, ROWS, judge, first=first, lead=3, again=again))


def whatever(members: Tensor, outcome: Tensor, origins: int = 4) -> stakes.Correction:
    """A correction that tells which fits the members are of."""
    assert outcome[0] == 60
    shift = tuple(sorted(set(members.flatten().tolist())))
    return moving(len(outcome), shift, (1.0,) * len(shift))


def test_the_second_half_is_forecast_by_a_fit_on_what_was_known() -> None:
    trainings = Trainings()
    found = corrections_of(trainings, whatever)
    assert trainings.known == [77]  # 80, where the second half begins, less the lead
    assert found["chosen"].shift == (57.0, 77.0)


def test_the_models_of_the_search_may_be_corrected_themselves() -> None:
    assert corrections_of(Trainings(), whatever, again=False)["chosen"].shift == (57.0,)


def test_nothing_is_trained_where_the_errors_of_the_search_say_nothing() -> None:
    trainings = Trainings()
    assert corrections_of(trainings, lambda *_: None) == {"chosen": None}
    assert not trainings.known


def test_weight_0_beside_it_is_corrected_by_its_own_errors() -> None:
    trainings = Trainings("chosen", "baseline")

    def judge(members: Tensor, outcome: Tensor, origins: int = 4) -> stakes.Correction | None:
        judged.append(members)
        return whatever(members, outcome) if len(judged) != 2 else None  # none for weight 0 of the search

    judged: list[Tensor] = []
    found = corrections_of(trainings, judge)
    assert found["baseline"] is None
    assert found["chosen"] is not None
    assert len(trainings.known) == 1


def test_no_row_is_left_where_the_lead_is_longer_than_the_validation() -> None:
    assert corrections_of(Trainings(), whatever, first=100) == {}


# In the estimator


@pytest.fixture(scope="module")
def record() -> tuple[np.ndarray, np.ndarray]:
    """Outcomes that rise slowly, which no feature tells: every fit lags behind them."""
    random = np.random.default_rng(0)
    features = random.normal(size=(1200, 2))
    return features, features.sum(1) + 0.004 * np.arange(1200) + random.normal(size=1200)


def forecaster(**settings: object) -> stakes.DecisionAwareForecaster:
    cost = stakes.NewsvendorCost(20.0, 1.0, -50.0, 50.0)
    given = {"model": "linear", "decision_weight": 0.0, "members": 40, "random_state": 0, "block": 5, "gap": 2}
    return stakes.DecisionAwareForecaster(cost, **given | settings)


@pytest.fixture(scope="module")
def fresh(record) -> stakes.DecisionAwareForecaster:
    features, outcome = record
    return forecaster().fit(features[:900], outcome[:900])


def test_what_every_fit_lags_behind_is_learned(record, fresh) -> None:
    features, outcome = record
    raw = forecaster(recent_errors=False).fit(features[:900], outcome[:900])
    assert raw.forecast_.state.correction is None
    assert fresh.forecast_.state.correction.shift[0] == pytest.approx(
        0.004 * ((732 - 675 / 2) + (844 - 786 / 2)) / 2, abs=0.2
    )  # of fits on 675 and 786 rows, from the middle of these to the middle of what they forecast
    assert fresh.forecast_.state.correction.cases == 223  # a quarter less the lead
    assert fresh.score(features[900:], outcome[900:]) > raw.score(features[900:], outcome[900:])
    np.testing.assert_array_equal(
        fresh.sample(features[900:]),
        fresh.forecast_.state.correction.apply(raw.sample(features[900:])).astype(np.float32),
    )


def test_what_a_fit_on_newer_rows_cures_by_itself_is_corrected_less(record) -> None:
    """The spread has quadrupled just before the validation rows: later fits know it, that of the search does not."""
    features, _ = record
    noise = np.random.default_rng(1).normal(size=900)
    outcome = features[:900].sum(1) + np.where(np.arange(900) < 660, 1.0, 4.0) * noise
    again = forecaster().fit(features[:900], outcome).forecast_.state.correction
    searched = forecaster(refit_on_all_rows=False).fit(features[:900], outcome).forecast_.state.correction
    assert 1 < again.factor[0] < searched.factor[0]
    assert searched.factor[0] > 1.5


def test_a_bundle_and_a_refit_keep_it(record, fresh, tmp_path) -> None:
    features, outcome = record
    save_bundle(tmp_path / "fit", fresh)
    loaded = load_bundle(tmp_path / "fit", cost=fresh.cost).forecaster
    assert loaded.forecast_.state.correction == fresh.forecast_.state.correction
    np.testing.assert_array_equal(loaded.sample(features[900:]), fresh.sample(features[900:]))
    before = loaded.forecast_.state.correction
    assert loaded.refit(features, outcome).forecast_.state.correction is before


def test_members_stay_within_bounds(record) -> None:
    features, outcome = record
    fresh = forecaster(outcome_bounds=(-9.0, 9.0)).fit(features[:900], outcome[:900].clip(-9, 9))
    assert fresh.forecast_.state.correction is not None
    assert np.abs(fresh.sample(features[900:])).max() == 9.0


def test_an_interrupted_fit_goes_on_where_it_was(record, tmp_path, monkeypatch) -> None:
    """Every training from a later origin has checkpoints of its own."""
    features, outcome = record[0][:900], record[1][:900]
    monkeypatch.setattr(
        "stakes.forecasting.forecast_candidates.helpful_correction", lambda members, outcome, **_: fit(members, outcome)
    )
    training = TrainingSettings(epochs=4, learning_rate=0.05, validate_every=1, batch=64)
    given = {"model": ImplicitSettings(noise=2, hidden=4, layers=1), "training": training, "base": "none"}
    asked = count(1)
    with pytest.raises(InterruptedTraining):
        forecaster(**given).fit(features, outcome, checkpoints=tmp_path, stop=lambda: next(asked) >= 6)
    assert [path.name for path in tmp_path.iterdir()] == ["first-787-rows"]  # the others ended within seconds
    again = forecaster(**given).fit(features, outcome, checkpoints=tmp_path)
    whole = forecaster(**given).fit(features, outcome)
    assert again.forecast_.state.correction == whole.forecast_.state.correction is not None
    np.testing.assert_array_equal(again.sample(features), whole.sample(features))
