"""The metrics against scoringrules and scores, which are written by others."""

import numpy as np
import pytest
import scores.probability as scores
import scoringrules
import torch
import xarray as xr
from torch import Tensor

from stakes import ProtectionCost, ShortfallCost
from stakes.evaluation.ensembles import evaluate
from stakes.evaluation.metrics import Assessor

every_ensemble = pytest.mark.parametrize("ties", [False, True])
every_size = pytest.mark.parametrize("members", [2, 7, 50])


def draw(members: int, ties: bool, sites: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(members)
    drawn = torch.randn(30, members + 1, sites, generator=generator, dtype=torch.float64)
    drawn = (2 * drawn).round() / 2 if ties else drawn
    return drawn[:, :-1], drawn[:, -1]


@every_ensemble
@every_size
def test_metrics_of_one_site(members: int, ties: bool) -> None:
    """scores has the whole jump of the empirical distribution at the outcome, we its middle."""
    drawn, outcome = draw(members, ties)
    values, observed = drawn[..., 0].numpy(), outcome[:, 0].numpy()
    forecast, seen = xr.DataArray(values, dims=("time", "number")), xr.DataArray(observed, dims="time")
    found = evaluate(forecast, seen, ShortfallCost(4.0))
    crps = scores.crps_for_ensemble(forecast, seen, "number", method="fair", preserve_dims="all")
    np.testing.assert_allclose(found["energy_score"], crps, atol=1e-12)
    np.testing.assert_allclose(found["spread"], values.std(1, ddof=1))
    np.testing.assert_allclose(found["error"], values.mean(1) - observed, atol=1e-12)
    pit = scores.Pit(forecast, seen, ensemble_member_dim="number", preserve_dims="all").pit_uniform_endpoints
    np.testing.assert_allclose(found["pit"], pit.mean("uniform_endpoint"), atol=1e-7)
    assert (float(pit.diff("uniform_endpoint").max()) > 0) == ties
    for side, bound in (("above", "a"), ("below", "b")):
        tail = Assessor(ProtectionCost(0.5, 0.4, side))(drawn, outcome)["tail_crps"]  # type: ignore[arg-type]
        wanted = scoringrules.twcrps_ensemble(observed, values, estimator="fair", **{bound: 0.5})
        np.testing.assert_allclose(tail, wanted, atol=1e-12)


@every_ensemble
@every_size
def test_metrics_of_several_sites(members: int, ties: bool) -> None:
    drawn, outcome = draw(members, ties, sites=4)
    found = Assessor(ShortfallCost(4.0))(drawn, outcome)
    values, seen = drawn.numpy(), outcome.numpy()
    wanted = {
        "energy_score": scoringrules.es_ensemble(seen, values, estimator="fair"),
        "variogram_score": scoringrules.vs_ensemble(seen, values, p=0.5),
        "crps_of_total": scoringrules.crps_ensemble(seen.mean(-1), values.mean(-1), estimator="fair"),
    }
    for name, each in wanted.items():
        np.testing.assert_allclose(found[name], each, atol=1e-11)
