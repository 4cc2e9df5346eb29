"""The noise of generative models: independent, structured for training, or one draw that all cases share."""

from functools import lru_cache

import torch
from torch import Tensor

_POOLED_DISTANCES = 1 << 17  # between the members of all sets of a pool
_POOL = 32, 512  # how many sets it has, at least and at most
_SPREADING, _CENTRING, _BISECTIONS = 100, 100, 60  # iterations
_SPREADING_OF_MANY = 20
_MOST_SHARED = 500  # vectors of one set; more would take long to spread
_ENOUGH_TO_BALANCE = 4  # members for each dimension of the noise


def draw_normal(like: Tensor, *shape: int, generator: torch.Generator | None) -> Tensor:
    """Standard normal numbers of the type and on the device of another tensor."""
    return torch.randn(shape, generator=generator, device=like.device, dtype=like.dtype)


def draw_structured(like: Tensor, cases: int, members: int, width: int, generator: torch.Generator | None) -> Tensor:
    """Two independent sets of well-spread vectors for each case, alternating, (cases, M, K).

    Each vector is standard normal on its own. Those of a set, at places 0, 2, 4, ... or 1, 3, 5, ..., are far apart and
    sum to nearly 0, so that few of them represent the distribution. Pairs across the sets are independent, which the
    energy score takes its distances from (estimator "across").
    """
    halves = [_structured_set(like, cases, count, width, generator) for count in (-(-members // 2), members // 2)]
    if members % 2:
        halves[1] = torch.cat([halves[1], halves[1].new_zeros(cases, 1, width)], 1)
    return torch.stack(halves, 2).flatten(1, 2)[:, :members]


def draw_shared(like: Tensor, members: int, width: int, generator: torch.Generator | None) -> Tensor:
    """Well-spread normal noise (1, M, K) that all cases share, of mean 0, and of covariance 1 if M is at least 4 K.

    A plain draw would put its sampling error into every forecast, in the same direction. The vectors are randomly
    rotated and shuffled, in several sets if there are very many members.
    """
    if members == 1:
        return draw_normal(like, 1, 1, width, generator=generator)
    count = -(-members // _MOST_SHARED)
    sizes = [(members + place) // count for place in range(count)]
    sets = []
    for size in sizes:
        mixed = torch.randperm(size, generator=generator, device=like.device)
        rotation = _rotations(draw_normal(like, width, width, generator=generator))
        sets.append(_shared_set(size, width, like.device, like.dtype)[mixed] @ rotation)
    return torch.cat(sets)[None]


@lru_cache(maxsize=16)
def _shared_set(members: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Well-spread normal vectors (M, K), always the same; in one dimension quantiles."""
    levels = (torch.arange(members, dtype=torch.float64) + 0.5) / members
    generator = torch.Generator().manual_seed(0)
    if width == 1:
        points = _normal_quantiles(levels)[:, None]
    else:
        points = _spread(_radii(levels, width)[None], width, generator, _SPREADING_OF_MANY)[0]
    if members >= _ENOUGH_TO_BALANCE * width:
        points = points - points.mean(0)
        factor = torch.linalg.cholesky(points.mT @ points / members)
        points = torch.linalg.solve_triangular(factor, points.mT, upper=False).mT
    return points.to(device, dtype)


def _structured_set(like: Tensor, cases: int, members: int, width: int, generator: torch.Generator | None) -> Tensor:
    """One set for each case, (cases, M, K)."""
    if members < 2:
        return draw_normal(like, cases, members, width, generator=generator)
    if width == 1:  # stratified: one in each of so many equally likely parts
        uniform = torch.rand(2, cases, members, generator=generator, device=like.device, dtype=like.dtype)
        levels = (uniform[0].argsort(-1) + uniform[1]) / members
        return _normal_quantiles(levels)[..., None]
    pool = _pool(members, width, like.device, like.dtype)
    chosen = torch.randint(len(pool), (cases,), generator=generator, device=like.device)
    rotation = _rotations(draw_normal(like, width, width, generator=generator))
    return pool[chosen] @ rotation  # turned anew in every step, so that no set comes twice


def _normal_quantiles(levels: Tensor) -> Tensor:
    tiny = torch.finfo(levels.dtype).eps
    return torch.special.ndtri(levels.clamp(tiny, 1 - tiny))


@lru_cache(maxsize=16)
def _pool(members: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Sets of well-spread normal vectors, rotated at random, (sets, M, K): always the same."""
    least, most = _POOL
    sets = min(max(_POOLED_DISTANCES // members**2, least), most)
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(sets, members, generator=generator).argsort(-1)
    levels = (order + torch.rand(sets, members, generator=generator, dtype=torch.float64)) / members
    points = _spread(_radii(levels, width), width, generator)
    rotations = _rotations(torch.randn(sets, width, width, generator=generator, dtype=torch.float64))
    return (points @ rotations).to(device, dtype)


def _radii(levels: Tensor, width: int) -> Tensor:
    """Quantiles of the length r of a normal vector, by bisection: P(r < sqrt(2 x)) = gammainc(K / 2, x)."""
    shape = torch.tensor(width / 2, dtype=levels.dtype)
    low, high = torch.zeros_like(levels), torch.full_like(levels, 2.0 * width + 60.0)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = torch.special.gammainc(shape, middle) < levels
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high).sqrt()


def _spread(radii: Tensor, width: int, generator: torch.Generator, most: int = _SPREADING) -> Tensor:
    """Vectors (..., M, K) of given lengths (..., M) that are far apart and sum to 0 if the lengths allow it.

    With the lengths given, the energy distance to the normal distribution is least where the sum of the distances
    between vectors is largest: x_m <- r_m g_m / |g_m|, g_m = sum_j (x_m - x_j) / |x_m - x_j|.
    """
    lengths = radii[..., None]

    def resized(points: Tensor) -> Tensor:
        return lengths * torch.nn.functional.normalize(points, dim=-1)

    points = resized(torch.randn(*radii.shape, width, generator=generator, dtype=torch.float64))
    pairs = radii.numel() * radii.shape[-1]
    for _ in range(min(most, max(5, (1 << 25) // pairs))):
        inverse = 1 / torch.cdist(points, points).clamp(min=1e-6)
        points = resized(inverse.sum(-1, keepdim=True) * points - inverse @ points)
    for _ in range(_CENTRING):
        points = resized(points - points.mean(-2, keepdim=True))
    return points


def _rotations(normal: Tensor) -> Tensor:
    """Random rotations and reflections (..., K, K), from normal numbers."""
    turned, upper = torch.linalg.qr(normal)
    return turned * torch.diagonal(upper, dim1=-2, dim2=-1).sign()[..., None, :]
