"""The page of a fit, a recalibration and a backtest: its sections, what stands in them, and its sentences."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from invented_fits import SPEC, changed, invented_about, invented_cases, invented_fit
from invented_recalibrations import invented_recalibration
from refusals import refuses
from snapshots import assert_as_kept

from stakes.cost_spec.spec import CostSpec
from stakes.errors import StakesError
from stakes.evaluation.case_metrics import LimitWorth
from stakes.reports.comparison import Comparison, comparison_of_backtest, comparison_of_bundle
from stakes.reports.page import Report, Section, render
from stakes.reports.report import build_report, write_comparison
from stakes.reports.sentences import limit_sentences

pytestmark = pytest.mark.usefixtures("blank_figures")

HOSTILE = "</text><script>alert('x')</script> $a$ <b> & 日本 \x1b {{ 7 * 7 }}"
SECTIONS = ["policies", "weights", "calibration", "decisions", "groups", "cost", "data", "settings"]


def backtest(cases: int = 300) -> Comparison:
    """Two origins; weight 0.3 was selected at the second."""
    told = invented_fit(cases=cases, block=10)
    columns = {"time": told.times, "load": told.outcome, "today_cost": told.policies[2].cost}
    for start, policy in (("", told.selected), ("weight_0_", told.reference)):
        assert policy.forecast is not None
        measured = {"cost": policy.cost, "action": policy.action, "expected_cost": policy.forecast.expected_cost}
        measured |= {"energy_score": policy.forecast.scores["CRPS"]}
        columns |= {f"{start}{name}": values for name, values in measured.items()}
    forecast = told.selected.forecast
    assert forecast is not None
    columns |= {"climatology_cost": told.policies[3].cost, "foresight_regret": told.selected.cost}
    columns |= {"pit": np.linspace(0, 1, cases), "error": forecast.error, "spread": forecast.spread}
    facts = {"first": "2021-01-01", "last": "2021-02-01", "fitted_cases": 100.0, "cases": 150, "cost": 2.5}
    known = {"weight_0_cases": 150, "climatology_cases": 150, "today_cases": 0}
    changes = {
        f"{rival}_{end}": value
        for rival, place in (("weight_0", 0.0), ("climatology", -3.0))
        for end, value in (("change", place), ("low", place - 1), ("high", place + 1))
    }
    origins = [
        {"origin": name, **facts, "decision_weight": weight, **known, **changes}
        for name, weight in (("1", 0.0), ("2", 0.3), ("all", float("nan")))
    ]
    return comparison_of_backtest(
        pd.DataFrame(columns),
        pd.DataFrame(origins),
        ("load",),
        told.cost,
        SPEC,
        40,
        times=told.times,
        block=10,
        settings={"seed": 3},
        provenance={"stakes": "0"},
    )


KINDS: dict[str, Any] = {
    "fit": lambda: invented_fit(cases=300, block=10),
    "fit with a selection": lambda: invented_fit(cases=300, block=10, selected="decision"),
    "linear fit": lambda: invented_fit(cases=300, weight=0.0, selected="linear"),
    "overconfident fit": lambda: changed(
        invented_fit(cases=300, block=10, selected="decision", more={"linear": -3.0}), expected_cost=-14.0
    ),
    "bare fit": lambda: replace(
        invented_fit(weight=0.0, cases=40, times=False, baseline=False, chosen=False, quality=None, settings={}),
        cost_spec=None,
        provenance={},
    ),
    "recalibration": invented_recalibration,
    "raw points": lambda: invented_recalibration("raw", "points", today=None),
    "few past cases": lambda: invented_recalibration(cases=40, times=False),
    "backtest": backtest,
}


@lru_cache
def report(kind: str) -> Report:
    return build_report(KINDS[kind]())


def sections(kind: str) -> dict[str, Section]:
    return {section.identifier: section for section in report(kind).sections}


def sentences_of(kind: str) -> str:
    """All that the page says, but for the cells of its tables."""
    told = report(kind)
    lines = [f"# {kind}", told.title, told.subtitle, told.headline, *told.warnings, *told.summary]
    for section in told.sections:
        lines += [f"## {section.title}", *section.text]
        lines += [f"Figure: {figure.title}. {figure.caption}" for figure in section.figures]
        heads = [" | ".join(column.name for column in table.columns) for table in section.tables]
        lines += [
            f"Table: {table.title}. {head}. {table.note}" for table, head in zip(section.tables, heads, strict=True)
        ]
    return "\n".join(lines)


def test_what_every_page_says() -> None:
    assert_as_kept(Path(__file__).with_name("sentences.txt"), "\n\n".join(map(sentences_of, KINDS)) + "\n")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("fit", SECTIONS),
        ("fit with a selection", ["selection", *SECTIONS]),
        ("bare fit", ["policies", "calibration", "decisions", "groups", "cost"]),
        ("recalibration", ["selection", *SECTIONS[:1], *SECTIONS[2:]]),
        ("raw points", ["selection", *SECTIONS[:1], *SECTIONS[2:]]),
        ("backtest", ["origins", "policies", "calibration", "decisions", "groups", "cost", "settings"]),
    ],
)
def test_the_sections_of_a_page(kind: str, expected: list[str]) -> None:
    assert list(sections(kind)) == expected
    for figure in (figure for section in report(kind).sections for figure in section.figures):
        for svg in figure.drawings:
            ElementTree.fromstring(svg)
    assert "nan" not in sentences_of(kind).split()


def test_the_headline_stands_above_what_speaks_against_it() -> None:
    page, told = render(report("overconfident fit")), report("overconfident fit")
    assert len(told.warnings) == 2
    assert page.index('<p class="headline">') < page.index('<p class="banner"') < page.index('<div class="lead">')
    assert page.count('<p class="banner"') == 2


def test_one_weight_alone_has_no_section() -> None:
    told = invented_fit(cases=300, weight=0.0)
    assert told.frontier is not None
    alone = replace(told, frontier=replace(told.frontier, points=told.frontier.points[:1]))
    assert "weights" not in [section.identifier for section in build_report(alone).sections]


def test_a_linear_forecast_speaks_of_no_weight() -> None:
    told = [section for name, section in sections("linear fit").items() if name not in ("weights", "settings")]
    said = [*(text for section in told for text in section.text), report("linear fit").headline]
    said += [figure.caption for section in told for figure in section.figures]
    said += [column.name for section in told for table in section.tables for column in table.columns]
    assert [text for text in said if "weight 0" in text] == []


@pytest.mark.usefixtures("drawn_figures")
def test_users_texts_stay_texts() -> None:
    spec = replace(SPEC, unit=HOSTILE, action_unit=HOSTILE)
    told = build_report(invented_fit(spec, cases=80, targets=3, times=False, baseline=False))
    page = render(told)
    assert page.count("<script>") == 1
    assert "<b>" not in page
    assert "{{ 7 * 7 }}" in page
    figures = {figure.label: figure for section in told.sections for figure in section.figures}
    drawn = ElementTree.fromstring(str(figures["calibration"].drawing()))
    assert f"expected cost ({HOSTILE})".replace("\x1b", "") in [element.text for element in drawn.iter()]


def test_a_figure_that_cannot_be_drawn_is_a_sentence() -> None:
    told = replace(invented_fit(cases=40), outcomes=np.empty((0, 1)))
    section = next(each for each in build_report(told).sections if each.identifier == "cost")
    assert section.figures == ()
    assert "left out: outcomes must be cases by targets" in section.text[0]


def test_limits_and_numbers_of_a_vector_action_are_told() -> None:
    spec = CostSpec.parse("schedule:short=5/7,long=1")
    told = replace(invented_fit(cases=40), cost=spec.build(), cost_spec=spec, targets=("h0", "h1"))
    section = next(each for each in build_report(told).sections if each.identifier == "cost")
    assert section.text[-1] == "short: h0 5, h1 7"
    ramp = LimitWorth("ramp", 0.5, 3.0, "h0 to h1, up", 0.4)
    for limits, words in (([ramp], "would save 3.00"), ([replace(ramp, share=0.0, saved=0.0)], "No limit of ramp")):
        assert words in limit_sentences(told, limits, ())[0]
    assert limit_sentences(told, [], ()) == ()


def test_many_targets_are_counted_and_their_names_unfold() -> None:
    many = build_report(invented_fit(cases=60, targets=12, weight=0.0, baseline=False, chosen=False))
    assert many.title == "Decisions on 12 targets"
    assert many.folded == {"The 12 targets": tuple(f"load_{place}" for place in range(12))}
    assert report("fit").folded == {}


def test_a_bundle_gets_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, (cases, state) = invented_fit(cases=300, block=10), invented_cases(cases=300, block=10)
    forecaster = SimpleNamespace(cost=told.cost, frontier_=told.frontier, selection_=None)
    known = invented_about(300)
    forecast = SimpleNamespace(state=state)
    bundle: Any = SimpleNamespace(forecaster=forecaster, forecast=forecast, cost_spec=told.cost_spec, known=known)
    bundle.require_recorded = lambda subfolder: None
    recorded: list[str] = []
    monkeypatch.setattr("stakes.reports.report.record_file", lambda folder, name: recorded.append(name))
    refuses(StakesError, "", comparison_of_bundle, bundle, tmp_path)
    (tmp_path / "evaluation").mkdir()
    cases.to_parquet(tmp_path / "evaluation/cases.parquet")
    found = comparison_of_bundle(bundle, tmp_path)
    path = write_comparison(found, tmp_path)
    assert recorded == [path.name] == ["report.html"]
    assert path.read_text("utf-8") == render(report("fit"))
    assert write_comparison(found, tmp_path, tmp_path / "other.html").is_file()
    assert len(recorded) == 1
