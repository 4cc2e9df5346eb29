"""Where in the outcomes a decision weight changes the forecast: windows, densities, mode mass."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reproduction.study import Study
from stakes.argument_checks import require_positive
from stakes.errors import SettingError, ShapeError

Floats = NDArray[np.float64]
_FEWEST = 5  # cases in a window, below which nothing is shown


class ShiftCurve(NamedTuple):
    """How far a quantile moves, over the centres of windows of the outcome."""

    centres: Floats  # the centres of the windows, (C,)
    mean: Floats  # the mean shift in each window, (C,)
    deviation: Floats  # its standard deviation between seeds, (C,)
    low: Floats  # the lower end of its paired 95 % interval, (C,)
    high: Floats  # the upper end, (C,)


def window_centres(outcome: ArrayLike, half_width: float, count: int = 40) -> Floats:
    """Centres of rolling windows from the lowest to the highest outcome that still has a few cases around it."""
    values = np.asarray(outcome, dtype=np.float64).reshape(-1)
    if half_width <= 0 or len(values) == 0:
        raise SettingError(f"half_width must be positive and outcomes be there, got {half_width} and {len(values)}")
    centres = np.linspace(values.min(), values.max(), count)
    return centres[[(window_mask(values, centre, half_width)).sum() >= _FEWEST for centre in centres]]


def window_mask(outcome: ArrayLike, centre: float, half_width: float) -> NDArray[np.bool_]:
    """Which outcomes lie within half_width of the centre."""
    return np.abs(np.asarray(outcome, dtype=np.float64) - centre) <= half_width


def quantile_shift(
    study: Study,
    level: float,
    weight: float,
    half_width: float,
    parameter: float | None = None,
    centres: Floats | None = None,
) -> ShiftCurve:
    """How a decision weight moves a quantile against weight 0, in rolling windows of the observed outcome.

    Delta Q(v) = mean of Q_w - Q_0 over the cases whose outcome lies within half_width of v.
    """
    outcome = study.case_values("outcome")
    around = window_centres(outcome, half_width) if centres is None else centres
    shift = study.quantile(level, weight, parameter) - study.quantile(level, 0.0)  # (groups, seeds, cases)
    return _curve(study, shift, [window_mask(outcome, centre, half_width)[:, None] for centre in around], around)


def binned_mass(
    study: Study, region: str, weight: float, group: int = 0, bins: int = 40, parameter: float | None = None
) -> tuple[Floats, Floats]:
    """The share of members in a region within bins of the one feature: the centres (bins,) and shares (seeds, bins)."""
    feature = study.case_values("feature")[group]
    mass = study.values(f"mass_{region}", weight, parameter)[group]  # (seeds, cases)
    edges = np.linspace(feature.min(), feature.max(), bins + 1)
    place = np.clip(np.digitize(feature, edges) - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        means = np.stack([np.bincount(place, weights=row, minlength=bins) / count for row in mass])
    return (edges[:-1] + edges[1:]) / 2, means


def kernel_density(values: ArrayLike, grid: Floats, bandwidth: float | None = None) -> Floats:
    """A Gaussian kernel density of values at the points of a grid."""
    finite = np.asarray(values, dtype=np.float64).reshape(-1)
    finite = finite[np.isfinite(finite)]
    if len(finite) < 2:
        raise ShapeError(f"a density needs at least two values, got {len(finite)}")
    width = _bandwidth(finite) if bandwidth is None else bandwidth
    require_positive("bandwidth", width)
    # Onto a fine regular grid first: 10,000s of members cost no more than a few.
    step = width / 8
    places, counts = np.unique(np.rint((finite - finite[0]) / step), return_counts=True)
    points = finite[0] + step * places
    kernel = np.exp(-0.5 * ((grid[:, None] - points) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    return kernel @ counts / len(finite)


def _bandwidth(values: Floats) -> float:
    spread = min(values.std(), np.subtract(*np.quantile(values, [0.75, 0.25])) / 1.349) or values.std() or 1.0
    return float(0.9 * spread * len(values) ** -0.2)


def conditional_density(
    study: Study,
    weight: float,
    half_width: float,
    grid: Floats,
    parameter: float | None = None,
    centres: Floats | None = None,
    bandwidth: float | None = None,
) -> tuple[Floats, Floats]:
    """The density of the forecasts' members given the observed outcome: centres (C,), densities (C, len(grid)).

    In a window around each centre, the quantiles of all forecasts (of all seeds) stand for their members.
    """
    outcome = study.case_values("outcome")
    around = window_centres(outcome, half_width) if centres is None else centres
    quantiles = study.values("quantile", weight, parameter)  # (groups, seeds, cases, levels)
    rows = []
    for centre in around:
        inside = np.broadcast_to(window_mask(outcome, centre, half_width)[:, None], quantiles.shape[:-1])
        rows.append(kernel_density(quantiles[inside], grid, bandwidth))
    return around, np.stack(rows)


def _curve(study: Study, values: Floats, masks: list[NDArray[np.bool_]], centres: Floats) -> ShiftCurve:
    means, deviations, lows, highs = [], [], [], []
    for mask in masks:
        inside = np.isfinite(values) & mask
        count = inside.sum(-1)
        by_seed = np.where(inside, values, 0.0).sum(-1)[count > 0] / count[count > 0]
        interval = study.resampling.mean(values, mask).interval()
        means.append(interval.mean)
        deviations.append(by_seed.std() if len(by_seed) else np.nan)
        lows.append(interval.low)
        highs.append(interval.high)
    return ShiftCurve(centres, *(np.array(part) for part in (means, deviations, lows, highs)))
