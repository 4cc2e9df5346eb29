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


def test_the_paper_alone_leaves_the_portfolios_as_they_are(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    row = {"study": "wind-implicit-main", "mean": 1.0}
    before = {"figures": {"portfolio_x": {"subject": "portfolio", "title": "", "caption": ""}}, "scores": [{"a": 1}]}
    for folder, own in ((source, {"figures": {}, "scores": []}), (target, before)):
        results = {"claims": {}, "rivals": [], "portfolios": own["scores"], **own}
        write_atomically(folder / "results.json", json.dumps(results).encode())
        study = row if folder == source else {**row, "study": "irish_wind-implicit-main"}
        pd.DataFrame([row, study]).to_parquet(folder / "summary.parquet")
    (source / "figures").mkdir()
    write_atomically(source / "figures" / "one.svg", b"<svg/>")
    for name in ("portfolio_x", "old"):
        write_atomically(target / "figures" / f"{name}.svg", b"<svg/>")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "write_pages", lambda *given: None)
        publish(source, target)
    assert json.loads((target / "results.json").read_text())["scores"] == [{"a": 1}]
    assert sorted(file.stem for file in (target / "figures").iterdir()) == ["one", "portfolio_x"]
    studies = pd.read_parquet(target / "summary.parquet")["study"].tolist()
    assert studies == [row["study"], row["study"], "irish_wind-implicit-main"]


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
