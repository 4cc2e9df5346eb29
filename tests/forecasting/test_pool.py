"""The pool of forecasts: shares that are learned by the score, and a pool that was selected."""

from pathlib import Path

import numpy as np
import pytest
import torch

import stakes
from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.evaluation.selection import JudgedCases
from stakes.forecasting.pool import PoolTerms, found_pool
from stakes.models.sample_model import member_shares
from stakes.training.settings import ImplicitSettings, TrainingSettings

COST = stakes.ImbalanceCost(short=9.0, long=1.0, lower=-50.0, upper=50.0)
QUICK = TrainingSettings(epochs=2, pretraining_epochs=0, validate_every=1, batch=400, members=4, validation_members=4)


def drawn(spread: float, bias: float = 0.0, cases: int = 400, seed: int = 0) -> torch.Tensor:
    """Members (N, 50, 2) about 0."""
    generator = torch.Generator().manual_seed(seed)
    return bias + spread * torch.randn(cases, 50, 2, generator=generator)


def test_the_score_of_any_pool_is_that_of_its_members() -> None:
    forecasts, outcome = [drawn(1.0), drawn(0.5, 1.0, seed=1)], drawn(1.0, seed=2)[:, 0]
    terms = PoolTerms.of(forecasts, outcome, torch.ones(2))
    both = stakes.energy_score(torch.cat(forecasts, 1), outcome, "biased").double().numpy()
    np.testing.assert_allclose(terms.score(np.array([0.5, 0.5])), both, rtol=1e-5)
    grid = [np.array([share, 1 - share]) for share in np.linspace(0, 1, 101)]
    best = min(grid, key=lambda shares: terms.score(shares).mean())
    np.testing.assert_allclose(terms.best_shares(), best, atol=0.02)


def test_shares_are_those_of_a_mixture() -> None:
    """Outcomes come from two places, each of which one forecast alone knows."""
    generator = np.random.default_rng(0)
    first = torch.from_numpy(generator.random(600) < 0.7)
    outcome = torch.where(first[:, None], drawn(1.0, 4.0, 600, 3)[:, 0], drawn(1.0, -4.0, 600, 4)[:, 0])
    forecasts = [drawn(1.0, 4.0, 600), drawn(1.0, -4.0, 600, 1), drawn(1.0, 40.0, 600, 2)]
    shares = PoolTerms.of(forecasts, outcome, torch.ones(2)).believed_shares()
    np.testing.assert_allclose(shares, [0.7, 0.3, 0.0], atol=0.06)


def test_a_gain_that_may_be_chance_leaves_the_best_forecast() -> None:
    terms = PoolTerms.of([drawn(1.0), drawn(1.0, 3.0, seed=1)], drawn(1.0, seed=2)[:, 0], torch.ones(2))
    np.testing.assert_array_equal(terms.believed_shares(), [1.0, 0.0])


def test_no_case_sets_the_shares_that_it_is_judged_by() -> None:
    """Of each block of outcomes another forecast knows all: the shares of the others give it the least."""
    outcome = drawn(1.0, cases=500, seed=5)[:, 0]
    blocks = np.array_split(np.arange(500), 5)
    forecasts = []
    for block in blocks:
        members = drawn(1.0, cases=500, seed=int(block[0]))
        members[block] = outcome[block, None]
        forecasts.append(members)
    seen = []

    def worth(block: np.ndarray, members: torch.Tensor) -> JudgedCases:
        seen.append((members == outcome[block, None]).all(2).float().mean().item())
        return JudgedCases(np.zeros(len(block)), np.zeros(len(block)))

    found = found_pool(forecasts, outcome, torch.ones(2), worth)
    assert len(found.judged.cost) == 500
    assert max(seen) < 0.1
    assert member_shares(7, [0.5, 0.5]) == [4, 3]


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    features = random.normal(size=(1200, 8))
    steps = 0.55 * np.sign(features[:, 0] * features[:, 1])
    return features, 0.6 * features @ random.normal(size=8) + steps + 0.5 * random.normal(size=1200)


@pytest.fixture(scope="module")
def found(rows: tuple[np.ndarray, np.ndarray]) -> stakes.DecisionAwareForecaster:
    pytest.importorskip("lightgbm")
    small = ImplicitSettings(noise=2, hidden=8, layers=1)
    given = {"model": small, "weights": (0.0,), "members": 60, "training": QUICK, "block": 4, "random_state": 0}
    return stakes.DecisionAwareForecaster(COST, recent_errors=False, **given).fit(*rows)


def test_what_lines_and_trees_know_together_is_pooled(
    found: stakes.DecisionAwareForecaster, rows: tuple[np.ndarray, np.ndarray]
) -> None:
    assert found.selection_ is not None
    assert (found.selection_.selected.name, found.kind_) == ("pool", "pool")
    shares = found.selection_.selected.parameters
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert {"linear", "trees"} <= shares.keys()
    assert found.sample(rows[0][:3]).shape == (3, 60, 1)
    tested = found.tested_selection(*rows)
    assert tested is not None
    assert "pool" in [candidate.name for candidate in tested.tested]
    seen = found.forecast.errors(found.forecast.cases(*rows))  # what a monitor watches
    assert np.isfinite(seen.pit).all()
    assert 0.3 < seen.pit.mean() < 0.7


def test_a_pool_is_saved_and_fitted_again(
    found: stakes.DecisionAwareForecaster, rows: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    features, outcome = rows
    save_bundle(tmp_path / "fit", found)
    loaded = load_bundle(tmp_path / "fit", cost=COST)
    np.testing.assert_array_equal(loaded.forecast.sample(features[:5]), found.sample(features[:5]))
    np.testing.assert_array_equal(loaded.forecast.decide(features[:5]), found.decide(features[:5]))
    again = loaded.forecaster
    assert again.pool_ == found.pool_
    again.refit(features, outcome)
    np.testing.assert_allclose(again.sample(features[:5]), found.sample(features[:5]), atol=1e-4)
    assert not np.allclose(again.refit(features[:900], outcome[:900]).decide(features), found.decide(features))
