"""Boosted trees as the base of a forecast: where each outcome is to be expected, by LightGBM (extra `trees`)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stakes.errors import SettingError, ShapeError
from stakes.method.models.linear_start import time_blocks
from stakes.settings import shown

__all__ = ["TreeLocation", "fit_trees"]

_LEAST_ROWS = 20
_BLOCKS = 5
_ROUNDS, _PATIENCE = 500, 25
_PARAMETERS = {"objective": "regression", "learning_rate": 0.05, "verbosity": -1}
_SAME_EVERY_TIME = {"deterministic": True, "force_col_wise": True}


@dataclass(frozen=True)
class TreeLocation:
    """Where each outcome is to be expected, given the features.

    Attributes:
        texts: LightGBM's model of each outcome, in its own text format.
    """

    texts: tuple[str, ...]

    def __call__(self, features: Tensor) -> Tensor:
        """The location of each case, (N, D).

        Args:
            features: Features (N, F).
        """
        rows = features.double().cpu().numpy()
        columns = [np.asarray(booster.predict(rows)) for booster in self._boosters]
        return torch.from_numpy(np.stack(columns, 1)).to(features)

    def require_widths(self, features: int, outcomes: int) -> None:
        """Raise unless these are trees for so many features and outcomes.

        Args:
            features: F, how many features a case has.
            outcomes: D, how many outcomes a case has.
        """
        widths = [booster.num_feature() for booster in self._boosters]
        if widths != [features] * outcomes:
            raise SettingError(f"trees must be {outcomes} models of {features} features each, got {widths}")

    @cached_property
    def _boosters(self) -> "list[Any]":
        lightgbm = _lightgbm()
        try:
            return [lightgbm.Booster(model_str=text) for text in self.texts]
        except (lightgbm.basic.LightGBMError, ValueError) as error:
            raise SettingError(f"trees must be in LightGBM's text format: {shown(str(error))}") from error

    def __getstate__(self) -> dict[str, Any]:
        """The texts alone: boosters are made of them again."""
        return {"texts": self.texts}


def fit_trees(features: Tensor, outcome: Tensor, gap: int = 0, seed: int = 0) -> tuple[TreeLocation, Tensor]:
    """Boosted trees for each outcome, as many as are best out of fold; and what the folds forecast, (N, D).

    Args:
        features: Features (N, F), rows in the order of time.
        outcome: Outcomes (N, D).
        gap: How many rows on both sides of a held-out block are left out as well: those of the lead time.
        seed: Of what is random.
    """
    if len(features) < _LEAST_ROWS:
        raise ShapeError(f"base trees needs at least {_LEAST_ROWS} rows to train on, got {len(features)}")
    rows, targets = features.double().numpy(), outcome.double().numpy()
    everything = np.arange(len(rows))
    folds = [
        (np.delete(everything, left_out), everything[block]) for block, left_out in time_blocks(len(rows), gap, _BLOCKS)
    ]
    fitted = [_fit_column(rows, column, folds, seed) for column in targets.T]
    forecasts = torch.from_numpy(np.stack([forecast for _, forecast in fitted], 1))
    return TreeLocation(tuple(text for text, _ in fitted)), forecasts.to(outcome)


def _fit_column(rows: Any, target: Any, folds: list[tuple[Any, Any]], seed: int) -> tuple[str, Any]:
    """The text of the trees of one outcome, and the forecast (N,) of each row by trees that did not see it."""
    lightgbm = _lightgbm()
    parameters = {**_PARAMETERS, **_SAME_EVERY_TIME, "seed": seed}
    data = lightgbm.Dataset(rows, target, params=parameters, free_raw_data=False)
    stopping = lightgbm.early_stopping(_PATIENCE, verbose=False)
    tried = lightgbm.cv(parameters, data, _ROUNDS, folds=folds, callbacks=[stopping], return_cvbooster=True)[
        "cvbooster"
    ]
    forecast = np.empty(len(rows))
    for booster, (_, held_out) in zip(tried.boosters, folds, strict=True):
        forecast[held_out] = booster.predict(rows[held_out], num_iteration=tried.best_iteration)
    booster = lightgbm.train(parameters, data, tried.best_iteration)
    return booster.model_to_string(), forecast


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise SettingError('base trees needs LightGBM: pip install "stakes[trees]"') from error
    return lightgbm
