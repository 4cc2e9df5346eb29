"""What was measured, as a part of a page: one line a problem, then every forecast of each."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.forecast_quality.comparison import LEVEL

__all__ = ["own_ensemble_markdown"]

_OURS, _RAW = "stakes", "raw"


def own_ensemble_markdown(record: Mapping[str, Any]) -> str:
    """Two tables of own_ensemble.json: ours against raw and the cheapest rival, and every forecast."""
    problems = record["problems"]
    return "\n\n".join([_against(problems), _all(problems)]) + "\n"


def _against(problems: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        "| problem, cost | raw | cheapest rival | ours | candidate | ours less raw | ours less that rival |",
        "|---" * 7 + "|",
    ]
    for problem, rows in problems.items():
        ours = rows[_OURS]
        rival = min(
            (name for name in rows if not name.startswith(_OURS) and name != _RAW), key=lambda n: rows[n]["cost"]
        )
        cells = [
            problem,
            f"{rows[_RAW]['cost']:.4g}",
            f"{rows[rival]['cost']:.4g} ({rival})",
            f"{ours['cost']:.4g}",
            ours["candidate"],
            _from(rows[_RAW], "cost"),
            _from(rows[rival], "cost"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _all(problems: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["| problem, cost | forecast | cost | less ours | CRPS | less ours | CRPS of the total |", "|---" * 7 + "|"]
    for problem, rows in problems.items():
        for name, row in rows.items():
            cells = [problem, name, *(cell for metric in ("cost", "crps") for cell in _cells(row, metric))]
            cells.append(f"{row['total_crps']:.4g}" if row.get("crps") != row["total_crps"] else "")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(row: Mapping[str, Any], metric: str) -> tuple[str, str]:
    if metric not in row:
        return "", ""
    return f"{row[metric]:.4g}", _interval(row[f"{metric} less ours"], row, metric) if f"{metric} p" in row else ""


def _from(row: Mapping[str, Any], metric: str) -> str:
    mean, low, high = row[f"{metric} less ours"]
    return _interval((-mean, -high, -low), row, metric)


def _interval(values: Sequence[float], row: Mapping[str, Any], metric: str) -> str:
    """Bold where significant by Holm's method."""
    mean, low, high = values
    if low == high == 0:
        return "0"
    text = f"{mean:+.2g} [{low:+.2g}, {high:+.2g}]"
    return f"**{text}**" if row[f"{metric} p adjusted"] < LEVEL else text
