"""What is accepted, and why: made-up costs and scores with known means."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from refusals import refuses

from stakes.errors import SettingError
from stakes.evaluation.selection import (
    CANDIDATES,
    CORRECTION_CANDIDATES,
    SAME_FORECAST,
    START,
    Frontier,
    JudgedCandidate,
    JudgedCases,
    ModelSelection,
    candidate_on_test,
    candidate_words,
    decision_candidate,
    expected_cost_change,
    frontier,
    judged_candidate,
    step_level,
    untested_candidate,
)
from stakes.settings import from_plain, to_plain

RANDOM = np.random.default_rng(0)
PAID = RANDOM.normal(size=400)
PAID += 10 - PAID.mean()
HELD = JudgedCases(PAID, PAID / 10)
BELOW = untested_candidate("climatology", None, HELD, START)


def changed(cost: float, score: float, noise: float = 0.5, seed: int = 1) -> JudgedCases:
    """Exactly so much more than what is held, in the mean."""
    errors = np.random.default_rng(seed).normal(size=(2, 400))
    errors -= errors.mean(1, keepdims=True)
    return JudgedCases(HELD.cost + cost + noise * errors[0], HELD.score + score + 0.1 * noise * errors[1])


def tried(cost: float, score: float, noise: float = 0.5, **options: Any) -> JudgedCandidate:
    return judged_candidate(
        "linear", changed(cost, score, noise), BELOW, HELD, **({"foresight": 0.0, "block": 1, "level": 0.99} | options)
    )


@pytest.mark.parametrize(
    ("cost", "score", "noise", "accepted", "proven"),
    [
        (-0.5, 0.0, 0.5, True, True),
        (-0.5, 0.1, 0.5, True, True),  # the price in score is told, not forbidden
        (-0.01, 0.0, 0.5, True, False),  # the cheapest is chosen, though nothing is proven
        (0.01, -0.1, 5.0, True, False),  # costs are too noisy to outweigh a better score
        (0.2, -0.1, 0.5, False, False),  # as they are not here
        (-0.01, 0.1, 5.0, False, False),
        (0.5, 0.1, 0.5, False, False),
    ],
)
def test_what_is_selected_and_what_is_proven(
    cost: float, score: float, noise: float, accepted: bool, proven: bool
) -> None:
    candidate = tried(cost, score, noise)
    assert (candidate.accepted, candidate.proven) == (accepted, proven)
    assert (candidate.below, candidate.parameters) == ("climatology", {})
    assert candidate.cost_change is not None
    assert candidate.cost_change.mean == pytest.approx(cost)
    assert candidate.score_change is not None
    assert candidate.score_change.mean == pytest.approx(100 * score / HELD.score.mean())
    assert ("not proven" in candidate.why) == (accepted and not proven)


def test_the_expected_change_lies_between_what_costs_and_scores_say() -> None:
    """Of a prior of mean s A and a measurement, the precision-weighted mean."""
    precision = np.array([1 / (10**2 * (0.05**2 + 0.1**2)), 1 / 2.0**2])
    expected = precision @ [0.1 * 10, -1.0] / precision.sum()
    assert expected_cost_change(-1.0, 2.0, 0.1, 10.0) == pytest.approx(expected)
    assert expected_cost_change(-1.0, 2.0, 0.1, 0.0) == -1.0  # nothing is paid above foresight


def test_a_forecast_like_the_one_below_is_not_accepted() -> None:
    candidate = judged_candidate("network", HELD, BELOW, HELD, foresight=0.0, block=1, level=0.99)
    assert (candidate.accepted, candidate.why) == (False, SAME_FORECAST)


def test_a_forecast_that_failed_has_no_numbers() -> None:
    broken = JudgedCases(PAID * np.nan, PAID)
    candidate = judged_candidate("network", broken, BELOW, HELD, foresight=0.0, block=1, level=0.99)
    assert (candidate.accepted, candidate.why, candidate.cost, candidate.cost_change) == (
        False,
        "it failed",
        None,
        None,
    )


def test_neighbours_that_belong_together_prove_less() -> None:
    slow = np.repeat(np.random.default_rng(2).normal(size=20), 20)
    mixed = np.random.default_rng(3).permutation(slow)
    candidates = [JudgedCases(HELD.cost + change - slow.mean() - 0.2, HELD.score) for change in (mixed, slow)]
    for block, wanted in ((1, [True, False]), (20, [True, False])):  # that they do is measured, too
        options: dict[str, Any] = {"foresight": 0.0, "block": block, "level": 0.99}
        proven = [judged_candidate("linear", each, BELOW, HELD, **options).proven for each in candidates]
        assert proven == wanted


def test_a_worthless_step_is_rarely_called_cheaper() -> None:
    """Four steps, each tested at 1 - 0.05 / 4: at most 1 in 20 selections claims anything by chance."""
    random, claims, held = np.random.default_rng(3), 0, JudgedCases(HELD.cost[:80], HELD.score[:80])
    for _ in range(100):
        worth = [JudgedCases(*(held + random.normal(size=(2, 80)))) for _ in range(4)]
        options: dict[str, Any] = {"foresight": 0.0, "block": 1, "level": step_level(4)}
        claims += any(judged_candidate("linear", each, BELOW, held, **options).proven for each in worth)
    assert claims <= 11  # fewer than 1 in 100 has more, of 1 in 20


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


def test_the_decision_weight_that_is_selected_is_a_candidate() -> None:
    judged, _ = weighed(-0.2, -0.8, -0.4)
    candidate = decision_candidate(judged, BELOW)
    assert (candidate.accepted, candidate.parameters, judged.chosen) == (True, {"decision weight": 0.6}, 0.6)
    assert candidate.cost == pytest.approx(HELD.cost.mean() - 0.8)
    assert candidate.proven


def test_of_weights_that_are_not_selected_the_cheapest_is_shown() -> None:
    judged, _ = weighed(0.2, 0.1, 0.3)
    candidate = decision_candidate(judged, BELOW)
    assert (candidate.accepted, candidate.parameters) == (False, {"decision weight": 0.6})
    assert candidate.why == "no decision weight is expected to save enough"


def test_weights_that_forecast_the_same_are_told_together() -> None:
    _, worth = weighed(-0.8, 0.1, 0.3)
    worth[0.6] = worth[0.3]
    candidate = decision_candidate(judged_weights(worth), BELOW)
    assert candidate.parameters == {"decision weight": 0.3, "the same at": "0.6"}


def test_weights_that_all_failed() -> None:
    worth = dict.fromkeys(WEIGHTS, JudgedCases(PAID * np.nan, PAID * np.nan))
    candidate = decision_candidate(judged_weights(worth), BELOW)
    assert (candidate.accepted, candidate.why, candidate.cost) == (False, "it failed", None)


def test_weights_that_all_forecast_what_the_score_alone_does() -> None:
    worth = dict.fromkeys(WEIGHTS, HELD)
    candidate = decision_candidate(judged_weights(worth), BELOW)
    assert (candidate.accepted, candidate.why) == (False, "the model forecasts the same at every decision weight")


def selection() -> ModelSelection:
    linear = tried(-0.5, -0.1)
    network = judged_candidate("network", changed(0.2, 0.1), linear, HELD, foresight=0.0, block=1, level=0.99)
    return ModelSelection((BELOW, linear, network), 400, 1)


def test_the_highest_candidate_that_was_accepted_is_selected() -> None:
    assert selection().selected.name == "linear"
    reason = selection().reason
    assert reason.startswith("The linear forecast was selected on 400 validation cases: expected to cost 0.")
    assert reason.endswith("Not selected: the network.")
    refuses(SettingError, "candidates", ModelSelection, (replace(BELOW, accepted=False),), 400, 1)


def test_a_candidate_without_a_test() -> None:
    candidate = untested_candidate("linear", BELOW, changed(-0.5, 0.0), "12 cases are too few")
    assert (candidate.accepted, candidate.below, candidate.cost_change, candidate.why) == (
        True,
        "climatology",
        None,
        "12 cases are too few",
    )


def test_as_a_table_and_as_a_file() -> None:
    tested = candidate_on_test("linear", changed(-0.5, 0.0), changed(-0.6, 0.0), 1)
    whole = replace(selection(), tested=(tested,))
    table = whole.to_frame()
    assert list(table["candidate"]) == ["climatology", "linear", "network"]
    assert list(table["accepted"]) == [True, True, False]
    assert table["test_cost"].notna().tolist() == [False, True, False]
    assert from_plain(ModelSelection, to_plain(whole)) == whole


def test_candidates_have_words_and_known_names() -> None:
    every = {*CANDIDATES, *CORRECTION_CANDIDATES}
    assert len({candidate_words(name) for name in every}) == len(every)
    assert candidate_words(replace(BELOW, name="my forest").name) == "my forest"
    for wrong in ("<b>", "", "a" * 50):
        refuses(SettingError, "name", replace, BELOW, name=wrong)
