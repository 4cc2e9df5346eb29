"""What was measured as pages of a documentation: claims, portfolios and figures of a results.json; forecasts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reproduction.plan import BASES, METHODS

__all__ = ["claims_markdown", "figures_markdown", "portfolios_markdown", "quality_markdown", "scores_markdown"]


def claims_markdown(claims: Mapping[str, Any]) -> str:
    """One line per claim: what the paper says, the verdict under the main settings and under others, and what decided.

    What decided is the first check that fails, or that is open, or the first of all where the claim holds.
    """
    lines = ["| | the paper says | verdict | measured | under other choices |", "|---|---|---|---|---|"]
    for name, claim in claims.items():
        main, *_ = claim["choices"].values()
        others = [f"{choice}: {judged['verdict']}" for choice, judged in list(claim["choices"].items())[1:]]
        measured = _decisive(main["checks"]) or main["note"]
        cells = [name, claim["statement"], f"**{main['verdict']}**", measured, ", ".join(others)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _decisive(checks: Sequence[Mapping[str, Any]]) -> str:
    counting = [check for check in checks if check["counts"]]
    ordered = sorted(counting, key=lambda check: ("fails", "open", "holds").index(check["check_verdict"]))
    return _shown(ordered[0]) if ordered else ""


def _shown(check: Mapping[str, Any]) -> str:
    if check["effect"] is None:
        return f"{check['check']}: not measurable"
    numbers = f"{check['effect']:+.3g} [{check['low']:+.3g}, {check['high']:+.3g}]"
    paper = "" if check["paper"] is None else f" (paper {check['paper']:+.3g})"
    return f"{check['check']}: {numbers} {check['unit']}".rstrip().replace("|", "\\|") + paper


_HEADS = ("portfolio", "penalty", "method", "weight", "energy score", "cost", "regret", "signed gap", "spread")


def portfolios_markdown(portfolios: Sequence[Mapping[str, Any]]) -> str:
    """Every portfolio and method at the weight that validation data chose, then at every weight; against weight 0."""
    parts = ["## At the weight that validation data choose", _portfolio_lines([r for r in portfolios if r["chosen"]])]
    forecasts = [row for row in portfolios if row["weight"] is not None]
    for place in dict.fromkeys(row["portfolio"] for row in forecasts):
        parts += [f"## {place[0].upper()}{place[1:]}, every weight"]
        parts += [_portfolio_lines([row for row in forecasts if row["portfolio"] == place])]
    return "\n\n".join(parts) + "\n"


def _portfolio_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"| {' | '.join(_HEADS)} |", "|" + "---|" * len(_HEADS)]
    for row in rows:
        cells = [
            row["portfolio"],
            f"{row['parameter']:g}",
            row["method"],
            "" if row["weight"] is None else f"{row['weight']:g}",
            _interval(row["energy_score_change"], " %"),
            _interval(row["cost_change"]),
            _interval(row["regret_change"], " %"),
            _from_to(row["gap_at_0"], row["gap"]),
            _from_to(row["spread_at_0"], row["spread"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


_SCORE_HEADS = ("penalty", "trained on", "added", "weight", "cost", "change of the cost", "above foresight")
_SCORE_HEADS += ("CRPS of the sites", "energy score", "signed gap", "spread", "less the shuffled", "less the total")
_ADDED = {name: title for name, (title, _) in METHODS.items()} | {"policy": "direct policy a(x), no forecast"}
_SHOWN_WEIGHT = 0.1


def scores_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every record and base: its score alone, then what is added, at the chosen weight and at 0.1."""
    parts = ["# Portfolios by base score"]
    for place in dict.fromkeys(row["portfolio"] for row in rows):
        lines = [f"| {' | '.join(_SCORE_HEADS)} |", "|" + "---|" * len(_SCORE_HEADS)]
        ordered = sorted(
            (row for row in rows if row["portfolio"] == place and _shown_score(row)),
            key=lambda row: (row["parameter"], list(BASES).index(row["base"])),
        )
        parts += [
            f"## {place[0].upper()}{place[1:].replace('_', ' ')}",
            "\n".join([*lines, *map(_score_line, ordered)]),
        ]
    return "\n\n".join(parts) + "\n"


