"""The report of a fit says what the numbers say, for every kind of fit, and draws without a warning."""

import math
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from invented_fits import SPEC, invented_fit, invented_selection

from stakes.cost_spec.spec import CostSpec
from stakes.errors import SettingError, StudyError
from stakes.reports import drawing as style
from stakes.reports import fit_report
from stakes.reports.figures import _broken, _draw_cases
from stakes.reports.fit_figures import (
    HOUR,
    MONTH,
    OBSERVED,
    PREDICTED,
    _draw_group,
    calibration_figure,
    case_groups,
    frontier_figure,
)
from stakes.reports.fit_report import JudgedFit, build_fit_report, judged_fit_of, write_fit_report
from stakes.reports.fit_sentences import (
    calibration_sentences,
    seed_sentence,
    today_sentence,
    verdict,
)
from stakes.reports.fit_tables import calibration_table, case_groups_table, frontier_table, money_table, settings_table
from stakes.reports.page import Figure, Report, Section, ShownCell, Table, render
from stakes.reports.sections import cost_section
from stakes.settings import to_plain

pytestmark = pytest.mark.usefixtures("unarranged_figures")

HOSTILE = "</text><script>alert('x')</script> $a$ <b> & 日本 \x1b {{ 7 * 7 }}"
SECTIONS = ["verdict", "weights", "calibration", "decisions", "parts", "cost", "data", "settings"]


@lru_cache
def fit(kind: str = "full") -> JudgedFit:
    """Fits of every kind, each made once."""
    if kind == "bare":
        bare = invented_fit(weight=0.0, cases=40, times=False, baseline=False, chosen=False)
        return replace(bare, cost_spec=None, headroom=None, quality=None, settings={}, provenance={})
    if kind == "few to choose by":
        kept = fit("kept")
        assert kept.frontier is not None
        return replace(kept, frontier=replace(kept.frontier, cases=40))
    if kind == "hostile":
        spec = replace(SPEC, unit=HOSTILE, action_unit=HOSTILE)
        return invented_fit(spec, cases=80, targets=3, times=False, baseline=False)
    if kind in ("accepted", "linear"):
        told = fit("full") if kind == "accepted" else fit("kept")
        assert told.frontier is not None
        points = tuple(replace(point, allowed=True) for point in told.frontier.points)
        points = (points[0], replace(points[1], also=(0.2, 0.3)), *points[4:])
        selection = invented_selection(told, "decision" if kind == "accepted" else "linear")
        return replace(told, frontier=replace(told.frontier, points=points, tolerance=None), selection=selection)
    return {
        "full": lambda: invented_fit(cases=300, block=10),
        "open": lambda: invented_fit(CostSpec.parse("newsvendor:underage=1,overage=1,upper=150"), gain=0.5, cases=300),
        "worse": lambda: invented_fit(cases=300, gain=-1.2),
        "kept": lambda: invented_fit(cases=300, weight=0.0),
        "given": lambda: invented_fit(cases=300, chosen=False),
        "one block": lambda: invented_fit(cases=5, block=10),
    }[kind]()


@lru_cache
def report(kind: str) -> Report:
    return build_fit_report(fit(kind))


def sections(kind: str) -> dict[str, Section]:
    return {section.identifier: section for section in report(kind).sections}


def drawn_text(figure: Figure) -> str:
    """All words of its drawings."""
    roots = [ElementTree.fromstring(str(figure.drawing(place))) for place in range(len(figure.names))]
    return " ".join(text for root in roots for element in root.iter() if (text := element.text))


def cells(table: Table, column: int) -> list[str]:
    return [row[column].text for row in table.shown_rows()]


@pytest.mark.parametrize(
    ("kind", "start", "said"),
    [
        ("full", "Yes: on the 300 test cases", "EUR (95 % interval"),
        ("given", "Yes: on the 300 test cases", "(weight 0.4, given)"),
        ("open", "Not confirmed: on the 300 test cases", "The interval holds zero"),
        ("worse", "No: on the 300 test cases", "Weight 0 is the safer choice"),
        ("kept", "No gain was shown: on the validation cases", "(weight 0)"),
        ("few to choose by", "Too early to tell: 40 cases in blocks of 7 are too few to choose", "(weight 0)"),
        ("bare", "Not tried:", "cannot say whether"),
        ("one block", "Too early to tell", "at least 10 blocks of 10 test cases are needed"),
    ],
)
def test_the_verdict_is_one_plain_sentence(kind: str, start: str, said: str) -> None:
    answer = verdict(fit(kind))[0]
    assert answer.startswith(start)
    assert said in answer


