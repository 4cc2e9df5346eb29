"""The decision score, the objective and its loss module: formulas, scales, masks, weights."""

import itertools
import math
from functools import partial
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor

import stakes
from stakes import (
    DecisionAwareObjective,
    DecisionScore,
    EnergyScore,
    ImbalanceCost,
    ParameterRange,
    ShortfallCost,
    TrainingDraw,
    cost_function,
    energy_score,
    optimal_action,
    solve_action,
)
from stakes.costs import member_weights
from stakes.errors import NonFiniteError, SettingError, ShapeError, StakesError
from stakes.scores.decision_score import realised_cost, realised_costs

DOUBLE = torch.float64
COST = ShortfallCost(5.0)


def data(*batch: int, members: int = 6, sites: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    samples = torch.rand(*batch, members, sites, dtype=DOUBLE, generator=generator)
    return samples, torch.rand(*batch, sites, dtype=DOUBLE, generator=generator)


def objective(weight: Any, **scales: Any) -> DecisionAwareObjective:
    return DecisionAwareObjective(EnergyScore(), DecisionScore(COST), weight, **scales)


def untouchable() -> DecisionScore:
    def fail(action: Tensor, outcome: Tensor) -> Tensor:
        raise AssertionError("the decision was solved")

    return DecisionScore(cost_function(fail, 0.0, 1.0))


def test_formula() -> None:
    samples, outcome = data(8)
    score, decision = energy_score(samples, outcome), DecisionScore(COST)(samples, outcome)
    terms = objective(0.3, score_scale=0.2, decision_scale=0.5).from_samples(samples, outcome)
    torch.testing.assert_close(terms.total, 0.7 * score / 0.2 + 0.3 * decision / 0.5)
    assert torch.equal(terms.score, score)
    assert terms.decision is not None
    assert torch.equal(terms.decision, decision)


@pytest.mark.parametrize("weight", [0, 0.0])
def test_weight_zero_does_not_solve_the_action(weight: float) -> None:
    samples, outcome = data(8)
    silent = DecisionAwareObjective(EnergyScore(), untouchable(), weight, score_scale=0.5)
    terms = silent.from_samples(samples, outcome)
    assert terms.decision is None
    assert terms.mean().decision is None
    torch.testing.assert_close(terms.total, energy_score(samples, outcome) / 0.5)
    with pytest.raises(AssertionError, match="the decision was solved"):
        DecisionAwareObjective(EnergyScore(), untouchable(), 0.1).from_samples(samples, outcome)


def test_weight_one_warns_and_counts_the_decision_alone() -> None:
    samples, outcome = data(8)
    with pytest.warns(UserWarning, match="decision_weight"):
        alone = objective(1.0)
    terms = alone.from_samples(samples, outcome)
    torch.testing.assert_close(terms.total, DecisionScore(COST)(samples, outcome))
    with pytest.warns(UserWarning, match="decision_weight 1"):
        objective(torch.tensor([0.0, 1.0]))


SETTINGS = {
    "decision_weight": (-0.1, 1.1, math.nan, math.inf, torch.tensor([0.5, -0.1]), torch.tensor(math.nan)),
    "score_scale": (0.0, -1.0, math.nan, math.inf, torch.tensor([1.0, 0.0])),
    "decision_scale": (0.0, -1.0, math.nan, math.inf, torch.tensor([1.0, 0.0])),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_bad_settings_are_named(name: str) -> None:
    make, right = partial(DecisionAwareObjective, EnergyScore(), DecisionScore(COST)), {"decision_weight": 0.5}
    for wrong in SETTINGS[name]:
        refuses(SettingError, f"^{name} ", make, **right | {name: wrong})
    broadcast = make(**right | {name: torch.full((4, 1), 0.5)})
    refuses(ShapeError, name.split("_")[-1], broadcast.from_samples, *data(4))


def test_tensor_weight_of_a_stack_equals_single_models() -> None:
    samples, outcome = data(3, 5)
    weights, scales = torch.tensor([[0.0], [0.4], [0.9]]), torch.tensor([[1.0], [2.0], [3.0]])
    total = objective(weights, score_scale=scales, decision_scale=2 * scales).from_samples(samples, outcome).total
    for row, (weight, scale) in enumerate(zip(weights.flatten().tolist(), scales.flatten().tolist(), strict=True)):
        single = objective(weight, score_scale=scale, decision_scale=2 * scale)
        torch.testing.assert_close(total[row], single.from_samples(samples[row], outcome[row]).total)
    stacked = torch.func.vmap(lambda weight: objective(weight).from_samples(samples, outcome).total)(weights[:, 0])
    torch.testing.assert_close(stacked[1], objective(0.4).from_samples(samples, outcome).total)


def test_draw_keeps_both_spaces_and_the_term_weight() -> None:
    (score_members, score_outcome), (members, outcome) = data(7, sites=3), data(7)
    weight = torch.linspace(0, 1, 7, dtype=DOUBLE)
    terms = objective(0.3)(TrainingDraw(score_members, score_outcome, members, outcome, weight))
    decision = weight * DecisionScore(COST)(members, outcome)
    torch.testing.assert_close(terms.decision, decision)
    torch.testing.assert_close(terms.total, 0.7 * energy_score(score_members, score_outcome) + 0.3 * decision)


@pytest.mark.parametrize("member_dim", [0, 1, 2, -1, -2, -3])
def test_members_on_any_axis(member_dim: int) -> None:
    samples, outcome = data(5, sites=2)
    moved = samples.movedim(-2, member_dim)
    expected = objective(0.3).from_samples(samples, outcome).total
    assert torch.equal(objective(0.3).from_samples(moved, outcome, member_dim=member_dim).total, expected)


def test_masked_cases_count_nothing() -> None:
    samples, outcome = data(6, sites=2)
    known = torch.tensor([True, False, True, True, False, True])
    spoiled = outcome.clone()
    spoiled[1, 0] = math.nan
    spoiled[4] = math.inf
    samples.requires_grad_()
    loss = objective(0.3).from_samples(samples, spoiled, mask=known).mean().total
    expected = objective(0.3).from_samples(samples[known], outcome[known]).mean().total
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, samples)
    (expected_gradient,) = torch.autograd.grad(expected, samples)
    torch.testing.assert_close(gradient, expected_gradient)
    assert (gradient[~known] == 0).all()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"mask": torch.ones(6)}, "mask"),
        ({"mask": torch.zeros(6, dtype=torch.bool)}, "mask"),
        ({"mask": torch.ones(6, 1, dtype=torch.bool)}, "mask"),
        ({"mask": [True] * 6}, "mask"),
        ({"case_weight": torch.tensor([1.0, -1.0, 1.0, 1.0, 1.0, 1.0])}, "case_weight"),
        ({"case_weight": torch.tensor([1.0, math.nan, 1.0, 1.0, 1.0, 1.0])}, "case_weight"),
        ({"case_weight": torch.ones(6, 1)}, "case_weight"),
        ({"member_dim": 7}, "member_dim"),
        ({"outcome": torch.full((6, 1), math.nan)}, "outcome"),
        ({"outcome": torch.full((6, 1), math.nan), "mask": torch.ones(6, dtype=torch.bool)}, "outcome"),
        ({"outcome": torch.ones(1, 1), "mask": torch.ones(6, dtype=torch.bool)}, "outcome"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], name: str) -> None:
    samples, outcome = data(6)
    refuses(StakesError, name, objective(0.3).from_samples, samples, **{"outcome": outcome, **options})


