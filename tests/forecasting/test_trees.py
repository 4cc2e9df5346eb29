"""Trees as a base: against LightGBM itself, and out of fold with a gap."""

import builtins
import copy
import pickle
from typing import Any

import lightgbm
import numpy as np
import pytest
import torch
from refusals import refuses
from torch import Tensor

import stakes
from stakes.errors import SettingError, ShapeError
from stakes.forecasting.plan import TreeLocation, fit_trees
from stakes.models.linear import time_blocks
from stakes.training.settings import ImplicitSettings, TrainingSettings

COST = stakes.ImbalanceCost(short=10.0, long=1.0, lower=-10.0, upper=10.0)
QUICK = TrainingSettings(epochs=3, validate_every=1, batch=32, members=4, validation_members=4)
SMALL = ImplicitSettings(noise=2, hidden=8, layers=1)


def table(rows: int = 160, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Steps that no line follows."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.rand(rows, 2, generator=generator)
    steps = torch.stack([(features[:, 0] > 0.5) * 4.0, ((features[:, 1] - 0.5).abs() > 0.25) * 2.0], 1)
    return features, steps + 0.1 * torch.randn(rows, 2, generator=generator)


def test_out_of_fold_forecasts_are_those_of_trees_that_saw_neither_the_block_nor_the_gap() -> None:
    features, outcome = table()
    trees, forecasts = fit_trees(features, outcome[:, :1], gap=3, seed=1)
    booster = lightgbm.Booster(model_str=trees.texts[0])
    x, y = features.double().numpy(), outcome[:, 0].double().numpy()
    parameters = {"objective": "regression", "learning_rate": 0.05, "verbosity": -1, "deterministic": True, "seed": 1}
    rounds = booster.num_trees()
    whole = lightgbm.train(parameters | {"force_col_wise": True}, lightgbm.Dataset(x, y), rounds)
    np.testing.assert_allclose(trees(features)[:, 0], whole.predict(x), rtol=1e-5, atol=1e-6)
    block, left_out = list(time_blocks(160, 3, 5))[2]
    kept = np.delete(np.arange(160), left_out)
    bins = lightgbm.Dataset(x, y, free_raw_data=False).construct()  # which are of all rows
    part = lightgbm.train(parameters | {"force_col_wise": True}, bins.subset(kept), rounds)
    np.testing.assert_allclose(forecasts[block, 0], part.predict(x[block]), rtol=1e-5, atol=1e-6)


def test_what_the_folds_forecast_is_worse_than_what_was_fitted_and_better_than_the_mean() -> None:
    features, outcome = table()
    trees, forecasts = fit_trees(features, outcome)
    fitted, held_out, mean = (
        (outcome - each).square().mean() for each in (trees(features), forecasts, outcome.mean(0))
    )
    assert fitted < held_out < 0.2 * mean


def test_texts_are_all_there_is_to_trees() -> None:
    features, outcome = table()
    trees, _ = fit_trees(features, outcome)
    for other in (copy.deepcopy(trees), pickle.loads(pickle.dumps(trees)), TreeLocation(trees.texts)):
        assert torch.equal(other(features), trees(features))
    assert fit_trees(features, outcome)[0] == trees
    trees.require_widths(2, 2)
    refuses(SettingError, "trees", trees.require_widths, 3, 2)


@pytest.mark.parametrize("text", ["", "tree", "tree\nversion=v4\n", "\x00"])
def test_texts_that_are_no_trees_are_refused(text: str) -> None:
    refuses(SettingError, "trees", TreeLocation((text,)).require_widths, 2, 1)


def test_few_rows_are_refused() -> None:
    refuses(ShapeError, "base trees needs at least 20 rows to train on, got 19", fit_trees, *table(19))


def test_without_lightgbm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "lightgbm":
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    refuses(SettingError, r'base trees needs LightGBM: pip install "stakes\[trees\]"', fit_trees, *table())


def forecaster(**settings: Any) -> stakes.DecisionAwareForecaster:
    given = {"model": SMALL, "decision_weight": 0.0, "members": 40, "training": QUICK, "random_state": 0}
    return stakes.DecisionAwareForecaster(COST, **(given | settings))


def test_the_forecaster_adds_its_members_to_the_trees() -> None:
    features, outcome = table(240)
    trees, linear = (forecaster(base=base).fit(features, outcome) for base in ("trees", "linear"))
    new, happened = table(100, seed=1)
    np.testing.assert_allclose(trees.predict(new), trees.trees_(new), atol=0.3)
    scores = [found.assess(new, happened)["energy_score"].mean() for found in (trees, linear)]
    assert scores[0] < 0.5 * scores[1]
    np.testing.assert_allclose(trees.sample(new[:1])[0], trees.sample(new)[0], rtol=1e-5, atol=1e-5)
    assert linear.trees_ is None


def test_warm_starts_and_other_models_work_with_trees() -> None:
    features, outcome = table(100)
    found = forecaster(base="trees", warm_start=True).fit(features, outcome).fit(features, outcome)
    assert found.decide(features[:3]).shape == (3,)
    other = forecaster(base="trees", model="linear").fit(features, outcome)
    assert np.isfinite(other.sample(features[:3])).all()
