"""The rivals of the benchmark are those of the textbook, and the table says who is better."""

import numpy as np
import pandas as pd
import pytest
import scoringrules
from refusals import refuses

import stakes
from benchmarks.own_ensemble.judgement import compared, crps, dependence_lost, judged, summary
from benchmarks.own_ensemble.page import own_ensemble_markdown
from benchmarks.own_ensemble.problems import Problem
from benchmarks.own_ensemble.rivals import (
    RIVALS,
    censored_normal_crps,
    error_vectors,
    isotonic_quantiles,
    normal_errors,
    raw,
    regression,
    ridge_with_errors,
)

DAYS = 500


def made(members: int = 8, outcomes: int = 1, lower: float | None = None) -> Problem:
    """Daily forecasts that are 3 too low and too narrow by half, of outcomes that share half of their errors."""
    generator = np.random.default_rng(0)
    known = generator.normal(size=(DAYS, 1, outcomes))
    errors = generator.normal(size=(DAYS, outcomes)) + generator.normal(size=(DAYS, 1))
    seen, drawn = (known[:, 0] + 3 + errors).round(1), known + 0.7 * generator.normal(size=(DAYS, members, outcomes))
    times = np.datetime64("2020-01-01", "ns") + np.timedelta64(1, "D") * np.arange(DAYS)
    cost = stakes.NewsvendorCost(3.0, 1.0, -50.0, 50.0)
    return Problem(
        "made",
        drawn if lower is None else np.maximum(drawn, lower),
        seen if lower is None else np.maximum(seen, lower),
        times,
        times - np.timedelta64(36, "h"),
        times[350],
        {"": cost},
        "m",
        bounds=(lower, None),
        features=pd.DataFrame({"noise": generator.normal(size=DAYS)}),
    )


def test_nothing_is_learned_from_what_was_not_known() -> None:
    problem = made()
    assert problem.issued[problem.test[0]] >= problem.test_from
    assert problem.times[problem.known].max() <= problem.issued[problem.test[0]]
    assert problem.test[0] - problem.known[-1] == 2  # a day and a half ahead
    known = (getattr(problem, name) for name in ("members", "outcomes", "issued", "times"))
    refuses(ValueError, "issued before they happen", Problem, "late", *known, problem.times[0], {}, "m")


def test_crps_is_that_of_scoringrules() -> None:
    generator = np.random.default_rng(0)
    members, outcome = generator.normal(size=(20, 7)), generator.normal(size=20)
    np.testing.assert_allclose(crps(members, outcome), scoringrules.crps_ensemble(outcome, members, estimator="nrg"))
    mean, deviation = generator.normal(size=20), generator.uniform(0.1, 2, size=20)
    of_normal = censored_normal_crps(outcome, mean, deviation, -np.inf)
    np.testing.assert_allclose(of_normal, scoringrules.crps_normal(outcome, mean, deviation))
    wet = np.maximum(outcome, 0.0)
    expected = scoringrules.crps_cnormal(wet, mean, deviation, lower=0.0)
    np.testing.assert_allclose(censored_normal_crps(wet, mean, deviation, 0.0), expected, atol=1e-12)


def test_regression_finds_bias_and_spread() -> None:
    problem = made()
    found = regression(problem)
    errors = problem.outcomes[problem.test] - found.mean(1)
    assert abs(errors.mean()) < 0.4
    assert found.std(1).mean() == pytest.approx(errors.std(), rel=0.15)
    score, unmended = (judged(problem, each, problem.costs[""])["crps"].mean() for each in (found, raw(problem)))
    assert score < 0.5 * unmended


def test_isotonic_regression_of_two_groups_is_their_distributions() -> None:
    forecast = np.repeat([0.0, 1.0], 50)
    outcome = np.concatenate([np.arange(50), 100 + np.arange(50)]).astype(float)
    found = isotonic_quantiles(forecast, outcome, np.array([0.0, 1.0]), np.array([0.01, 0.5, 0.99]))
    np.testing.assert_array_equal(found, [[0, 24, 49], [100, 124, 149]])


def test_dependence_is_kept_or_lost() -> None:
    problem = made(members=1, outcomes=3)

    def spread(members: np.ndarray) -> float:
        return float(members.sum(2).std(1).mean() / np.sqrt((members.std(1) ** 2).sum(1)).mean())

    assert spread(error_vectors(problem)) == pytest.approx(np.sqrt(2), rel=0.1)  # correlations of one half
    assert spread(ridge_with_errors(problem)) == pytest.approx(np.sqrt(2), rel=0.1)
    assert spread(error_vectors(problem, kept=False)) == pytest.approx(1, rel=0.1)
    assert spread(normal_errors(problem)) == pytest.approx(1, rel=0.1)


def test_what_losing_the_dependence_changes() -> None:
    problem = made(members=1, outcomes=3)
    cost = problem.costs[""]
    names = ("past error vectors", "past errors, dependence lost")
    forecasts = {name: judged(problem, error_vectors(problem, kept=name == names[0]), cost) for name in names}
    found = dependence_lost(problem, forecasts)
    assert list(found) == [names[1]]
    kept, lost = (forecasts[name]["cost"] for name in names)
    mean, low, high = found[names[1]]["cost less kept"]
    assert mean == pytest.approx((lost - kept).mean())
    assert low < mean < high
    assert found[names[1]]["crps less kept"][0] == pytest.approx(0, abs=1e-12)


def test_the_table_says_who_is_better() -> None:
    problem = made()
    cost = problem.costs[""]
    forecasts = {name: judged(problem, rival(problem), cost) for name, rival in (("raw", raw), ("stakes", regression))}
    rows = compared(problem, {**forecasts, "rival": forecasts["stakes"]}, "stakes")
    assert rows["raw"]["cost less ours"][1] > 0
    assert rows["rival"]["cost less ours"] == [0.0, 0.0, 0.0]
    found = summary({"made": rows}, "stakes")
    assert [each["forecast"] for each in found["significantly worse than ours"]] == ["raw", "raw"]
    assert found["significantly better than ours"] == []
    rows["stakes"] |= {"candidate": "linear"}
    page = own_ensemble_markdown({"problems": {"made": rows}})
    assert page.count("| made |") == 4
    assert "| linear | **-" in page


def test_every_problem_has_its_rivals() -> None:
    from benchmarks.own_ensemble.problems import PROBLEMS

    for name in PROBLEMS:
        assert sum(name.startswith(start) for start in RIVALS) == 1
