"""What the paper claims of wind power dispatch: gains where the turbines cut off, paid for where power is rated."""

from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from reproduction.claims.claim import (
    Check,
    Claim,
    Judge,
    changes_by_weight,
    falls,
    gap_change,
    masked_mean,
    mean_of,
    nearest_weight,
    never_falls,
    relative_change,
    remark,
    required_parameter,
    rises,
    smallest_and_largest,
    stays,
    task_of,
    weights_within,
)
from reproduction.diagnostics import window_centres, window_mask
from reproduction.study import RegionBy, Study
from reproduction.tasks.wind import WindTask
from stakes.evaluation.intervals import Sampled

_IMPLICIT = ("main", "biased_score", "debiased", "more_members", "late_cutoff", "projected_gradient")
_POOLED = ("rolling", "rolling_nora10", *_IMPLICIT)  # of which the first that is there gives the verdict
_DIFFUSION = ("main", "reduced", "improved")
_PENALTY = 5.0  # the paper's main lambda
_MIDDLE, _HIGH = 0.5, 0.9
_FLAT = 2.0  # per cent
_WINDOW = 1.5  # m/s, half the width of the paper's windows
_WINDOWS = 12
_NAMES = {
    "energy_score": "CRPS",
    "cost": "cost",
    "foresight_regret": "cost above perfect foresight",  # where the cost itself may be near zero, which no % is of
    "miscalibration": "miscalibration",
}


def _cut_off(study: Study) -> Iterator[Check]:
    penalty, weight = required_parameter(study, _PENALTY), nearest_weight(study, _HIGH)
    at = f"weight {weight:g} against 0"
    printed: Mapping[str, float | None] = {"energy_score": -11.0, "cost": -18.0, "miscalibration": -32.0}
    for metric, paper in printed.items():
        effect = relative_change(study, metric, weight, penalty, "cut-off")
        yield falls(f"{_NAMES[metric]} in the cut-off region, {at}", effect, paper=paper)
    for metric in printed:
        effect = relative_change(study, metric, weight, penalty, "cut-off", "forecast")
        yield remark(falls(f"{_NAMES[metric]} where cut-off is most likely by forecast, {at}", effect))
    regret = relative_change(study, "foresight_regret", weight, penalty, "cut-off")
    yield remark(falls(f"cost above perfect foresight in the cut-off region, {at}", regret))
    gap = gap_change(study, weight, penalty, "cut-off")
    yield remark(falls(f"|signed gap| in the cut-off region, weight {weight:g} less weight 0", gap, "of cost"))
    yield remark(
        falls(f"threshold-weighted CRPS, all cases, {at}", relative_change(study, "tail_crps", weight, penalty))
    )


def _trade_off(study: Study) -> Iterator[Check]:
    penalty, high = required_parameter(study, _PENALTY), nearest_weight(study, _HIGH)
    yield falls(f"cost, weight {high:g} against 0", relative_change(study, "cost", high, penalty))
    regret = relative_change(study, "foresight_regret", high, penalty)
    yield remark(falls(f"cost above perfect foresight, weight {high:g} against 0", regret))
    yield rises(f"CRPS, weight {high:g} against 0", relative_change(study, "energy_score", high, penalty))
    best = weights_within(study, 0.5, 0.7)
    balance = mean_of([_balance(study, weight, penalty) for weight in best])
    which = "balance at " + " and ".join(f"{weight:g}" for weight in best)
    yield falls(f"{which}, against weight 0", balance)
    yield falls(f"{which}, less that at {high:g}", balance - _balance(study, high, penalty))


def _balance(study: Study, weight: float, penalty: float) -> Sampled:
    """The changes of cost and CRPS taken together, in per cent."""
    return relative_change(study, "cost", weight, penalty) + relative_change(study, "energy_score", weight, penalty)


def _rated_and_ramp(study: Study) -> Iterator[Check]:
    penalty, weight = required_parameter(study, _PENALTY), nearest_weight(study, _HIGH)
    at = f"weight {weight:g} against 0"
    for metric in ("energy_score", "cost"):
        course = changes_by_weight(study, metric, penalty, "rated")
        yield rises(f"{_NAMES[metric]} in the rated region, {at}", course[weight])
        yield never_falls(f"{_NAMES[metric]} in the rated region", course)
    for metric in ("energy_score", "cost"):
        effect = relative_change(study, metric, weight, penalty, "ramp")
        yield stays(f"{_NAMES[metric]} in the ramp region, {at}", effect, _FLAT)
    for metric in ("energy_score", "cost"):
        effect = relative_change(study, metric, weight, penalty, "rated", "forecast")
        yield remark(rises(f"{_NAMES[metric]} where rated power is most likely by forecast, {at}", effect))


