"""What the paper claims of the synthetic task: two modes, of which the costly one is the second."""

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from reproduction.claims.claim import (
    Check,
    Claim,
    Judge,
    changes_by_weight,
    does_not_fall,
    falls,
    gap_change,
    masked_mean,
    masked_pair,
    nearest_weight,
    never_rises,
    relative_change,
    remark,
    rises,
    task_of,
)
from reproduction.study import Study
from reproduction.tasks.synthetic import SyntheticTask
from stakes.evaluation.intervals import Sampled

MODE_DEVIATIONS = {"calm": 0.2, "hazard": 0.4}
"""The true standard deviations of the two modes, by the region in which each lies."""

_CHOICES: tuple[str, ...] = ("main", "improved", "scaled_schedule", "signal", "biased_score", "debiased")
_CHOICES += ("more_members", "structured", "keep_last", "projected_gradient", "chain", "chain_score")
_QUARTILES = 1.349  # standard deviations of a normal distribution from its lower quartile to its upper one
_MIDDLE = 0.5
_PEAK = 0.6  # w(x) above which x lies at a peak
_STILL_WRONG = 0.01  # of the range of actions: a mean error above it is a blind spot


def _task(study: Study) -> SyntheticTask:
    return cast(SyntheticTask, task_of(study))


def _mode_weight(study: Study) -> NDArray[np.float64]:
    """The true w(x), (groups, cases)."""
    features = torch.from_numpy(study.case_values("feature").astype(np.float64))
    return _task(study).mode_weight(features[..., None]).numpy()


def _mode_mass(study: Study) -> Iterator[Check]:
    true, high = _task(study).marginal_mode_mass, study.weights[-1]
    yield falls("mass of mode 2 at weight 0, less the true one", study.mean("mass_hazard", 0.0) - true, "")
    end, start = (mean - true for mean in study.pair("mass_hazard", high))
    yield falls(f"distance from the true mass, weight {high:g} less weight 0", abs(end) - abs(start), "")
    signed = study.values("mass_hazard", 0.0) - _mode_weight(study)[:, None]
    yield remark(falls("mass less w(x) of the same cases, weight 0", study.resampling.mean(signed), ""))


def _tracking(study: Study) -> Iterator[Check]:
    course = changes_by_weight(study, "tracking")
    high = study.weights[-1]
    yield falls(f"mean |a - a*(x)|, weight {high:g} against 0", course[high])
    yield never_rises("mean |a - a*(x)|", course)
    yield remark(
        falls(f"regret under the true distribution, weight {high:g} against 0", relative_change(study, "regret", high))
    )


def _aggregate(study: Study) -> Iterator[Check]:
    high = study.weights[-1]
    yield falls(f"CRPS, weight {high:g} against 0", relative_change(study, "energy_score", high))
    yield falls(f"cost, weight {high:g} against 0", relative_change(study, "cost", high))
    yield remark(
        falls(f"regret under the true distribution, weight {high:g} against 0", relative_change(study, "regret", high))
    )
    course = changes_by_weight(study, "miscalibration")
    yield falls(f"miscalibration, weight {high:g} against 0", course[high])
    yield never_rises("miscalibration", course)
    yield remark(falls(f"|signed gap|, weight {high:g} less weight 0", gap_change(study, high), "of cost"))


def _troughs(study: Study) -> Iterator[Check]:
    trough, high = study.case_values("true_action") == 0, study.weights[-1]
    distance, at_0 = (study.values("tracking", weight) for weight in (high, 0.0))
    still = masked_mean(study, distance, trough)
    yield rises(f"mean |a - a*(x)| in the troughs, weight {high:g}", still, "", above=_STILL_WRONG)
    end, start = masked_pair(study, distance, at_0, trough)
    yield does_not_fall(f"the same, weight {high:g} less weight 0", end - start, "")


def _spread(study: Study) -> Iterator[Check]:
    names = {"calm": "mode 1", "hazard": "mode 2"}
    for weight in (0.0, study.weights[-1]):
        for region, deviation in MODE_DEVIATIONS.items():
            apart = (_quartiles_within(study, region, weight) / (_QUARTILES * deviation) - 1.0) * 100.0
            yield falls(f"distance of the quartiles within {names[region]}, of the true one, weight {weight:g}", apart)


def _quartiles_within(study: Study, region: str, weight: float) -> Sampled:
    """The mean distance of the quartiles of the members in a region, by how many members a case has there."""
    distance = study.values(f"quartiles_{region}", weight)
    mass = np.where(np.isfinite(distance), study.values(f"mass_{region}", weight), 0.0)
    return study.resampling.mean(mass * np.nan_to_num(distance)) / study.resampling.mean(mass)


def _peaks(study: Study) -> Iterator[Check]:
    true = _mode_weight(study)
    peak, middle, high = true > _PEAK, nearest_weight(study, _MIDDLE), study.weights[-1]
    errors = {weight: study.values("mass_hazard", weight) - true[:, None] for weight in (0.0, middle, high)}
    after, before = masked_pair(study, np.abs(errors[middle]), np.abs(errors[0.0]), peak)
    yield falls(f"mean |mass - w(x)| at the peaks, weight {middle:g} against 0", after.relative_to(before))
    yield rises(f"mean of mass - w(x) at the peaks, weight {high:g}", masked_mean(study, errors[high], peak), "")
    yield remark(rises("the same, weight 0", masked_mean(study, errors[0.0], peak), ""))


def _claim(identifier: str, statement: str, how: str, judge: Judge) -> Claim:
    return Claim(identifier, "synthetic", statement, how, (("synthetic", "diffusion"),), judge, _CHOICES)


SYNTHETIC_CLAIMS = (
    _claim(
        "S1",
        "Training on the CRPS alone gives the costly second mode too little mass, and the mass approaches the true one "
        "as the decision weight grows.",
        "Share of members beyond the threshold over all test cases, against the true mass (0.4): below it at weight 0, "
        "and nearer to it at the highest weight than at 0.",
        _mode_mass,
    ),
    _claim(
        "S2",
        "The larger the decision weight, the better the predicted optimal action follows the true one.",
        "Mean distance between the action taken and the best one under the true distribution, highest weight against "
        "0; no step between neighbouring weights may go up significantly (Bonferroni).",
        _tracking,
    ),
    _claim(
        "S3",
        "CRPS and decision cost improve slightly with the decision weight, decision calibration throughout.",
        "Mean CRPS, cost and |predicted - realised cost|, highest weight against 0; for the last no step between "
        "neighbouring weights may go up significantly (Bonferroni). Beside it the signed gap.",
        _aggregate,
    ),
    _claim(
        "S4",
        "Troughs where the best action is 0 stay a blind spot at every decision weight: the bound blocks the gradient.",
        "Mean distance between action and truth over the cases whose true best action is 0: still above 0.01 at the "
        "highest weight, and no significant improvement against weight 0.",
        _troughs,
    ),
    _claim(
        "S5",
        "Within each mode the members are less spread than the outcomes, with and without the decision loss.",
        "Distance between the quartiles of a forecast's members on each side of the threshold, which members between "
        "the modes hardly move, against that of the true modes, at weight 0 and at the highest.",
        _spread,
    ),
    _claim(
        "S6",
        "The mass of the second mode given x comes nearer to its true weight w(x) at the peaks, and overshoots it at "
        "high decision weights.",
        "Cases with w(x) above 0.6: mean |mass - w(x)| at weight 0.5 (or the nearest) against 0, and mean of "
        "mass - w(x) at the highest weight, which overshoots if positive.",
        _peaks,
    ),
)
