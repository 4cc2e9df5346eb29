"""Put a reproduction of the decisions with many parts into the documentation, in compact form.

    python -m benchmarks.publish_programs FOLDER reproduction/pages/programs

Copies results.json and the figures of a folder that `python -m reproduction programs` wrote, and writes tables.md
from the results; the report itself and what was kept of each computation stay where they are.
"""

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stakes.text import number_text, signed_interval_text

__all__ = ["programs_markdown", "publish_programs"]


def publish_programs(source: Path, target: Path) -> None:
    """Copy and write.

    Args:
        source: The folder of the reproduction.
        target: The folder in the documentation.
    """
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "results.json", target / "results.json")
    shutil.rmtree(target / "figures", ignore_errors=True)
    shutil.copytree(source / "figures", target / "figures")
    results = json.loads((source / "results.json").read_text())
    (target / "tables.md").write_text(programs_markdown(results["problems"]))


def programs_markdown(problems: Mapping[str, Mapping[str, Any]]) -> str:
    """Every problem: what was decided, each method, and methods side by side.

    Args:
        problems: `problems` of a results.json.
    """
    parts = ["# Decisions with many parts, every method"]
    for name, about in problems.items():
        cases, foresight = about["cases"], number_text(about["foresight_cost"])
        counts = ", ".join(f"{count:,} {part} cases" for part, count in cases.items())
        told = f"{about['text']} {counts}, {about['seeds']} seeds. Perfect foresight costs {foresight}."
        parts += [f"## {about['title']}", told, f"![{about['title']}](figures/{name}.svg)", _methods(about)]
        if about["pairs"]:
            parts.append(_pairs(about))
    parts.append(
        "Means over test cases and seeds; differences have paired 95 % intervals, bold where zero is left out."
    )
    return "\n\n".join(parts) + "\n"


def _methods(about: Mapping[str, Any]) -> str:
    measures = about["measures"]
    heads = ["method", "cost", "less the reference", "in %", *(each.replace("_", " ") for each in measures)]
    heads += ["energy score", "signed gap", "taken"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in about["methods"]:
        reference = row["name"] == about["reference"]
        cells = [
            row["title"],
            number_text(row["cost"]),
            "the reference" if reference else _interval(row["less_reference"], row["cost"]),
            "" if reference else _interval(row["change_in_percent"], 100.0),
            *(_number(row[each]) for each in measures),
            _number(row["energy_score"]),
            _interval(row["gap"], row["cost"]),
            ", ".join(f"{each}: {count}" for each, count in row["taken"].items() if count)
            if len(row["taken"]) > 1
            else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _pairs(about: Mapping[str, Any]) -> str:
    rows = {row["name"]: row for row in about["methods"]}
    lines = ["| method | less | difference of the cost |", "|---|---|---|"]
    for each in about["pairs"]:
        one, other = rows[each["method"]], rows[each["less"]]
        lines.append(f"| {one['title']} | {other['title']} | {_interval(each['cost'], one['cost'])} |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value)


def _interval(interval: Sequence[float] | None, of: float) -> str:
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
    publish_programs(chosen.source, chosen.target)


if __name__ == "__main__":
    main()
