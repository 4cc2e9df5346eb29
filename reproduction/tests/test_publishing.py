import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_programs import EFFORT, small_plan, small_problem

from reproduction.programs.report import compared
from reproduction.programs.run import run_problem
from reproduction.publishing import (
    claims_markdown,
    figures_markdown,
    portfolios_markdown,
    programs_markdown,
    publish,
    scores_markdown,
)
from stakes.files import write_atomically

PAGES = Path(__file__).parents[1] / "pages"


def check(name: str, verdict: str, counts: bool = True, **others: Any) -> dict[str, Any]:
    values = {"effect": -1.5, "low": -2.0, "high": -1.0, "unit": "%", "paper": None}
    return {"check": name, "check_verdict": verdict, "counts": counts, **values, **others}


def judged(verdict: str, *checks: dict[str, Any], note: str = "") -> dict[str, Any]:
    return {"verdict": verdict, "checks": list(checks), "note": note}


def test_a_line_shows_what_decided() -> None:
    checks = [check("|first|", "holds"), check("second", "fails", paper=-11.0), check("beside", "fails", counts=False)]
    choices = {"main": judged("fails", *checks), "debiased": judged("open", note="too few")}
    lines = claims_markdown({"W1": {"statement": "It falls.", "choices": choices}}).splitlines()
    assert lines[2] == ("| W1 | It falls. | **fails** | second: -1.5 [-2, -1] % (paper -11) | debiased: open |")
    holding = claims_markdown({"W1": {"statement": "", "choices": {"main": judged("holds", checks[0])}}})
    assert "\\|first\\|: -1.5" in holding


def test_a_claim_that_was_not_judged_shows_why() -> None:
    table = claims_markdown({"S1": {"statement": "", "choices": {"main": judged("open", note="no study of it")}}})
    assert "no study of it" in table
    missing = check("it", "open", effect=None, low=None, high=None)
    assert "it: not measurable" in claims_markdown(
        {"S1": {"statement": "", "choices": {"main": judged("open", missing)}}}
    )


def test_portfolios_show_significant_changes_in_bold() -> None:
    row = {
        "portfolio": "simulated, 60 sites",
        "parameter": 20.0,
        "method": "implicit",
        "weight": 0.3,
        "chosen": True,
        "energy_score_change": [0.5, 0.4, 0.6],
        "cost_change": [-0.005, -0.01, 0.001],
        "regret_change": None,
        "gap_at_0": 0.026,
        "gap": [-0.008, -0.01, -0.006],
        "spread_at_0": 1.2,
        "spread": [None, None, None],
    }
    page = portfolios_markdown([row, {**row, "weight": 0.9, "chosen": False}]).splitlines()
    assert [line for line in page if line.startswith("#")] == [
        "## At the weight that validation data choose",
        "## Simulated, 60 sites, every weight",
    ]
    chosen, line, other = (line for line in page if line.startswith("| simulated"))
    assert chosen == line
    assert "| 0.9 |" in other
    assert "**+0.5 % [+0.4, +0.6]**" in line
    assert "| -0.005 [-0.01, +0.001] |" in line
    assert line.endswith("| 0.026 → -0.008 |  |")


def test_figures_stand_under_their_subject_with_their_captions() -> None:
    figures = {
        "frost_main": {"subject": "frost", "title": "Frost", "caption": "The action a* by weight."},
        "synthetic": {"subject": "synthetic", "title": "The task", "caption": "Its cost."},
    }
    page = figures_markdown(figures)
    assert page.index("## Synthetic task") < page.index("**The task.** Its cost.") < page.index("## Frost")
    assert "![Frost](figures/frost_main.svg)\n\n**Frost.** The action a\\* by weight." in page


def test_base_scores_show_the_score_alone_the_chosen_weight_and_a_tenth() -> None:
    row = {
        "portfolio": "irish_wind",
        "parameter": 20.0,
        "base": "pointwise",
        "method": "decision",
        "weight": 0.0,
        "chosen": False,
        "cost": -0.127,
        "cost_change": [0.0, 0.0, 0.0],
        "above_foresight_change": [0.0, 0.0, 0.0],
        "crps_of_sites_change": [0.0, 0.0, 0.0],
        "energy_score_change": [0.0, 0.0, 0.0],
        "gap_at_0": 0.006,
        "gap": [0.006, 0.001, 0.01],
        "spread_at_0": 1.09,
        "spread": [1.09, 1.0, 1.2],
        "less_shuffled": None,
        "less_total": [0.0026, -0.0007, 0.0059],
    }
    changed = {"cost": -0.13, "cost_change": [-0.003, -0.0057, -0.0004]}
    rows = [
        row,
        *({**row, **changed, "weight": weight, "chosen": weight == 0.3} for weight in (0.1, 0.3, 0.6)),
        {**row, "method": "total"},
        {**row, **changed, "method": "shuffled", "weight": None, "chosen": True, "base": "energy"},
    ]
    page = scores_markdown(rows).splitlines()
    assert [line for line in page if line.startswith("#")] == ["# Portfolios by base score", "## Irish wind"]
    alone, tenth, chosen, shuffled = (line for line in page if line.startswith("| 20"))
    assert alone.startswith("| 20 | point by point | nothing | 0 | -0.1270 | 0 | 0 |")
    assert tenth.startswith("| 20 | point by point | decision | 0.1 | -0.1300 | **-0.003 [-0.0057, -0.0004]** |")
    assert "| 0.3 (chosen) |" in chosen
    assert "| energy score | members shuffled by past errors, a rival |  |" in shuffled


def test_every_method_has_its_line(tmp_path: Path) -> None:
    about = compared(run_problem(small_plan(), small_problem(), tmp_path, EFFORT))
    page = programs_markdown({"small": about})
    assert "## A small schedule" in page
    assert "![A small schedule](figures/small.svg)" in page
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in page.splitlines() if line.startswith("| ")}
    assert "the reference" in lines["moved a little"]
    assert "near: 2" in page
    cells = lines["what happens"].split(" | ")
    assert float(cells[1]) == pytest.approx(about["foresight_cost"], rel=1e-3)


def test_figures_of_programs_are_replaced(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_atomically(source / "results.json", b'{"problems": {}}')
    write_atomically(source / "figures" / "one.svg", b"<svg/>")
    write_atomically(target / "figures" / "old.svg", b"<svg/>")
    publish(source, target)
    assert [file.name for file in (target / "figures").iterdir()] == ["one.svg"]
    assert (target / "tables.md").read_text().startswith("# Decisions with many parts")


def test_the_published_reproduction_is_what_its_results_say() -> None:
    folder = PAGES
    results = json.loads((folder / "results.json").read_text())
    assert (folder / "claims.md").read_text() == claims_markdown(results["claims"])
    assert (folder / "portfolios.md").read_text() == portfolios_markdown(results["portfolios"])
    assert (folder / "base_scores.md").read_text() == scores_markdown(results["scores"])
    assert (folder / "figures.md").read_text() == figures_markdown(results["figures"])
    for label in results["figures"]:
        assert (folder / "figures" / f"{label}.svg").exists()


def test_the_figures_page_shows_every_figure() -> None:
    shown = re.findall(r"\]\((figures/\w+\.svg)\)", (PAGES / "figures.md").read_text())
    assert sorted(shown) == sorted(f"figures/{path.name}" for path in PAGES.glob("figures/*.svg"))