def test_the_verdict_states_the_paired_difference() -> None:
    told = fit("full")
    paid, plain = told.values("cost", 0.4), told.values("cost", 0.0)
    saved = (plain - paid).mean()
    answer, reason = verdict(told)
    assert f"costs {saved:.2f} EUR (95 % interval " in answer
    assert f"which is {100 * saved / plain.mean():.3g} % of its cost; {300 * saved:,.0f} EUR in all" in answer
    assert reason.startswith("On the validation cases: weight 0.4 is selected")
    low, high = map(float, re.findall(r"interval ([\d.]+) to ([\d.]+)", answer)[0])
    assert 0 < low < saved < high


def test_says_that_the_intervals_leave_out_the_training_seed() -> None:
    (sentence,) = seed_sentence(fit("full"))
    assert sentence.startswith("The intervals cover the choice of test cases, not that of the training seed")
    assert sentence in report("full").summary
    several = replace(fit("full"), settings={"ensemble": 5})
    assert seed_sentence(several) == seed_sentence(fit("one block")) == ()


def test_one_block_of_cases_proves_nothing() -> None:
    told = fit("one block")
    found, baseline = told.pair(told.selected, told.ways[0])
    assert (found - baseline).degrees_of_freedom == 1
    assert math.isnan(told.change(told.selected).low)
    assert "too few test cases for an interval" in calibration_sentences(told)[0]
    assert not any(isinstance(cell, ShownCell) and cell.strong for row in money_table(told).rows for cell in row)


def test_an_interval_needs_many_blocks_of_the_cases_that_are_known() -> None:
    told = fit("full")
    today = told.way("today")
    assert today is not None
    few = today._replace(cost=np.where(np.arange(300) < 60, today.cost, np.nan))
    assert math.isfinite(told.change(today).low)
    assert math.isnan(told.change(few).low)


def test_today_is_compared_where_it_is_known() -> None:
    told = fit("full")
    (sentence,) = today_sentence(told)
    assert sentence.startswith("Against today's action, known in 297 test cases, the forecast at weight 0.4")
    assert today_sentence(fit("bare")) == ()


def test_the_money_is_what_was_paid() -> None:
    told = fit("full")
    table = money_table(told)
    assert cells(table, 0)[2:] == ["today's action", "one action for all cases (climatology)", "perfect foresight"]
    assert cells(table, 1) == ["300", "300", "297", "300", "300"]
    means = [float(row[2].sort_key or "nan") for row in table.shown_rows()]
    totals = [float(row[3].sort_key or "nan") for row in table.shown_rows()]
    assert means[0] == pytest.approx(told.values("cost", 0.0).mean())
    assert totals[1] == pytest.approx(told.values("cost", 0.4).sum())
    assert means[2] == pytest.approx(np.nanmean(told.study.case_values("baseline_cost")))
    assert means[4] == pytest.approx(0.0, abs=1e-9)
    assert cells(table, 5)[3:] == ["0.0", "100.0"]
    assert table.columns[2].unit == "EUR"


def test_parts_are_the_cases_they_are_called() -> None:
    told = fit("full")
    groups = case_groups(told)
    for kind in (OBSERVED, PREDICTED, MONTH, HOUR):
        chosen = [group for group in groups if group.kind == kind]
        assert kind == PREDICTED or sum(group.cases for group in chosen) == 300
    january = next(group for group in groups if group.name == "Jan")
    times = pd.DatetimeIndex(told.study.case_values("time")[0])
    paid = told.values("cost", 0.4)[times.month == 1]
    assert (january.cases, january.cost) == (124, pytest.approx(paid.mean()))
    assert january.change.mean == pytest.approx(january.cost - january.weight_0_cost)
    march = next(group for group in groups if group.name == "Mar")
    assert math.isfinite(january.change.low)
    assert march.cases < 70
    assert math.isnan(march.change.low)
    assert {group.kind for group in case_groups(fit("bare"))} == {OBSERVED, PREDICTED}
    assert len(case_groups_table(fit("bare"), case_groups(fit("bare"))).columns) == 4


