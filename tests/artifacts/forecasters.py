"""Small fitted forecasters to be saved, and what makes two of them the same."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from golden.make_bundle import LAYOUT, SPEC, table

from stakes import ImplicitModel
from stakes.artifacts.folder import DataFingerprint
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.training.settings import DiffusionSettings, ImplicitSettings, LinearSettings, TrainingSettings

TRAINING = TrainingSettings(batch=16, members=3, validation_members=4, validate_every=1, learning_rate=0.01)
FEATURES = list(LAYOUT.features)
PARTS = {"state.json", "training.json", "weights.safetensors", "inputs.parquet"}
DATA = DataFingerprint("load.csv", 60, "a" * 64, "2020-01-01T00:00:00", "2020-03-01T00:00:00")


def small(features: int, outcomes: int) -> ImplicitModel:
    return ImplicitModel(features, outcomes, noise=2, hidden=3, layers=1)


KINDS: dict[str, dict[str, Any]] = {
    "implicit": {},
    "diffusion": {"model": DiffusionSettings(noise=2, hidden=4, layers=1, steps=25)},
    "ensemble": {"ensemble": 2, "decision_weight": 0.4},
    "auto": {
        "decision_weight": "auto",
        "weights": np.array([0.6]),
        "tolerance": 500.0,
        "block": 1,
        "ensemble": np.int64(2),
    },
    "outcomes": {"decision_weight": 0.4},
    "own model": {"model": small},
    "arrays": {},
    "no base": {"base": "none"},
    "linear": {"model": LinearSettings(residuals=30), "gap": 2},
    "bounds": {"outcome_bounds": (0.0, 100.0)},
    "trees": {"base": "trees", "gap": 2, "ensemble": 2},
}


@cache
def fitted(kind: str, cost: Any = None) -> DecisionAwareForecaster:
    given: dict[str, Any] = {"model": ImplicitSettings(noise=2, hidden=4, layers=1), "decision_weight": 0.0}
    given |= {
        "ensemble": 1,
        "members": 20,
        "epochs": 2,
        "training": TRAINING,
        "device": "cpu",
        "random_state": 0,
    } | KINDS[kind]
    made = table(60)
    outcomes = made[["load", "wind"]].assign(wind=made["wind"].to_numpy()[::-1]) if kind == "outcomes" else made["load"]
    features = made[FEATURES].to_numpy() if kind == "arrays" else made[FEATURES]
    return DecisionAwareForecaster(cost or SPEC.build(), **given).fit(features, outcomes)


def with_cost(cost: Any) -> DecisionAwareForecaster:
    """The small forecaster, asked to decide for another cost."""
    forecaster = DecisionAwareForecaster(**fitted("implicit").get_params() | {"cost": cost})
    vars(forecaster).update({name: value for name, value in vars(fitted("implicit")).items() if name.endswith("_")})
    return forecaster


def assert_same(loaded: DecisionAwareForecaster, expected: DecisionAwareForecaster) -> None:
    features: Any = table(9)[FEATURES]
    if not hasattr(expected, "feature_names_in_"):
        features = features.to_numpy()
    for name in ("decide", "sample", "predict", "expected_cost"):
        assert np.array_equal(getattr(loaded, name)(features), getattr(expected, name)(features)), name
    assert vars(loaded).keys() == vars(expected).keys()
    for name in ("n_features_in_", "n_outputs_", "target_names_", "single_output_", "decision_weight_", "leaks_"):
        assert getattr(loaded, name) == getattr(expected, name), name
        assert type(getattr(loaded, name)) is type(getattr(expected, name)), name
    assert loaded.forecast_.state == expected.forecast_.state
    assert (loaded.frontier_, loaded.validation_cases_) == (expected.frontier_, expected.validation_cases_)
    assert len(loaded.forecast_.baseline_models) == len(expected.forecast_.baseline_models)
    for mine, theirs in zip(loaded.forecast_.baseline_models, expected.forecast_.baseline_models, strict=True):
        assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in mine.state_dict().items())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
