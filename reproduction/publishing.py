"""Put a reproduction into the documentation, in compact form.

    python -m reproduction.publishing FOLDER reproduction/pages

Copies results.json, summary.parquet and the figures of a folder that `python -m reproduction` wrote, and writes
claims.md, figures.md, portfolios.md and base_scores.md from the results, or, for `python -m reproduction programs`,
tables.md. The report itself and the models stay where they are.
"""

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reproduction.plan import BASES, METHODS
from stakes.text import number_text, signed_interval_text


def publish(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    results = json.loads((source / "results.json").read_text())
    shutil.copyfile(source / "results.json", target / "results.json")
    shutil.rmtree(target / "figures", ignore_errors=True)
    shutil.copytree(source / "figures", target / "figures")
    if "problems" in results:
        (target / "tables.md").write_text(programs_markdown(results["problems"]))
        return
    shutil.copyfile(source / "summary.parquet", target / "summary.parquet")
    (target / "claims.md").write_text(claims_markdown(results["claims"]))
    (target / "figures.md").write_text(figures_markdown(results["figures"]))
    if results["portfolios"]:
        (target / "portfolios.md").write_text(portfolios_markdown(results["portfolios"]))
    if results["scores"]:
        (target / "base_scores.md").write_text(scores_markdown(results["scores"]))


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
            interval_cell(row["energy_score_change"], " %"),
            interval_cell(row["cost_change"]),
            interval_cell(row["regret_change"], " %"),
            _from_to(row["gap_at_0"], row["gap"]),
            _from_to(row["spread_at_0"], row["spread"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


_SCORE_HEADS = (
    *("penalty", "trained on", "added", "weight", "cost", "change of the cost", "above foresight"),
    *("CRPS of the sites", "energy score", "signed gap", "spread", "less the shuffled", "less the total"),
)
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
        interval_cell(row["cost_change"]),
        interval_cell(row["above_foresight_change"], " %"),
        interval_cell(row["crps_of_sites_change"], " %"),
        interval_cell(row["energy_score_change"], " %"),
        _from_to(row["gap_at_0"], row["gap"]),
        _from_to(row["spread_at_0"], row["spread"]),
        interval_cell(row["less_shuffled"]),
        interval_cell(row["less_total"]),
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


def interval_cell(value: Sequence[float] | None, unit: str = "") -> str:
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


def programs_markdown(problems: Mapping[str, Mapping[str, Any]]) -> str:
    """Every problem of vector actions: what was decided, each method, and methods side by side."""
    parts = ["# Decisions with many parts, every method"]
    for name, about in problems.items():
        cases, foresight = about["cases"], number_text(about["foresight_cost"])
        counts = ", ".join(f"{count:,} {part} cases" for part, count in cases.items())
        told = f"{about['text']} {counts}, {about['seeds']} seeds. Perfect foresight costs {foresight}."
        parts += [f"## {about['title']}", told, f"![{about['title']}](figures/{name}.svg)", _program_methods(about)]
        if about["pairs"]:
            parts.append(_program_pairs(about))
    parts.append(
        "Means over test cases and seeds; differences have paired 95 % intervals, bold where zero is left out."
    )
    return "\n\n".join(parts) + "\n"


def _program_methods(about: Mapping[str, Any]) -> str:
    measures = about["measures"]
    heads = ["method", "cost", "less the reference", "in %", *(each.replace("_", " ") for each in measures)]
    heads += ["energy score", "signed gap", "taken"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in about["methods"]:
        reference = row["name"] == about["reference"]
        cells = [
            row["title"],
            number_text(row["cost"]),
            "the reference" if reference else _change(row["less_reference"], row["cost"]),
            "" if reference else _change(row["change_in_percent"], 100.0),
            *(_number(row[each]) for each in measures),
            _number(row["energy_score"]),
            _change(row["gap"], row["cost"]),
            ", ".join(f"{each}: {count}" for each, count in row["taken"].items() if count)
            if len(row["taken"]) > 1
            else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _program_pairs(about: Mapping[str, Any]) -> str:
    rows = {row["name"]: row for row in about["methods"]}
    lines = ["| method | less | difference of the cost |", "|---|---|---|"]
    for each in about["pairs"]:
        one, other = rows[each["method"]], rows[each["less"]]
        lines.append(f"| {one['title']} | {other['title']} | {_change(each['cost'], one['cost'])} |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value)


def _change(interval: Sequence[float] | None, of: float) -> str:
    """A change of some number: bold where zero is left out, and more than noise is left."""
    if interval is None:
        return ""
    mean, low, high = interval
    text = signed_interval_text((mean, low, high), beside=[of])
    return f"**{text}**" if (low > 0 or high < 0) and any(digit in text for digit in "123456789") else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder of the reproduction")
    parser.add_argument("target", type=Path, help="folder in the documentation")
    chosen = parser.parse_args()
    publish(chosen.source, chosen.target)


if __name__ == "__main__":
    main()
