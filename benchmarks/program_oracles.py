"""Decisions with many parts against Clarabel: actions, verdicts and gradients of random programs of every kind.

    python -m benchmarks.program_oracles [--programs 2000] [--gradients 75] [--jobs 2] [--json FILE]

Scenario programs of random matrices, in one piece and in groups with equations among them, and random schedules,
allocations, batteries and battery schedules, with ties, flat costs, bounds that meet, limits that contradict each other
and costs without a lower bound among them. Clarabel (tolerance 1e-11) solves each as one quadratic program, which for
the ready-made costs is written from their formulas.

An objective differs by its distance over the larger of Clarabel's objective and a thousandth of the case's unit (the
largest outcome times the largest price). Where it differs by more than 1e-7 points and prices of both are judged in
extended precision: whose interval of the least objective is right. Where a verdict differs, two linear programs that
always have a solution decide: the least violation of all limits, and the steepest fall along a ray.

Gradients are those along one random direction of all members, against differences of Clarabel's actions (tolerance
1e-13) before and after a step; a program counts where both sides have the same slope, so that no limit begins or ceases
to bind between them, and where the action is the only best one. A gradient differs by the largest difference of a part
over the largest slope, or over 0.01 where there is hardly one.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress
from torch import Tensor

from benchmarks.timing import processor
from stakes import InteriorPoint, optimal_action, solve_action
from stakes.programs.interior_point import scaled
from stakes.training.processes import called_for_each
from tests.core.quadratic_programs import Answer, QuadraticProgram
from tests.core.random_costs import KINDS, random_decision
from tests.core.random_programs import our_answer, random_programs, random_scenario_program, whole_program

BATCH, CHUNK = 4, 100  # cases of one shape, programs a call
AGREED, SMALL = 1e-7, 1e-3
JUDGED = 1e-7  # a violation, or a fall, that is none, in units of the program
IN_GROUPS = "scenario in groups"
MATRICES = ("scenario", IN_GROUPS)
SCENARIOS = ("solvable", "infeasible", "unlimited", "unbounded")
STEP, SAME_SLOPE, ONLY_ONE = 1e-4, 1e-5, 1e-6
GRADIENT_AGREED, SMALL_SLOPE = 1e-4, 1e-2
Row = dict[str, Any]


def compared(kind: str, programs: int, seed: int) -> Row:
    """How many programs of a kind agree, and what came of the others."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(seed)
    counts, worst, apart = Counter[str](), 0.0, []
    for number in range(programs // BATCH):
        cases = _scenarios(generator, number, kind) if kind in MATRICES else _costs(generator, kind)
        for ours, unit, program in cases:
            theirs = program.clarabel()
            counts[theirs.verdict] += 1
            difference = abs(ours.objective - theirs.objective) / max(abs(theirs.objective), SMALL * unit)
            if ours.verdict == theirs.verdict and (ours.verdict != "optimal" or difference <= AGREED):
                worst = max(worst, difference) if ours.verdict == "optimal" else worst
            else:
                apart.append(judged(program, ours, theirs, unit) | {"seed": seed, "number": number})
    return {"programs": sum(counts.values()), "verdicts": counts, "largest difference": worst, "apart": apart}


def _scenarios(generator: torch.Generator, number: int, kind: str) -> Iterator[tuple[Answer, float, QuadraticProgram]]:
    data = random_programs(generator, SCENARIOS[number % len(SCENARIOS)], BATCH, in_groups=kind == IN_GROUPS)
    solution, units = InteriorPoint().solve(data), scaled(data)[1]
    for case in range(BATCH):
        unit = float(units.action[case] * units.cost[case])
        yield our_answer(data, solution, case), unit, whole_program(data, case)


def _costs(generator: torch.Generator, kind: str) -> Iterator[tuple[Answer, float, QuadraticProgram]]:
    decision = random_decision(generator, kind, BATCH)
    decided = solve_action(decision.cost, decision.samples, weights=decision.weights)
    matrices = decision.cost.program(decision.samples.shape[-1])
    solution = matrices.solve(decision.samples, decision.weights).solution
    units = scaled(matrices.data(decision.samples, decision.weights))[1]
    for case in range(BATCH):
        proven = {"infeasible": solution.infeasible, "unbounded": solution.unbounded}
        no_solution = next((name for name, flag in proven.items() if bool(flag[case])), "unknown")
        verdict = "optimal" if bool(decided.certified[case]) else no_solution
        answer = Answer(verdict, decided.action[case].numpy(), np.zeros(0), float(decided.expected_cost[case]))
        yield answer, float(units.action[case] * units.cost[case]), decision.program(case)


def judged(program: QuadraticProgram, ours: Answer, theirs: Answer, unit: float) -> Row:
    """Who is right, by the program itself: with our action fixed, Clarabel only has to find the rest."""
    size = max(abs(theirs.objective), SMALL * unit) if np.isfinite(theirs.objective) else unit
    row: Row = {"ours": ours.verdict, "theirs": theirs.verdict, "objectives": [ours.objective, theirs.objective]}
    if "optimal" == ours.verdict == theirs.verdict:
        point = ours if len(ours.y) else Answer("optimal", _completed(program, ours), theirs.y, ours.objective)
        low = max(program.interval(each)[0] for each in (point, theirs))
        ours_above, theirs_above = ((program.interval(each)[1] - low) / size for each in (point, theirs))
        row |= {"ours above the bound": ours_above, "theirs above the bound": theirs_above}
        row |= {"violations": [program.violation(point), program.violation(theirs)]}
        return row | {"ours is right": bool(abs(ours_above) <= AGREED and row["violations"][0] <= AGREED)}
    truth = true_verdict(program)
    return row | {"truth": truth, "ours is right": ours.verdict == truth, "theirs is right": theirs.verdict == truth}


def true_verdict(program: QuadraticProgram) -> str:
    """By two linear programs that always have a solution: the least violation of limits, and the steepest ray."""
    if program.least_violation() > JUDGED:
        return "infeasible"
    return "unbounded" if program.steepest_fall() < -JUDGED else "optimal"


def _completed(program: QuadraticProgram, ours: Answer) -> np.ndarray[Any, Any]:
    """Our action with the best of everything else."""
    size = len(ours.x)
    fixed = np.eye(size, len(program.c))
    rows, right = np.concatenate([program.E, fixed]), np.concatenate([program.e, ours.x])
    return QuadraticProgram(program.H, program.c, rows, right, program.G, program.g).clarabel().x


def gradients(kind: str, programs: int, seed: int) -> Row:
    """How our gradient differs from that of Clarabel's actions, by the largest slope of the action."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(seed)
    counts, errors = Counter[str](), []
    for _ in range(programs):
        action, samples, solved = _differentiable(generator, kind)
        direction = torch.randn(samples.shape, generator=generator, dtype=torch.float64)
        step = STEP * float(samples.std(correction=0) + 0.1 * samples.abs().mean())
        before, here, after = (solved(samples + sign * step * direction) for sign in (-1, 0, 1))
        ours, slope = torch.func.jvp(action, (samples,), (direction,))
        theirs = (after - before) / (2 * step)
        size = max(float(theirs.abs().max()), float(slope.abs().max()), SMALL_SLOPE)
        if float((ours - here).abs().max()) > ONLY_ONE * max(float(here.abs().max()), 1.0):
            counts["more than one best action"] += 1
        elif float((after - 2 * here + before).abs().max()) / step > SAME_SLOPE * size:
            counts["a limit changes"] += 1
        else:
            counts["compared"] += 1
            counts["with a gradient"] += bool(theirs.abs().max() > 1e-3)
            errors.append(float((slope - theirs).abs().max()) / size)
            counts["gradcheck passed"] += _checked(action, samples)
    worst = {"largest error": max(errors, default=0.0), "above 1e-4": sum(error > GRADIENT_AGREED for error in errors)}
    return {"programs": programs, "counts": counts, **worst}


def _differentiable(generator: torch.Generator, kind: str) -> tuple[Any, Tensor, Any]:
    """A function of the members of one case, the members (1, M, D), and the same by Clarabel."""
    if kind in MATRICES:
        program, samples = random_scenario_program(generator, in_groups=kind == IN_GROUPS)

        def theirs(members: Tensor) -> Tensor:
            answer = whole_program(program.data(members), 0).clarabel(1e-13)
            return torch.from_numpy(answer.x[: program.parts])[None]

        return lambda members: program.solve(members, gradient=True).action, samples, theirs
    decision = random_decision(generator, kind, 1, degenerate=False)
    parts = decision.samples.shape[-1] * (2 if kind == "arbitrage" else 1)

    def of_decision(members: Tensor) -> Tensor:
        return torch.from_numpy(decision.at(members).program(0).clarabel(1e-13).x[:parts])[None]

    return (
        lambda members: optimal_action(decision.cost, members, weights=decision.weights),
        decision.samples,
        of_decision,
    )


def _checked(action: Any, samples: Tensor) -> bool:
    leaf = samples.clone().requires_grad_()
    step = STEP * float(samples.std(correction=0) + 0.1 * samples.abs().mean())
    return torch.autograd.gradcheck(
        action, (leaf,), eps=step, atol=1e-5, rtol=1e-3, fast_mode=True, raise_exception=False
    )


def merged(parts: list[Row]) -> Row:
    """The parts of one kind as one row."""
    row: Row = {}
    for part in parts:
        for name, value in part.items():
            if name.startswith("largest"):
                row[name] = max(row.get(name, 0.0), value)
            elif isinstance(value, Counter):
                row[name] = row.get(name, Counter()) + value
            else:
                row[name] = row.get(name, type(value)()) + value
    return row


def run(programs: int, of_gradients: int, jobs: int) -> Row:
    began, kinds = time.perf_counter(), (*MATRICES, *KINDS)
    tables: Row = {}
    for name, function, total, chunk in (
        ("objectives", compared, programs, CHUNK),
        ("gradients", gradients, of_gradients, 25),
    ):
        calls = {(kind, seed): (kind, min(chunk, total), seed) for seed in range(-(-total // chunk)) for kind in kinds}
        rows: dict[str, list[Row]] = {kind: [] for kind in kinds}
        with Progress() as progress:
            task = progress.add_task(name, total=len(calls))
            for (kind, _), row in called_for_each(function, calls, jobs):
                rows[kind].append(row)
                progress.advance(task)
        tables[name] = {kind: merged(parts) for kind, parts in rows.items()}
    return {
        "machine": f"{processor()}, torch {torch.__version__}",
        "seconds": round(time.perf_counter() - began),
    } | tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000, help="programs of each kind, in hundreds")
    parser.add_argument("--gradients", type=int, default=75, help="programs of each kind whose gradient is compared")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = run(given.programs, given.gradients, given.jobs)
    print(json.dumps(results, indent=1))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
