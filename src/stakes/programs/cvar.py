"""The conditional value at risk of a scenario program, as a program with one more part and one more row a member."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from stakes.costs.member_weights import counted
from stakes.errors import CostError
from stakes.programs.implicit_gradient import implicit_change
from stakes.programs.interior_point import InteriorPoint, ProgramSolution, ScenarioData, largest
from stakes.programs.recourse import ChargedRecourse
from stakes.programs.scenario_program import ScenarioProgram, SolvedProgram, warn_of_parameters


class _Widened(NamedTuple):
    """The programs with charge and threshold, and what the threshold is counted in and from, (B, 1) each."""

    data: ScenarioData
    unit: Tensor
    origin: Tensor


class CVaRProgram(NamedTuple):
    """A scenario program whose conditional value at risk is to be least."""

    program: ScenarioProgram  # the program, with a linear recourse
    level: float  # the share of the members below the threshold, between 0 and 1
    mix: float  # the share of the conditional value at risk in what is minimised, above 0; the mean cost is the rest

    def solve(
        self,
        samples: Tensor,
        fixed: Tensor,
        weights: Tensor | None = None,
        solver: InteriorPoint | None = None,
        *,
        gradient: bool = False,
    ) -> SolvedProgram:
        """The best action of each forecast and its threshold, (..., A + 1), in double precision."""
        if self.program.Q is not None and bool(self.program.Q.any()):
            raise CostError("CVaRCost needs a recourse with linear costs, got a program with Q")
        cases, members = samples.shape[:-2], samples.shape[-2]
        samples, fixed = counted(samples, weights), counted(fixed[..., None], weights)[..., 0]
        flat, slopes = samples.reshape(-1, *samples.shape[-2:]), self._slopes(samples)
        fixed = fixed.reshape(-1, members)
        if gradient:
            warn_of_parameters(vars(self.program))
        with torch.no_grad():
            plain = self.program.data(samples.detach(), weights)
            wide = self._widened(plain, slopes.detach(), fixed.detach())
            solution = (solver or InteriorPoint()).solve(wide.data)
        action = solution.iterate.a
        if gradient:
            action = action + self._moved(wide, solution, _change(flat), _change(slopes), _change(fixed))
        own = action[:, :-1].reshape(*cases, self.program.parts)
        beyond = (action[:, -1:] * wide.unit + wide.origin).reshape(*cases, 1)
        always = self.program.own_cost(own, samples.new_zeros(samples.shape[-1]))[..., None]
        return SolvedProgram(torch.cat([own, beyond + always], -1), solution)

    def _slopes(self, samples: Tensor) -> Tensor:
        """What the action costs by each member, p_y y, (B, M, A), or (B, 1, A) of zeros where that is nothing."""
        p_y = self.program.p_y
        if p_y is None:
            return samples.new_zeros(samples.shape[:-2].numel(), 1, self.program.parts)
        return (samples @ p_y.mT).reshape(-1, samples.shape[-2], self.program.parts)

    def _widened(self, plain: ScenarioData, slopes: Tensor, fixed: Tensor) -> _Widened:
        cases, members, _ = plain.h.shape
        unit = largest(plain.q, slopes)
        unit = torch.where(unit > 0, unit, 1.0)[:, None]
        origin = (plain.weights * fixed).sum(-1, keepdim=True)
        mean = (plain.weights[:, None] @ slopes.expand(-1, members, -1))[:, 0]
        charge = (self.mix / (1 - self.level) * unit[:, None]).expand(cases, plain.q.shape[1], 1)
        alone = replace(self.program.recourse, Q=plain.q.new_zeros(plain.q.shape[-1]))
        data = replace(
            plain,
            P=pad(plain.P, (0, 1, 0, 1)),
            p=torch.cat([plain.p - self.mix * mean, self.mix * unit], -1),
            C=pad(plain.C, (0, 1)),
            E=pad(plain.E, (0, 1)),
            recourse=ChargedRecourse(alone, plain.q / unit[:, None], slopes / unit[:, None]),
            q=torch.cat([(1 - self.mix) * plain.q, charge], -1),
            h=torch.cat([plain.h, ((fixed - origin) / unit)[..., None]], -1),
        )
        return _Widened(data, unit, origin)

    def _moved(
        self, wide: _Widened, solution: ProgramSolution, change: Tensor, slopes: Tensor, fixed: Tensor
    ) -> Tensor:
        """How the action moves with changes of the members (B, M, D), of slopes, and of what they cost, (B, A + 1).

        Where prices and slopes change, they do so in the row of the charge and in the conditions of a minimum.
        """
        data, unit, q_y = wide.data, wide.unit[:, None], self.program.q_y
        action, z, price = (
            torch.where(solution.solved[:, None, None], part, 0.0)
            for part in (solution.iterate.a[:, None], solution.iterate.z, solution.iterate.mu[..., -1:])
        )
        last = fixed[..., None] / unit + (slopes / unit * action[..., :-1]).sum(-1, keepdim=True)
        prices = None
        if q_y is not None:
            prices = change @ q_y.mT
            last = last + (prices / unit * z[..., :-1]).sum(-1, keepdim=True)
            prices = pad((1 - self.mix + price / unit) * prices, (0, 1))
        slope = (data.weights[..., None] * (1 - self.mix + price / unit) * slopes).sum(1)
        rows = torch.cat([change @ self.program.h_y.mT, last], -1)
        return implicit_change(data, solution, rows, prices, pad(slope, (0, 1)))


def _change(values: Tensor) -> Tensor:
    """Zeros with the gradient of the values."""
    return values - values.detach()
