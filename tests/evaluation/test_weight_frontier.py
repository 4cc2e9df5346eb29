"""The selected weight without asking, clause by clause."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from scipy.signal import lfilter  # type: ignore[import-untyped]

from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, Resampling, paired_difference
from stakes.evaluation.selection import FrontierPoint, frontier

WEIGHTS = (0.0, 0.3, 0.6, 0.9)
BASE = np.random.default_rng(0).gamma(2.0, size=400)
NOISE = np.random.default_rng(1).normal(size=(4, 400))
NOISE -= NOISE.mean(1, keepdims=True)  # so that the means are those given


limited = partial(frontier, tolerance=2.0)


def rows(changes: list[float], noise: float = 0.05) -> Any:
    """Weight 0 has mean 1, the others these means less it, exactly."""
    base = BASE / BASE.mean()
    return np.stack([base, *(base + change + noise * NOISE[place] for place, change in enumerate(changes, 1))])


def chosen(cost: list[float], score: list[float], noise: float = 0.05, **options: Any) -> float:
    return limited(WEIGHTS, rows(cost, noise), rows(score), **options).chosen


def test_takes_the_cheapest_weight_within_the_tolerance() -> None:
    cost, score = [-0.1, -0.2, -0.3], [0.005, 0.015, 0.025]
    assert chosen(cost, score) == 0.6
    assert chosen(cost, score, tolerance=3.0) == 0.9
    assert chosen(cost, score, tolerance=1.0) == 0.3
    assert chosen(cost, score, tolerance=0.1) == 0.0


def test_the_cheapest_is_chosen_and_proof_is_another_matter() -> None:
    sure = limited(WEIGHTS, rows([-0.01, -0.02, -0.015], 0.05), rows([0.0] * 3))
    unsure = limited(WEIGHTS, rows([-0.01, -0.02, -0.015], 1.0), rows([0.0] * 3))
    assert (sure.chosen, unsure.chosen) == (0.6, 0.6)
    assert (sure.points[2].proven, unsure.points[2].proven) == (True, False)
    assert "not proven" in unsure.reason
    assert "not proven" not in sure.reason
    assert chosen([0.1, 0.2, 0.3], [-0.5, -0.5, -0.5]) == 0.0


def test_differences_of_cost_are_shrunk_towards_those_of_the_score() -> None:
    """Noisy costs say -0.02, the score +1 %: of a cost of 1 above foresight that is +0.01."""
    cost, score = rows([-0.02, 0.2, 0.2], 2.0), rows([0.01, 0.0, 0.0])
    assert limited(WEIGHTS, cost, score).chosen == 0.3
    told = limited(WEIGHTS, cost, score, foresight=0.0)
    assert told.chosen == 0.0
    error = Resampling(400).mean((cost[1] - cost[0])[None, None]).error
    spread = np.hypot(0.05, 0.01)  # of a cost of 1 above foresight
    trust = spread**2 / (spread**2 + error**2)
    assert told.points[1].expected_change == pytest.approx(-0.02 * trust + 0.01 * (1 - trust))
    assert limited(WEIGHTS, rows([-0.02, 0.2, 0.2], 0.01), score, foresight=0.0).chosen == 0.3


def test_a_score_exactly_at_the_tolerance_is_allowed() -> None:
    cost, score = np.ones((2, 20)), np.ones((2, 20))
    cost[1], score[1] = 0.5, 1.5
    assert limited([0, 1], cost, score, tolerance=50.0).chosen == 1.0
    assert limited([0, 1], cost, score, tolerance=49.0).chosen == 0.0
    assert limited([0, 1], cost, -score[::-1], tolerance=50.0).chosen == 1.0  # per cent of what is negative, too


def test_numbers_of_the_points() -> None:
    cost, score = rows([-0.1, -0.2, -0.3]), 4 * rows([0.005, 0.015, 0.025])
    found = limited(WEIGHTS, cost, score, block=5, tolerance=2)
    assert (found.cases, found.block, found.tolerance) == (400, 5, 2.0)
    point = found.points[1]
    assert point.weight == 0.3
    assert point.cost == pytest.approx(0.9)
    assert point.score == pytest.approx(4.02)
    assert point.cost_change == pytest.approx(paired_difference(cost[1:2], cost[:1], 5))
    assert isinstance(point.score_change, Difference)
    assert point.score_change.mean == pytest.approx(0.5)
    assert point.score_change.low < 0.5 < point.score_change.high
    assert [each.allowed for each in found.points] == [True, True, True, False]
    assert found.points[0].cost_change == (0.0, 0.0, 0.0)


def test_blocks_keep_dependent_cases_from_looking_like_many() -> None:
    cost = np.zeros((2, 600))
    cost[1] = np.repeat(np.linspace(-1.0, 1.0, 20)[np.random.default_rng(1).permutation(20)] - 0.2, 30)
    mixed = cost[:, np.random.default_rng(2).permutation(600)]
    assert limited([0, 1], mixed, np.ones_like(cost)).points[1].proven
    assert not limited([0, 1], cost, np.ones_like(cost), block=30).points[1].proven


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("of_score", [False, True])
def test_a_weight_that_failed_is_never_chosen(bad: float, of_score: bool) -> None:
    cost, score = rows([-0.1, -0.2, -0.3]), rows([0.0] * 3)
    (score if of_score else cost)[3, 7:9] = bad, -bad
    found = limited(WEIGHTS, cost, score)
    assert found.chosen == 0.6
    assert found.points[3] == FrontierPoint(0.9, None, None, None, None, allowed=False, failed=True)
    assert [point.failed for point in found.points] == [False, False, False, True]


def test_weight_0_must_not_have_failed() -> None:
    cost = rows([-0.1, -0.2, -0.3])
    cost[0, 0] = np.nan
    refuses(NonFiniteError, "weight 0 must be finite", limited, WEIGHTS, cost, rows([0.0] * 3))


@pytest.mark.parametrize(
    ("cost", "score", "options", "why"),
    [
        ([0.1] * 3, [0.0] * 3, {}, "no other is expected to cost less"),
        ([-0.1] * 3, [0.0, 0.1, 0.1], {"tolerance": -1.0}, "(0.3, 0.6, 0.9)"),
        ([0.1, -0.1, 0.1], [0.1] * 3, {}, "(0.6)"),
        ([0.1, -0.1, 0.1], [0.0] * 3, {"foresight": 0.5, "least_saving": 0.3}, "30 %"),
        ([-0.1] * 3, [0.0] * 3, {"block": 50}, "too few"),
        ([np.nan] * 3, [0.0] * 3, {}, "all others failed"),
    ],
)
def test_why_weight_0_is_kept(cost: list[float], score: list[float], options: dict[str, Any], why: str) -> None:
    found = limited(WEIGHTS, rows(cost), rows(score), **options)
    assert found.chosen == 0.0
    assert why in found.reason


def test_why_another_weight_is_selected() -> None:
    found = limited(WEIGHTS, rows([0.1, -0.2, 0.1]), rows([0.0, 0.01, 0.0]))
    for words in ("Weight 0.6", "0.8 instead of 1", "score changes by +1.00 %", "proven cheaper"):
        assert words in found.reason


@pytest.mark.parametrize("cases", [1, 2, LEAST_BLOCKS - 1])
def test_too_few_cases_show_nothing(cases: int) -> None:
    cost = np.stack([np.ones(cases), np.zeros(cases)])
    found = limited([0.0, 0.5], cost, np.ones_like(cost), block=3)
    assert found.chosen == 0.0
    assert found.block == min(3, cases)
    assert f"judged on {cases} case" in found.reason
    assert not found.points[1].proven


def test_a_mean_score_of_zero_has_no_per_cent() -> None:
    cost = np.stack([np.ones(40), np.zeros(40)])
    found = limited([0, 1], cost, np.zeros_like(cost))
    assert found.chosen == 1.0
    assert found.points[1].score_change is None
    assert "its score changes" not in found.reason


@pytest.mark.parametrize(
    ("weights", "cost", "score", "options", "error", "field"),
    [
        *((WEIGHTS, (4, 9), (4, 9), {"block": block}, SettingError, "block") for block in (0, -1, 2.5, True)),
        *(((*first, 0.6, 0.9), (4, 9), (4, 9), {}, SettingError, "weights") for first in ((0.1, 0.3), (0.0, 0.6))),
        ((0.0, 0.3, 0.6, np.nan), (4, 9), (4, 9), {}, SettingError, "weights"),
        *((WEIGHTS, each, each, {}, ShapeError, "cost and score") for each in ((3, 5), (4,), (4, 0), ())),
        (WEIGHTS, (4, 5), (4, 6), {}, ShapeError, "cost and score"),
        (WEIGHTS, (4, 9), (4, 9), {"tolerance": np.inf}, SettingError, "tolerance"),
    ],
)
def test_what_cannot_be_judged_is_named(
    weights: Any, cost: Any, score: Any, options: dict[str, Any], error: type[Exception], field: str
) -> None:
    refuses(error, f"^{field} must", limited, weights, np.ones(cost), np.ones(score), **options)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[float], Any, Any]:
    """Some weights with costs that differ by little or much, and scores near the tolerance."""
    weights = [0.0, *draw(st.lists(st.sampled_from([0.1, 0.2, 0.5, 0.7, 0.9, 1.0]), unique=True, min_size=1))]
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    noise = draw(st.sampled_from([0.0, 0.1, 1.0]))
    size = (len(weights), draw(st.integers(2, 60)))
    cost = (
        generator.normal(size=size[1]) + 0.2 * generator.normal(size=(size[0], 1)) + noise * generator.normal(size=size)
    )
    score = 1 + 0.02 * generator.normal(size=(size[0], 1)) + 0.1 * generator.normal(size=size)
    return weights, cost, score


@examples(60)
@given(problems(), st.integers(1, 7), st.randoms(use_true_random=False))
def test_properties(problem: tuple[list[float], Any, Any], block: int, random: Any) -> None:
    weights, cost, score = problem
    found = limited(weights, cost, score, block=block, resamples=200)
    means = {point.weight: point.cost for point in found.points}
    assert found.chosen in weights
    assert means[found.chosen] <= means[0.0]  # type: ignore[operator]
    order = list(range(len(weights)))
    random.shuffle(order)
    shuffled = limited([weights[place] for place in order], cost[order], score[order], block=block, resamples=200)
    assert shuffled == found
    for factor in (0.25, 1024.0):  # exact in binary
        assert limited(weights, factor * cost, score, block=block, resamples=200).chosen == found.chosen
        assert limited(weights, cost, factor * score, block=block, resamples=200).chosen == found.chosen


def dependent(generator: np.random.Generator, cases: int, memory: float, shared: float) -> Any:
    """Changes of nine weights, AR(1) in time, of which the weights share a part; the mean of each is 0."""
    noise = lfilter([1.0], [1.0, -memory], generator.normal(size=(10, cases + 200)), axis=1)[:, 200:]
    return np.sqrt(shared) * noise[0] + np.sqrt(1 - shared) * noise[1:]


WEEK, DAY = 7, 0.95**24  # a case every day, of a memory of 0.95 an hour


@pytest.mark.parametrize(
    ("memory", "shared", "block"), [(0.0, 0.0, 1), (0.0, 0.9, 1), (DAY, 0.0, WEEK), (DAY, 0.9, WEEK)]
)
def test_false_claims_are_rare_where_no_weight_differs(memory: float, shared: float, block: int) -> None:
    """Nine weights at 2.5 % each would be called cheaper in 10 to 30 % of the cases."""
    generator = np.random.default_rng(0)
    claimed = 0
    for _ in range(200):
        change = dependent(generator, 20 * block, memory, shared)
        cost = np.vstack([np.zeros((1, 20 * block)), change])
        found = limited(np.arange(10) / 10, cost, np.ones_like(cost), block=block, resamples=200)
        claimed += any(point.proven for point in found.points)
    assert claimed <= 0.08 * 200


@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_a_true_gain_is_found(shared: float) -> None:
    """Of four standard errors, among nine weights and in 20 blocks."""
    generator = np.random.default_rng(0)
    found = 0
    for _ in range(60):
        change = dependent(generator, 20, 0.0, shared) - 4 / np.sqrt(20)
        judged = limited(np.arange(10) / 10, np.vstack([np.zeros((1, 20)), change]), np.ones((10, 20)))
        found += any(point.proven for point in judged.points)
    assert found >= 54


def test_an_interval_alone_does_not_make_a_weight_cheaper() -> None:
    """One of nine weights whose own interval lies barely below zero."""
    change = np.random.default_rng(1).normal(size=(9, 100))
    change -= change.mean(1, keepdims=True)
    change[4] -= 2.2 * change[4].std() / 10
    cost = np.vstack([np.zeros((1, 100)), change])
    found = limited(np.arange(10) / 10, cost, np.ones_like(cost))
    point = found.points[5]
    assert point.cost_change is not None
    assert point.cost_bound is not None
    assert point.cost_change.high < 0 < point.cost_bound
    assert (found.chosen, point.proven) == (0.5, False)
    alone = limited([0.0, 0.5], cost[[0, 5]], np.ones((2, 100)))
    assert alone.points[1].proven


def test_only_the_weights_that_the_score_allows_are_tested_together() -> None:
    generator = np.random.default_rng(2)
    change = generator.normal(size=(9, 100))
    change -= change.mean(1, keepdims=True)
    change[0] -= 2.2 * change[0].std() / 10
    cost, score = np.vstack([np.zeros((1, 100)), change]), np.ones((10, 100))
    score[2:] = 1.5
    assert limited(np.arange(10) / 10, cost, score).points[1].proven
    assert not limited(np.arange(10) / 10, cost, np.ones_like(score)).points[1].proven


def test_weights_that_forecast_the_same_are_one_candidate() -> None:
    cost, score = rows([-0.2, 0.0, 0.0]), rows([0.0, 0.0, 0.0])
    cost[2], score[2] = cost[1], score[1]
    cost[3], score[3] = cost[0], score[0]
    judged = frontier(WEIGHTS, cost, score)
    assert [(point.weight, point.also) for point in judged.points] == [(0.0, (0.9,)), (0.3, (0.6,))]
    assert judged.chosen == 0.3
