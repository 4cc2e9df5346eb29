"""What anybody would try first. Each takes a problem, how many members to draw and a seed, and gives (N, M, D) members.

All see the same features and training rows. Where a forecast is a location and residuals, the residuals are whole
vectors of rows that the location was not fitted on: blocks of time are held out in turn, with the lead time left out on
either side.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.preprocessing import StandardScaler

from benchmarks.forecast_quality.problems import Problem

__all__ = ["RIVALS", "blocked_folds"]

Floats = NDArray[np.float64]
Forecast = Callable[[Problem, int, int], Floats]
"""Members (N, M, D) of the test rows by a problem, M and a seed."""

_FOLDS = 5
_SEASON_DAYS = 30
_PENALTIES = np.logspace(-1, 5, 13)
_ROUNDS, _PATIENCE = 600, 30  # of boosting
_BOOSTING = {"learning_rate": 0.05, "num_leaves": 31, "num_threads": 1, "deterministic": True, "verbosity": -1}
_STEPS, _BATCH = 5000, 256  # of engression


def climatology(problem: Problem, members: int, seed: int) -> Floats:
    """Outcomes of training rows of the same hour, at most 30 days apart in the year."""
    generator = np.random.default_rng(seed)
    days, hours = _day_and_hour(problem.times)
    known = slice(problem.train)
    drawn = []
    for row in problem.test_rows:
        apart = np.abs(days[known] - days[row])
        alike = (hours[known] == hours[row]) & (np.minimum(apart, 365 - apart) <= _SEASON_DAYS)
        drawn.append(generator.choice(np.flatnonzero(alike), members))
    return problem.outcomes[np.stack(drawn)]


def last_period(problem: Problem, members: int, seed: int) -> Floats:
    """The value of the hour, day or week before, with the errors that this had on the training rows."""
    last = problem.last_values
    errors = (problem.outcomes - last)[: problem.train]
    return _with_residuals(last[problem.test_rows], errors[~np.isnan(errors).any(1)], members, seed)


def ridge(problem: Problem, members: int, seed: int) -> Floats:
    """Ridge regression, its penalty by cross-validation in blocks of time."""
    known, (features, outcomes) = slice(problem.train), (problem.features, problem.outcomes)
    features = StandardScaler().fit(features[known]).transform(features)
    folds = list(blocked_folds(problem))
    fitted = RidgeCV(_PENALTIES, cv=folds).fit(features[known], outcomes[known])

    def predicted(model: Ridge | RidgeCV, rows: NDArray[np.int64]) -> Floats:
        return model.predict(features[rows]).reshape(len(rows), -1)

    residuals = [
        outcomes[held] - predicted(Ridge(fitted.alpha_).fit(features[others], outcomes[others]), held)
        for others, held in folds
    ]
    return _with_residuals(predicted(fitted, problem.test_rows), np.concatenate(residuals), members, seed)


def boosted_trees(problem: Problem, members: int, seed: int) -> Floats:
    """LightGBM, one model an outcome; the number of trees by early stopping in the same folds."""
    located = [_boosted(problem, column, seed) for column in range(problem.outcomes.shape[1])]
    prediction, residuals = (np.stack(parts, axis=1) for parts in zip(*located, strict=True))
    return _with_residuals(prediction, residuals, members, seed)


def _boosted(problem: Problem, column: int, seed: int) -> tuple[Floats, Floats]:
    """The location of the test rows (N,) and the out-of-fold residuals (n,) of one outcome."""
    import lightgbm

    known, outcome = slice(problem.train), problem.outcomes[:, column]
    folds = list(blocked_folds(problem))
    settings = {**_BOOSTING, "seed": seed}
    data = lightgbm.Dataset(problem.features[known], outcome[known], free_raw_data=False)
    stop = lightgbm.early_stopping(_PATIENCE, verbose=False)
    validated = lightgbm.cv(settings, data, _ROUNDS, folds, callbacks=[stop], return_cvbooster=True)
    boosters = validated["cvbooster"]
    rounds = boosters.best_iteration
    residuals = [
        outcome[held] - booster.predict(problem.features[held], num_iteration=rounds)
        for booster, (_, held) in zip(boosters.boosters, folds, strict=True)
    ]
    fitted = lightgbm.train(settings, data, rounds)
    return fitted.predict(problem.features[problem.test_rows]), np.concatenate(residuals)


def quantile_forest(problem: Problem, members: int, seed: int) -> Floats:
    """A quantile regression forest (Meinshausen 2006): outcomes of training rows, one from a leaf of each tree."""
    known = slice(problem.train)
    forest = RandomForestRegressor(members, min_samples_leaf=5, max_features=1 / 3, random_state=seed)
    forest.fit(problem.features[known], problem.outcomes[known].squeeze())
    of_training, of_test = (forest.apply(problem.features[rows]) for rows in (known, problem.test_rows))
    generator = np.random.default_rng(seed)
    drawn = np.empty((len(of_test), members), np.int64)
    for tree, (leaves, wanted) in enumerate(zip(of_training.T, of_test.T, strict=True)):
        order = np.argsort(leaves, kind="stable")
        first, last = (np.searchsorted(leaves[order], wanted, side) for side in ("left", "right"))
        drawn[:, tree] = order[generator.integers(first, last)]
    return problem.outcomes[drawn]


def engression(problem: Problem, members: int, seed: int) -> Floats:
    """A network trained on the energy score by the package of that name; the last fifth of the rows stops it."""
    from engression import engression as fit

    torch.manual_seed(seed)
    stop_from = problem.train * 4 // 5
    features, outcomes = torch.tensor(problem.features).float(), torch.tensor(problem.outcomes).float()
    fitted = fit(
        features[:stop_from],
        outcomes[:stop_from],
        lr=1e-3,
        num_epochs=max(10, _STEPS * _BATCH // stop_from),
        batch_size=_BATCH,
        verbose=False,
        x_val=features[stop_from : problem.train],
        y_val=outcomes[stop_from : problem.train],
    )
    drawn = fitted.sample(features[problem.test_rows], sample_size=members)
    return drawn.double().numpy().swapaxes(1, 2)


RIVALS: dict[str, Forecast] = {
    "climatology": climatology,
    "last period": last_period,
    "ridge": ridge,
    "LightGBM": boosted_trees,
    "quantile forest": quantile_forest,
    "engression": engression,
}


def blocked_folds(problem: Problem) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows to fit on and the block of rows held out, in turn; rows within a lead time of the block are in neither."""
    times = problem.times[: problem.train]
    lead = np.timedelta64(round(problem.lead_hours * 3600), "s")
    for held in np.array_split(np.arange(len(times)), _FOLDS):
        apart = (times <= times[held[0]] - lead) | (times >= times[held[-1]] + lead)
        yield np.flatnonzero(apart), held


def _with_residuals(location: Floats, residuals: Floats, members: int, seed: int) -> Floats:
    """Location (N, D) plus whole residual vectors of (n, D), drawn anew for every row: (N, M, D)."""
    drawn = np.random.default_rng(seed).integers(len(residuals), size=(len(location), members))
    return location[:, None] + residuals[drawn]


def _day_and_hour(times: NDArray[np.datetime64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    day, year = times.astype("datetime64[D]"), times.astype("datetime64[Y]")
    return (day - year.astype("datetime64[D]")).astype(np.int64), (times - day).astype(np.int64)
