"""Whether the numbers of a program mean anything: limits that are limits, curvatures that are not negative."""

import warnings
from collections.abc import Mapping

import torch
from torch import Tensor

from stakes.errors import CostError, NonFiniteError, StakesWarning
from stakes.method.argument_checks import known_false, shown_numbers

__all__ = ["require_meaning", "warn_of_parameters"]

_ROUNDING = 1e-9  # of the largest number of a matrix


def require_meaning(numbers: Mapping[str, Tensor | None]) -> None:
    """Raise where a number would be passed over or give a wrong action; on an accelerator nothing is looked at.

    Args:
        numbers: W, and Q, P, g, lower and upper where there are such, by these names; see `stakes.ScenarioProgram`.
    """
    diagonal = numbers["W"]
    if diagonal is None or diagonal.device.type != "cpu":
        return
    for name in ("g", "upper", "lower"):
        value = numbers.get(name)
        if value is not None and known_false((-value if name == "lower" else value) > -torch.inf):
            none = "infinity" if name == "lower" else "minus infinity"
            raise NonFiniteError(f"{name} must not be NaN or {none}, got {shown_numbers(value)}")
    if diagonal.dim() == 1 and known_false(diagonal > 0):
        raise CostError(f"W must be positive where it is given by its diagonal, got {shown_numbers(diagonal)}")
    for name in ("P", "Q"):
        matrix = numbers.get(name)
        if matrix is not None:
            _require_curvature(name, torch.diag(matrix) if matrix.dim() == 1 else matrix)


def warn_of_parameters(numbers: Mapping[str, object]) -> None:
    """Say so where a number of a cost has a gradient: solved actions are differentiable in the members alone.

    Args:
        numbers: The numbers by name; what is no tensor is passed over.
    """
    names = [name for name, value in numbers.items() if isinstance(value, Tensor) and value.requires_grad]
    if names:
        warnings.warn(
            f"the action has no gradient by the parameters of this cost ({', '.join(names)}): where it takes a solver, "
            "it is known by the members alone",
            StakesWarning,
            stacklevel=2,
        )


def _require_curvature(name: str, matrix: Tensor) -> None:
    """Raise unless a matrix (..., n, n) is symmetric and positive semidefinite, but for rounding."""
    size = _ROUNDING * matrix.abs().amax((-2, -1), keepdim=True)
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    if known_false((matrix - matrix.mT).abs() <= size):
        raise CostError(f"{name} must be symmetric")
    others = matrix - torch.diag_embed(diagonal)
    if not known_false(others == 0):
        convex: Tensor = diagonal >= -size[..., 0]
    else:
        convex = (
            torch.linalg.cholesky_ex(matrix + torch.diag_embed((size + 1e-300)[..., 0].expand_as(diagonal))).info == 0
        )
    if known_false(convex):
        raise CostError(f"{name} must be positive semidefinite: the cost would not be convex")
