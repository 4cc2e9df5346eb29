"""The central path of scenario programs: their limits as walls, which an action feels before it reaches them.

    minimise over a, z_m   cost - smoothing * unit * (sum_k log s_k + sum_m w_m (sum_r log v_mr + sum_i log z_mi))

with s, v and z what limits, rows and recourse leave (`stakes.method.interior_point`), and the unit that of the case's
costs. The action of least cost under walls is differentiable in all members and prices, also where the exact action
stays at a limit or in a corner; as the smoothing falls it comes to the exact one.
"""

from typing import NamedTuple

from torch import Tensor

from stakes.method.argument_checks import known_on_host
from stakes.method.interior_point import in_units_of, start_of
from stakes.method.interior_step import Iterate, Products, either, limited, residuals_of, towards
from stakes.method.scenario_data import ScenarioData, largest, scaled

__all__ = ["CentralPoint", "central_point"]

_STEPS = 40
_REACHED = 1e-8  # the largest residual, and share of the smoothing by which a product may be off


class CentralPoint(NamedTuple):
    """A point of the central path of each of B programs.

    Attributes:
        iterate: The action, slacks and prices, in the units of the programs.
        reached: Whether the search has come to the point, (B,), bool; not where limits contradict each other.
    """

    iterate: Iterate
    reached: Tensor


def central_point(data: ScenarioData, smoothing: float) -> CentralPoint:
    """The point where every slack times its price is the smoothing, in units of the case; none depends on another.

    Args:
        data: The programs.
        smoothing: The product of slacks and prices, positive; 0.01 moves an action from a limit by about a hundredth of
            the largest outcome, where the limit's price is that of the case.
    """
    even, units = scaled(data)
    x = start_of(even)
    for step in range(_STEPS + 1):
        residuals = residuals_of(even, x)
        off = Products(limited(even, x.s * x.price - smoothing), x.v * x.mu - smoothing, x.z * x.zeta - smoothing)
        reached = (largest(*residuals) <= _REACHED) & (largest(*off) <= _REACHED * smoothing)
        if step == _STEPS or known_on_host(reached.all()):
            break
        x = either(reached, x, towards(even, x, residuals, off))
    return CentralPoint(in_units_of(units, x), reached)
