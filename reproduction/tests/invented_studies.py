"""Studies of invented numbers: every array that the figures of wind and portfolios ask for, in no time."""

import zlib
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from reproduction.study import AXES, Study
from reproduction.study_collection import Studies, StudyKey
from stakes.evaluation.metrics import LEVELS

REGIONS = {"wind": {"ramp": (2.2, 10.8), "rated": (10.8, 14.4), "cut-off": (14.4, 99.0)}}
WEIGHTS = (0.0, 0.3, 0.5, 0.9)


def invented_study(
    key: StudyKey, weights: Sequence[float], parameters: Sequence[float], seeds: int = 3, cases: int = 150
) -> Study:
    """Outcomes between 0 and 20; forecasts move, and the metrics with them, as the weight and parameter grow."""
    generator = np.random.default_rng(zlib.crc32(str(key).encode()))
    shape = (len(parameters), 1, len(weights), seeds, cases)
    outcome = 20 * generator.beta(2, 2, cases)
    weight = np.reshape(weights, (1, 1, -1, 1, 1)) * (1 + 0.03 * np.reshape(parameters, (-1, 1, 1, 1, 1)))
    centre = outcome + generator.normal(0, 1.5, (seeds, cases)) + weight * np.sin(outcome / 3)
    noise = generator.normal(0, 0.02, (len(weights), seeds, 1))
    values = {
        "energy_score": np.abs(centre - outcome) + noise,
        "cost": 0.2 * np.abs(centre - outcome) - 0.9 - 0.02 * weight + noise,
        "expected_cost": -0.9 + 0.02 * centre + 0.05 * weight + noise,
        "spread": np.full(shape, 1.5) - 0.5 * weight + noise,
        "error": centre - outcome,
    }
    values["gap"] = values["expected_cost"] - values["cost"]
    values["miscalibration"] = np.abs(values["gap"])
    cased: dict[str, Any] = {"outcome": outcome}
    if key.sites:
        values["regret"] = 0.01 * np.abs(centre - outcome) + 0.03 * (weight - 0.6) ** 2 + noise / 50
        cased["true_spread"] = np.full(cases, 1.2)
    for name, (low, high) in REGIONS.get(key.task, {}).items():
        values[f"mass_{name}"] = np.exp(-np.abs(centre - (low + min(high, 20)) / 2))
        cased[f"observed_{name}"] = (low <= outcome) & (outcome < high)
    arrays: dict[str, Any] = {name: (AXES, np.broadcast_to(array, shape)) for name, array in values.items()}
    arrays["quantile"] = ((*AXES, "level"), np.broadcast_to(centre, shape)[..., None] + 3 * (np.array(LEVELS) - 0.5))
    for name in ("cost", "energy_score"):
        arrays[f"validation_{name}"] = (AXES[:4], np.broadcast_to(values[name], shape).mean(-1))
    axes = {"parameter": list(parameters), "group": [0.0], "decision_weight": list(weights), "seed": range(seeds)}
    forecasts = xr.Dataset(arrays, {**axes, "case": np.arange(cases), "level": list(LEVELS)})
    about = {
        "task": key.task,
        "model": key.model,
        "choice": key.choice,
        "unit": "m/s",
        "members": 50,
        "parameter": "short" if key.task == "french_load" else "penalty",
        "settings": {"task": {"record": "wind_nora10"}} if key.task == "wind" else {},
    }
    dataset = xr.Dataset({name: ("case", array) for name, array in cased.items()}, {"case": np.arange(cases)})
    return Study(forecasts, dataset.expand_dims(group=[0.0]), about, block=7)


def invented_studies(reduced: bool = False, european: bool = True) -> Studies:
    """All studies of wind and portfolios; reduced, only what the figures cannot do without, of two runs per weight."""
    studies: dict[StudyKey, Study] = {}
    for model in ("implicit", "diffusion"):
        grid = ((0.0, 0.9), (5.0,), 2) if reduced else (WEIGHTS, (3.0, 10.0), 3)
        key = StudyKey("wind", model)
        studies[key] = invented_study(key, *grid)
    if reduced:
        key = StudyKey("simulated_portfolio", "implicit", sites=60)
        return Studies(studies | {key: invented_study(key, (0.0, 0.9), (20.0,), 2)})
    tasks: list[tuple[str, int | None]] = [("simulated_portfolio", sites) for sites in (60, 20, 5)]
    tasks += [("french_load", None), ("irish_wind", None), *([("european_wind", None)] if european else [])]
    for model, (task, sites) in product(("implicit", "diffusion"), tasks):
        rivals = ("crps_of_total", "variogram") if model == "implicit" and sites in (None, 60) else ()
        for choice in ("main", *rivals):
            key = StudyKey(task, model, choice, sites)
            parameters = (10.0,) if task == "french_load" else (5.0, 20.0)
            studies[key] = invented_study(key, WEIGHTS, parameters)
    return Studies(studies)
