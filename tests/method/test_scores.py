import math
from collections.abc import Callable
from typing import Any

import pytest
import scoringrules
import torch
from torch import Tensor

from stakes import (
    DecisionScore,
    EnergyScore,
    ImbalanceCost,
    NewsvendorCost,
    NewtonBisection,
    PowerCurve,
    ProtectionCost,
    ScoringRule,
    ShortfallCost,
    ThresholdWeightedCRPS,
    VariogramScore,
    WindDispatchCost,
    cost_function,
    energy_score,
    optimal_action,
)
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.method import pair_distances
from stakes.method.scores import TotalCRPS

DOUBLE = torch.float64
ESTIMATORS = ("fair", "biased", "almost_fair")
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)
every_size = pytest.mark.parametrize("members", [2, 3, 17, 60])
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=["float32", "float64"])
TOLERANCE = {torch.float32: 1e-6, DOUBLE: 1e-13}


@pytest.fixture(params=["all pairs", "sorted"], autouse=True)
def way_to_rank(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test with both ways of ranking members, whichever their number would choose."""
    monkeypatch.setattr(pair_distances, "_FEW_PAIRS", 1 << 40 if request.param == "all pairs" else 0)


def draw(
    cases: int, members: int, sites: int, dtype: torch.dtype = DOUBLE, ties: bool = False
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(members + 100 * sites)
    samples = torch.randn(cases, members, sites, generator=generator)
    outcome = torch.randn(cases, sites, generator=generator)
    if ties:
        samples, outcome = samples.round(), outcome.round()
    return samples.to(dtype), outcome.to(dtype)


def by_double_loop(samples: Tensor, outcome: Tensor, estimator: str, alpha: float = 0.95) -> Tensor:
    samples, outcome = samples.double(), outcome.double()
    members = samples.shape[-2]
    accuracy = sum(norm(samples[..., m, :] - outcome) for m in range(members)) / members
    pairs: Any = sum(
        norm(samples[..., m, :] - samples[..., j, :]) for m in range(members) for j in range(members) if j != m
    )
    fair, biased = pairs / (2 * members * (members - 1)), pairs / (2 * members**2)
    share = {"fair": 1.0, "biased": 0.0, "almost_fair": alpha}[estimator]
    return accuracy - share * fair - (1 - share) * biased


def norm(vector: Tensor) -> Tensor:
    """Euclidean length with derivative zero at zero."""
    square = (vector**2).sum(-1)
    apart = square > 0
    return torch.where(apart, torch.where(apart, square, 1.0).sqrt(), 0.0)


@every_estimator
@every_size
@every_dtype
@pytest.mark.parametrize("sites", [1, 3])
@pytest.mark.parametrize("ties", [False, True])
def test_energy_score_equals_a_double_loop(
    estimator: Any, members: int, dtype: torch.dtype, sites: int, ties: bool
) -> None:
    samples, outcome = (each.requires_grad_() for each in draw(4, members, sites, dtype, ties))
    score = energy_score(samples, outcome, estimator)
    assert score.shape == (4,)
    assert score.dtype == dtype
    expected = by_double_loop(samples, outcome, estimator)
    torch.testing.assert_close(score.double(), expected, rtol=TOLERANCE[dtype], atol=3 * TOLERANCE[dtype])
    gradients = torch.autograd.grad(score.sum(), (samples, outcome))
    for gradient, wanted in zip(gradients, torch.autograd.grad(expected.sum(), (samples, outcome)), strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=TOLERANCE[dtype], atol=3 * TOLERANCE[dtype])


@every_size
@every_dtype
@pytest.mark.parametrize(("estimator", "reference"), [("fair", "fair"), ("fair", "pwm"), ("biased", "nrg")])
def test_crps_equals_scoringrules(members: int, dtype: torch.dtype, estimator: Any, reference: str) -> None:
    samples, outcome = draw(8, members, 1, dtype)
    expected = scoringrules.crps_ensemble(
        outcome[:, 0].double().numpy(), samples[..., 0].double().numpy(), estimator=reference
    )
    score = energy_score(samples, outcome, estimator).double()
    torch.testing.assert_close(score, torch.from_numpy(expected), rtol=0.0, atol=1e-6)


@every_size
@pytest.mark.parametrize(("estimator", "reference"), [("fair", "fair"), ("biased", "nrg")])
def test_energy_score_equals_scoringrules(members: int, estimator: Any, reference: str) -> None:
    samples, outcome = draw(8, members, 4)
    expected = scoringrules.es_ensemble(outcome.numpy(), samples.numpy(), estimator=reference)
    torch.testing.assert_close(energy_score(samples, outcome, estimator), torch.from_numpy(expected))


@every_estimator
@pytest.mark.parametrize("sites", [1, 3])
@pytest.mark.parametrize("members", [5, 20])
def test_gradcheck(estimator: Any, sites: int, members: int) -> None:
    samples, outcome = (each.requires_grad_() for each in draw(2, members, sites))
    assert torch.autograd.gradcheck(lambda y, o: energy_score(y, o, estimator), (samples, outcome))


@pytest.mark.parametrize("pairs_at_once", [1, 36, 100])
def test_chunks_give_the_same(monkeypatch: pytest.MonkeyPatch, pairs_at_once: int) -> None:
    samples, outcome = draw(7, 6, 3)
    samples.requires_grad_()
    whole = energy_score(samples, outcome)
    (whole_gradient,) = torch.autograd.grad(whole.sum(), samples)
    monkeypatch.setattr(pair_distances, "_PAIRS_AT_ONCE", pairs_at_once)
    chunked = energy_score(samples, outcome)
    (chunked_gradient,) = torch.autograd.grad(chunked.sum(), samples)
    torch.testing.assert_close(whole, chunked, rtol=1e-14, atol=1e-14)  # sums of parts round in another order
    assert torch.equal(whole_gradient, chunked_gradient)


def test_many_rows_with_some_ties() -> None:
    samples, outcome = draw(3000, 50, 1, torch.float32)
    samples[::7] = samples[::7].round()
    samples[::11, :5] = -0.0
    samples[::11, 5:9] = 0.0
    samples.requires_grad_()
    score = energy_score(samples, outcome)
    exact = samples.detach().double().requires_grad_()
    pairs = (exact - exact.transpose(-1, -2)).abs().sum((-1, -2)) / (2 * 50 * 49)
    expected = (exact - outcome[:, None]).abs().mean((-1, -2)) - pairs
    torch.testing.assert_close(score.double(), expected, rtol=1e-6, atol=1e-6)
    (gradient,) = torch.autograd.grad(score.sum(), samples)
    torch.testing.assert_close(gradient.double(), *torch.autograd.grad(expected.sum(), exact), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("sites", [1, 3])
@pytest.mark.parametrize("members", [10, 50])
def test_all_members_at_the_outcome(sites: int, members: int) -> None:
    samples = torch.full((2, members, sites), 3.7, requires_grad=True)
    score = energy_score(samples, torch.full((2, sites), 3.7))
    assert torch.equal(score, torch.zeros(2))
    (gradient,) = torch.autograd.grad(score.sum(), samples)
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("members", [10, 50, 500])
@pytest.mark.parametrize("sites", [1, 3])
def test_large_offset_keeps_its_digits(members: int, sites: int) -> None:
    samples, outcome = draw(16, members, sites)
    samples, outcome = (50_000 + samples).float(), (50_000 + outcome).float()
    score = energy_score(samples, outcome)
    expected = energy_score(samples.double(), outcome.double())
    torch.testing.assert_close(score.double(), expected, rtol=1e-5, atol=0.0)


def test_large_offset_of_the_outcome_keeps_its_digits() -> None:
    samples, outcome = draw(16, 50, 1)
    samples, outcome = samples.float(), (50_000 + outcome).float()
    torch.testing.assert_close(
        energy_score(samples, outcome).double(), energy_score(samples.double(), outcome.double()), rtol=1e-5, atol=0.0
    )


def test_fair_estimator_does_not_depend_on_the_number_of_members() -> None:
    generator = torch.Generator().manual_seed(5)
    outcome = torch.zeros(200_000, 1, dtype=DOUBLE)
    exact = math.sqrt(2 / math.pi) - 1 / math.sqrt(math.pi)  # CRPS of N(0, 1) at 0
    for members in (2, 5, 20):
        samples = torch.randn(200_000, members, 1, dtype=DOUBLE, generator=generator)
        fair, biased = energy_score(samples, outcome), energy_score(samples, outcome, "biased")
        error = fair.std() / math.sqrt(len(fair))
        assert abs(fair.mean() - exact) < 4 * error
        assert biased.mean() - exact == pytest.approx(1 / math.sqrt(math.pi) / members, rel=0.1)


def test_settings_of_the_energy_score() -> None:
    samples, outcome = draw(4, 10, 1)
    assert torch.equal(EnergyScore("biased")(samples, outcome), energy_score(samples, outcome, "biased"))
    mixed = EnergyScore("almost_fair", alpha=0.3)(samples, outcome)
    torch.testing.assert_close(
        mixed, 0.3 * energy_score(samples, outcome, "fair") + 0.7 * energy_score(samples, outcome, "biased")
    )


@pytest.mark.parametrize("estimator", ["fair", "almost_fair"])
def test_one_member_has_no_fair_score(estimator: Any) -> None:
    samples, outcome = draw(4, 1, 1)
    with pytest.raises(ShapeError, match="at least two members, got M = 1"):
        energy_score(samples, outcome, estimator)
    torch.testing.assert_close(energy_score(samples, outcome, "biased"), (samples[:, 0, 0] - outcome[:, 0]).abs())


CURVE = PowerCurve(ramp_speed=0.5, ramp_sharpness=4.0, shear=0.0)
RULES: dict[str, ScoringRule] = {
    "energy": EnergyScore(),
    "biased": EnergyScore("biased"),
    "threshold": ThresholdWeightedCRPS(0.3),
    "below": ThresholdWeightedCRPS(0.3, "below"),
    "variogram": VariogramScore(),
    "total": TotalCRPS(WindDispatchCost(5.0)),
    "decision": DecisionScore(ShortfallCost(5.0)),
    "debiased": DecisionScore(ShortfallCost(5.0), "debiased"),
    "newton": DecisionScore(ProtectionCost(0.3, 0.5, protection_power=2.0), solver=NewtonBisection(4, 4)),
}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


@every_rule
def test_rule_meets_the_protocol_and_keeps_batch_axes(rule: ScoringRule) -> None:
    assert isinstance(rule, ScoringRule)
    samples, outcome = torch.rand(2, 3, 6, 2), torch.rand(2, 3, 2)
    scores = rule(samples, outcome)
    assert scores.shape == (2, 3)
    torch.testing.assert_close(scores[1, 2], rule(samples[1, 2], outcome[1, 2]))


@every_rule
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_not_finite_is_named(rule: ScoringRule, bad: float) -> None:
    samples, outcome = torch.rand(3, 6, 2), torch.rand(3, 2)
    spoiled = samples.clone()
    spoiled[0, 1, 0] = bad
    with pytest.raises(NonFiniteError, match="samples must be finite"):
        rule(spoiled, outcome)
    with pytest.raises(NonFiniteError, match="outcome must be finite"):
        rule(samples, outcome.index_fill(0, torch.tensor([1]), bad))


@every_rule
@pytest.mark.parametrize("shape", [(3,), (3, 1), (2, 2), (1, 2), (3, 6, 2), ()])
def test_outcome_of_wrong_shape_is_named(rule: ScoringRule, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"outcome must have shape \(3, 2\)"):
        rule(torch.rand(3, 6, 2), torch.rand(shape))


@every_rule
def test_bad_types_are_named(rule: ScoringRule) -> None:
    with pytest.raises(ShapeError, match="samples must hold floating-point"):
        rule(torch.zeros(3, 6, 2, dtype=torch.long), torch.rand(3, 2))
    with pytest.raises(ShapeError, match="outcome must hold floating-point"):
        rule(torch.rand(3, 6, 2), torch.zeros(3, 2, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"outcome must be a torch\.Tensor"):
        rule(torch.rand(3, 6, 2), [0.0, 1.0])  # type: ignore[arg-type]


@every_rule
def test_half_precision_is_scored_in_float32(rule: ScoringRule) -> None:
    samples, outcome = torch.rand(3, 6, 2).bfloat16(), torch.rand(3, 2)
    expected = rule(samples.float(), outcome)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = rule(samples, outcome)
    assert scores.dtype == torch.float32
    assert torch.equal(scores, expected)


@every_rule
@pytest.mark.parametrize("members", [6, 20])
def test_functional_transforms(rule: ScoringRule, members: int) -> None:
    generator = torch.Generator().manual_seed(1)
    samples = torch.rand(3, members, 2, dtype=DOUBLE, generator=generator)
    outcome = torch.rand(3, 2, dtype=DOUBLE, generator=generator)
    torch.testing.assert_close(torch.func.vmap(rule)(samples, outcome), rule(samples, outcome))
    leaf = samples.clone().requires_grad_()
    (expected,) = torch.autograd.grad(rule(leaf, outcome).sum(), leaf)
    torch.testing.assert_close(torch.func.grad(lambda y: rule(y, outcome).sum())(samples), expected)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(rule))(samples, outcome), expected)


@pytest.mark.parametrize("members", [6, 20])
def test_functional_transforms_of_the_crps(members: int) -> None:
    samples, outcome = draw(5, members, 1)
    leaf = samples.clone().requires_grad_()
    (expected,) = torch.autograd.grad(energy_score(leaf, outcome).sum(), leaf)
    torch.testing.assert_close(torch.func.vmap(energy_score)(samples, outcome), energy_score(samples, outcome))
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(energy_score))(samples, outcome), expected)
    moved = torch.func.vmap(energy_score, in_dims=(2, 0))(samples.movedim(0, 2), outcome)
    torch.testing.assert_close(moved, energy_score(samples, outcome))


@pytest.mark.filterwarnings(  # raised inside torch._dynamo
    "ignore:<class 'torch.autograd.function.Function'> should not be instantiated:DeprecationWarning"
)
@pytest.mark.parametrize(
    ("rule", "members", "sites"),
    [
        (RULES["energy"], 6, 1),
        (RULES["energy"], 6, 2),
        (RULES["threshold"], 20, 1),
        (RULES["variogram"], 6, 2),
        (RULES["total"], 6, 2),
        (RULES["decision"], 6, 1),
        (RULES["debiased"], 6, 1),
    ],
)
def test_compiles_as_one_graph(rule: ScoringRule, members: int, sites: int) -> None:
    samples, outcome = draw(3, members, sites)
    samples = samples.abs().requires_grad_()
    torch.compiler.reset()
    compiled = torch.compile(rule, backend="aot_eager", fullgraph=True)(samples, outcome)
    eager = rule(samples, outcome)
    torch.testing.assert_close(compiled, eager)
    torch.testing.assert_close(torch.autograd.grad(compiled.sum(), samples), torch.autograd.grad(eager.sum(), samples))


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: EnergyScore("unfair"), "estimator"),  # type: ignore[arg-type]
        (lambda: EnergyScore(alpha=1.5), "alpha"),
        (lambda: EnergyScore(alpha=math.nan), "alpha"),
        (lambda: ThresholdWeightedCRPS(math.nan), "threshold"),
        (lambda: ThresholdWeightedCRPS(math.inf), "threshold"),
        (lambda: ThresholdWeightedCRPS(0.0, "left"), "side"),  # type: ignore[arg-type]
        (lambda: ThresholdWeightedCRPS(0.0, estimator="unfair"), "estimator"),  # type: ignore[arg-type]
        (lambda: VariogramScore(0.0), "power"),
        (lambda: VariogramScore(math.inf), "power"),
        (lambda: TotalCRPS(ShortfallCost(1.0), "unfair"), "estimator"),  # type: ignore[arg-type]
        (lambda: TotalCRPS(ProtectionCost(0.5, 0.5)), "total.*ProtectionCost has none"),  # type: ignore[arg-type]
        (lambda: TotalCRPS(cost_function(torch.dist, 0.0, 1.0)), "FunctionCost has none"),  # type: ignore[arg-type]
        (lambda: DecisionScore(ShortfallCost(1.0), "fair"), "estimator"),  # type: ignore[arg-type]
    ],
)
def test_bad_settings_are_named(make: Callable[[], ScoringRule], field: str) -> None:
    with pytest.raises(SettingError, match=field):
        make()


@pytest.mark.parametrize(("side", "bounds"), [("above", {"a": 0.3}), ("below", {"b": 0.3})])
@pytest.mark.parametrize(("estimator", "reference"), [("fair", "fair"), ("biased", "nrg")])
@pytest.mark.parametrize("members", [8, 30])
def test_threshold_weighted_crps_equals_scoringrules(
    side: Any, bounds: dict[str, float], estimator: Any, reference: str, members: int
) -> None:
    samples, outcome = draw(20, members, 1)
    expected = scoringrules.twcrps_ensemble(
        outcome[:, 0].numpy(), samples[..., 0].numpy(), estimator=reference, **bounds
    )
    score = ThresholdWeightedCRPS(0.3, side, estimator)(samples, outcome)
    torch.testing.assert_close(score, torch.from_numpy(expected))


def test_threshold_weighted_crps_does_not_see_the_other_side() -> None:
    samples, outcome = (each.requires_grad_() for each in draw(20, 30, 1))
    (gradient,) = torch.autograd.grad(ThresholdWeightedCRPS(0.3)(samples, outcome).sum(), samples)
    assert (gradient[samples < 0.3] == 0).all()
    assert (gradient[samples > 0.3] != 0).any()


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_variogram_score_equals_scoringrules(power: float) -> None:
    samples, outcome = draw(10, 8, 4)
    expected = scoringrules.vs_ensemble(outcome.numpy(), samples.numpy(), p=power)
    torch.testing.assert_close(VariogramScore(power)(samples, outcome), torch.from_numpy(expected))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_variogram_score_has_safe_gradients_at_ties(power: float) -> None:
    samples, outcome = draw(10, 8, 4, ties=True)
    samples.requires_grad_()
    (gradient,) = torch.autograd.grad(VariogramScore(power)(samples, outcome).sum(), samples)
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0


def test_variogram_score_gradcheck() -> None:
    samples, outcome = draw(2, 4, 3)
    assert torch.autograd.gradcheck(lambda y: VariogramScore()(y, outcome), samples.requires_grad_())


def test_variogram_score_needs_two_sites() -> None:
    with pytest.raises(ShapeError, match="at least two sites"):
        VariogramScore()(torch.rand(3, 5, 1), torch.rand(3, 1))


TOTALS: dict[str, tuple[Any, Callable[[Tensor], Tensor]]] = {
    "shortfall": (ShortfallCost(5.0), lambda values: values.mean(-1)),
    "wind": (WindDispatchCost(5.0, CURVE), lambda values: CURVE(values).mean(-1)),
    "newsvendor": (NewsvendorCost(2.0, 1.0, 0.0, 9.0), lambda values: values.sum(-1)),
    "imbalance": (ImbalanceCost(2.0, 1.0, 0.0, 9.0), lambda values: values.sum(-1)),
}


@pytest.mark.parametrize(("cost", "total"), TOTALS.values(), ids=TOTALS)
@pytest.mark.parametrize(("estimator", "reference"), [("fair", "fair"), ("biased", "nrg")])
@pytest.mark.parametrize("sites", [1, 4])
def test_crps_of_the_total_equals_scoringrules(
    cost: Any, total: Callable[[Tensor], Tensor], estimator: Any, reference: str, sites: int
) -> None:
    samples, outcome = draw(20, 8, sites)
    expected = scoringrules.crps_ensemble(total(outcome).numpy(), total(samples).numpy(), estimator=reference)
    torch.testing.assert_close(TotalCRPS(cost, estimator)(samples, outcome), torch.from_numpy(expected))


@pytest.mark.parametrize("cost", [cost for cost, _ in TOTALS.values()], ids=TOTALS)
def test_crps_of_the_total_gradcheck(cost: Any) -> None:
    samples, outcome = draw(3, 6, 3)
    assert torch.autograd.gradcheck(lambda y: TotalCRPS(cost)(y, outcome), samples.requires_grad_())


@pytest.mark.parametrize("cost", [ShortfallCost(5.0), WindDispatchCost(5.0), ProtectionCost(0.5, 0.5)])
@pytest.mark.parametrize("sites", [1, 3])
def test_plain_decision_score_is_the_realised_cost(cost: Any, sites: int) -> None:
    samples, outcome = torch.rand(5, 8, sites), torch.rand(5, sites)
    expected = cost(optimal_action(cost, samples), outcome)
    assert torch.equal(DecisionScore(cost)(samples, outcome), expected)


def test_debiased_decision_score_formula() -> None:
    plain, debiased = (DecisionScore(ShortfallCost(5.0), name) for name in ("plain", "debiased"))
    samples, outcome = torch.rand(5, 8, 1), torch.rand(5, 1)
    halves = plain(samples[:, :4], outcome) + plain(samples[:, 4:], outcome)
    torch.testing.assert_close(debiased(samples, outcome), 2 * plain(samples, outcome) - halves / 2)


@pytest.mark.parametrize("members", [1, 2, 3, 5, 7, 11])
def test_debiased_decision_score_needs_even_members(members: int) -> None:
    with pytest.raises(ShapeError, match=f"even number of members >= 4, got M = {members}"):
        DecisionScore(ShortfallCost(5.0), "debiased")(torch.rand(3, members, 1), torch.rand(3, 1))


def wind_speed(generator: torch.Generator, *shape: int) -> Tensor:
    return (10 + 4 * torch.randn(shape, generator=generator)).clamp(min=0)


def two_modes(generator: torch.Generator, *shape: int) -> Tensor:
    noise = torch.randn(shape, generator=generator)
    return torch.where(torch.rand(shape, generator=generator) < 0.6, 0.2 * noise, 2.5 + 0.4 * noise)


def biases(cost: Any, draw_outcome: Callable[..., Tensor], sets: int = 200_000) -> tuple[float, float, float]:
    """How much the plain and debiased scores of 10 members exceed the least expected cost, and their standard error."""
    generator = torch.Generator().manual_seed(11)
    best = optimal_action(cost, draw_outcome(generator, 1, 1_000_000, 1))
    samples, outcome = draw_outcome(generator, sets, 10, 1), draw_outcome(generator, sets, 1)
    least = cost(best.expand(sets, 1), outcome)
    plain = DecisionScore(cost)(samples, outcome) - least
    debiased = DecisionScore(cost, "debiased")(samples, outcome) - least
    error = max(plain.std().item(), debiased.std().item()) / math.sqrt(sets)
    return plain.mean().item(), debiased.mean().item(), error


def test_bias_of_a_wide_wind_forecast() -> None:
    plain, debiased, error = biases(WindDispatchCost(5.0), wind_speed)
    assert plain == pytest.approx(0.065, abs=0.01)
    assert plain - 4 * error > 1.4 * (abs(debiased) + 4 * error)


def test_bias_of_protection() -> None:
    plain, debiased, error = biases(ProtectionCost(1.0, 0.5, sharpness=10.0), two_modes)
    assert plain == pytest.approx(0.035, abs=0.007)
    assert plain - 4 * error > 2 * (abs(debiased) + 4 * error)


def test_debiased_score_overshoots_where_members_are_few() -> None:
    plain, debiased, error = biases(WindDispatchCost(20.0), wind_speed)
    assert plain == pytest.approx(0.17, abs=0.03)
    assert debiased + 4 * error < 0
    assert abs(debiased) == pytest.approx(plain, rel=0.4)