def test_case_weights_weigh_the_mean() -> None:
    samples, outcome = data(6)
    weight = torch.arange(6, dtype=DOUBLE)
    terms = objective(0.3).from_samples(samples, outcome, case_weight=weight)
    torch.testing.assert_close(terms.mean().total, (terms.total * weight).sum() / 15)
    known = torch.tensor([True, True, True, False, True, True])
    both = objective(0.3).from_samples(samples, outcome, case_weight=weight, mask=known)
    torch.testing.assert_close(both.mean().total, (terms.total * weight * known).sum() / 12)


def test_terms_of_other_cases_are_refused() -> None:
    samples, outcome = data(6)
    of_sites = TrainingDraw(samples, outcome, samples.mT[..., None], outcome[..., None])
    refuses(ShapeError, "score and decision", objective(0.3), of_sites)


def draws_of(*batch: int, weight: Tensor | None = None) -> TrainingDraw:
    (score_members, score_outcome), (members, outcome) = data(*batch, sites=2), data(*batch)
    weight = torch.ones(batch, dtype=DOUBLE) if weight is None else weight
    return TrainingDraw(score_members, score_outcome, members, outcome, weight)


def test_scales_make_both_terms_one() -> None:
    draw = draws_of(40, weight=torch.linspace(0, 1, 40, dtype=DOUBLE))
    scaled = objective(0.3).estimate_scales(draw)
    assert scaled.decision_weight == 0.3
    assert isinstance(scaled.score_scale, float)
    assert isinstance(scaled.decision_scale, float)
    terms = objective(0.3)(draw)
    assert terms.decision is not None
    assert scaled.score_scale == pytest.approx(terms.score.mean().item())
    assert scaled.decision_scale == pytest.approx(terms.decision.abs().mean().item())
    parts = [
        TrainingDraw(*(each if each is None else each[part] for each in draw)) for part in (slice(0, 10), slice(10, 40))
    ]
    pieces = objective(0.3).estimate_scales(iter(parts))
    assert pieces.score_scale == pytest.approx(scaled.score_scale)
    assert pieces.decision_scale == pytest.approx(scaled.decision_scale)


