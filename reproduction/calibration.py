"""Whether a forecast knows what its own decisions cost, and whether its members are spread as the outcomes are.

The paper's miscalibration, the mean of |predicted - realised cost|, is not zero for a perfect forecaster and rewards a
low predicted variance; its own definition (eq. dec_calibration) is about the signed gap, which is. Both are here, and
the gap within bins of the predicted cost, which a forecast must also close to be trusted at all levels.

All of it over all cases, or over those of a `region`, chosen `by` the outcome or by the forecast (see `Study.region`).
"""

from typing import NamedTuple

import numpy as np

from reproduction.study import RegionBy, Study
from stakes.argument_checks import require_count
from stakes.evaluation.intervals import Difference, Sampled


class Sides(NamedTuple):
    """Both sides of eq. dec_calibration, and their difference."""

    predicted: Sampled  # the mean cost that the forecast expects of its own actions
    realised: Sampled  # the mean cost of the same actions at the outcome

    @property
    def gap(self) -> Sampled:
        """Predicted less realised: negative for a forecast that thinks its decisions cheaper than they are."""
        return self.predicted - self.realised


class Bin(NamedTuple):
    """The cases whose predicted cost lies in one bin."""

    predicted: Difference  # their mean predicted cost
    realised: Difference  # their mean realised cost
    gap: Difference  # the first less the second
    cases: int  # how many cases the bin holds for each seed


def calibration_sides(
    study: Study, weight: float, parameter: float | None = None, region: str | None = None, by: RegionBy = "observed"
) -> Sides:
    """The mean predicted and realised cost, over all cases or a region."""
    predicted = study.mean("expected_cost", weight, parameter, region, by)
    return Sides(predicted, study.mean("cost", weight, parameter, region, by))


def binned_gap(
    study: Study,
    weight: float,
    parameter: float | None = None,
    bins: int = 10,
    region: str | None = None,
    by: RegionBy = "observed",
) -> list[Bin]:
    """Predicted and realised cost within bins of the predicted cost that hold equally many cases."""
    require_count("bins", bins)
    predicted = study.values("expected_cost", weight, parameter)  # (groups, seeds, cases)
    realised = study.values("cost", weight, parameter)
    chosen = study.region(region, by)
    inside = np.broadcast_to(True if chosen is None else chosen, predicted.shape)
    ranks = np.argsort(np.lexsort((predicted, ~inside)), axis=-1)  # those inside first
    place = ranks * bins // np.maximum(1, inside.sum(-1, keepdims=True))
    binned = []
    for each in range(bins):
        mask = inside & (place == each)
        sides = Sides(study.resampling.mean(predicted, mask), study.resampling.mean(realised, mask))
        cases = int(mask[0, 0].sum())
        binned.append(Bin(sides.predicted.interval(), sides.realised.interval(), sides.gap.interval(), cases))
    return binned


def spread_skill(
    study: Study, weight: float, parameter: float | None = None, region: str | None = None, by: RegionBy = "observed"
) -> Sampled:
    """Spread over the error of the mean of M members, sqrt((M + 1) / M mean variance / mean squared error).

    1 where the outcome is as one member more: the mean of M members errs by that factor more than their variance says.
    """
    spread, error = (study.chosen(name, weight, parameter, region, by) for name in ("spread", "error"))
    of_mean = 1 + 1 / int(study.about["members"])
    ratio = study.resampling.mean(spread**2) / study.resampling.mean(error**2) * of_mean
    return ratio.applied(np.sqrt)


def total_spread(
    study: Study, weight: float, parameter: float | None = None, region: str | None = None, by: RegionBy = "observed"
) -> Sampled:
    """Mean spread of the total over the true one where that is known, else `spread_skill`: 1 where it is right."""
    if "true_spread" not in study.cases:
        return spread_skill(study, weight, parameter, region, by)
    return study.mean("spread", weight, parameter, region, by) / _mean_of_cases(
        study, "true_spread", parameter, region, by
    )


def skill(
    study: Study, weight: float, parameter: float | None = None, region: str | None = None, by: RegionBy = "observed"
) -> Sampled:
    """How much less is paid than with climatology's action, the one best for the training outcomes, in per cent."""
    climatology = _mean_of_cases(study, "climatology_cost", parameter, region, by)
    return -study.mean("cost", weight, parameter, region, by).relative_to(climatology)


def economic_value(
    study: Study, weight: float, parameter: float | None = None, region: str | None = None, by: RegionBy = "observed"
) -> Sampled:
    """(climatology - forecast) / (climatology - foresight): 0 for climatology's action, 1 for perfect foresight."""
    climatology = _mean_of_cases(study, "climatology_cost", parameter, region, by)
    cost = study.mean("cost", weight, parameter, region, by)
    foresight = cost - study.mean("foresight_regret", weight, parameter, region, by)
    return (climatology - cost) / (climatology - foresight)


def _mean_of_cases(study: Study, name: str, parameter: float | None, region: str | None, by: RegionBy) -> Sampled:
    """The mean of what does not depend on the forecast."""
    values = study.case_values(name, parameter)[:, None]  # (groups, 1, cases)
    shape = (study.groups, study.seeds, values.shape[-1])
    return study.resampling.mean(np.broadcast_to(values, shape), study.region(region, by))
