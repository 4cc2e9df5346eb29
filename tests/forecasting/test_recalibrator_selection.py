"""Tests of model selection for forecasts that somebody else makes: what may teach, and what is accepted."""

from dataclasses import replace

import numpy as np

import stakes
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.evaluation import selection as selection
from stakes.forecasting.correction_candidates import CorrectionSelection, Recalibrated, past_parts
from stakes.forecasting.corrections import CorrectionPlan
from stakes.forecasting.parameters import RecalibratorSettings
from stakes.forecasting.recalibration import learned

COST = stakes.NewsvendorCost(underage=9.0, overage=1.0, lower=-20.0, upper=20.0)
DAYS = np.datetime64("2022-01-01T00:00") + np.arange(400).astype("timedelta64[D]")


def selected(past: ForecastSet, cost: object = COST, *progress: object, **settings: object) -> Recalibrated:
    asked = RecalibratorSettings(**{"decision_weights": (), **settings})
    return CorrectionSelection(past, cost, ((None, None),) * past.members.shape[2], asked, *progress).run()


def made(cases: int = 400, width: int = 1, members: int = 8, seed: int = 0, **beside: object) -> ForecastSet:
    random = np.random.default_rng(seed)
    known = random.normal(size=(cases, 1, width))
    noise = random.normal(size=(cases, width))
    return ForecastSet(
        known - 1 + 0.5 * random.normal(size=(cases, members, width)), outcomes=known[:, 0] + noise, **beside
    )


# What may teach


def test_only_cases_that_happened_before_the_issue_teach():
    leads = np.tile([24.0, 72.0], 200)
    given = made(times=np.repeat(DAYS[:200], 2) + np.timedelta64(3, "D"), leads=leads).in_order()
    parts = past_parts(given, 0.25, 0)
    assert len(parts.blocks) == 5
    for part in (*parts.blocks, parts.test):
        assert given.times[part.known].max() < given.issued[part.rows].min()
        unknown = np.setdiff1d(np.arange(part.rows[0]), part.known)
        assert (given.times[unknown] >= given.issued[part.rows].min()).all()
    together = np.concatenate([*(part.rows for part in parts.blocks), parts.test.rows])
    np.testing.assert_array_equal(together, np.arange(together[0], 400))


def test_sites_of_one_moment_do_not_teach_each_other():
    given = made(times=np.repeat(DAYS[:100], 4), sites=np.tile(list("abcd"), 100))
    for part in past_parts(given, 0.25, 0).blocks:
        assert given.times[part.known].max() < given.times[part.rows[0]]


def test_a_gap_of_rows_is_left_out():
    plain, gapped = (past_parts(made(), 0.25, gap) for gap in (0, 7))
    for one, other in zip(plain.blocks, gapped.blocks, strict=True):
        np.testing.assert_array_equal(one.known[: len(one.known) - 7], other.known)


def test_without_a_test_part_all_cases_choose():
    parts = past_parts(made(), 0.0, 0)
    assert parts.test is None
    assert parts.blocks[-1].rows[-1] == 399


def test_outcomes_that_were_not_known_yet_change_no_judged_member():
    """Whatever happens later, what a part is corrected by stays the same to the bit."""
    leads = np.tile([24.0, 96.0], 80)
    given = made(160, times=DAYS[:160], leads=leads, features=np.arange(160.0)[:, None]).in_order()
    parts = past_parts(given, 0.25, 0)
    for part, weight in ((parts.blocks[0], 0.5), (parts.test, 0.0)):
        plan = CorrectionPlan("recent_errors", "linear", half_life=90.0, decision_weight=weight)
        later = given.times >= given.issued[part.rows].min()
        other = replace(given, outcomes=np.where(later[:, None], 1e3, given.outcomes))
        states = [learned(each.rows(part.known), plan, ((None, None),), COST) for each in (given, other)]
        members = [state.corrected(given.rows(part.rows)).members for state in states]
        np.testing.assert_array_equal(*members)
        earlier = replace(given, outcomes=np.where(later[:, None], given.outcomes, given.outcomes + 1))
        assert learned(earlier.rows(part.known), plan, ((None, None),), COST) != states[0]


