"""What was measured, as a part of a page: scores and costs of every problem and forecast."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from reproduction.publishing import interval_cell


def quality_markdown(quality: Mapping[str, Any]) -> str:
    """Every problem and forecast of forecast_quality.json, against ours: scores, costs and all else."""
    problems, ours = quality["problems"], quality["ours"]
    forecasts = list(dict.fromkeys(name for rows in problems.values() for name in rows))
    others = [name for name in forecasts if name != ours]

    def score(rows: Mapping[str, Any], name: str) -> str:
        ratio = f"{rows[name]['score'] / rows[ours]['score']:.3f}"
        return _marked(ratio, rows[name], "score")

    def cost(rows: Mapping[str, Any], name: str) -> str:
        return _marked(f"{rows[name]['cost']:.4g}", rows[name], "cost")

    parts = ["### Score divided by ours", _by_problem(problems, others, score)]
    parts += ["### Cost", _by_problem(problems, forecasts, cost)]
    of_ours: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "signed gap of the cost": lambda row: interval_cell(row["gap"], number=_plain_digits),
        "spread/error": lambda row: f"{row['spread']:.2f}",
        "seconds": lambda row: f"{row['seconds']:.3g}",
    }
    parts += [
        "### Calibration and time of ours",
        _by_problem(problems, [*of_ours], lambda rows, name: of_ours[name](rows[ours]), every=True),
    ]
    return "\n\n".join(parts) + "\n"


def _plain_digits(number: float) -> str:
    """With its sign, two significant digits and, from 100 on, three."""
    digits = 3 if abs(number) >= 100 else 2
    return np.format_float_positional(number, digits, unique=False, fractional=False, trim="-", sign=True)


def _by_problem(
    problems: Mapping[str, Mapping[str, Any]],
    columns: Sequence[str],
    cell: Callable[[Mapping[str, Any], str], str],
    every: bool = False,
) -> str:
    """A line for each problem; columns are forecasts, some of which a problem may lack, unless there is `every` one."""
    lines = [f"| problem | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for problem, rows in problems.items():
        cells = [cell(rows, name) if every or name in rows else "" for name in columns]
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _marked(text: str, row: Mapping[str, Any], metric: str) -> str:
    """Bold where significantly better than ours, a tilde where not to be told from it; by Holm's method if used."""
    if f"{metric} p" not in row:
        return text
    if row.get(f"{metric} p adjusted", row[f"{metric} p"]) >= 0.05:
        return f"{text} ~"
    return f"**{text}**" if row[f"{metric} less ours"][0] < 0 else text
