"""What a decision sees of a field: a variable or the wind speed, at chosen grid points or as their weighted mean."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from stakes.argument_checks import require_finite, require_positive
from stakes.errors import SettingError, ShapeError, did_you_mean

_DEGREES = 1e-4  # coordinates are kept in single precision


class FieldView(nn.Module):
    """Fields (..., grid, variables) to what a decision sees of them, (..., D), in physical units and single precision.

    Several variables are the components of a wind, whose speed is taken. D is the number of points, or 1 where they
    have weights. Of a grid that is divided over processes each sees its own points, and `add` brings them together.
    """

    points: Tensor  # the places of the chosen points in the grid, (D,), whole numbers
    weights: Tensor | None
    means: Tensor  # what was subtracted from each variable before training
    scales: Tensor  # what each was divided by

    def __init__(self, points: Tensor, weights: Tensor | None, means: Sequence[float], scales: Sequence[float]) -> None:
        super().__init__()
        numbers = (torch.tensor([*map(float, values)]) for values in (means, scales))
        buffers = dict(zip(("points", "weights", "means", "scales"), (points, weights, *numbers), strict=True))
        for name, values in buffers.items():  # not kept, so that checkpoints of models with other losses fit
            self.register_buffer(name, values, persistent=False)
        self.last = int(points.max())

    def forward(
        self, field: Tensor, part: slice | None = None, add: Callable[[Tensor], Tensor] = lambda values: values
    ) -> Tensor:
        """What is seen of a field."""
        start, size = (0, field.shape[-2]) if part is None else (part.start, part.stop - part.start)
        if field.shape[-2] != size or (part is None and self.last >= size):
            raise ShapeError(
                f"points must lie below the number of grid points, axis -2 of the field, got {self.last} and the field "
                f"{tuple(field.shape)}"
            )
        if part is None:
            return self._seen(field, self.points, self.weights)
        here = ((self.points >= start) & (self.points < start + size)).nonzero()[:, 0]
        seen = self._seen(field, self.points[here] - start, None if self.weights is None else self.weights[here])
        if self.weights is None:
            seen = seen.new_zeros(*seen.shape[:-1], len(self.points)).index_copy(-1, here, seen)
        return add(seen)

    def _seen(self, field: Tensor, points: Tensor, weights: Tensor | None) -> Tensor:
        with torch.autocast(field.device.type, enabled=False):
            values = field.index_select(-2, points).float() * self.scales + self.means
            seen = values[..., 0] if values.shape[-1] == 1 else torch.linalg.vector_norm(values, dim=-1)
            return seen if weights is None else (seen * weights).sum(-1, keepdim=True)


def seen_variables(variable: str | None, components: Sequence[str] | None) -> list[str]:
    """The variables by name: one, or the two components of a wind."""
    if (variable is None) == (components is None):
        raise SettingError("give either a variable, as in variable: 2t, or components, as in components: [10u, 10v]")
    if variable is not None:
        return [str(variable)]
    names = [str(name) for name in cast(Sequence[str], components)]
    if isinstance(components, str) or len(names) != 2 or names[0] == names[1]:
        raise SettingError(f"components must be two variables, as in [10u, 10v], got {components!r}")
    return names


def field_view(
    *,
    points: Sequence[int] | None = None,
    area: Sequence[float] | None = None,
    weights: Sequence[float] | str | None = None,
    means: Sequence[float],
    scales: Sequence[float],
    variables: Sequence[str],
    nodes: Mapping[str, Tensor] | None = None,
) -> FieldView:
    """The view that settings describe."""
    if (points is None) == (area is None):
        raise SettingError("give either points: [12, 57], or area: [north, west, south, east]")
    chosen = _given_points(points, nodes) if points is not None else _points_inside(cast(Sequence[float], area), nodes)
    for name, numbers in (("means", means), ("scales", scales)):
        if isinstance(numbers, str | float | int) or len(numbers) != len(variables):
            raise SettingError(f"{name} must have a number for each of {', '.join(variables)}, got {numbers!r}")
    for mean, scale in zip(means, scales, strict=True):
        require_finite("means", float(mean))
        require_positive("scales", float(scale))
    return FieldView(chosen, None if weights is None else _shares(weights, chosen, nodes), means, scales)


def _given_points(points: Sequence[int], nodes: Mapping[str, Tensor] | None) -> Tensor:
    places = [int(point) for point in points]
    if not places or min(places) < 0 or len(set(places)) < len(places) or places != list(points):
        raise SettingError(f"points must be distinct whole numbers from 0 on, got {list(points)!r}")
    if nodes is not None and max(places) >= len(nodes["x"]):
        raise SettingError(f"points must lie below {len(nodes['x'])}, the number of grid points, got {max(places)}")
    return torch.tensor(places)


def _points_inside(area: Sequence[float], nodes: Mapping[str, Tensor] | None) -> Tensor:
    edges = [float(edge) for edge in area]
    if len(edges) != 4 or not edges[0] >= edges[2]:
        raise SettingError(f"area must be [north, west, south, east] in degrees, got {list(area)!r}")
    if nodes is None:
        raise SettingError("area needs the coordinates of the grid, which come with the graph; give points instead")
    north, west, south, east = edges
    latitude, longitude = (nodes["x"].double() * 180 / math.pi).unbind(-1)
    eastwards = (longitude - west + _DEGREES) % 360  # across the date line too
    width = 360.0 if east - west >= 360 else (east - west) % 360
    inside = (latitude <= north + _DEGREES) & (latitude >= south - _DEGREES) & (eastwards <= width + 2 * _DEGREES)
    if not inside.any():
        raise SettingError(f"area {list(area)!r} holds no point of the grid")
    return inside.nonzero()[:, 0]


def _shares(weights: Sequence[float] | str, points: Tensor, nodes: Mapping[str, Tensor] | None) -> Tensor:
    if isinstance(weights, str):
        if nodes is None or weights not in nodes:
            known = [] if nodes is None else [str(name) for name in nodes]
            raise SettingError(f"the nodes of the grid have no attribute {weights!r}; {did_you_mean(weights, known)}")
        given = nodes[weights].reshape(-1)[points.to(nodes[weights].device)].cpu().double()
    else:
        given = torch.tensor([*map(float, weights)], dtype=torch.float64)
    if len(given) != len(points) or not bool((given >= 0).all() & (given.sum() > 0) & given.isfinite().all()):
        raise SettingError(
            f"weights must be {len(points)} numbers, one for each point, not negative, not all zero, got {len(given)}"
        )
    return (given / given.sum()).float()