def test_draws_without_a_scale_are_refused() -> None:
    free = DecisionAwareObjective(EnergyScore(), DecisionScore(ImbalanceCost(1.0, 1.0, 0.0, 1.0)), 0.5)
    outcome, samples = torch.full((4, 1), 0.5), torch.full((4, 6, 1), 0.5)
    spread = samples + torch.linspace(-0.1, 0.1, 6)[:, None]
    for name, members in (
        ("decision", (spread, outcome + 1, samples, outcome)),
        ("score", (samples, outcome, spread, outcome + 1)),
    ):
        refuses(NonFiniteError, f"{name} term", free.estimate_scales, TrainingDraw(*members, torch.ones(4)))
    refuses(ShapeError, "draw", free.estimate_scales, [])


def test_scales_of_a_stack() -> None:
    draw = draws_of(3, 10)
    scaled = objective(torch.tensor([[0.0], [0.4], [0.9]])).estimate_scales(draw, dim=-1)
    for row in range(3):
        single = objective(0.5).estimate_scales(TrainingDraw(*(each if each is None else each[row] for each in draw)))
        for name in ("score_scale", "decision_scale"):
            scale = getattr(scaled, name)
            assert scale.shape == (3, 1)
            assert scale[row].item() == pytest.approx(getattr(single, name))


@pytest.mark.parametrize("truth", [(0.0, 1.0), (0.5, 0.7)])
def test_mixture_is_smallest_at_the_truth(truth: tuple[float, float]) -> None:
    """The Lemma on a family of Gaussians, with members and outcomes shared so that differences are paired."""
    generator = torch.Generator().manual_seed(7)
    noise = torch.randn(20_000, 40, 1, generator=generator)
    outcome = truth[0] + truth[1] * torch.randn(20_000, 1, generator=generator)
    decision = DecisionScore(ImbalanceCost(3.0, 1.0, -5.0, 5.0))

    def totals(mean: float, deviation: float) -> Tensor:
        """Of every weight, (3, 20_000); both terms are worked out once."""
        samples = mean + deviation * noise

        def total(weight: Tensor) -> Tensor:
            mixture = DecisionAwareObjective(EnergyScore(), decision, weight, decision_scale=3.0)
            return mixture.from_samples(samples, outcome).total

        return torch.func.vmap(total)(torch.tensor([0.0, 0.5, 0.9]))

    at_truth = totals(*truth)
    for other in itertools.product((-0.5, 0.0, 0.5, 1.0), (0.4, 0.7, 1.0, 1.5)):
        gap = totals(*other) - at_truth
        assert other == truth or (gap.mean(1) > 3 * gap.std(1) / math.sqrt(gap.shape[1])).all(), other


