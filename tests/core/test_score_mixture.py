"""Scores by name, and mixtures of them: what each part sees, and what its weight means."""

import math
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor

from stakes import (
    DecisionAwareObjective,
    DecisionScore,
    EnergyScore,
    ImbalanceCost,
    PointwiseCRPS,
    ProtectionCost,
    ScoreMixture,
    ShortfallCost,
    TotalCRPS,
    TrainingDraw,
    WindDispatchCost,
)
from stakes.errors import SettingError, ShapeError
from stakes.scores.scoring_rules import named_score, score_of_draw, score_weights

COST = ImbalanceCost(2.0, 1.0, -9.0, 9.0)
PARTS = (EnergyScore(), TotalCRPS(COST))


def some_draw(cases: int = 5, score: int = 4, decision: int = 7, sites: int = 3) -> TrainingDraw:
    """A model that predicts in another space than that of the cost, with more members for the decision."""
    generator = torch.Generator().manual_seed(0)
    members, outcome = (torch.randn(cases, *shape, sites, generator=generator) for shape in ((decision,), ()))
    weight = torch.rand(cases, generator=generator)
    return TrainingDraw(members[..., :score, :], outcome, 100 + 10 * members, 100 + 10 * outcome, weight)


def test_a_rule_sees_the_space_of_the_model_and_the_total_physical_units() -> None:
    draw = some_draw()
    for rule in (EnergyScore(), PointwiseCRPS()):
        assert torch.equal(score_of_draw(rule, draw), rule(draw.score_members, draw.score_outcome))
    total = TotalCRPS(COST)(draw.decision_members[:, :4], draw.decision_outcome)
    assert torch.equal(score_of_draw(TotalCRPS(COST), draw), total * draw.decision_term_weight)
    unweighted = draw._replace(decision_term_weight=None)
    assert torch.equal(score_of_draw(TotalCRPS(COST), unweighted), total)


@pytest.mark.parametrize("scales", [None, (2.0, 30.0), (torch.rand(5) + 1, torch.rand(5) + 1)])
def test_a_mixture_by_hand(scales: Any) -> None:
    draw = some_draw()
    energy, total = (score_of_draw(part, draw) for part in PARTS)
    first, second = scales or (1.0, 1.0)
    expected = (1.5 * energy / first + 0.5 * total / second) / 2.0
    torch.testing.assert_close(score_of_draw(ScoreMixture(PARTS, (1.5, 0.5), scales), draw), expected)


def test_scales_by_a_double_loop() -> None:
    outcome = torch.rand(3, 2, dtype=torch.float64)
    mixture = ScoreMixture(PARTS, (1.0, 1.0)).standardised(outcome)
    others = torch.stack([outcome[[1, 2]], outcome[[2, 0]], outcome[[0, 1]]])
    assert mixture.scales == pytest.approx(tuple(part(others, outcome).mean().item() for part in PARTS))


def test_constant_outcomes_give_no_scale() -> None:
    refuses(SettingError, "EnergyScore", ScoreMixture(PARTS, (1.0, 1.0)).standardised, torch.ones(10, 2))
    refuses(ShapeError, "got 2", ScoreMixture(PARTS, (1.0, 1.0)).standardised, torch.rand(2, 2))


def test_a_mixture_is_proper_by_simulation() -> None:
    generator = torch.Generator().manual_seed(2)
    truth, outcome = (torch.randn(20_000, *shape, 2, generator=generator) for shape in ((10,), ()))
    mixture = ScoreMixture((PointwiseCRPS(), TotalCRPS(COST)), (1.0, 1.0))
    best = mixture(truth, outcome)
    torn = torch.stack([truth[..., 0], truth[..., 0]], -1)  # each site is right, their sum is too wide
    for rival in (truth + 0.3, 1.3 * truth, 0.7 * truth, torn):
        worse = mixture(rival, outcome) - best
        assert worse.mean() > 4 * worse.std() / math.sqrt(len(worse))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("energy", {"energy": 1.0}),
        ("pointwise", {"pointwise": 1.0}),
        ("total", {"total": 1.0}),
        ("energy=1,total=0.5", {"energy": 1.0, "total": 0.5}),
        (" pointwise = 2 , energy ", {"pointwise": 2.0, "energy": 1.0}),
    ],
)
def test_scores_in_words(text: str, expected: dict[str, float]) -> None:
    assert score_weights(text) == expected


@pytest.mark.parametrize(
    "text", ["", "crps", "energy=", "energy=x", "energy=0", "energy=-1", "energy=inf", "energy=nan"]
)
@pytest.mark.parametrize("more", ["", "total=1,"])
def test_words_that_are_no_score(text: str, more: str) -> None:
    refuses(SettingError, "^score", score_weights, more + text)


def test_scores_by_name() -> None:
    cost = WindDispatchCost(5.0)
    assert named_score({"energy": 2.0}, cost) == EnergyScore()
    assert named_score({"pointwise": 1.0}, cost, "biased") == PointwiseCRPS("biased")
    assert named_score({"total": 1.0}, cost) == TotalCRPS(cost)
    mixed = named_score({"energy": 1.0, "total": 0.5}, cost, "biased")
    assert mixed == ScoreMixture((EnergyScore("biased"), TotalCRPS(cost, "biased")), (1.0, 0.5))
    without_total = ProtectionCost(0.5, 0.5)
    assert named_score({"energy": 1.0}, without_total) == EnergyScore()
    refuses(SettingError, "ProtectionCost", named_score, {"energy": 1.0, "total": 0.5}, without_total)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), ()), "parts"),
        ((PARTS, (1.0,)), "weights and scales"),
        ((PARTS, (1.0, 1.0), (1.0,)), "weights and scales"),
        ((PARTS, (1.0, 0.0)), "weights"),
        ((PARTS, (1.0, 1.0), (1.0, -1.0)), "scales"),
        ((PARTS, (1.0, 1.0), (1.0, torch.zeros(3))), "scales"),
    ],
)
def test_bad_mixtures_are_named(arguments: Any, message: str) -> None:
    refuses(SettingError, message, ScoreMixture, *arguments)


def test_a_mixture_with_masks_and_weights_of_cases() -> None:
    samples, outcome = torch.rand(6, 8, 2), torch.rand(6, 2)
    mixture = ScoreMixture((EnergyScore(), TotalCRPS(ShortfallCost(5.0))), (1.0, 1.0), (0.5, 0.2))
    objective = DecisionAwareObjective(mixture, DecisionScore(ShortfallCost(5.0)), 0.3)
    mask = torch.tensor([True, True, False, True, False, True])
    spoiled: Tensor = torch.where(mask[:, None], outcome, torch.nan)
    found = objective.from_samples(samples, spoiled, mask=mask).mean()
    torch.testing.assert_close(found.total, objective.from_samples(samples[mask], outcome[mask]).mean().total)
