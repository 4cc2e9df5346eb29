from functools import partial
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

import stakes
from stakes.errors import SettingError, ShapeError
from stakes.forecasting.corrections import corrected_in_time, known_cases, rolling_forecasts

HOURS = np.datetime64("2020-01-01T00") + np.arange(400)


def forecasts(cases: int = 200, width: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(cases, 6, width)), 1 + 2 * random.normal(size=(cases, width))


def test_known_is_what_happened_before_the_forecast_was_made() -> None:
    assert [known_cases(slice(10, 12), 20, lead=lead) for lead in (0, 1, 5, 50)] == [10, 9, 5, 0]
    half_hourly = np.datetime64("2020-01-01T00:00") + 30 * np.arange(20)
    assert known_cases(slice(10, 12), 20, half_hourly, lead=2.0) == 6
    twice = np.repeat(half_hourly, 2)  # two sites
    assert known_cases(slice(11, 14), 40, twice) == 10
    leads = np.where(np.arange(20) == 11, 7.0, 1.0)
    assert known_cases(slice(10, 12), 20, lead=leads) == 4


@examples(40)
@given(st.data())
def test_no_outcome_leaks_into_a_forecast_that_was_made_before_it(data: st.DataObject) -> None:
    cases = 110
    lead, block = data.draw(st.integers(0, 40)), data.draw(st.integers(20, 40))
    row = data.draw(st.integers(50, cases - 1))
    times = HOURS[:cases] if data.draw(st.booleans()) else None
    fit = partial(stakes.Correction.fit, dependence=data.draw(st.sampled_from(["members", "errors"])))
    members, outcomes = forecasts(cases)
    later = outcomes.copy()
    first = max(0, row - lead)
    later[data.draw(st.integers(first, cases - 1)) :] += 100.0
    before, after = (
        corrected_in_time(members, seen, times, lead=lead, block=block, fit=fit)[row] for seen in (outcomes, later)
    )
    np.testing.assert_array_equal(before, after)


def test_outcomes_before_the_forecast_was_made_do_correct() -> None:
    members, outcomes = forecasts(130, 1)
    changed = outcomes.copy()
    changed[:90] += 100.0
    before, after = (corrected_in_time(members, seen, lead=10, block=10) for seen in (outcomes, changed))
    np.testing.assert_array_equal(before[:60], members[:60])  # fewer than 50 cases are known
    np.testing.assert_array_equal(after[:60], members[:60])
    assert (before[60:70] != members[60:70]).all()
    assert after[60:].mean() > before[60:].mean() + 50


def test_each_block_is_corrected_by_what_was_known_then() -> None:
    members, outcomes = forecasts(300)
    fit = partial(stakes.Correction.fit, by=("hour",), lower=-1.0)
    found = corrected_in_time(members, outcomes, HOURS[:300], lead=24.0, block=50, newest=120, fit=fit)
    known = 250 - 24
    past = slice(known - 120, known)
    expected = fit(members[past], outcomes[past], HOURS[past]).apply(members[250:], HOURS[250:300])
    np.testing.assert_array_equal(found[250:], expected)


def test_errors_depend_on_the_lead() -> None:
    members, outcomes = forecasts(300)
    leads = np.tile([6.0, 12.0], 150)
    outcomes[1::2] += 20.0
    fit = partial(stakes.Correction.fit, by=("lead",))
    found = corrected_in_time(members, outcomes, HOURS[:300], lead=leads, block=100, fit=fit)[200:]
    assert found[1::2].mean() - found[::2].mean() == pytest.approx(20.0, abs=2.0)


def test_blocks_are_a_twentieth_by_default_and_types_stay() -> None:
    members, outcomes = forecasts(100, 1)
    found = corrected_in_time(members.astype(np.float32), outcomes)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, corrected_in_time(members.astype(np.float32), outcomes, block=5))


class Constant:
    """Members that tell how many rows it was fitted on."""

    def __init__(self, rows: slice) -> None:
        self.rows = rows

    def sample(self, X: Any) -> np.ndarray:  # noqa: N803
        return np.full((len(X), 3, 1), float(self.rows.stop))


def test_rolling_origins_leave_the_gap() -> None:
    features = np.zeros((100, 2))
    rows, members = rolling_forecasts(Constant, features, lead=5, origins=2)
    assert rows == slice(50, 100)
    assert members.shape == (50, 3, 1)
    assert members[:, 0, 0].tolist() == [45.0] * 25 + [70.0] * 25
    in_time = rolling_forecasts(Constant, features, HOURS[:100], lead=5.0, origins=3, first=70)
    assert in_time.members[:, 0, 0].tolist() == [65.0] * 10 + [75.0] * 10 + [85.0] * 10


def test_rolling_origins_show_the_errors_that_a_fit_does_not_see_in_itself() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(400, 60))
    outcomes = features @ random.normal(size=60) + random.normal(size=400)

    class LeastSquares:
        """A linear fit with members of its own, far too small, residuals."""

        def __init__(self, rows: slice) -> None:
            self.weights = np.linalg.lstsq(features[rows], outcomes[rows], rcond=None)[0]
            self.residuals = outcomes[rows] - features[rows] @ self.weights

        def sample(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
            return (X @ self.weights)[:, None, None] + self.residuals[None, :100, None]

    rows, members = rolling_forecasts(LeastSquares, features, origins=4, first=150)
    correction = stakes.Correction.fit(members, outcomes[rows, None])
    assert correction.factor[0] > 1.2
    seen = LeastSquares(slice(0, 400)).sample(features)
    assert stakes.Correction.fit(seen, outcomes[:, None]).factor[0] < 1.05


def test_what_cannot_be_used() -> None:
    members, outcomes = forecasts(100)
    refuses(SettingError, "lead", corrected_in_time, members, outcomes, lead=-1)
    refuses(ShapeError, "lead", corrected_in_time, members, outcomes, lead=[1, 2])
    refuses(SettingError, "block", corrected_in_time, members, outcomes, block=0)
    refuses(SettingError, "newest", corrected_in_time, members, outcomes, newest=20)
    refuses(ShapeError, "the rows must be in the order of", corrected_in_time, members, outcomes, HOURS[:100][::-1])
    refuses(SettingError, "first", rolling_forecasts, Constant, np.zeros((100, 1)), first=98)
    refuses(SettingError, "first", rolling_forecasts, Constant, np.zeros((100, 1)), lead=60)