def _shown_score(row: Mapping[str, Any]) -> bool:
    if row["weight"] == 0:
        return bool(row["method"] == "decision")
    return bool(row["chosen"]) or row["weight"] == _SHOWN_WEIGHT


def _score_line(row: Mapping[str, Any]) -> str:
    weight = "" if row["weight"] is None else f"{row['weight']:g}{' (chosen)' if row['chosen'] else ''}"
    cells = [
        f"{row['parameter']:g}",
        BASES[row["base"]][0],
        "nothing" if row["weight"] == 0 else _ADDED[row["method"]],
        weight,
        f"{row['cost']:.4f}",
        _interval(row["cost_change"]),
        _interval(row["above_foresight_change"], " %"),
        _interval(row["crps_of_sites_change"], " %"),
        _interval(row["energy_score_change"], " %"),
        _from_to(row["gap_at_0"], row["gap"]),
        _from_to(row["spread_at_0"], row["spread"]),
        _interval(row["less_shuffled"]),
        _interval(row["less_total"]),
    ]
    return f"| {' | '.join(cells)} |"


_SUBJECTS = {
    "method": "The method",
    "synthetic": "Synthetic task",
    "wind": "Wind power",
    "frost": "Frost",
    "portfolio": "Portfolios",
}


def figures_markdown(figures: Mapping[str, Mapping[str, str]]) -> str:
    """Every figure with its caption, by subject."""
    parts = [
        "# Figures",
        "Drawn by `python -m reproduction`; a label is that of the paper, but for the portfolios, which the paper does "
        "not have. The settings of each are in the `report.html` that the command writes.",
    ]
    for subject, title in _SUBJECTS.items():
        shown = {label: figure for label, figure in figures.items() if figure["subject"] == subject}
        if shown:
            parts.append(f"## {title}")
        for label, figure in shown.items():
            caption = figure["caption"].replace("*", "\\*")
            parts += [f"`{label}`", f"![{figure['title']}](figures/{label}.svg)", f"**{figure['title']}.** {caption}"]
    return "\n\n".join(parts) + "\n"


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

    parts = ["### Score over ours", _by_problem(problems, others, score)]
    parts += ["### Cost", _by_problem(problems, forecasts, cost)]
    parts += [
        "### Signed gap of the cost",
        _by_problem(problems, forecasts, lambda rows, name: _interval(rows[name]["gap"])),
    ]
    parts += [
        "### Spread over error",
        _by_problem(problems, forecasts, lambda rows, name: f"{rows[name]['spread']:.2f}"),
    ]
    parts += ["### Seconds", _by_problem(problems, forecasts, lambda rows, name: f"{rows[name]['seconds']:.3g}")]
    return "\n\n".join(parts) + "\n"


def _by_problem(
    problems: Mapping[str, Mapping[str, Any]], forecasts: Sequence[str], cell: Callable[[Mapping[str, Any], str], str]
) -> str:
    lines = [f"| problem | {' | '.join(forecasts)} |", "|---" * (1 + len(forecasts)) + "|"]
    for problem, rows in problems.items():
        cells = [cell(rows, name) if name in rows else "" for name in forecasts]
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _marked(text: str, row: Mapping[str, Any], metric: str) -> str:
    """Bold where significantly better than ours, a tilde where not to be told from it; by Holm's method if used."""
    if f"{metric} p" not in row:
        return text
    if row.get(f"{metric} p adjusted", row[f"{metric} p"]) >= 0.05:
        return f"{text} ~"
    return f"**{text}**" if row[f"{metric} less ours"][0] < 0 else text


def _interval(value: Sequence[float] | None, unit: str = "") -> str:
    """Bold where zero is left out."""
    if value is None or None in value:
        return ""
    mean, low, high = value
    if mean == low == high == 0:
        return "0"
    text = f"{mean:+.2g}{unit} [{low:+.2g}, {high:+.2g}]"
    return f"**{text}**" if low > 0 or high < 0 else text


def _from_to(before: float | None, after: Sequence[float] | None) -> str:
    return "" if before is None or after is None or after[0] is None else f"{before:.3g} → {after[0]:.3g}"
