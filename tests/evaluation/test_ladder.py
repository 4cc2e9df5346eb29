"""What is climbed, and why: made-up costs and scores with known means."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stakes.errors import SettingError
from stakes.evaluation.selection import (
    GIVEN_RUNGS,
    RUNGS,
    Frontier,
    JudgedCases,
    Ladder,
    Rung,
    decision_rung,
    first_rung,
    frontier,
    rung_on_test,
    rung_words,
    step_level,
    tried_rung,
    unproven_rung,
)
from stakes.settings import from_plain, to_plain

RANDOM = np.random.default_rng(0)
PAID = RANDOM.normal(size=400)
PAID += 10 - PAID.mean()
HELD = JudgedCases(PAID, PAID / 10)
BELOW = first_rung("climatology", HELD)


def changed(cost: float, score: float, noise: float = 0.5, seed: int = 1) -> JudgedCases:
    """Exactly so much more than what is held, in the mean."""
    errors = np.random.default_rng(seed).normal(size=(2, 400))
    errors -= errors.mean(1, keepdims=True)
    return JudgedCases(HELD.cost + cost + noise * errors[0], HELD.score + score + 0.1 * noise * errors[1])


def tried(cost: float, score: float, noise: float = 0.5, **options: Any) -> Rung:
    return tried_rung("linear", changed(cost, score, noise), BELOW, HELD, **({"block": 1, "level": 0.99} | options))


@pytest.mark.parametrize(
    ("cost", "score", "climbed", "why"),
    [
        (-0.5, 0.0, True, "its mean cost is 9.5 instead of 10"),
        (-0.5, 0.5, True, "its mean cost is 9.5 instead of 10"),  # the price in score is told, not forbidden
        (-0.01, -0.1, True, "it was not more expensive"),
        (0.2, -0.1, False, "its score is better, but it may cost more"),
        (-0.01, 0.0, False, "it is not proven to be cheaper, nor to be better in score"),
        (0.5, 0.1, False, "it is not proven to be cheaper, nor to be better in score"),
    ],
)
def test_what_is_climbed(cost: float, score: float, climbed: bool, why: str) -> None:
    rung = tried(cost, score)
    assert rung.climbed is climbed
    assert why in rung.why
    assert (rung.below, rung.parameters) == ("climatology", {})
    assert rung.cost_change is not None
    assert rung.cost_change.mean == pytest.approx(cost)
    assert rung.score_change is not None
    assert rung.score_change.mean == pytest.approx(100 * score / HELD.score.mean())


def test_what_is_presumed_is_taken_without_proof() -> None:
    assert not tried(-0.01, -0.001, noise=1.0).climbed
    rung = tried(-0.01, -0.001, noise=1.0, presumed=True)
    assert rung.climbed
    assert rung.why == "its score was 0.1 % better, and it is left only with proof"
    assert not tried(-0.01, 0.001, noise=1.0, presumed=True).climbed


def test_half_a_per_cent_more_is_what_a_better_score_may_cost() -> None:
    assert tried(0.049, -0.1).climbed  # of a cost of 10
    assert "it was hardly more expensive (change +0.049" in tried(0.049, -0.1).why
    assert not tried(0.051, -0.1).climbed


def test_costs_below_zero_are_no_obstacle() -> None:
    held = JudgedCases(-HELD.cost, HELD.score)
    better = JudgedCases(held.cost - 0.5, held.score)
    assert tried_rung("linear", better, BELOW, held, block=1, level=0.99).climbed


def test_a_forecast_like_the_one_below_is_not_climbed() -> None:
    rung = tried_rung("network", HELD, BELOW, HELD, block=1, level=0.99)
    assert (rung.climbed, rung.why) == (False, "it is the same forecast")


def test_a_forecast_that_failed_has_no_numbers() -> None:
    rung = tried_rung("network", JudgedCases(PAID * np.nan, PAID), BELOW, HELD, block=1, level=0.99)
    assert (rung.climbed, rung.why, rung.cost, rung.cost_change) == (False, "it failed", None, None)


def test_neighbours_that_belong_together_prove_less() -> None:
    slow = np.repeat(np.random.default_rng(2).normal(size=20), 20)
    mixed = np.random.default_rng(3).permutation(slow)
    candidates = [JudgedCases(HELD.cost + change - slow.mean() - 0.2, HELD.score) for change in (mixed, slow)]
    for block, wanted in ((1, [True, False]), (20, [True, False])):  # that they do is measured, too
        climbed = [tried_rung("linear", each, BELOW, HELD, block=block, level=0.99).climbed for each in candidates]
        assert climbed == wanted


def test_a_worthless_step_is_rarely_climbed() -> None:
    """Four steps, each tested at 1 - 0.05 / 4: at most 1 in 20 ladders is climbed at all by chance."""
    random, climbed, held = np.random.default_rng(3), 0, JudgedCases(HELD.cost[:80], HELD.score[:80])
    for _ in range(100):
        worth = [JudgedCases(*(held + random.normal(size=(2, 80)))) for _ in range(4)]
        rungs = [tried_rung("linear", each, BELOW, held, block=1, level=step_level(4)) for each in worth]
        climbed += any(rung.climbed for rung in rungs)
    assert climbed <= 11  # fewer than 1 in 100 has more, of 1 in 20


def test_the_level_of_a_step() -> None:
    assert (step_level(1), step_level(5)) == pytest.approx((0.95, 0.99))
    assert step_level(0) == pytest.approx(0.95)


WEIGHTS = (0.3, 0.6, 0.9)


def judged_weights(worth: dict[float, JudgedCases]) -> Frontier:
    cost, score = (np.stack([getattr(each, name) for each in (HELD, *worth.values())]) for name in HELD._fields)
    return frontier([0.0, *worth], cost, score)


def weighed(*costs: float) -> tuple[Frontier, dict[float, JudgedCases]]:
    pairs = enumerate(zip(WEIGHTS, costs, strict=True))
    worth = {weight: changed(cost, 0.05, seed=place) for place, (weight, cost) in pairs}
    return judged_weights(worth), worth


def test_the_decision_weight_that_is_taken_is_a_rung() -> None:
    judged, worth = weighed(-0.2, -0.8, -0.4)
    rung = decision_rung(judged, worth, BELOW, HELD)
    assert (rung.climbed, rung.parameters, judged.chosen) == (True, {"decision weight": 0.6}, 0.6)
    assert rung.cost == pytest.approx(HELD.cost.mean() - 0.8)
    assert "instead of 10" in rung.why


def test_of_weights_that_are_not_taken_the_cheapest_is_shown() -> None:
    judged, worth = weighed(0.2, 0.1, 0.3)
    rung = decision_rung(judged, worth, BELOW, HELD)
    assert (rung.climbed, rung.parameters) == (False, {"decision weight": 0.6})
    assert rung.why == "no decision weight is proven to be cheaper"


def test_weights_that_forecast_the_same_are_told_together() -> None:
    _, worth = weighed(-0.8, 0.1, 0.3)
    worth[0.6] = worth[0.3]
    rung = decision_rung(judged_weights(worth), worth, BELOW, HELD)
    assert rung.parameters == {"decision weight": 0.3, "the same at": "0.6"}


def test_weights_that_all_failed() -> None:
    worth = dict.fromkeys(WEIGHTS, JudgedCases(PAID * np.nan, PAID * np.nan))
    rung = decision_rung(judged_weights(worth), worth, BELOW, HELD)
    assert (rung.climbed, rung.why, rung.cost) == (False, "it failed", None)


def test_weights_that_all_forecast_what_the_score_alone_does() -> None:
    worth = dict.fromkeys(WEIGHTS, HELD)
    rung = decision_rung(judged_weights(worth), worth, BELOW, HELD)
    assert (rung.climbed, rung.why) == (False, "the model forecasts the same at every decision weight")


def ladder() -> Ladder:
    linear = tried(-0.5, -0.1)
    network = tried_rung("network", changed(0.2, 0.1), linear, HELD, block=1, level=0.99)
    return Ladder((BELOW, linear, network), 400, 1)


def test_the_highest_rung_that_was_climbed_is_taken() -> None:
    assert ladder().taken.name == "linear"
    reason = ladder().reason
    assert reason.startswith(
        "Taken is the linear forecast, judged on 400 validation cases: its mean cost is 9.5 instead of 10"
    )
    assert reason.endswith("Not taken: the network.")
    with pytest.raises(SettingError, match="one that was climbed"):
        Ladder((replace(BELOW, climbed=False),), 400, 1)


def test_a_rung_without_a_test() -> None:
    rung = unproven_rung("linear", BELOW, changed(-0.5, 0.0), "12 cases are too few")
    assert (rung.climbed, rung.below, rung.cost_change, rung.why) == (True, "climatology", None, "12 cases are too few")


def test_rungs_on_test_cases() -> None:
    taken = JudgedCases(HELD.cost[:100] - 1, HELD.score[:100])
    found = rung_on_test("climatology", JudgedCases(HELD.cost[:100], HELD.score[:100]), taken, 200)
    assert found.cost == pytest.approx(HELD.cost[:100].mean())
    assert found.cost_change == pytest.approx((-1.0, -1.0, -1.0))


def test_as_a_table_and_as_a_file() -> None:
    tested = rung_on_test("linear", changed(-0.5, 0.0), changed(-0.6, 0.0), 1)
    whole = replace(ladder(), tested=(tested,))
    table = whole.table()
    assert list(table["rung"]) == ["climatology", "linear", "network"]
    assert list(table["climbed"]) == [True, True, False]
    assert table["test_cost"].notna().tolist() == [False, True, False]
    assert from_plain(Ladder, to_plain(whole)) == whole


def test_rungs_have_words_and_known_names() -> None:
    every = {*RUNGS, *GIVEN_RUNGS}
    assert len({rung_words(name) for name in every}) == len(every)
    with pytest.raises(SettingError, match="name must be one of climatology, linear"):
        replace(BELOW, name="stairs")