def test_tables_of_weights_calibration_and_settings() -> None:
    told = fit("full")
    assert told.frontier is not None
    table = frontier_table(told.frontier, "EUR")
    assert [row[0].strong for row in table.shown_rows()] == [weight == 4 for weight in range(10)]
    assert cells(table, 5)[-1] == "failed"
    gaps = calibration_table(told).shown_rows()
    assert [row[4].strong for row in gaps] == [True, False]
    assert cells(settings_table(told.settings), 0)[:2] == ["model.name", "model.hidden"]


def test_the_whole_page_in_its_order() -> None:
    assert list(sections("full")) == SECTIONS
    page = render(report("full"))
    for text in ("Decisions on load_0", "imbalance (short 10, long 1", "300 test cases from 2023-01-01", "load.csv"):
        assert text in page
    assert "does not rule out a gain" not in page
    for text in ("decision-aware training may pay", "3 gaps", "teach the forecast nothing: holiday", "dilemma"):
        assert text in page


def test_a_selection_opens_the_page() -> None:
    told = fit("accepted")
    assert list(sections("accepted")) == ["selection", *SECTIONS]
    answer, reason = verdict(told)
    assert report("accepted").summary[0] == answer
    assert told.selection is not None
    assert sections("accepted")["selection"].text == (reason,) == (told.selection.reason,)
    paid = told.values("cost", 0.4).mean()
    assert answer.startswith(
        f"On the 300 test cases the decision-aware forecast (weight 0.4) costs {paid:.1f} EUR per case and "
        f"{300 * paid:,.0f} EUR in all: "
    )
    constant = told.way("climatology")
    assert constant is not None
    linear = next(candidate.cost_change.mean for candidate in told.selection.tested if candidate.name == "linear")
    changes = {"climatology": paid - constant.cost.mean(), "the linear forecast": linear}
    for words, change in changes.items():  # climatology as the table of ways has it, which knew as many rows
        assert f"EUR less per case than {words} (95 % interval " in answer
        assert f"{-change * 300:,.0f} EUR in all" in answer
    below = sections("accepted")["verdict"]
    assert below.title == "Does decision-aware training pay here?"
    assert below.text[0].startswith("Yes: on the 300 test cases the decision-aware forecast (weight 0.4, chosen")
    assert sections("linear")["verdict"].title == "What each way to decide costs"
    table = sections("accepted")["selection"].tables[0]
    assert cells(table, 0)[-3:] == ["recent errors", "decision (decision weight 0.4)", "decision, fitted again"]
    assert cells(table, 1)[:-1] == ["accepted", "accepted", "accepted", "it is not proven to be cheaper", "selected"]


def test_one_weight_alone_has_no_section() -> None:
    told = fit("kept")
    assert told.frontier is not None
    alone = replace(told, frontier=replace(told.frontier, points=told.frontier.points[:1]))
    assert "weights" not in [section.identifier for section in build_fit_report(alone).sections]


def test_weights_stand_against_the_candidate_that_was_held() -> None:
    section = sections("accepted")["weights"]
    (figure,), (table,) = section.figures, section.tables
    assert "0 stands for the candidate selected before, the network." in section.text[0]
    assert "less those of the network, on 300 validation cases" in figure.caption
    assert cells(table, 0)[:2] == ["the network", "0.1 (also 0.2, 0.3)"]
    assert [column.name for column in table.columns][-1] == "Δ score"
    for text in (*section.text, figure.caption, drawn_text(figure), *(column.help for column in table.columns)):
        assert "weight 0 " not in text
        assert "allowed" not in text
        assert "hardly harm" not in text
    assert figure.caption.endswith("Training failed at 0.9.")


def test_a_linear_forecast_speaks_of_no_weight() -> None:
    told = fit("linear")
    assert verdict(told)[0].startswith("On the 300 test cases the linear forecast costs ")
    assert "less per case than climatology" in verdict(told)[0]
    assert "than the linear forecast" not in verdict(told)[0]
    assert seed_sentence(told) == ()  # it was not drawn
    assert calibration_sentences(told)[0].startswith("The forecast expects its decisions to cost ")
    assert "the forecast changes the cost by" in today_sentence(told)[0]
    assert cells(money_table(told), 0)[0] == "the linear forecast"
    told_of = [section for name, section in sections("linear").items() if name not in ("weights", "settings")]
    words = [text for section in told_of for text in section.text]
    words += [
        text for section in told_of for figure in section.figures for text in (figure.caption, drawn_text(figure))
    ]
    words += [column.name for section in told_of for table in section.tables for column in table.columns]
    assert [text for text in words if "weight 0" in text] == []