# What is accepted


def test_newer_errors_count_more_where_the_forecast_changed():
    given = made(times=DAYS)
    drift = np.linspace(0, 6, 400)[:, None]  # the bias grows
    accepted = selected(replace(given, outcomes=given.outcomes + drift))
    candidate = accepted.selection.selected
    assert candidate.name == "recent_errors"
    assert candidate.parameters == {"half-life in days": 30.0}
    assert accepted.state.half_life == 30.0


def test_features_are_used_where_they_help():
    given = made()
    wind = np.random.default_rng(1).normal(size=(400, 1))
    accepted = selected(replace(given, features=wind, outcomes=given.outcomes + 2 * wind))
    assert accepted.selection.selected.name == "linear"
    assert accepted.state.models[0].location["feature x0"] > 1


def test_dependence_of_past_errors_is_selected_where_members_lack_it():
    random = np.random.default_rng(2)
    known, shared = random.normal(size=(400, 1, 2)), random.normal(size=(400, 1))
    members = known + random.normal(size=(400, 20, 2))  # right site by site
    given = ForecastSet(members, outcomes=known[:, 0] + shared + 0.1 * random.normal(size=(400, 2)))
    cost = stakes.ImbalanceCost(short=20.0, long=1.0, lower=-60.0, upper=60.0)
    accepted = selected(given, cost)
    assert accepted.selection.selected.name == "dependence"
    drawn = accepted.state.corrected(given).members
    inner = drawn - drawn.mean(1, keepdims=True)
    assert np.mean([np.corrcoef(each.T)[0, 1] for each in inner]) > 0.85


def test_members_that_belong_together_stay_so():
    random = np.random.default_rng(3)
    known, shared = random.normal(size=(400, 1, 2)), random.normal(size=(400, 9, 1))
    members = known - 2 + 0.5 * shared + 0.05 * random.normal(size=(400, 9, 2))
    state = learned(
        ForecastSet(members, outcomes=known[:, 0] + random.normal(size=(400, 1))),
        CorrectionPlan("bias_and_spread", "bias_and_spread"),
        ((None, None),) * 2,
        COST,
    )
    drawn = state.corrected(ForecastSet(members)).members
    assert drawn.shape == (400, 108, 2)
    inner = drawn - drawn.mean(1, keepdims=True)
    assert np.mean([np.corrcoef(each.T)[0, 1] for each in inner]) > 0.9


def test_decision_weights_are_tried_as_one_family():
    told = []
    progress = lambda done, of: told.append((done, of))
    accepted = selected(made(130), COST, progress, block=1, decision_weights=(0.5, 0.8))
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert told[0][1] == told[-1][0] == told[-1][1]
    candidate = accepted.selection.candidates[-1]
    assert candidate.name == "decision"
    assert candidate.parameters["decision weight"] in (0.5, 0.8)
    assert accepted.plan.decision_weight == (candidate.parameters["decision weight"] if candidate.accepted else 0.0)
    assert {each.name for each in accepted.selection.tested} == {each.name for each in accepted.selection.candidates}


def false_selections(runs: int, cases: int, members: int, *, first: int = 0, weights: tuple[float, ...] = ()) -> int:
    """In how many of so many records the forecast is left, although outcomes are drawn from its members."""
    count = 0
    for seed in range(first, first + runs):
        random = np.random.default_rng(seed)
        drawn = random.normal(size=(cases, 1)) + random.normal(size=(cases, members))
        outcomes = drawn[np.arange(cases), random.integers(members, size=cases)]
        times = DAYS[0] + np.arange(cases).astype("timedelta64[D]")
        given = ForecastSet(drawn[..., None], outcomes=outcomes[:, None], times=times)
        accepted = selected(given, block=1, decision_weights=weights)
        count += accepted.selection.selected.name != "raw"
    return count


def test_a_calibrated_forecast_is_rarely_left():
    assert false_selections(3, 180, 10) <= 1
