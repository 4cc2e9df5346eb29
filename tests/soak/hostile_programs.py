"""Programs that mean harm: one case of three is spoilt, and nothing may be silently wrong.

As a script it spoils 100 programs in every way: each must be refused by name, or the case flagged or rightly solved,
as Clarabel says it, and the other cases left as they are.
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))  # for scripts

from core.random_programs import our_answer, random_scenario_program, whole_program

from stakes import InteriorPoint, ScenarioProgram
from stakes.errors import StakesError
from stakes.programs.interior_point import scaled

__all__ = ["WAYS", "spoilt"]

CASES, SPOILT = 3, 1
_FAR = 1e4  # in units of the case
Numbers = dict[str, Any]
Way = Callable[[Numbers, Tensor], Tensor]


def spoilt(way: str, seed: int, smoothing: float | None = None) -> str:
    """What became of the spoilt case: refused, solved, infeasible, unbounded or unknown; AssertionError where wrong."""
    generator = torch.Generator().manual_seed(seed)
    plain, first = random_scenario_program(generator)
    noise = torch.randn(CASES, *first.shape[1:], generator=generator, dtype=torch.float64)
    numbers = {field.name: getattr(plain, field.name) for field in fields(plain)}
    numbers["g"] = plain.g.expand(CASES, -1).clone()  # type: ignore[union-attr]
    members = WAYS[way](numbers, first + noise)
    try:
        program = ScenarioProgram(**numbers)
    except StakesError:
        return "refused"
    solver = InteriorPoint(smoothing=smoothing)
    leaf = members.clone().requires_grad_()
    action, solution = program.solve(leaf, None, solver, gradient=True)
    (gradient,) = torch.autograd.grad(torch.where(solution.solved[:, None], action, 0.0).sum(), leaf)
    assert bool(torch.isfinite(gradient[solution.solved]).all())
    assert not bool(gradient[~solution.solved].nan_to_num(nan=1.0).any()), "a gradient without a certificate"
    _check_companions(program, members, action.detach(), solution.solved, solution.objective)
    return _checked(program, members, SPOILT)


def _check_companions(
    program: ScenarioProgram, members: Tensor, action: Tensor, solved: Tensor, objective: Tensor
) -> None:
    """The other cases, solved without the spoilt one."""
    others = torch.tensor([case for case in range(CASES) if case != SPOILT])
    alone = InteriorPoint().solve(program.data(members).rows(others))
    same = (alone.objective - objective[others]).abs() <= 1e-7 * alone.objective.abs()  # rounding may tip the scale
    assert bool(((alone.solved == solved[others]) | same).all()), "another case is solved, or no longer"
    size = action[others].abs().amax().clamp(min=1.0)
    both = alone.solved[:, None].expand_as(action[others])
    difference = ((alone.iterate.a - action[others]) / size)[both].abs()
    assert float(difference.max() if len(difference) else 0.0) <= 1e-5, "another case has changed"


def _checked(program: ScenarioProgram, members: Tensor, case: int) -> str:
    """What is said of a case, after a look at what Clarabel says of it."""
    data = program.data(members).rows(torch.tensor([case]))
    solution = InteriorPoint().solve(data)
    flags = {"solved": solution.solved, "infeasible": solution.infeasible, "unbounded": solution.unbounded}
    said = next((name for name, flag in flags.items() if bool(flag)), "unknown")
    if said == "unknown" or not bool(torch.isfinite(members[case]).all()):
        assert said == "unknown"
        return said
    assert said != "solved" or _meets_limits(data, solution.iterate.a), "a limit is broken"
    even, units = scaled(data)  # Clarabel's tolerances are absolute: numbers of 1e-9 are nothing to it
    whole = whole_program(even, 0)
    theirs = whole.clarabel()
    proofs = {
        "unknown": lambda: False,
        "optimal": lambda: _meets_limits(even, torch.from_numpy(theirs.x[: even.p.shape[1]])[None]),
        "infeasible": lambda: whole.proves_infeasible(theirs.y),
        "unbounded": lambda: whole.proves_unbounded(theirs.x),
    }
    if not proofs[theirs.verdict]():
        return said
    if said == "solved":
        assert theirs.verdict == "optimal", f"solved, though it is {theirs.verdict}"
        # Limits far away cost it digits; where none of them is broken, the objective without them is proof as well.
        near = whole_program(replace(even, d=torch.where(even.d > _FAR, torch.inf, even.d)), 0).clarabel()
        objective = float(solution.objective / (units.action * units.cost))
        off = (abs(objective - each.objective) / max(abs(each.objective), 1e-3) for each in (theirs, near))
        assert min(off) <= 1e-6 or _proven(data, solution), "another objective"
        return said
    both = {"infeasible", "unbounded"}  # a program may be both, and one proof is enough
    assert theirs.verdict in both, f"{said}, though it is {theirs.verdict}"
    return said


def _proven(data: Any, solution: Any) -> bool:
    """Whether our point and prices prove each other right in extended precision; Clarabel's may be the wrong ones."""
    ours, whole = our_answer(data, solution, 0), whole_program(data, 0)
    low, high = whole.interval(ours)
    return high - low <= 1e-6 * max(abs(low), abs(high)) and whole.violation(ours) <= 1e-9