def _growth_with_penalty(study: Study) -> Iterator[Check]:
    weight = nearest_weight(study, _HIGH)
    low, high = smallest_and_largest(study)
    yield from _grows(study, "foresight_regret", "cut-off", weight)
    yield from _grows(study, "miscalibration", "cut-off", weight)
    middle = nearest_weight(study, _MIDDLE)
    course = changes_by_weight(study, "energy_score", high, "cut-off")
    what = f"CRPS in the cut-off region at λ = {high:g}, weight {weight:g} less weight {middle:g}"
    yield rises(what, course[weight] - course[middle])
    by_forecast = _growth(study, "foresight_regret", "cut-off", weight, low, high, "forecast")
    what = f"the same where cut-off is most likely by forecast, λ = {high:g} less λ = {low:g}, weight {weight:g}"
    yield remark(falls(what, by_forecast, "points"))


def _grows(study: Study, metric: str, region: str | None, weight: float) -> Iterator[Check]:
    """The change at the largest penalty is below that at the smallest; a study of one penalty has nothing to say."""
    if len(study.parameters) == 1:
        return
    low, high = smallest_and_largest(study)
    where = "" if region is None else f" in the {region} region"
    what = f"change of {_NAMES[metric]}{where}, λ = {high:g} less λ = {low:g}, weight {weight:g}"
    yield falls(what, _growth(study, metric, region, weight, low, high), "points")


def _growth(
    study: Study,
    metric: str,
    region: str | None,
    weight: float,
    low: float,
    high: float,
    by: RegionBy = "observed",
) -> Sampled:
    return relative_change(study, metric, weight, high, region, by) - relative_change(
        study, metric, weight, low, region, by
    )


def _median_shift(study: Study) -> Iterator[Check]:
    penalty, weight = required_parameter(study, _PENALTY), nearest_weight(study, _HIGH)
    curve = cast(WindTask, task_of(study)).power_curve
    shift = study.quantile(0.5, weight, penalty) - study.quantile(0.5, 0.0, penalty)
    outcome = study.case_values("outcome").astype(np.float64)  # (groups, cases)
    ramp = study.case_values("observed_ramp").astype(bool)
    beyond = outcome * curve.hub_factor >= curve.cutoff_speed
    yield falls(f"median shift in the ramp region, weight {weight:g}", masked_mean(study, shift, ramp), "m/s")
    yield rises(f"median shift beyond cut-off, weight {weight:g}", masked_mean(study, shift, beyond), "m/s")
    centres = window_centres(outcome[ramp], _WINDOW, _WINDOWS)
    shifts = [masked_mean(study, shift, window_mask(outcome, centre, _WINDOW)) for centre in centres]
    slope = torch.func.vmap(torch.func.grad(curve))(torch.from_numpy(centres)).numpy()
    yield rises("correlation of the downward shift with the slope of P, ramp", -_correlation(shifts, slope), "")
    for region, expected in (("ramp", falls), ("cut-off", rises)):
        by_forecast = study.resampling.mean(shift, study.region(region, "forecast"))
        yield remark(expected(f"median shift where {region} is most likely by forecast", by_forecast, "m/s"))


