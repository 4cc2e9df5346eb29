"""The few points, or members, that stand best for many: support points (Mak and Joseph 2018) and kernel herding."""

from collections.abc import Iterator

import torch
from torch import Tensor

_PAIRS_AT_ONCE = 1 << 20  # distances held at one time, 8 MiB
_ITERATIONS = 500
_LOOK_EVERY = 10  # iterations
_LEAST_FALL = 1e-5  # of the mean distance to the members, in so many iterations: less is convergence
_NEAR = 1e-7  # of the mean distance: closer points are one, since distances are rounded to that
_MOVED_IN = 0.1  # of the way to another member: a point that starts on a member would stay there
_ROUNDS = 60  # of the search for the best weights
_RIDGE = 1e-9  # of the mean distance: tied points share their weight
_CANDIDATES = 10_000  # members that are put in order; of more, a random choice
_TIED = 1e-9  # of the mean distance: no difference between two members


def support_points(members: Tensor, count: int, weights: Tensor | None = None) -> Tensor:
    """So many points (..., n, D) of least energy distance to the members (..., N, D), in double precision.

    Points x_i, the members' weights p_m summing to 1:

        x_i <- [sum_m p_m y_m / |x_i - y_m| + 1/n sum_j (x_i - x_j) / |x_i - x_j|] / sum_m p_m / |x_i - y_m|,

    with momentum, from the same start every time. No point leaves the range of the members. For D = 1 the points are
    the quantiles at (2 i - 1) / (2 n), which is exact.
    """
    flat, shares = _flat(members, weights)
    if flat.shape[-1] == 1:
        points = _quantiles(flat[..., 0], count, shares)[..., None]
    elif count == flat.shape[1] and weights is None:
        points = flat
    else:
        points = torch.empty(len(flat), count, flat.shape[-1], dtype=torch.float64, device=flat.device)
        for part in _cases_at_once(len(flat), count * flat.shape[1]):
            points[part] = _converged(flat[part], count, shares[part])
        points = torch.minimum(torch.maximum(points, flat.amin(1, keepdim=True)), flat.amax(1, keepdim=True))
    return points.reshape(*members.shape[:-2], count, members.shape[-1])