def _meets_limits(data: Any, action: Tensor) -> bool:
    """Whether an action meets its limits as well as its numbers tell; Clarabel's at times breaks them by far."""
    sides = ((data.C, data.d, action @ data.C.mT - data.d), (data.E, data.e, (action @ data.E.mT - data.e).abs()))
    unit = scaled(data)[1].action
    own = (torch.maximum(right.abs(), matrix.abs().sum(-1) * action.abs().amax()) for matrix, right, _ in sides)
    return all(bool((over <= 1e-6 * size + 1e-10 * unit).all()) for size, (_, _, over) in zip(own, sides, strict=True))


def _members(change: Callable[[Tensor], Tensor]) -> Way:
    """Of the spoilt case."""

    def way(numbers: Numbers, members: Tensor) -> Tensor:
        members = members.clone()
        members[SPOILT] = change(members[SPOILT])
        return members

    return way


def _numbers(change: Callable[[Numbers], None]) -> Way:
    def way(numbers: Numbers, members: Tensor) -> Tensor:
        change(numbers)
        return members

    return way


def _more_rows(matrix: str, right: str, rows: Callable[[Tensor], Tensor], values: Callable[[Tensor], Tensor]) -> Way:
    """With rows after those that there are, (rows, A) and (..., rows)."""

    def change(numbers: Numbers) -> None:
        own, beside = numbers[matrix], numbers[right]
        if own is None:
            own, beside = numbers["T"][:1], numbers["T"][:1, 0] * 0
        numbers[matrix] = torch.cat([own, rows(own)])
        numbers[right] = torch.cat([beside, values(beside)], -1)

    return _numbers(change)


def _limit(value: float) -> Way:
    def change(numbers: Numbers) -> None:
        numbers["g"][SPOILT, -1] = value

    return _numbers(change)


def _crossing(room: float) -> Way:
    """The last part of the action between bounds that meet or cross; G ends in upper and lower bounds of all parts."""

    def change(numbers: Numbers) -> None:
        parts = numbers["T"].shape[1]
        numbers["g"][SPOILT, -1] = room - numbers["g"][SPOILT, -1 - parts]

    return _numbers(change)


def _without_limits(numbers: Numbers) -> None:
    numbers["g"][SPOILT] = torch.inf


def _scaled(name: str, factor: float) -> Way:
    def change(numbers: Numbers) -> None:
        if numbers[name] is not None:
            numbers[name] = numbers[name].clone()
            numbers[name][..., 0] *= factor

    return _numbers(change)


def _negative(name: str) -> Way:
    def change(numbers: Numbers) -> None:
        size = numbers[name].shape[-1]
        numbers[name] = torch.diag(torch.ones(size) - 2 * (torch.arange(size) == 0))

    return _numbers(change)


def _nothing(rows: Tensor) -> Tensor:
    """A row of zeros."""
    return 0 * rows[:1]


WAYS: dict[str, Way] = {
    "nothing": lambda numbers, members: members,
    "NaN members": _members(lambda each: each * torch.nan),
    "infinite members": _members(lambda each: each + torch.inf),
    "members of 1e9": _members(lambda each: 1e9 * each),
    "members of 1e-9": _members(lambda each: 1e-9 * each),
    "members of 1e200": _members(lambda each: 1e200 * each),
    "members all equal": _members(lambda each: each[:1].expand_as(each)),
    "members all zero": _members(torch.zeros_like),
    "one outcome a million times the others": _members(lambda each: each * (1e6 ** (torch.arange(each.shape[1]) == 0))),
    "one member only": lambda numbers, members: members[:, :1],
    "limits that cross": _crossing(-1.0),
    "bounds that meet": _crossing(0.0),
    "no limits": _numbers(_without_limits),
    "a NaN limit": _limit(torch.nan),
    "a limit of minus infinity": _limit(-torch.inf),
    "limits that repeat each other": _more_rows("G", "g", lambda rows: rows, lambda values: values),
    "a limit of nothing that holds": _more_rows("G", "g", _nothing, lambda values: _nothing(values.mT).mT + 1),
    "a limit of nothing that does not": _more_rows("G", "g", _nothing, lambda values: _nothing(values.mT).mT - 1),
    "equations that repeat each other": _more_rows("E", "e", lambda rows: rows, lambda values: values),
    "equations that contradict each other": _more_rows("E", "e", lambda rows: rows, lambda values: values + 1),
    "an equation of nothing": _more_rows("E", "e", _nothing, _nothing),
    "a price of a million": _scaled("q", 1e6),
    "a price of a millionth": _scaled("q", 1e-6),
    "a row of the action a million times the others": _scaled("T", 1e6),
    "a curvature that is negative": _negative("P"),
    "a recourse whose curvature is negative": _negative("Q"),
}  # fmt: skip


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for way in WAYS:
        became = Counter(spoilt(way, seed, 0.01 if seed % 3 == 2 else None) for seed in range(count))
        sys.stdout.write(f"{way}: {dict(became)}\n")
