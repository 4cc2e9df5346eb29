import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_programs import EFFORT, small_plan, small_problem

from reproduction import publishing
from reproduction.programs.report import compared
from reproduction.programs.run import run_problem
from reproduction.publishing import (
    claims_markdown,
    figures_markdown,
    portfolios_markdown,
    programs_markdown,
    publish,
    scores_markdown,
    with_table,
)
from stakes.files import write_atomically

PAGES = Path(__file__).parents[1] / "pages"


def check(name: str, verdict: str, counts: bool = True, **others: Any) -> dict[str, Any]:
    values = {"effect": -1.5, "low": -2.0, "high": -1.0, "unit": "%", "paper": None}
    return {"check": name, "check_verdict": verdict, "counts": counts, **values, **others}


def judged(verdict: str, *checks: dict[str, Any], note: str = "") -> dict[str, Any]:
    return {"verdict": verdict, "checks": list(checks), "note": note}


def test_a_claim_that_was_not_judged_shows_why() -> None:
    table = claims_markdown(
        {"S1": {"statement": "", "how": "", "choices": {"main": judged("open", note="no study of it")}}}
    )
    assert "no study of it" in table
    missing = check("it", "open", effect=None, low=None, high=None)
    claims = {"S1": {"statement": "", "how": "", "choices": {"main": judged("open", missing)}}}
    assert "it: not measurable" in claims_markdown(claims)


def written(folder: Path, studies: str, figure: str, **own: Any) -> None:
    """What a reproduction of these studies writes."""
    results = {"claims": {}, "rivals": [], "untrained": {}, "notes": [], "portfolios": [], "scores": []}
    figures = {figure: {"subject": "wind", "title": "", "caption": ""}}
    about = {"figures": figures, "provenance": {"studies": studies}}
    write_atomically(folder / "results.json", json.dumps({**results, **about, **own}).encode())
    pd.DataFrame({"study": studies.split(", ")}).to_parquet(folder / "summary.parquet")
    write_atomically(folder / "figures" / f"{figure}.svg", b"<svg/>")


def test_what_a_folder_does_not_have_stays_published(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    wind, frost = "wind-implicit-main", "frost-implicit-main"
    old, new = check("old", "open"), check("new", "holds")
    before = {
        "W1": {"choices": {"rolling": judged("open", old), "main": judged("open", old)}},
        "W4": {"choices": {"main": judged("open", old)}},
        "T1": {"choices": {"main": judged("fails", check("frost", "fails"), check("wind", "fails"))}},
    }
    now = {
        "W1": {"choices": {"main": judged("holds", new), "debiased": judged("holds", new)}},
        "W4": {"choices": {"main": judged("open", note="no study")}},
        "T1": {"choices": {"main": judged("holds", check("wind", "holds"))}},
    }
    rows = [{"task": "wind", "choice": "rolling", "model": "implicit"}]
    written(target, f"{frost}, wind-implicit-rolling", "one", claims=before, scores=[{"a": 1}], rivals=rows)
    notes = [f"{frost} was not run: so.", "wind-diffusion-main was not run: so."]
    written(source, wind, "two", claims=now, notes=notes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "write_pages", lambda *given: None)
        publish(source, target)
    results = json.loads((target / "results.json").read_text())
    assert (results["scores"], results["rivals"], results["notes"]) == ([{"a": 1}], rows, notes[1:])
    shown = {
        name: [(choice, each["checks"][0]["check"]) for choice, each in claim["choices"].items()]
        for name, claim in results["claims"].items()
    }
    assert shown["W1"] == [("rolling", "old"), ("main", "new"), ("debiased", "new")]
    assert shown["W4"] == [("main", "old")]
    partial = results["claims"]["T1"]["choices"]["main"]
    assert [each["check_verdict"] for each in partial["checks"]] == ["fails", "holds"]
    assert partial["verdict"] == "fails"
    assert sorted(file.stem for file in (target / "figures").iterdir()) == ["one", "two"]
    assert sorted(pd.read_parquet(target / "summary.parquet")["study"]) == [frost, wind, "wind-implicit-rolling"]
    assert results["provenance"]["of an earlier run"] == f"{frost}, wind-implicit-rolling"


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
    assert (folder / "claims.md").read_text() == claims_markdown(results["claims"], results["rivals"])
    page = (folder / "README.md").read_text()
    assert page == with_table(page, results["claims"])
    assert all(f"| {name} | **" in page for name in results["claims"])
    assert len(page.split()) <= 2500, "a page that a reader finishes"
    assert (folder / "portfolios.md").read_text() == portfolios_markdown(results["portfolios"])
    assert (folder / "base_scores.md").read_text() == scores_markdown(results["scores"])
    assert (folder / "figures.md").read_text() == figures_markdown(results["figures"])
    for label in results["figures"]:
        assert (folder / "figures" / f"{label}.svg").exists()


def test_the_figures_page_shows_every_figure() -> None:
    shown = re.findall(r"\]\((figures/\w+\.svg)\)", (PAGES / "figures.md").read_text())
    assert sorted(shown) == sorted(f"figures/{path.name}" for path in PAGES.glob("figures/*.svg"))