def test_scales_do_not_depend_on_the_estimator_of_the_decision() -> None:
    draw = TrainingDraw.from_samples(*data(50))
    debiased = DecisionAwareObjective(EnergyScore(), DecisionScore(COST, "debiased"), 0.5)
    assert debiased.estimate_scales(draw).decision_scale == objective(0.5).estimate_scales(draw).decision_scale


def test_debiased_decision_score_formula() -> None:
    plain, debiased = (DecisionScore(ShortfallCost(5.0), name) for name in ("plain", "debiased"))
    samples, outcome = torch.rand(5, 8, 1), torch.rand(5, 1)
    halves = plain(samples[:, :4], outcome) + plain(samples[:, 4:], outcome)
    torch.testing.assert_close(debiased(samples, outcome), 2 * plain(samples, outcome) - halves / 2)


@pytest.mark.parametrize("members", [1, 2, 3, 5, 7, 11])
def test_debiased_decision_score_needs_even_members(members: int) -> None:
    refuses(ShapeError, f"got M = {members}", DecisionScore(COST, "debiased"), *data(3, members=members))


@pytest.mark.parametrize("weighted", [False, True])
def test_realised_costs_in_parts(monkeypatch: pytest.MonkeyPatch, weighted: bool) -> None:
    """Members in one piece or row after row, each case with its own cost parameter: the same actions, costs, scores."""
    generator = torch.Generator().manual_seed(0)
    members, outcome = torch.rand(11, 6, 1, generator=generator), torch.rand(11, 1, generator=generator)
    parameter = torch.linspace(2.0, 9.0, 11)
    weights = torch.arange(1.0, 7.0) if weighted else None
    cost = ShortfallCost(parameter)
    action = optimal_action(cost, members, weights=weights, thorough=True)
    monkeypatch.setitem(member_weights._NUMBERS_AT_ONCE, "cpu", 3 * 6)
    streamed = ((rows, members[rows]) for rows in (slice(0, 5), slice(5, 11)))
    for forecasts in (members, streamed):
        found = realised_costs(
            ShortfallCost(ParameterRange(1, 10)),  # type: ignore[arg-type]
            forecasts,
            outcome,
            weights=weights,
            parameter=parameter,
            score=energy_score,
        )
        torch.testing.assert_close(found.action, action, rtol=0, atol=0)
        torch.testing.assert_close(found.cost, cost(action, outcome), rtol=0, atol=0)
        torch.testing.assert_close(found.score, energy_score(members, outcome), rtol=0, atol=0)


def test_a_realised_cost_with_its_certificate() -> None:
    members, outcome = torch.rand(5, 8, 1), torch.rand(5, 1)
    cost = ShortfallCost(3.0)
    found, solution = realised_cost(cost, members, outcome, certify=True), solve_action(cost, members)
    assert found.certificate is not None
    assert found.expected_cost is not None
    torch.testing.assert_close(found.action, solution.action, rtol=0, atol=0)
    torch.testing.assert_close(found.expected_cost, solution.expected_cost, rtol=0, atol=0)
    plain = realised_cost(cost, members, outcome, expected=True)
    assert plain.expected_cost is not None
    torch.testing.assert_close(plain.expected_cost, solution.expected_cost)


def test_the_loss_is_the_mean_of_the_scaled_objective() -> None:
    samples, outcome = data(32)
    mask, plain = torch.arange(32) % 2 == 0, objective(0.3)
    loss = stakes.DecisionAwareLoss(plain, member_dim=0).double()
    members = samples.movedim(-2, 0).clone().requires_grad_()
    loss.estimate_scales(members, outcome)
    scaled = plain.estimate_scales(TrainingDraw.from_samples(samples, outcome))
    expected = scaled.from_samples(samples[mask], outcome[mask]).mean()
    found = loss(members, torch.where(mask[:, None], outcome, torch.nan), mask=mask)
    torch.testing.assert_close(found, expected.total)
    assert loss.terms is not None
    torch.testing.assert_close(loss.terms.decision, expected.decision)
    assert not loss.terms.score.requires_grad
    (gradient,) = torch.autograd.grad(found, members)
    leaf = samples.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(scaled.from_samples(leaf[mask], outcome[mask]).mean().total, leaf)
    torch.testing.assert_close(gradient.movedim(0, -2), wanted)