def test_what_is_not_proven_on_test_cases_is_told_as_chance() -> None:
    told = fit("accepted")
    even = replace(told, selection=invented_selection(told, "decision", {"linear": 0.02}))
    assert "per case against the linear forecast, which may be chance." in verdict(even)[0]
    nothing = replace(fit("linear"), selection=invented_selection(fit("linear"), "climatology"))
    start = "Nothing was proven to be better than climatology: on the 300 test cases climatology costs "
    assert verdict(nothing)[0].startswith(start)


def test_what_is_not_known_is_left_out() -> None:
    assert list(sections("bare")) == ["verdict", "calibration", "decisions", "parts", "cost"]
    assert sections("bare")["decisions"].title == "Decisions case by case"
    figures = {label: section.figures[0] for label, section in sections("bare").items() if section.figures}
    assert "test case (number)" in drawn_text(figures["decisions"])
    assert "today" not in render(report("bare"))
    assert "Provenance" not in render(report("bare"))


def test_axes_have_names_and_units() -> None:
    figures = {label: section.figures[0] for label, section in sections("full").items() if section.figures}
    for label, words in {
        "verdict": ("mean cost per test case (EUR)", "change from weight 0 (EUR)", "climatology", "today"),
        "weights": ("change of the score against weight 0 (%)", "change of the cost (EUR)", "decision weight (–)"),
        "calibration": ("predicted cost (EUR)", "realised cost (EUR)", "share of cases (%)", "spread"),
        "decisions": ("outcome", "action (GW)", "time (UTC)", "today's action", "cost saved so far (EUR)"),
        "parts": ("third of the cases", "month", "hour of the day (UTC)", "change (EUR)"),
        "cost": ("action (GW)", "mean cost (EUR)", "value of a member"),
    }.items():
        text = drawn_text(figures[label])
        assert [word for word in words if word not in text] == []
        assert len(figures[label].caption) > 100
    assert len({name for figure in figures.values() for name in figure.names}) == 17


def test_users_texts_stay_texts() -> None:
    page = render(report("hostile"))
    assert page.count("<script>") == 1
    assert "<b>" not in page
    assert "{{ 7 * 7 }}" in page
    shown = HOSTILE.replace("\x1b", "")
    drawn = drawn_text(sections("hostile")["calibration"].figures[0])
    assert f"predicted cost ({shown})" in drawn
    assert "mean of a member over the targets" in drawn_text(sections("hostile")["cost"].figures[0])


def test_a_figure_that_cannot_be_drawn_is_a_sentence() -> None:
    told = replace(fit("bare"), outcomes=np.empty((0, 1)))
    section = cost_section(told.cost, told.outcomes, told.cost_spec, told.settings)
    assert section.figures == ()
    assert "left out: outcomes must be cases by targets" in section.text[0]


def test_the_cost_tells_which_of_its_numbers_goes_to_which_outcome() -> None:
    spec = CostSpec.parse("schedule:short=5/7,long=1")
    section = cost_section(spec.build(), np.ones((4, 2)), spec, {}, ["h0", "h1"])
    assert section.text[-1] == "short: h0 5, h1 7"


def test_weights_that_failed_are_named() -> None:
    frontier = fit("full").frontier
    assert frontier is not None
    assert frontier_figure(frontier, "", {}).caption.endswith("Training failed at 0.9.")


def test_no_line_crosses_a_gap() -> None:
    index = pd.DatetimeIndex(["2023-01-01", "2023-01-02", "2023-01-03", "2023-01-13", "2023-01-14"])
    table = _broken(pd.DataFrame({"outcome": np.arange(5.0)}, index=index))
    assert table["outcome"].isna().tolist() == [False, False, False, True, False, False]
    assert table.index[3] == pd.Timestamp("2023-01-08")


def test_no_line_crosses_months_without_a_case() -> None:
    told = fit("kept")
    month = next(group for group in case_groups(told) if group.kind == MONTH)
    for places, dashes in (((3, 4, 5), "-"), ((1, 8, 9), "None")):
        drawn = _draw_group(told, [month._replace(place=place) for place in places], "month")
        assert drawn.axes[0].lines[0].get_linestyle() == dashes


