"""Whether errors have left what was learned: false alarms, and what is noticed."""

from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from scipy.signal import lfilter
from scipy.special import ndtr

from stakes.errors import SettingError, ShapeError
from stakes.evaluation.drift import SeenErrors, _capital, _ranks, watch_errors


def seen(errors: Any, excess: Any = None) -> SeenErrors:
    """Cases whose outcomes lie so many deviations above a calibrated forecast."""
    return SeenErrors(ndtr(errors), np.zeros(len(errors)) if excess is None else np.asarray(excess))


def normal(count: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=count)


def test_false_alarms_are_no_more_than_stated() -> None:
    """Over all looks and questions; costs depend on errors, as they do."""
    generator, alarms = np.random.default_rng(0), 0
    for _ in range(100):
        past, new = generator.normal(size=40), generator.normal(size=60)
        alarms += bool(watch_errors(seen(past, past**2), seen(new, new**2), alpha=0.3).left)
    assert 0 < alarms <= 0.3 * 100


@pytest.mark.parametrize("block", [1, 7])
@pytest.mark.parametrize(("correlation", "cases"), [(0.5, 140), (0.8, 140), (0.8, 500), (0.9, 500)])
def test_errors_that_last_are_no_alarm_and_a_shift_is(correlation: float, cases: int, block: int) -> None:
    """Of 100 AR(1) paths at most 8 give an alarm (two standard errors above 5), and most shifts by two deviations."""
    generator, false, right = np.random.default_rng(0), 0, 0
    for _ in range(100):
        noise = generator.normal(size=cases + 300)
        noise[1:] *= (1 - correlation**2) ** 0.5
        path = lfilter([1.0], [1.0, -correlation], noise)
        past, new = path[:cases], path[cases:]
        false += bool(watch_errors(seen(past, past.clip(0)), seen(new, new.clip(0)), block=block).left)
        right += bool(watch_errors(seen(past, past.clip(0)), seen(new + 2, (new + 2).clip(0)), block=block).left)
    assert false <= 8
    assert right >= 60


def test_strongly_correlated_blocks_are_doubled_while_enough_remain() -> None:
    path = np.cumsum(normal(900, 0)) / 10
    for past in (path[:600], path[:100]):
        watch = watch_errors(seen(past), seen(path[600:]), block=7)
        assert watch.block == (28 if len(past) == 600 else 7)
        assert watch.past_blocks == len(past) // watch.block
        assert watch.answers[0].correlation > 0.3
    assert watch_errors(seen(normal(600, 1)), seen(normal(300, 2)), block=7).block == 7


def test_ranks_of_exchangeable_blocks_are_uniform_and_independent() -> None:
    """Two past numbers and three new ones in every order: each new one's place among all before it is any, alike."""
    places = Counter(
        tuple(np.ceil(_ranks(np.array(order[:2]), np.array(order[2:])) * [3, 4, 5]).astype(int).tolist())
        for order in permutations([1.0, 2.0, 3.0, 4.0, 5.0])
    )
    assert len(places) == 3 * 4 * 5
    assert set(places.values()) == {2}


@pytest.mark.parametrize("shifts", [(0.5, 1.0, 2.0), (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)])
def test_the_game_is_fair(shifts: tuple[float, ...]) -> None:
    """Over uniform ranks the capital is 1 on average, after one bet and after two."""
    places, weights = np.polynomial.hermite_e.hermegauss(24)
    ranks, share = ndtr(places), weights / weights.sum()
    capital = np.array([[_capital(np.array([first, second]), shifts) for second in ranks] for first in ranks])
    assert np.einsum("ijk,i,j->k", capital, share, share) == pytest.approx([1.0, 1.0], rel=1e-6)


def test_it_needs_no_calibrated_forecast() -> None:
    """Outcomes that always lay high among the members have not left anything when they still do."""
    past, new = (SeenErrors(generator.uniform(0.7, 1, 300), np.zeros(300)) for generator in _generators(2))
    assert not watch_errors(past, new).left


@pytest.mark.parametrize(
    ("change", "question", "at_most"),
    [
        (lambda errors: errors + 0.5, "bias", 120),
        (lambda errors: errors - 0.5, "bias", 120),
        (lambda errors: 1.5 * errors, "spread", 120),
        (lambda errors: errors / 1.5, "spread", 200),
    ],
)
def test_a_change_is_noticed(change: Any, question: str, at_most: int) -> None:
    noticed = []
    for seed in range(9):
        watch = watch_errors(seen(normal(500, seed)), seen(change(normal(300, seed + 100))))
        (answer,) = (each for each in watch.answers if each.name == question)
        noticed.append(answer.noticed or np.inf)
    assert np.median(noticed) <= at_most


def test_only_dearer_decisions_are_an_alarm() -> None:
    past, dearer = (seen(np.zeros(200), generator.exponential(size=200)) for generator in _generators(2))
    cheaper = dearer._replace(excess=dearer.excess - 1)
    assert [answer.name for answer in watch_errors(past, dearer._replace(excess=dearer.excess + 1)).left] == ["cost"]
    assert not watch_errors(past, cheaper).left


def test_what_is_said_at_one_look_is_said_at_all_later_ones() -> None:
    past, new = seen(normal(200, 0)), seen(normal(300, 1) + 0.6)
    (noticed,) = {answer.noticed for answer in watch_errors(past, new).left if answer.name == "bias"}
    assert noticed is not None
    for count in (noticed - 1, noticed, 200):
        left = watch_errors(past, seen(normal(300, 1)[:count] + 0.6)).left
        assert [answer.noticed for answer in left if answer.name == "bias"] == ([noticed] if count >= noticed else [])


def test_a_block_is_one_bet() -> None:
    past, new = normal(100, 0), normal(60, 1) + 1.2
    single = watch_errors(seen(past), seen(new))
    copied = watch_errors(seen(past.repeat(7)), seen(new.repeat(7)[:-3]), block=7)
    assert (copied.past_blocks, copied.new_blocks, copied.waiting) == (100, 59, 4)
    assert [answer.noticed for answer in copied.left] == [7 * (answer.noticed or 0) for answer in single.left]
    assert single.left


def test_no_new_case_is_no_alarm() -> None:
    watch = watch_errors(seen(normal(30, 0)), seen([]))
    assert not watch.left
    assert [answer.evidence for answer in watch.answers] == [1.0, 1.0, 1.0]
    assert np.isnan(watch.answers[0].new)
    assert watch.enough == pytest.approx(60)


def test_much_evidence_and_none_at_all_are_finite() -> None:
    same = SeenErrors(np.full(3000, 0.5), np.zeros(3000))
    assert all(0 < answer.evidence < 60 for answer in watch_errors(same, same).answers)
    beyond = watch_errors(seen(normal(1000, 0)), SeenErrors(np.ones(900), np.ones(900)))
    assert all(np.isfinite(answer.evidence) for answer in beyond.answers)
    assert len(beyond.left) == 3


def test_bad_arguments_are_named() -> None:
    good = seen(normal(10, 0))
    refuses(SettingError, "alpha", watch_errors, good, good, alpha=1.0)
    refuses(SettingError, "block", watch_errors, good, good, block=11)
    refuses(SettingError, "block must", watch_errors, good, good, block=0)
    refuses(SettingError, "pit ", watch_errors, good, SeenErrors(np.array([-0.5, 2.0]), np.zeros(2)))
    refuses(ShapeError, "pit and excess of past must have a", watch_errors, SeenErrors(good.pit, np.zeros(3)), good)
    refuses(ShapeError, "excess", watch_errors, good, SeenErrors(good.pit, np.full(10, np.nan)))


def _generators(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]
