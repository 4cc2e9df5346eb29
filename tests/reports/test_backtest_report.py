from typing import Any

import pandas as pd

from stakes.reports.backtest_report import build_backtest_report
from stakes.reports.page import Report, render

RIVALS = {"weight_0": "weight 0", "climatology": "the best constant action", "today": "today"}


def row(name: str, weight: float, change: float, fitted: float | None) -> dict[str, Any]:
    facts = {"origin": name, "first": "2021-01-01", "last": "2021-02-01", "fitted_cases": fitted, "cases": 20}
    changes = {"weight_0": (0.0, 0.0, 0.0), "climatology": (change, change - 1, change + 1)}
    columns = {
        f"{rival}_{part}": value
        for rival, values in changes.items()
        for part, value in zip(("change", "low", "high"), values, strict=True)
    }
    known = {"weight_0_cases": 20, "climatology_cases": 20, "today_cases": 0}
    return {**facts, "decision_weight": weight, "cost": 2.5, **columns, **known}


def report() -> Report:
    rows = [row("1", 0.0, -3.0, 100.0), row("2", 0.3, 0.5, 120.0), row("all", float("nan"), -1.2, None)]
    return build_backtest_report(pd.DataFrame(rows), ("It <pays>.",), RIVALS, "EUR", {"seed": 3}, {"stakes": "0"})


def test_what_the_page_tells() -> None:
    page = render(report())
    for words in ("Fitted 2 times, and judged on 20 cases", "It &lt;pays&gt;.", "-3 [-4, -2]", "varies"):
        assert words in page


def test_rivals_that_are_unknown_or_the_same_are_not_drawn() -> None:
    section, _ = report().sections
    assert len(section.figures) == 1
    assert section.figures[0].names == ["changes"]  # one panel, against the best constant action
    names = [column.name for column in section.tables[0].columns]
    assert names[-2:] == ["change against weight 0", "change against the best constant action"]