def support_weights(
    members: Tensor, points: Tensor, weights: Tensor | None = None, moments: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """The weights (..., n) of points (..., n, D), adding up to 1, of least energy distance to the members (..., N, D).

    The energy distance of weights w is convex on the simplex: 2 a w - w K w - const, with a the mean distances to the
    members and K those between points. `moments` asks for more: values (..., k, n) of the points whose weighted means
    are to be the wanted (..., k). Cases that no weights meet keep equal ones.
    """
    flat, shares = _flat(members, weights)
    places = points.double().reshape(len(flat), *points.shape[-2:])
    count = places.shape[1]
    between = torch.cdist(places, places)
    apart = _mean_distances(flat, places, shares)
    limits = torch.ones(len(flat), 1, count, dtype=torch.float64, device=flat.device)
    wanted = limits[..., 0]
    if moments is not None:
        values, means = moments
        values = values.double().reshape(len(flat), -1, count)
        means = means.double().reshape(len(flat), -1)
        limits, wanted = torch.cat([limits, values], 1), torch.cat([wanted, means], 1)
    best = _least_quadratic(between, apart, limits, wanted)
    return best.reshape(*members.shape[:-2], count)


def nearest_members(members: Tensor, points: Tensor) -> Tensor:
    """Which of the members (..., N, D) is nearest to each point (..., n, D), (..., n)."""
    flat, places = (each.double().reshape(-1, *each.shape[-2:]) for each in (members, points))
    rows = max(1, _PAIRS_AT_ONCE // flat.shape[1])
    cases = zip(flat, places, strict=True)
    nearest = [torch.cat([torch.cdist(part, own).argmin(-1) for part in each.split(rows)]) for own, each in cases]
    return torch.stack(nearest).reshape(points.shape[:-1])


def herding_order(members: Tensor, count: int, weights: Tensor | None = None) -> Tensor:
    """Which of the members (N, D) come first, (n,), so that the first few stand for all, however many are taken.

    Kernel herding (Chen, Welling and Smola 2010) with the energy distance: next comes the member y of least

        sum_m p_m |y - y_m| - 1 / (k + 1) sum_{j <= k} |y - x_j|

    after x_1..x_k. For D = 1 they are the quantiles at (2 i - 1) / (2 n) instead, and ascend: exact for this n. Where
    all count alike none comes a second time before all have come.
    """
    rows = torch.arange(len(members), device=members.device)
    if len(members) > _CANDIDATES:
        mixed = torch.randperm(len(members), generator=torch.Generator().manual_seed(0))
        rows = mixed[:_CANDIDATES].sort().values.to(members.device)
    flat, shares = _flat(members[rows], None if weights is None else weights[rows])
    values = flat[0] - flat.mean(1)
    if members.shape[1] == 1:
        order = values[:, 0].argsort(stable=True)
        levels = (torch.arange(count, dtype=torch.float64, device=members.device) + 0.5) / count
        places = torch.searchsorted(shares[0, order].cumsum(0), levels + 1e-12).clamp(max=len(rows) - 1)
        return rows[order[places]]
    merit = _mean_distances(flat, flat, shares)[0]
    tied = _TIED * float(shares[0] @ merit)
    pushed, chosen = torch.zeros_like(merit), torch.arange(count, device=members.device)
    for taken in range(min(count, len(rows))):
        value = merit - pushed / (taken + 1)
        chosen[taken] = (value <= value.min() + tied).to(torch.uint8).argmax()  # the first of those that tie
        newest = chosen[taken]
        merit[newest] = torch.inf
        pushed += torch.linalg.vector_norm(values - values[newest], dim=1)
    return rows[chosen[torch.arange(count, device=members.device) % len(rows)]]


def energy_distance(
    members: Tensor,
    points: Tensor,
    weights: Tensor | None = None,
    point_weights: Tensor | None = None,
    between_members: Tensor | None = None,
) -> Tensor:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'| of members (..., N, D) and points (..., n, D), (...), in double precision.

    Of many members nearly all of the work is `between_members`, their `mean_distance`, which a caller may know.
    """
    flat, shares = _flat(members, weights)
    places, own = _flat(points, point_weights)
    across = (_mean_distances(flat, places, shares) * own).sum(-1).reshape(members.shape[:-2])
    among = mean_distance(members, weights) if between_members is None else between_members
    return (2 * across - among - mean_distance(points, point_weights)).clamp(min=0)


def mean_distance(members: Tensor, weights: Tensor | None = None) -> Tensor:
    """E|X - X'| of members (..., N, D), (...), a member and itself counted in."""
    flat, shares = _flat(members, weights)
    return (_mean_distances(flat, flat, shares) * shares).sum(-1).reshape(members.shape[:-2])


def _flat(members: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Cases on one axis, in double precision, and weights that add up to 1, (B, N, D) and (B, N)."""
    flat = members.detach().double().reshape(-1, *members.shape[-2:])
    if weights is None:
        return flat, torch.full_like(flat[..., 0], 1 / flat.shape[1])
    shares = weights.detach().double().expand(members.shape[:-1]).reshape(-1, members.shape[-2])
    return flat, shares / shares.sum(-1, keepdim=True)


def _cases_at_once(cases: int, pairs: int) -> Iterator[slice]:
    size = max(1, _PAIRS_AT_ONCE // pairs)
    return (slice(start, start + size) for start in range(0, cases, size))


def _quantiles(values: Tensor, count: int, shares: Tensor) -> Tensor:
    """Quantiles (B, n) at (2 i - 1) / (2 n); between two members where the level falls between them."""
    ordered, order = values.sort(-1)
    up_to = shares.gather(-1, order).cumsum(-1)
    levels = (torch.arange(count, dtype=torch.float64, device=values.device) + 0.5) / count
    rounding = 1e-12
    low, high = (
        torch.searchsorted(up_to, (levels + shift).expand(len(values), -1).contiguous()).clamp(max=values.shape[-1] - 1)
        for shift in (-rounding, rounding)
    )
    return (ordered.gather(-1, low) + ordered.gather(-1, high)) / 2


def _converged(members: Tensor, count: int, shares: Tensor) -> Tensor:
    """Points (B, n, D) where the energy distance of every case has stopped falling."""
    middle = (shares[..., None] * members).sum(1, keepdim=True)
    centred = members - middle
    low, high = centred.amin(1, keepdim=True), centred.amax(1, keepdim=True)
    near = (_NEAR * (shares * centred.norm(dim=-1)).sum(-1)).clamp(min=torch.finfo(centred.dtype).tiny)[:, None, None]
    points = _start(centred, count, shares)
    ahead, momentum = points, 1.0
    best, least = points, torch.full_like(shares[:, 0], torch.inf)
    last = least
    for step in range(_ITERATIONS):
        following, value, scale = _step(centred, ahead, shares, near)
        following = torch.minimum(torch.maximum(following, low), high)
        better = value < least
        best = torch.where(better[:, None, None], ahead, best)
        least = torch.minimum(value, least)
        grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        push = torch.where(better, (momentum - 1) / grown, 0.0)[:, None, None]  # none after a rise
        ahead, points, momentum = following + push * (following - points), following, grown
        if step % _LOOK_EVERY == _LOOK_EVERY - 1:
            if bool((last - least <= _LEAST_FALL * scale).all()):
                break
            last = least
    return best + middle


def _start(members: Tensor, count: int, shares: Tensor) -> Tensor:
    """Members taken by their weights, each moved a little towards another, (B, n, D)."""
    generator = torch.Generator(members.device).manual_seed(0)
    uniform = torch.rand(2, count, generator=generator, dtype=torch.float64, device=members.device)
    places = torch.arange(count, device=members.device)[None]
    mixed = torch.randperm(members.shape[1], generator=generator, device=members.device)
    up_to = shares[:, mixed].cumsum(-1)
    chosen, others = (
        mixed[torch.searchsorted(up_to, levels.expand(len(members), -1).contiguous()).clamp(max=len(mixed) - 1)]
        for levels in ((places + uniform[0]) / count, uniform[1:])
    )
    here, there = (members.gather(1, each[..., None].expand(-1, -1, members.shape[-1])) for each in (chosen, others))
    return here + _MOVED_IN * (there - here)


def _step(members: Tensor, points: Tensor, shares: Tensor, near: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The next points, what the energy distance is at these, less a constant, and the mean distance to the members."""
    count = points.shape[1]
    distance, total, pull = torch.zeros_like(points[..., 0]), torch.zeros_like(points[..., 0]), torch.zeros_like(points)
    for some, weight in _rows_at_once(members, shares, len(points) * count):
        apart = torch.cdist(points, some, compute_mode="use_mm_for_euclid_dist").clamp_(min=near)
        distance += (apart @ weight[..., None])[..., 0]
        inverse = weight[:, None] / apart
        total += inverse.sum(-1)
        pull += inverse @ some
    between = torch.cdist(points, points)
    inverse = torch.where(between > near, 1 / between.clamp(min=near), 0.0)
    push = inverse.sum(-1, keepdim=True) * points - inverse @ points
    scale = distance.mean(-1)
    return (pull + push / count) / total[..., None], 2 * scale - between.mean((1, 2)), scale


def _rows_at_once(members: Tensor, shares: Tensor, pairs_of_row: int) -> Iterator[tuple[Tensor, Tensor]]:
    rows = max(1, _PAIRS_AT_ONCE // pairs_of_row)
    return zip(members.split(rows, 1), shares.split(rows, 1), strict=True)


def _mean_distances(members: Tensor, points: Tensor, shares: Tensor) -> Tensor:
    """sum_m p_m |x_i - y_m| of every point, (B, n)."""
    middle = (shares[..., None] * members).sum(1, keepdim=True)
    members, points = members - middle, points - middle  # fewer digits cancel
    parts = []
    for place in points.split(max(1, _PAIRS_AT_ONCE // members.shape[1]), 1):
        distance = torch.zeros_like(place[..., 0])
        for some, weight in _rows_at_once(members, shares, len(place) * place.shape[1]):
            apart = torch.cdist(place, some, compute_mode="use_mm_for_euclid_dist")
            distance += (apart @ weight[..., None])[..., 0]
        parts.append(distance)
    return torch.cat(parts, 1)


def _least_quadratic(between: Tensor, apart: Tensor, limits: Tensor, wanted: Tensor) -> Tensor:
    """The least 2 a w - w K w over w >= 0 with C w = d, (B, n), by an active set; equal weights where it fails.

    Points whose weight falls below 0 are dropped, and one that would lower the distance comes back.
    """
    cases, count = apart.shape
    scale = between.mean((1, 2), keepdim=True).clamp(min=torch.finfo(between.dtype).tiny)
    quadratic = -between / scale + _RIDGE * torch.eye(count, dtype=between.dtype, device=between.device)
    linear = apart / scale[..., 0]
    size = limits.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(between.dtype).tiny)
    limits, wanted = limits / size, wanted / size[..., 0]
    best = torch.full_like(apart, 1 / count)
    least = torch.full_like(apart[:, 0], torch.inf)
    held = torch.zeros_like(apart, dtype=torch.bool)  # at 0
    for _ in range(_ROUNDS):
        free = ~held
        both = free[:, :, None] & free[:, None, :]
        matrix = torch.where(both, quadratic, 0.0) + torch.diag_embed(held.to(apart.dtype))
        rows = torch.where(free[:, None], limits, 0.0)
        corner = -_RIDGE * torch.eye(limits.shape[1], dtype=apart.dtype, device=apart.device).expand(cases, -1, -1)
        system = torch.cat([torch.cat([matrix, rows.mT], 2), torch.cat([rows, corner], 2)], 1)
        right = torch.cat([torch.where(free, -linear, 0.0), wanted], 1)
        solved, _ = torch.linalg.solve_ex(system, right[..., None])
        weights, prices = solved[:, :count, 0], solved[:, count:, 0]
        met = ((limits @ weights[..., None])[..., 0] - wanted).abs().amax(-1) < 1e-6
        feasible = (weights >= 0).all(-1) & met
        value = 2 * (linear * weights).sum(-1) + (weights[:, None] @ quadratic @ weights[..., None])[:, 0, 0]
        better = feasible & (value < least)
        best = torch.where(better[:, None], weights, best)
        least = torch.where(better, value, least)
        gradient = linear + (quadratic @ weights[..., None])[..., 0] + (limits.mT @ prices[..., None])[..., 0]
        lowest = torch.where(held, gradient, torch.inf)
        back = (lowest == lowest.amin(-1, keepdim=True)) & (lowest < -1e-9) & feasible[:, None]
        following = (held | (weights < 0)) & ~back
        if bool((following == held).all()):
            break
        held = following
    weights = best.clamp(min=0)
    return weights / weights.sum(-1, keepdim=True)