def test_ticks_of_long_numbers_keep_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(style._SETTINGS, "figure.constrained_layout.use", True)  # as readers see them
    figure = calibration_figure(invented_fit(CostSpec.parse("imbalance:short=90000,long=1,upper=150"), cases=300))
    for place in (0, 1):
        drawn = str(figure.drawing(place))
        assert 2 <= len(set(re.findall(r'id="[^"]*xtick_(\d+)"', drawn))) <= 6


def test_names_of_panels_are_given_once() -> None:
    first = Figure("f", "", "", "", {}, ("",))
    with pytest.raises(SettingError, match="every figure of a report must have its own name, got 'f-2' 2 times"):
        Report("", "", (), sections=(Section("s", "", figures=(first, Figure("f-2", "", "", "", {}))),))


def test_a_bundle_gets_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = fit("full")
    about = {name: to_plain(getattr(told, name)) for name in ("headroom", "quality")}
    about |= {"settings": told.settings, "provenance": told.provenance, "outcomes": told.outcomes.tolist()}
    forecaster = SimpleNamespace(cost=told.cost, frontier_=told.frontier, selection_=None)
    bundle: Any = SimpleNamespace(forecaster=forecaster, cost_spec=told.cost_spec, about=about)
    bundle.require_recorded = lambda subfolder: None
    recorded: list[str] = []
    monkeypatch.setattr("stakes.artifacts.folder.record_file", lambda folder, name: recorded.append(name))
    with pytest.raises(StudyError):
        judged_fit_of(bundle, tmp_path)
    told.study.save(tmp_path / "evaluation")
    read: list[JudgedFit] = []
    monkeypatch.setattr(fit_report, "build_fit_report", lambda fit: read.append(fit) or Report("The page", "", ()))
    path = write_fit_report(judged_fit_of(bundle, tmp_path), tmp_path)
    assert recorded == [path.name] == ["report.html"]
    assert "The page" in path.read_text("utf-8")
    (found,) = read
    assert verdict(found) == verdict(told)
    assert (found.frontier, found.headroom, found.quality) == (told.frontier, told.headroom, told.quality)
    assert (found.outcomes == told.outcomes).all()
    assert money_table(found).shown_rows() == money_table(told).shown_rows()


def test_charts_of_decisions_have_the_values_of_the_cases() -> None:
    told = fit("full")
    table = told.case_table
    last, means, saved = sections("full")["decisions"].figures[0].charts
    outcome, action = (chart.plain() for chart in last)
    assert outcome["xs"][-1] == told.times[-1].astype("datetime64[s]").astype(int)
    assert outcome["lines"][0]["values"] == pytest.approx(table["outcome"].iloc[-60:].tolist())
    assert outcome["bands"][0]["high"] == pytest.approx(table["high"].iloc[-60:].tolist())
    assert [line["name"] for line in action["lines"]] == ["action, weight 0", "action, weight 0.4", "today's action"]
    assert action["lines"][1]["values"] == pytest.approx(table["selected"].iloc[-60:].tolist())
    assert (action["steps"], outcome["steps"]) == (True, False)
    assert means[0].plain()["lines"][0]["values"][0] == pytest.approx(table["outcome"].iloc[:5].mean())
    total = (told.values("cost", 0.0) - told.values("cost", 0.4)).sum()
    assert saved[0].plain()["lines"][0]["values"][-1] == pytest.approx(total)


def test_many_targets_are_counted_and_their_names_unfold() -> None:
    many = build_fit_report(invented_fit(cases=60, targets=12, weight=0.0, baseline=False, chosen=False))
    assert many.title == "Decisions on 12 targets"
    assert many.folded == {"The 12 targets": tuple(f"load_{place}" for place in range(12))}
    assert report("full").folded == {}


def test_rounding_does_not_fill_the_axes_of_actions() -> None:
    told = fit("kept")
    steady = told.case_table.drop(columns="today").assign(plain=lambda table: 36.6 + 1e-7 * (np.arange(len(table)) % 2))
    below = _draw_cases(told, steady).axes[1]
    assert below.get_ylim() == pytest.approx((36.6 * 0.95, 36.6 * 1.05), rel=1e-6)
    moved = _draw_cases(told, told.case_table).axes[1]
    assert np.ptp(moved.get_ylim()) < 2 * np.ptp(told.case_table[["plain", "today"]].to_numpy()[3:])
