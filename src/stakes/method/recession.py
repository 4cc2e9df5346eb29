"""Searches that run off: programs with a little curvature, and which way the cost of a linear one falls for ever.

    minimise over a, z_m   1/2 a'a + p'a + sum_m w_m (1/2 z_m'z_m + q_m'z_m)
    subject to             C a <= 0,   E a = 0,   W z_m + T a >= 0,   z_m >= 0

is a program with one solution, which is zero, unless all numbers of the program fall along it: then it is the steepest
of these ways, and the proof that there is no least cost.
"""

from dataclasses import replace

import torch

from stakes.method.member_blocks import Recourse
from stakes.method.scenario_data import ScenarioData

__all__ = ["hardly_bent", "steepest_way"]

_BENT = 1e-9  # a curvature that tells equal actions apart and changes nothing else, in the units of a case


def hardly_bent(data: ScenarioData) -> ScenarioData:
    """The programs with so little curvature in every way that their solutions solve the programs themselves.

    A search that runs off along a way that costs nothing stays here.

    Args:
        data: The programs, in units of their own.
    """
    recourse, own = data.recourse, _BENT * torch.eye(data.p.shape[1]).to(data.P)
    if isinstance(recourse, Recourse):
        curved = torch.ones_like(recourse.Q) if recourse.Q.dim() == 1 else torch.eye(recourse.parts).to(recourse.Q)
        recourse = replace(recourse, Q=recourse.Q + _BENT * curved)
    return replace(data, P=data.P + own, recourse=recourse)


def steepest_way(data: ScenarioData) -> ScenarioData | None:
    """The programs whose solutions are the ways along which the cost falls most; None for quadratic programs.

    Args:
        data: The programs.
    """
    recourse = data.recourse
    if not isinstance(recourse, Recourse) or bool(recourse.Q.any()) or bool(data.P.any()):
        return None
    nothing = {name: torch.zeros_like(getattr(data, name)) for name in ("e", "h")}
    return replace(
        data,
        P=torch.eye(data.p.shape[1]).to(data.P)[None],
        d=torch.where(torch.isfinite(data.d), 0.0, data.d),
        recourse=replace(recourse, Q=recourse.Q.new_ones(recourse.parts)),
        curvature=torch.ones_like(data.curvature),
        **nothing,
    )
