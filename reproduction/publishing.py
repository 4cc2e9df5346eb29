"""Put a reproduction into the documentation, in compact form.

    python -m reproduction.publishing FOLDER reproduction/pages

Copies results.json, summary.parquet and the figures of a folder that `python -m reproduction` wrote, and writes
claims.md, figures.md, portfolios.md and base_scores.md from the results and the table of claims into README.md, or, for
`python -m reproduction programs`, tables.md. What was published of studies that the folder does not have stays. The
report itself and the models stay where they are.
"""

import argparse
import json
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from reproduction.claims.judging import all_claims
from reproduction.plan import BASES, CHOICES, METHODS, SUBJECTS
from stakes.text import number_text, signed_interval_text


def publish(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    results = json.loads((source / "results.json").read_text())
    if "problems" in results:
        _replace_figures(source, target, set())
        shutil.copyfile(source / "results.json", target / "results.json")
        (target / "tables.md").write_text(programs_markdown(results["problems"]))
        return
    if (target / "results.json").exists():
        results = merged(results, json.loads((target / "results.json").read_text()))
    results["notes"] = [note.replace(str(Path.cwd()), ".") for note in results["notes"]]  # of no one's machine
    _publish_summary(source, target)
    (target / "results.json").write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    _replace_figures(source, target, set(results["figures"]))
    write_pages(results, target)


def write_pages(results: Mapping[str, Any], target: Path) -> None:
    """The pages that follow from the results; of the README the table of claims."""
    (target / "claims.md").write_text(claims_markdown(results["claims"], results["rivals"]))
    (target / "figures.md").write_text(figures_markdown(results["figures"]))
    (target / "portfolios.md").write_text(portfolios_markdown(results["portfolios"]))
    (target / "base_scores.md").write_text(scores_markdown(results["scores"]))
    page = target / "README.md"
    if page.exists():
        page.write_text(with_table(page.read_text(), results["claims"]))


def merged(results: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """What a reproduction judged, and of all studies that it did not have what was published of them."""
    own = set(_studies_of(results))
    published = [name for name in _studies_of(before) if name not in own]
    rows = [row for row in before["rivals"] if (row["task"], row["choice"], row["model"]) not in _methods(results)]
    unsaid = tuple(f"{name} was not run" for name in published)
    return results | {
        "claims": _merged_claims(results["claims"], before["claims"]),
        "rivals": sorted([*results["rivals"], *rows], key=lambda row: SUBJECTS.index(row["task"])),
        "untrained": {name: count for name, count in before["untrained"].items() if name not in own}
        | results["untrained"],
        "portfolios": results["portfolios"] or before["portfolios"],
        "scores": results["scores"] or before["scores"],
        "figures": before["figures"] | results["figures"],
        "notes": [note for note in results["notes"] if not note.startswith(unsaid)] if published else results["notes"],
        "provenance": results["provenance"]
        | {"studies": ", ".join(sorted([*own, *published])), "of an earlier run": ", ".join(published) or "none"},
    }


def _studies_of(results: Mapping[str, Any]) -> list[str]:
    return [name for name in results["provenance"]["studies"].split(", ") if name]


def _methods(results: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    return {(row["task"], row["choice"], row["model"]) for row in results["rivals"]}


def _merged_claims(claims: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Every claim under each choice that either has judged; the choice that counts most comes first."""
    found = {}
    for claim in all_claims():
        judged = [each[claim.identifier] for each in (before, claims) if claim.identifier in each]
        if not judged:
            continue
        choices: dict[str, Any] = {}
        for choice, record in (item for each in judged for item in each["choices"].items() if item[1]["checks"]):
            choices[choice] = _joined(choices[choice], record) if claim.partial and choice in choices else record
        ordered = {choice: choices[choice] for choice in claim.choices if choice in choices}
        found[claim.identifier] = judged[-1] | {"choices": ordered or judged[-1]["choices"]}
    return found


def _joined(before: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """The checks of both, of a claim that is judged on the studies that there are; those of the same name once."""
    checks = {check["check"]: check for check in (*before["checks"], *record["checks"])}
    verdicts = {check["check_verdict"] for check in checks.values() if check["counts"]}
    verdict = "fails" if "fails" in verdicts else "holds" if verdicts == {"holds"} and not record["note"] else "open"
    return {**record, "verdict": verdict, "checks": list(checks.values())}


def _publish_summary(source: Path, target: Path) -> None:
    summary, published = pd.read_parquet(source / "summary.parquet"), target / "summary.parquet"
    if published.exists():
        before = pd.read_parquet(published)
        summary = pd.concat([summary, before[~before["study"].isin(summary["study"])]], ignore_index=True)
    summary.to_parquet(published, compression="zstd")


def _replace_figures(source: Path, target: Path, kept: set[str]) -> None:
    """The figures of the source, and of those that were there the ones that are kept."""
    folder = target / "figures"
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if file.stem not in kept:
            file.unlink()
    for file in (source / "figures").iterdir():
        shutil.copyfile(file, folder / file.name)


_START, _END = "<!-- table of claims, written by reproduction.publishing -->", "<!-- end of the table -->"


def with_table(page: str, claims: Mapping[str, Any]) -> str:
    """The page with its table of claims written anew; what is said of each is in claims/sentences.toml."""
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    return f"{before}{_START}\n\n{claims_table(claims)}\n{_END}{after}"


def claims_table(claims: Mapping[str, Any]) -> str:
    """One line a claim: its verdict, the effect that decided it, one sentence, and what changed."""
    said = tomllib.loads((Path(__file__).parent / "claims" / "sentences.toml").read_text())
    heads = ["", "verdict", "decided by", "in one sentence", "since the last edition, and why"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name, claim in claims.items():
        first, *_ = claim["choices"].values()
        words = said[name]
        cells = [name, f"**{first['verdict']}**", _decisive(first["checks"]) or first["note"]]
        lines.append(f"| {' | '.join([*cells, words['says'], words['changed']])} |")
    return "\n".join(lines) + "\n"


def claims_markdown(claims: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]] = ()) -> str:
    """Every claim with all its effects under every choice, and the rivals."""
    parts = [
        "# Every claim, with all its effects",
        "Generated by `python -m reproduction.publishing` from `results.json`. An effect marked with · stands beside "
        "the claim and has no say in its verdict; intervals are those of 95 %.",
    ]
    for name, claim in claims.items():
        parts += [f"## {name}", f"**{claim['statement']}** {claim['how']}"]
        for choice, judged in claim["choices"].items():
            title = CHOICES[choice][0]
            lines = [f"{'' if check['counts'] else '· '}{_shown(check)}" for check in judged["checks"]]
            note = [judged["note"]] if judged["note"] else []
            parts += [f"*{title}*: **{judged['verdict']}**", "\n".join(f"- {line}" for line in [*lines, *note])]
    if rivals:
        parts += ["## Rivals and other readings", _RIVALS, _rivals_lines(rivals)]
    return "\n\n".join(part for part in parts if part) + "\n"


_RIVALS = (
    "Each against weight 0 of the paper's settings on the same test cases, paired; of one data seed and three seeds "
    "where no more were trained. The synthetic task with the diffusion model; wind (λ = 5), frost (α = 0.5) with the "
    "implicit one where nothing else is said. Bold where zero is left out. † Without the runs that kept epoch 0, which "
    "contain no decision training."
)


def _rivals_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = ["task", "method", "weight", "cost", "change of cost", "above foresight", "CRPS", "signed gap"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        cost, regret, score, gap = (row[name] for name in ("cost", "foresight_regret", "energy_score", "gap"))
        changes = (_change_cell(cost), _change_cell(regret, " %"), _change_cell(score, " %"), _change_cell(gap))
        mean = "" if cost is None or cost[0] is None else f"{cost[0]:.4f}"
        weight = f"{row['weight']:g}" + ("†" if row.get("untrained") else "")
        lines.append(f"| {' | '.join([row['task'], row['method'], weight, mean, *changes])} |")
    return "\n".join(lines)


def _change_cell(values: Sequence[float] | None, unit: str = "") -> str:
    return "" if values is None else interval_cell(values[1:], unit)


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


def _short(number: float) -> str:
    return f"{number:+.2g}"


def interval_cell(value: Sequence[float] | None, unit: str = "", number: Callable[[float], str] = _short) -> str:
    """Bold where zero is left out."""
    if value is None or None in value:
        return ""
    mean, low, high = value
    if mean == low == high == 0:
        return "0"
    text = f"{number(mean)}{unit} [{number(low)}, {number(high)}]"
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
