"""Vector decisions on real records, made, judged, drawn and reported."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reproduction.programs.problem import QUICK, WHOLE, Plan, Problem
from reproduction.programs.report import build_programs_report, compared, problem_figure
from reproduction.programs.run import run_problem
from stakes.errors import SettingError, TableError, did_you_mean
from stakes.files import write_atomically
from stakes.reports.page import write_report
from stakes.training.progress import StatusLines


def all_plans() -> tuple[Plan, ...]:
    """The plans in the order of the report."""
    from reproduction.programs.bakery import BAKERY_PLANS  # each imports its readers, which only this needs
    from reproduction.programs.battery import BATTERY_PLANS
    from reproduction.programs.generation import GENERATION_PLANS
    from reproduction.programs.market_battery import MARKET_PLANS
    from reproduction.programs.wind_battery import WIND_PLANS

    return (*GENERATION_PLANS, *BATTERY_PLANS, *MARKET_PLANS, *WIND_PLANS, *BAKERY_PLANS)


REDUCED_PROGRAMS = f"{QUICK.seeds} seeds, {QUICK.epochs} epochs and {QUICK.members} members instead of whole trainings"
"""In what respect a quick run is smaller."""


def reproduce_programs(
    out: Path,
    quick: bool,
    tables: str | None,
    figure: str | None,
    processes: int,
    say: StatusLines,
    provenance: dict[str, str],
) -> Path:
    """All problems whose data are there; returns the path of the report, or of the only figure that is wanted."""
    effort = QUICK if quick else WHOLE
    there, notes = _with_data(_wanted(figure), tables)
    if not there:
        raise SettingError(" ".join(notes))
    for note in notes:
        say(note)
    problems: dict[str, dict[str, Any]] = {}
    for plan, problem in there:
        problems[problem.name] = compared(run_problem(plan, problem, out, effort, processes, say))
    say("drawing")
    figures = {name: problem_figure(name, about) for name, about in problems.items()}
    for name, drawn in figures.items():
        write_atomically(out / "figures" / f"{name}.svg", drawn.drawings[0].encode())
    if figure is not None:
        return out / "figures" / f"{figure}.svg"
    reduced = REDUCED_PROGRAMS if quick else None
    sources = dict.fromkeys(problem.attribution for _, problem in there if problem.attribution)
    told = {**provenance, "data": " ".join(sources)}
    record = {"reduced": reduced, "problems": problems, "notes": notes, "provenance": told}
    write_atomically(out / "results.json", (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    write_report(build_programs_report(problems, figures, reduced, notes, told), out / "report.html")
    return out / "report.html"


def _wanted(name: str | None) -> Sequence[Plan]:
    """All plans, or the one of this name."""
    plans = {plan.name: plan for plan in all_plans()}
    if name is None:
        return tuple(plans.values())
    if name not in plans:
        raise SettingError(f"there is no figure {name!r}; {did_you_mean(name, tuple(plans))}")
    return (plans[name],)


def _with_data(plans: Sequence[Plan], tables: str | None) -> tuple[list[tuple[Plan, Problem]], list[str]]:
    """The problems whose tables are there; others are left out with a note."""
    there, notes = [], []
    for plan in plans:
        try:
            there.append((plan, plan.load(tables)))
        except TableError as error:
            notes.append(f"{plan.name} was left out: {error}.")
    return there, notes