def _correlation(values: list[Sampled], fixed: NDArray[np.float64]) -> Sampled:
    """Pearson's correlation of statistics with as many fixed numbers."""
    numbers = fixed - fixed.mean()

    def correlation(*parts: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.stack(parts) - np.mean(parts, axis=0)  # (C, ...)
        return np.asarray(numbers @ rows / np.sqrt((numbers**2).sum() * (rows**2).sum(0)))

    return values[0].applied(correlation, *values[1:])


def _both_sides(study: Study) -> Iterator[Check]:
    weight = nearest_weight(study, _HIGH)
    for penalty in study.parameters:
        at = f"λ = {penalty:g}, weight {weight:g} against 0"
        yield falls(f"realised cost, {at}", relative_change(study, "cost", weight, penalty))
        yield rises(f"expected cost, {at}", relative_change(study, "expected_cost", weight, penalty))
        yield remark(falls(f"|signed gap|, {at}", gap_change(study, weight, penalty), "of cost"))


def _diffusion(study: Study) -> Iterator[Check]:
    penalty = required_parameter(study, _PENALTY)
    middle, high = nearest_weight(study, _MIDDLE), nearest_weight(study, _HIGH)
    crps = changes_by_weight(study, "energy_score", penalty)
    yield falls(f"CRPS, weight {middle:g} against 0", crps[middle])
    yield rises(f"CRPS, weight {high:g} less weight {middle:g}", crps[high] - crps[middle])
    for weight in (middle, high):
        yield stays(f"cost, weight {weight:g} against 0", relative_change(study, "cost", weight, penalty), _FLAT)
    yield falls(f"miscalibration, weight {high:g} against 0", relative_change(study, "miscalibration", high, penalty))
    cut_off = relative_change(study, "foresight_regret", high, penalty, "cut-off")
    yield falls(f"cost above perfect foresight in the cut-off region, weight {high:g} against 0", cut_off)
    yield remark(falls(f"|signed gap|, weight {high:g} less weight 0", gap_change(study, high, penalty), "of cost"))
    by_forecast = relative_change(study, "foresight_regret", high, penalty, "cut-off", "forecast")
    yield remark(falls(f"the same where cut-off is most likely by forecast, weight {high:g} against 0", by_forecast))
    yield from _grows(study, "miscalibration", None, high)
    yield from _grows(study, "foresight_regret", "cut-off", high)


def _claim(
    identifier: str,
    statement: str,
    how: str,
    judge: Judge,
    model: str = "implicit",
    choices: tuple[str, ...] = _IMPLICIT,
) -> Claim:
    return Claim(identifier, "wind", statement, how, (("wind", model),), judge, choices)


WIND_CLAIMS = (
    _claim(
        "W1",
        "In the cut-off region the decision loss improves CRPS, decision cost and decision calibration: by 11, 18 and "
        "32 % at weight 0.9.",
        "λ = 5, weight 0.9 (or the nearest) against 0, means over the cases observed above 20 m/s at hub height. "
        "Beside it the cost above that of perfect foresight, the cases with the highest forecast probability of "
        "cut-off, the signed gap, and a CRPS weighted to high speeds.",
        _cut_off,
        choices=_POOLED,
    ),
    _claim(
        "W2",
        "Over all cases the decision weight trades CRPS for cost: cost improves, CRPS degrades, and weights of 0.5 to "
        "0.7 balance them best.",
        "λ = 5, all cases: cost and CRPS at weight 0.9 against 0. The balance of a weight is the sum of both changes "
        "in per cent; its mean over the weights from 0.5 to 0.7 must lie below those at 0 and at 0.9.",
        _trade_off,
        choices=_POOLED,
    ),
    _claim(
        "W3",
        "The rated region pays: CRPS and cost degrade there steadily with the decision weight, while the ramp region "
        "is not affected.",
        "λ = 5, weight 0.9 against 0: CRPS and cost rise over cases observed at 15-20 m/s, with no significant fall "
        "between neighbouring weights (Bonferroni), and stay within 2 % over those at 3-15 m/s.",
        _rated_and_ramp,
        choices=_POOLED,
    ),
    _claim(
        "W4",
        "The gains in the cut-off region grow with the shortfall penalty λ; at a high λ and weight the CRPS there "
        "degrades again.",
        "Changes of cost (above perfect foresight) and miscalibration in the cut-off region at weight 0.9, in per cent "
        "of weight 0: the largest "
        "λ less the smallest. CRPS there at the largest λ: weight 0.9 less weight 0.5.",
        _growth_with_penalty,
        choices=("main",),
    ),
    _claim(
        "W5",
        "The median moves down in the ramp region, the more the steeper the power curve, and up beyond cut-off.",
        "λ = 5, weight 0.9 against 0: mean shift over cases observed in the ramp region and beyond the cut-off speed; "
        "correlation of the downward shift in 12 windows of ±1.5 m/s across the ramp with dP/dv at their centres.",
        _median_shift,
        choices=_POOLED,
    ),
    _claim(
        "W6",
        "The gap between expected and realised cost closes from both sides: the realised cost falls and the expected "
        "cost rises.",
        "Means of both over all cases at weight 0.9 against 0, for every λ of the study. Beside it whether the signed "
        "gap becomes smaller.",
        _both_sides,
        choices=_POOLED,
    ),
    _claim(
        "W7",
        "Diffusion model: the CRPS improves and then degrades again, the cost stays flat, calibration improves, and it "
        "and the gains in the cut-off region grow with λ.",
        "λ = 5: CRPS at weight 0.5 against 0 and at 0.9 less 0.5; cost within 2 % at both; miscalibration and the cost "
        "above perfect foresight in the cut-off region at 0.9 against 0; the changes of these two at the largest λ "
        "less the smallest, where the study has several.",
        _diffusion,
        "diffusion",
        _DIFFUSION,
    ),
)
