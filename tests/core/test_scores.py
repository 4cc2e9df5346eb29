import itertools
import math
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import scoringrules
import torch
from example_counts import examples
from hypothesis import strategies
from refusals import refuses
from torch import Tensor

from stakes import (
    DecisionScore,
    EnergyScore,
    ImbalanceCost,
    NewsvendorCost,
    PointwiseCRPS,
    PowerCurve,
    ProtectionCost,
    ScoringRule,
    ShortfallCost,
    ThresholdWeightedCRPS,
    TotalCRPS,
    VariogramScore,
    WindDispatchCost,
    cost_function,
    energy_score,
)
from stakes.errors import SettingError, ShapeError
from stakes.scores import scoring_rules as pair_distances
from stakes.scores.scoring_rules import pair_distance_sum

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


def by_all_pairs(samples: Tensor, outcome: Tensor, estimator: str, alpha: float = 0.95) -> Tensor:
    samples, outcome = samples.double(), outcome.double()
    members = samples.shape[-2]
    accuracy = norm(samples - outcome[..., None, :]).sum(-1) / members
    pairs = norm(samples[..., :, None, :] - samples[..., None, :, :]).sum((-1, -2))
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
def test_energy_score_equals_the_sum_over_all_pairs(estimator: Any, members: int, dtype: torch.dtype) -> None:
    for sites, ties in itertools.product((1, 3), (False, True)):
        samples, outcome = (each.requires_grad_() for each in draw(4, members, sites, dtype, ties))
        score = energy_score(samples, outcome, estimator)
        assert score.shape == (4,)
        assert score.dtype == dtype
        expected = by_all_pairs(samples, outcome, estimator)
        torch.testing.assert_close(score.double(), expected, rtol=TOLERANCE[dtype], atol=3 * TOLERANCE[dtype])
        gradients = torch.autograd.grad(score.sum(), (samples, outcome))
        for gradient, wanted in zip(gradients, torch.autograd.grad(expected.sum(), (samples, outcome)), strict=True):
            torch.testing.assert_close(gradient, wanted, rtol=TOLERANCE[dtype], atol=3 * TOLERANCE[dtype])


def test_large_offset_of_the_outcome_keeps_its_digits() -> None:
    samples, outcome = draw(16, 50, 1)
    samples, outcome = samples.float(), (50_000 + outcome).float()
    torch.testing.assert_close(
        energy_score(samples, outcome).double(), energy_score(samples.double(), outcome.double()), rtol=1e-5, atol=0.0
    )


def test_fair_estimator_does_not_depend_on_the_number_of_members() -> None:
    generator = torch.Generator().manual_seed(5)
    outcome = torch.zeros(20_000, 1, dtype=DOUBLE)
    exact = math.sqrt(2 / math.pi) - 1 / math.sqrt(math.pi)  # CRPS of N(0, 1) at 0
    for members in (2, 5, 20):
        samples = torch.randn(20_000, members, 1, dtype=DOUBLE, generator=generator)
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
    refuses(ShapeError, "M = 1", energy_score, samples, outcome, estimator)
    torch.testing.assert_close(energy_score(samples, outcome, "biased"), (samples[:, 0, 0] - outcome[:, 0]).abs())


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: EnergyScore("unfair"), "estimator"),  # type: ignore[arg-type]
        (lambda: EnergyScore(alpha=1.5), "alpha"),
        (lambda: EnergyScore(alpha=math.nan), "alpha"),
        (lambda: PointwiseCRPS("unfair"), "estimator"),  # type: ignore[arg-type]
        (lambda: PointwiseCRPS(alpha=-0.1), "alpha"),
        (lambda: ThresholdWeightedCRPS(math.nan), "threshold"),
        (lambda: ThresholdWeightedCRPS(math.inf), "threshold"),
        (lambda: ThresholdWeightedCRPS(0.0, "left"), "side"),  # type: ignore[arg-type]
        (lambda: ThresholdWeightedCRPS(0.0, estimator="unfair"), "estimator"),  # type: ignore[arg-type]
        (lambda: VariogramScore(0.0), "power"),
        (lambda: VariogramScore(math.inf), "power"),
        (lambda: TotalCRPS(ShortfallCost(1.0), "unfair"), "estimator"),  # type: ignore[arg-type]
        (lambda: TotalCRPS(ProtectionCost(0.5, 0.5)), "total.*ProtectionCost has none"),  # type: ignore[arg-type]
        (lambda: TotalCRPS(cost_function(torch.dist, 0.0, 1.0)), "FunctionCost"),  # type: ignore[arg-type]
        (lambda: DecisionScore(ShortfallCost(1.0), "fair"), "estimator"),  # type: ignore[arg-type]
    ],
)
def test_bad_settings_are_named(make: Callable[[], ScoringRule], field: str) -> None:
    refuses(SettingError, field, make)


