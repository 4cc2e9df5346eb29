"""Where a fit saw its features: what contradicts that, what is drawn in its place, and what that costs."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks.forecast_quality.moved_inputs import ends_of, mean_cost
from benchmarks.forecast_quality.problems import EMBEDDED
from stakes import DecisionAwareForecaster, ImplicitModel
from stakes.forecasting.input_range import InputRange

Floats = NDArray[np.float64]
COVARIANCE = np.array([[4.0, 1.2, 0.0], [1.2, 1.0, 0.3], [0.0, 0.3, 2.0]])
MEAN = np.array([10.0, -3.0, 0.5])


def features(rows: int = 4000) -> Floats:
    return np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, rows)


def moments(rows: int = 4000) -> InputRange:
    return InputRange.of(features(rows))


@pytest.mark.parametrize("missing", [[1], [0], [0, 2], [1, 2]])
def test_what_is_missing_is_drawn_from_its_conditional_distribution(missing: list[int]) -> None:
    known = [place for place in range(3) if place not in missing]
    row = MEAN + np.array([1.5, 0.8, -1.0])
    given = row.copy()
    given[missing] = np.nan
    drawn = moments().draws(given[None], 400)[0]
    np.testing.assert_array_equal(drawn[:, known], np.tile(row[known], (400, 1)))
    slopes = np.linalg.solve(COVARIANCE[np.ix_(known, known)], COVARIANCE[np.ix_(known, missing)])
    mean = MEAN[missing] + (row - MEAN)[known] @ slopes
    covariance = COVARIANCE[np.ix_(missing, missing)] - COVARIANCE[np.ix_(missing, known)] @ slopes
    np.testing.assert_allclose(drawn[:, missing].mean(0), mean, atol=0.1)
    np.testing.assert_allclose(np.cov(drawn[:, missing].T).reshape(covariance.shape), covariance, atol=0.2)


def test_few_draws_have_the_spread_of_many() -> None:
    row = np.array([[np.nan, -3.0, np.nan]])
    few, many = (moments().draws(row, count)[0][:, [0, 2]] for count in (25, 20_000))
    np.testing.assert_allclose(np.cov(few.T, bias=True), np.cov(many.T, bias=True), atol=0.02)
    wide = InputRange.of(np.random.default_rng(0).normal(size=(400, 60)))
    drawn = wide.draws(np.full((1, 60), np.nan), 25)[0]  # more features than draws
    assert np.mean(drawn.var(0) / wide.scale**2) == pytest.approx(1, rel=0.03)


def test_a_single_draw_is_what_the_other_features_say() -> None:
    row = MEAN[None] + [[1.5, np.nan, -1.0]]
    np.testing.assert_allclose(moments().draws(row, 1)[0, 0], moments().draws(row, 20_000)[0].mean(0), atol=0.02)


def test_every_row_is_drawn_by_itself_and_the_same_way_again() -> None:
    rows = features(6)
    rows[0, 1] = rows[2, 0] = rows[2, 2] = rows[5, 1] = np.nan
    draws = moments().draws(rows, 10)
    assert np.isfinite(draws).all()
    np.testing.assert_array_equal(draws[[1, 3, 4]], np.repeat(rows[[1, 3, 4], None], 10, 1))
    for place in range(6):
        np.testing.assert_allclose(moments().draws(rows[place : place + 1], 10)[0], draws[place], rtol=1e-12)


def test_draws_stay_within_what_the_fit_saw() -> None:
    known = features()
    known[:, 1] = known[:, 1].clip(-3.2, -2.9)
    moments = InputRange.of(known)
    drawn = moments.draws(np.array([[18.0, np.nan, 0.0]]), 25)[0, :, 1]
    assert drawn.min() >= -3.2
    assert drawn.max() <= -2.9


def test_copies_and_constants_are_no_trouble() -> None:
    table = np.column_stack([features(500), features(500)[:, 0], np.full(500, 3.0)])
    moments = InputRange.of(table)
    assert not moments.lacking(table).any()
    row = table[:1].copy()
    truth = row[0, 0]
    row[0, 4] = 3.1
    assert moments.lacking(row).tolist() == [[False] * 4 + [True]]  # which never changed before
    row[0, [0, 4]] = np.nan
    drawn = moments.draws(row, 25)[0]
    assert np.abs(drawn[:, 0] - truth).max() < 0.2  # its copy is known
    assert (drawn[:, 4] == 3.0).all()


@pytest.mark.parametrize(("rows", "columns"), [(29, 1), (150, 31), (2200, 1001)])
def test_too_few_rows_or_too_many_features_tell_nothing_of_each_other(rows: int, columns: int) -> None:
    inputs = InputRange.of(np.random.default_rng(0).normal(size=(rows, columns)))
    assert inputs.correlation is None
    row = np.zeros((1, columns))
    row[0, 0] = 20.0
    assert np.flatnonzero(inputs.lacking(row)).tolist() == [0]


def test_the_feature_that_moved_is_told_from_those_that_it_makes_look_strange() -> None:
    generator = np.random.default_rng(1)
    shared = generator.normal(size=(2000, 1))
    known = shared + 0.3 * generator.normal(size=(2000, 12))
    inputs, rows = InputRange.of(known), known[:200]
    assert not inputs.lacking(rows).any()
    for moved in ([3], [0, 1, 2]):  # one, and a group that moves together
        wrong = rows.copy()
        wrong[:, moved] += 8 * known.std(0)[moved]
        lacking = inputs.lacking(wrong)
        beyond = inputs.beyond(wrong)
        assert (lacking[:, moved] == beyond[:, moved]).mean() > 0.99
        assert not np.delete(lacking, moved, 1).any()
        assert np.isin(inputs.outside(wrong)[beyond.any(1)], moved).all()
    together = rows + 8 * known.std(0)  # a trend
    assert not inputs.lacking(together).any()
    assert (inputs.outside(together) >= 0).mean() > 0.9


@pytest.fixture(scope="module", params=["French load, Brittany", "wind speed, NORA10"])
def trial(request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
    """A problem, a forecaster, and some of the rows that test."""
    problem = EMBEDDED[request.param](request.param)
    known = slice(problem.train - 800, problem.train)
    cost = next(iter(problem.costs.values()))
    forecaster = DecisionAwareForecaster(
        cost, decision_weight=0.0, epochs=3, members=20, model_selection=False, random_state=0, gap=1
    )
    forecaster.fit(problem.features[known], problem.outcomes[known])
    return problem, forecaster, problem.test_rows[::90]


@pytest.mark.parametrize("deviations", [1, 8, 100])
def test_a_feature_that_goes_astray_is_flagged_and_its_cost_is_bounded(
    trial: tuple[Any, Any, Any], deviations: int
) -> None:
    problem, forecaster, rows = trial
    known = problem.features[problem.train - 800 : problem.train]
    (foresight, climatology), features = ends_of(problem, "", rows), problem.features[rows]
    outcome = torch.from_numpy(problem.outcomes[rows])
    width, highest = features.shape[1], known.max(0) + 0.1 * np.ptp(known, axis=0)
    moved = np.repeat(features[None], width, 0)  # in one column each
    moved[range(width), :, range(width)] += (deviations * known.std(0))[:, None]
    flagged = forecaster.outside_training_range(moved.reshape(-1, width)).reshape(width, -1) != ""
    assert flagged[(moved > highest).any(-1)].all()
    if deviations > 1:
        for members in np.split(forecaster.sample(moved.reshape(-1, width)), width):
            paid = mean_cost(problem.costs[""], torch.from_numpy(members).double(), outcome)
            assert paid <= climatology + 0.1 * (climatology - foresight)


def test_a_row_within_the_range_does_not_depend_on_one_that_is_not(trial: tuple[Any, Any, Any]) -> None:
    problem, forecaster, _ = trial
    rows = problem.features[problem.train - 5 : problem.train].copy()
    assert (forecaster.outside_training_range(rows) == "").all()
    alone = forecaster.sample(rows[1:])
    rows[0, 0] += 1000 * np.abs(rows[0, 0])
    together = forecaster.sample(rows)
    np.testing.assert_array_equal(together[1:], alone)
    assert forecaster.outside_training_range(rows).tolist() == ["x0", "", "", "", ""]
    assert together[0].std() > alone.std(1).mean()  # wider for what is not known


def test_a_network_sees_features_near_their_range_while_its_linear_part_follows() -> None:
    generator = torch.Generator().manual_seed(0)
    known = torch.rand(500, 2, generator=generator)
    model = ImplicitModel(features=2, outcomes=1, noise=2, hidden=8, layers=2, linear=True)
    model.fit_scaling(known, known.sum(1, keepdim=True))
    scaling, slope = model.feature_scaling, model.linear.weight
    standard = scaling.standardise(known)
    assert torch.equal(scaling.squashed(standard), standard)
    far = scaling.standardise(torch.tensor([[1.1, 0.5], [9.0, 0.5], [9e6, 0.5]]))
    near = scaling.squashed(far)
    assert torch.equal(near[:, 1], far[:, 1])
    assert (near[:, 0] > scaling.high[0]).all()
    assert (near[:, 0] <= scaling.high[0] + 0.25).all()
    torch.nn.init.normal_(model.network.layers[-1].weight, generator=generator)
    noise = torch.randn(1, 5, model.noise, generator=generator)
    inside, outside = (model(torch.tensor([[0.5, first]]).flip(1), noise) for first in (9.0, 19.0))
    expected = slope[0, 0] * 10 / scaling.scale[0]
    torch.testing.assert_close(outside - inside, expected.expand(1, 5, 1), atol=1e-4, rtol=1e-4)
