"""The metrics against scoringrules and scores, which are written by others."""

from typing import Any

import numpy as np
import pytest
import scores.probability as scores
import scoringrules
import torch
import xarray as xr
from torch import Tensor

from stakes import ProtectionCost, ShortfallCost, energy_score
from stakes.evaluation.ensembles import evaluate
from stakes.evaluation.metrics import Assessor
from stakes.scores.scoring_rules import ThresholdWeightedCRPS

CASES = 30
every_ensemble = pytest.mark.parametrize("ties", [False, True])
every_size = pytest.mark.parametrize("members", [2, 7, 50])


def draw(members: int, ties: bool, sites: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(members)
    drawn = torch.randn(CASES, members + 1, sites, generator=generator, dtype=torch.float64)
    drawn = (2 * drawn).round() / 2 if ties else drawn
    return drawn[:, :-1], drawn[:, -1]


def labelled(members: Tensor, outcome: Tensor) -> tuple[xr.DataArray, xr.DataArray]:
    return (
        xr.DataArray(members[..., 0].numpy(), dims=("time", "number")),
        xr.DataArray(outcome[:, 0].numpy(), dims="time"),
    )


@every_ensemble
@every_size
@pytest.mark.parametrize(("estimator", "theirs", "other"), [("fair", "fair", "fair"), ("biased", "nrg", "ecdf")])
def test_crps(members: int, ties: bool, estimator: Any, theirs: str, other: Any) -> None:
    drawn, outcome = draw(members, ties)
    found = energy_score(drawn, outcome, estimator).numpy()
    rules = scoringrules.crps_ensemble(outcome[:, 0].numpy(), drawn[..., 0].numpy(), estimator=theirs)
    np.testing.assert_allclose(found, rules, atol=1e-12)
    forecast, seen = labelled(drawn, outcome)
    cases = scores.crps_for_ensemble(forecast, seen, "number", method=other, preserve_dims="all")
    np.testing.assert_allclose(found, cases.values, atol=1e-12)
    if estimator == "fair":  # the one that is evaluated
        np.testing.assert_allclose(evaluate(forecast, seen, ShortfallCost(4.0))["energy_score"], cases, atol=1e-12)


@every_ensemble
@every_size
@pytest.mark.parametrize(("side", "tail", "bounds"), [("above", "upper", {"a": 0.5}), ("below", "lower", {"b": 0.5})])
def test_threshold_weighted_crps(members: int, ties: bool, side: Any, tail: Any, bounds: dict[str, float]) -> None:
    drawn, outcome = draw(members, ties)
    values, seen = drawn[..., 0].numpy(), outcome[:, 0].numpy()
    for estimator, theirs, other in (("fair", "fair", "fair"), ("biased", "nrg", "ecdf")):
        found = ThresholdWeightedCRPS(0.5, side, estimator)(drawn, outcome).numpy()  # type: ignore[arg-type]
        np.testing.assert_allclose(
            found, scoringrules.twcrps_ensemble(seen, values, estimator=theirs, **bounds), atol=1e-12
        )
        reference = scores.tail_tw_crps_for_ensemble(
            *labelled(drawn, outcome), "number", 0.5, tail=tail, method=other, preserve_dims="all"
        )
        np.testing.assert_allclose(found, reference.values, atol=1e-12)
    of_cost = Assessor(ProtectionCost(0.5, 0.4, side))(drawn, outcome)["tail_crps"]
    wanted = scoringrules.twcrps_ensemble(seen, values, estimator="fair", **bounds)
    np.testing.assert_allclose(of_cost, wanted, atol=1e-12)


@every_ensemble
@every_size
def test_energy_and_variogram_score(members: int, ties: bool) -> None:
    drawn, outcome = draw(members, ties, sites=4)
    found = Assessor(ShortfallCost(4.0))(drawn, outcome)
    values, seen = drawn.numpy(), outcome.numpy()
    np.testing.assert_allclose(
        found["energy_score"], scoringrules.es_ensemble(seen, values, estimator="fair"), atol=1e-12
    )
    biased = scoringrules.es_ensemble(seen, values, estimator="nrg")
    np.testing.assert_allclose(energy_score(drawn, outcome, "biased"), biased, atol=1e-12)
    np.testing.assert_allclose(found["variogram_score"], scoringrules.vs_ensemble(seen, values, p=0.5), atol=1e-11)
    total = scoringrules.crps_ensemble(seen.mean(-1), values.mean(-1), estimator="fair")
    np.testing.assert_allclose(found["crps_of_total"], total, atol=1e-12)


@every_ensemble
@every_size
def test_pit(members: int, ties: bool) -> None:
    """scores has the whole jump of the empirical distribution at the outcome, we its middle."""
    drawn, outcome = draw(members, ties)
    forecast, seen = labelled(drawn, outcome)
    jump = scores.Pit(forecast, seen, ensemble_member_dim="number", preserve_dims="all").pit_uniform_endpoints
    found = evaluate(forecast, seen, ShortfallCost(4.0))["pit"]
    np.testing.assert_allclose(found.values, jump.mean("uniform_endpoint").values, atol=1e-7)
    if ties:
        assert float(jump.diff("uniform_endpoint").max()) > 0
    expected = scores.Pit(forecast, seen, ensemble_member_dim="number").expected_value()
    assert float(found.mean()) == pytest.approx(float(expected), abs=1e-6)


def test_spread_and_error_equal_numpy() -> None:
    drawn, outcome = draw(9, False)
    found = Assessor(ShortfallCost(4.0))(drawn, outcome)
    np.testing.assert_allclose(found["spread"], drawn[..., 0].numpy().std(1, ddof=1))
    np.testing.assert_allclose(found["error"], drawn[..., 0].numpy().mean(1) - outcome[:, 0].numpy(), atol=1e-12)
