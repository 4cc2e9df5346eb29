"""Which decision weight to take, judged on validation data alone."""

from stakes.checks import require_finite
from stakes.evaluation.study import Study, StudyError

__all__ = ["chosen_weight"]


def chosen_weight(study: Study, parameter: float | None = None, tolerance: float = 1.0) -> float:
    """The weight with the lowest mean validation cost, over groups and seeds, that costs the forecast little.

    Only weights whose mean validation energy score lies at most `tolerance` per cent above that of weight 0 are
    considered, and weight 0 itself.
    """
    require_finite("tolerance", tolerance)
    if "validation_cost" not in study.forecasts:
        raise StudyError("this study was evaluated without validation data, by which a weight is chosen")
    score, cost = (
        {weight: float(study.validation(metric, weight, parameter).mean()) for weight in study.weights}
        for metric in ("energy_score", "cost")
    )
    highest = score[0.0] + abs(score[0.0]) * tolerance / 100
    allowed = [weight for weight in study.weights if weight == 0 or score[weight] <= highest]
    return min(allowed, key=lambda weight: cost[weight])
