"""One battery for every scoring rule: protocol, batch axes, refusals, precision, functional transforms, compilation."""

import math
import warnings

import pytest
import torch
from refusals import refuses
from torch import Tensor

from stakes import (
    DecisionScore,
    EnergyScore,
    NewtonBisection,
    PointwiseCRPS,
    ProtectionCost,
    ScoreMixture,
    ScoringRule,
    ShortfallCost,
    ThresholdWeightedCRPS,
    TotalCRPS,
    VariogramScore,
    WindDispatchCost,
)
from stakes.errors import NonFiniteError, ShapeError
from stakes.scores import scoring_rules as pair_distances

DOUBLE = torch.float64


@pytest.fixture(params=["all pairs", "sorted"], autouse=True)
def way_to_rank(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test with both ways of ranking members, whichever their number would choose."""
    monkeypatch.setattr(pair_distances, "_FEW_PAIRS", 1 << 40 if request.param == "all pairs" else 0)


def draw(cases: int, members: int, sites: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(members + 100 * sites)
    samples = torch.randn(cases, members, sites, dtype=DOUBLE, generator=generator)
    return samples, torch.randn(cases, sites, dtype=DOUBLE, generator=generator)


RULES: dict[str, ScoringRule] = {
    "energy": EnergyScore(),
    "biased": EnergyScore("biased"),
    "pointwise": PointwiseCRPS(),
    "threshold": ThresholdWeightedCRPS(0.3),
    "below": ThresholdWeightedCRPS(0.3, "below"),
    "variogram": VariogramScore(),
    "total": TotalCRPS(WindDispatchCost(5.0)),
    "mixture": ScoreMixture((TotalCRPS(ShortfallCost(5.0)), EnergyScore()), (0.5, 1.0), (2.0, 0.3)),
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
    refuses(NonFiniteError, "samples", rule, spoiled, outcome)
    refuses(NonFiniteError, "outcome", rule, samples, outcome.index_fill(0, torch.tensor([1]), bad))


@every_rule
def test_outcome_of_wrong_shape_is_named(rule: ScoringRule) -> None:
    for shape in ((3,), (3, 1), (2, 2), (1, 2), (3, 6, 2), ()):
        refuses(ShapeError, "outcome", rule, torch.rand(3, 6, 2), torch.rand(shape))


@every_rule
def test_bad_types_are_named(rule: ScoringRule) -> None:
    refuses(ShapeError, "samples", rule, torch.zeros(3, 6, 2, dtype=torch.long), torch.rand(3, 2))
    refuses(ShapeError, "outcome", rule, torch.rand(3, 6, 2), torch.zeros(3, 2, dtype=torch.long))
    refuses(ShapeError, "outcome", rule, torch.rand(3, 6, 2), [0.0, 1.0])


@every_rule
def test_half_precision_is_scored_in_float32(rule: ScoringRule) -> None:
    samples, outcome = torch.rand(3, 6, 2).bfloat16(), torch.rand(3, 2)
    expected = rule(samples.float(), outcome)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = rule(samples, outcome)
    assert scores.dtype == torch.float32
    assert torch.equal(scores, expected)


@every_rule
def test_functional_transforms(rule: ScoringRule) -> None:
    samples, outcome = (each.abs() for each in draw(3, 20, 2))
    torch.testing.assert_close(torch.func.vmap(rule)(samples, outcome), rule(samples, outcome))
    leaf = samples.clone().requires_grad_()
    (expected,) = torch.autograd.grad(rule(leaf, outcome).sum(), leaf)
    torch.testing.assert_close(torch.func.grad(lambda y: rule(y, outcome).sum())(samples), expected)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(rule))(samples, outcome), expected)


@every_rule
def test_gradcheck(rule: ScoringRule) -> None:
    samples, outcome = draw(2, 6, 3)
    assert torch.autograd.gradcheck(lambda y: rule(y, outcome), samples.abs().requires_grad_())


@pytest.mark.parametrize("name", ["energy", "pointwise", "threshold", "total", "mixture"])
def test_compiles_as_one_graph(name: str) -> None:
    assert_compiles_as_one_graph(RULES[name], 1 if name in ("energy", "threshold") else 2)


@pytest.mark.parametrize("way_to_rank", ["sorted"], indirect=True)
@pytest.mark.parametrize(("name", "sites"), [("energy", 2), ("variogram", 2), ("decision", 1), ("debiased", 1)])
def test_rules_that_rank_no_members_compile_as_one_graph(name: str, sites: int) -> None:
    assert_compiles_as_one_graph(RULES[name], sites)


def assert_compiles_as_one_graph(rule: ScoringRule, sites: int) -> None:
    samples, outcome = draw(3, 6, sites)
    samples = samples.abs().requires_grad_()
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*autograd.function.Function.* should not be instantiated")  # by dynamo
        compiled = torch.compile(rule, backend="aot_eager", fullgraph=True)(samples, outcome)
    eager = rule(samples, outcome)
    torch.testing.assert_close(compiled, eager)
    torch.testing.assert_close(torch.autograd.grad(compiled.sum(), samples), torch.autograd.grad(eager.sum(), samples))