@pytest.mark.parametrize(("estimator", "reference"), [("fair", "fair"), ("biased", "nrg")])
@pytest.mark.parametrize("members", [2, 17])
def test_pointwise_crps_equals_scoringrules(estimator: Any, reference: str, members: int) -> None:
    samples, outcome = draw(8, members, 4, ties=True)
    by_site = scoringrules.crps_ensemble(outcome.numpy(), samples.numpy(), m_axis=-2, estimator=reference)
    torch.testing.assert_close(PointwiseCRPS(estimator)(samples, outcome), torch.from_numpy(by_site).mean(-1))


@pytest.mark.parametrize("rule", [PointwiseCRPS(), TotalCRPS(ImbalanceCost(2.0, 1.0, -9.0, 9.0))], ids=["sites", "sum"])
def test_proper_by_simulation(rule: ScoringRule) -> None:
    """The true forecast scores best against forecasts that are shifted, too wide or too narrow, on the same cases."""
    generator = torch.Generator().manual_seed(2)
    truth, outcome = (torch.randn(40_000, *shape, 2, generator=generator) for shape in ((10,), ()))
    best = rule(truth, outcome)
    for rival in (truth + 0.3, truth - 0.3, 1.3 * truth, 0.7 * truth):
        worse = rule(rival, outcome) - best
        assert worse.mean() > 4 * worse.std() / math.sqrt(len(worse))


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


def test_variogram_score_needs_two_sites() -> None:
    refuses(ShapeError, "samples", VariogramScore(), torch.rand(3, 5, 1), torch.rand(3, 1))


CURVE = PowerCurve(ramp_speed=0.5, ramp_sharpness=4.0, shear=0.0)
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


# The sum of the distances between members, in every way it is computed


def all_pairs(samples: Tensor) -> Tensor:
    return norm(samples[..., :, None, :] - samples[..., None, :, :]).sum((-2, -1)) / 2


@pytest.mark.parametrize("sites", [1, 2, 5])
def test_near_ties_far_from_zero_keep_their_digits(sites: int) -> None:
    """Physical units: members of a pressure in Pa that differ by a fraction of one."""
    samples = (101_325 + 0.25 * draw(3, 20, sites)[0].round()).float()
    for with_gradient in (False, True):
        with torch.set_grad_enabled(with_gradient):
            found = pair_distance_sum(samples).double()
        torch.testing.assert_close(found, all_pairs(samples.double()), rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("pairs_at_once", [1, 30, 200])
def test_parts_add_up_to_the_whole(pairs_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = draw(4, 11, 3)[0].requires_grad_()
    expected = all_pairs(samples)
    (wanted,) = torch.autograd.grad(expected.sum(), samples)
    monkeypatch.setattr(pair_distances, "_PAIRS_AT_ONCE", pairs_at_once)
    total = pair_distance_sum(samples)
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(torch.autograd.grad(total.sum(), samples)[0], wanted)
    with torch.no_grad():
        torch.testing.assert_close(pair_distance_sum(samples.float()), expected.float(), rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("members_first", [False, True])
def test_the_operator_keeps_its_contract(members_first: bool) -> None:
    samples = torch.rand(50, 400, 2).transpose(0, 1) if members_first else torch.rand(400, 50, 2)
    operator = torch.ops.stakes.pair_distances.default
    torch.library.opcheck(operator, (samples,), test_utils=("test_schema", "test_faketensor"))


@examples(60)
@hypothesis.given(strategies.lists(strategies.floats(-1e6, 1e6, width=32), min_size=1, max_size=12))
def test_one_site_is_the_sum_of_absolute_differences(values: list[float]) -> None:
    total = pair_distance_sum(torch.tensor(values, dtype=DOUBLE)[:, None])
    expected = sum(abs(first - second) for place, first in enumerate(values) for second in values[:place])
    assert total.item() == pytest.approx(expected, rel=1e-9, abs=1e-6)
