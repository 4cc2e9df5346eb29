"""What figures show: words, units, marks and the values behind them."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import torch
from invented_fits import invented_fit, invented_outcomes, invented_selection
from invented_recalibrations import invented_recalibration
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray
from quick_figures import figures_left_blank
from refusals import refuses

import stakes
from stakes import plots as style
from stakes.actions.solve import optimal_action
from stakes.cost_spec.spec import CostSpec
from stakes.costs.scalar_costs import ImbalanceCost
from stakes.errors import ShapeError, StakesWarning
from stakes.evaluation.case_metrics import JudgedParts, judged_parts
from stakes.evaluation.intervals import Resampling
from stakes.evaluation.metrics import Assessor
from stakes.plots import binned_means
from stakes.programs.convex_actions import cost_function
from stakes.reports.comparison import MONTH, Comparison
from stakes.reports.cost_figures import cost_figure, parts_figure
from stakes.reports.figures import (
    _broken,
    calibration_figure,
    decisions_figure,
    draw_cases,
    draw_groups,
    origins_figure,
    pit_shares,
    selection_figure,
)
from stakes.reports.page import Figure

pytestmark = pytest.mark.usefixtures("unarranged_figures")


@pytest.fixture(scope="module")
def fit() -> Comparison:
    return invented_fit(cases=300, block=10, selected="decision")


def words(figure: Figure, panel: int | None = None) -> list[str]:
    """All words of its drawings, or of one of them."""
    panels = range(len(figure.names)) if panel is None else [panel]
    roots = [ElementTree.fromstring(str(figure.drawing(place))) for place in panels]
    return [text.strip() for root in roots for each in root.iter() if (text := each.text) and text.strip()]


def test_each_candidate_stands_with_its_cost_in_the_unit(fit: Comparison) -> None:
    assert fit.selection is not None
    said = words(selection_figure(fit, fit.selection))
    for title in ("climatology", "linear", "network", "recent errors", "decision", "fitted again"):
        assert title in said
    assert "mean cost per test case (EUR)" in said
    assert {"selected", "accepted", "tried, not selected"} <= set(said)
    assert f"{fit.selection.tested[0].cost:.1f}" in said
    assert f"{fit.selected.cost.mean():.1f}" in said


def test_candidates_that_the_first_one_dwarfs_are_drawn_once_more(fit: Comparison) -> None:
    far, near = (
        selection_figure(fit, invented_selection(fit, "decision", {"climatology": more})) for more in (90.0, 6.0)
    )
    assert (len(far.names), len(near.names)) == (2, 1)
    assert far.caption.endswith("Second: the same without climatology.")
    assert "climatology" not in words(far, 1)
    assert "linear" in words(far, 1)


@pytest.mark.filterwarnings("error")
def test_too_few_cases_have_no_bars() -> None:
    bars = []
    for cases in (300, 40):
        told = invented_fit(cases=cases, block=10)
        drawn = str(selection_figure(told, invented_selection(told, "linear")).drawing())
        bars.append(len(re.findall("LineCollection", drawn)))
    assert bars[0] > bars[1] == 0


def test_ticks_of_long_numbers_keep_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(style._SETTINGS, "figure.constrained_layout.use", True)  # as readers see them
    figure = calibration_figure(invented_fit(CostSpec.parse("imbalance:short=90000,long=1,upper=150"), cases=300))
    for place in (0, 1):
        drawn = str(figure.drawing(place))
        assert 2 <= len(set(re.findall(r'id="[^"]*xtick_(\d+)"', drawn))) <= 6


def test_shares_of_a_pit_are_spread_over_where_it_may_lie() -> None:
    shares = pit_shares(np.array([0.0, 1.0, 0.5]), np.array([1.0, 1.0, 0.5]), 4)
    assert shares == pytest.approx([1 / 12, 1 / 12, 5 / 12, 5 / 12])
    assert shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("members", "bins"), [(20, 20), (19, 10), (20, 7), (499, 20)])
def test_pit_is_flat_for_a_calibrated_ensemble_and_high_at_both_ends_for_a_narrow_one(members: int, bins: int) -> None:
    generator = torch.Generator().manual_seed(0)
    outcome = torch.randn(2000, 1, generator=generator)
    drawn = torch.randn(2000, members, 1, generator=generator)
    found = []
    for spread in (1.0, 0.5):
        rank = members * Assessor(stakes.ProtectionCost(0.5, 0.4))(spread * drawn, outcome)["pit"].double().numpy()
        found.append(pit_shares(rank / (members + 1), (rank + 1) / (members + 1), bins))
        assert found[-1].sum() == pytest.approx(1.0)
    chi_square = 2000 * ((found[0] - 1 / bins) ** 2).sum() * bins
    assert chi_square < bins - 1 + 4 * np.sqrt(2 * (bins - 1))
    assert min(found[1][0], found[1][-1]) > 1.5 * found[1][1:-1].max()


def test_bins_go_by_the_key_and_hold_equally_many_cases() -> None:
    key = np.random.default_rng(0).permutation(12).astype(float)
    (means, others) = binned_means(Resampling(12), key, [key, 100 - key], 4)
    assert [round(mean.estimate, 9) for mean in means] == [1.0, 4.0, 7.0, 10.0]
    assert [round(mean.estimate, 9) for mean in others] == [99.0, 96.0, 93.0, 90.0]


def test_no_line_crosses_a_gap() -> None:
    index = pd.DatetimeIndex(["2023-01-01", "2023-01-02", "2023-01-03", "2023-01-13", "2023-01-14"])
    table = _broken(pd.DataFrame({"outcome": np.arange(5.0)}, index=index))
    assert table["outcome"].isna().tolist() == [False, False, False, True, False, False]
    assert table.index[3] == pd.Timestamp("2023-01-08")


def test_no_line_crosses_months_without_a_case() -> None:
    told = invented_fit(cases=300, weight=0.0)
    month = next(group for group in told.groups if group.kind == MONTH)
    for places, dashes in (((3, 4, 5), "-"), ((1, 8, 9), "None")):
        axes = Drawing().subplots()
        draw_groups(told, [month._replace(place=place) for place in places], axes)
        assert axes.lines[0].get_linestyle() == dashes


def test_rounding_does_not_fill_the_axes_of_actions() -> None:
    told = invented_fit(cases=300, weight=0.0)
    steady = told.case_table.drop(columns="today").assign(plain=lambda table: 36.6 + 1e-7 * (np.arange(len(table)) % 2))
    for table, ends in ((steady, (36.6 * 0.95, 36.6 * 1.05)), (told.case_table, None)):
        above, below = Drawing().subplots(2)
        draw_cases(told, table, above, below)
        if ends is not None:
            assert below.get_ylim() == pytest.approx(ends, rel=1e-6)
        else:
            assert np.ptp(below.get_ylim()) < 2 * np.ptp(told.case_table[["plain", "today"]].to_numpy()[3:])


def test_charts_of_decisions_have_the_values_of_the_cases(fit: Comparison) -> None:
    table = fit.case_table
    last, means, saved = decisions_figure(fit).charts
    outcome, action = (chart.plain() for chart in last)
    assert fit.times is not None
    assert outcome["xs"][-1] == fit.times[-1].astype("datetime64[s]").astype(int)
    assert outcome["lines"][0]["values"] == pytest.approx(table["outcome"].iloc[-60:].tolist())
    assert outcome["bands"][0]["high"] == pytest.approx(table["high"].iloc[-60:].tolist())
    assert [line["name"] for line in action["lines"]] == ["action, weight 0", "action, weight 0.4", "today's action"]
    assert action["lines"][1]["values"] == pytest.approx(table["selected"].iloc[-60:].tolist())
    assert (action["steps"], outcome["steps"]) == (True, False)
    assert means[0].plain()["lines"][0]["values"][0] == pytest.approx(table["outcome"].iloc[:5].mean())
    total = (fit.reference.cost - fit.selected.cost).sum()
    assert saved[0].plain()["lines"][0]["values"][-1] == pytest.approx(total)


def test_cases_without_a_time_are_numbered() -> None:
    assert "test case (number)" in words(decisions_figure(invented_fit(cases=40, times=False)))
    told = invented_recalibration()
    assert told.times is not None
    twice = replace(told, times=told.times.repeat(2)[:300])
    assert "A time with several cases is shown by their mean." in decisions_figure(twice).caption


def test_origins_have_a_panel_for_each_rival(fit: Comparison) -> None:
    ends = {"change": [-1.0, 0.5], "low": [-2.0, -0.5], "high": [-0.1, 1.5]}
    origins = pd.DataFrame(
        {f"{name}_{end}": values for name in ("climatology", "today") for end, values in ends.items()}
    )
    figure = origins_figure(fit, origins, {"climatology": "climatology", "today": "today"})
    assert figure.names == ["origins", "origins-2"]
    assert "against today" in words(figure, 1)


def test_the_cost_figure_marks_the_best_action() -> None:
    outcomes = invented_outcomes(200)
    cost = ImbalanceCost(10.0, 1.0, 0.0, 150.0)
    best = optimal_action(cost, torch.from_numpy(outcomes)).item()
    figure = cost_figure(cost, outcomes, "EUR", "GW")
    assert f"best action {best:.1f} GW" in figure.drawings[1]
    assert "between the bounds in 100 % of them. Members between" in figure.caption
    refuses(ShapeError, "outcomes", cost_figure, cost, outcomes[:, None], "", "")


def test_a_cost_without_a_decision_is_told() -> None:
    figure = cost_figure(cost_function(lambda action, y: y - action, 0.0, 1.0), [[1.0], [2.0]], "", "")
    assert "in 0 % of them; it lies in 100 % at the upper bound" in figure.caption
    assert "no weight can change this forecast" in figure.caption


MEMBERS = torch.tensor([[[1.0, 1.0, 4.0], [2.0, 1.0, 5.0], [3.0, 1.0, 6.0]]])
NAMES = ("north", "south", "a very long name, $")


def parts_of(cost: Any) -> Figure:
    def draw(rows: NDArray[np.int64], most: int | None) -> torch.Tensor:
        return MEMBERS[rows]

    parts = judged_parts(cost, NAMES, np.ones((1, 3)), np.ones(1), draw)
    assert isinstance(parts, JudgedParts)
    told: Any = SimpleNamespace(cost=cost, unit="EUR", action_unit="MW", times=None, settings={})
    with figures_left_blank():
        return parts_figure(told, parts)


def test_charts_have_the_schedule_and_the_limits_that_bind() -> None:
    plan = parts_of(stakes.ScheduleCost(4.0, 1.0, ramp=1.0)).charts[0][0].plain()
    assert plan["title"] == "The last case: case 1, in MW"
    assert (plan["names"], plan["steps"]) == (list(NAMES), True)
    action = plan["lines"][0]["values"]
    at_the_ramp = np.flatnonzero(np.isclose(np.abs(np.diff(action)), 1.0)).tolist()
    assert sorted(limit["parts"] for limit in plan["limits"]) == [[place, place + 1] for place in at_the_ramp] != []
    assert plan["limits"][0]["text"].startswith("ramp ")


def test_a_battery_is_drawn_over_its_hours() -> None:
    outcomes, plan = (chart.plain() for chart in parts_of(stakes.ArbitrageCost(power=1.0, energy=1.0)).charts[0])
    assert outcomes["names"] == plan["names"] == list(NAMES)
    assert [line["name"] for line in plan["lines"]] == ["charge", "discharge"]
    assert {limit["line"] for limit in plan["limits"]} <= {0, 1}
    for limit in plan["limits"]:  # the bounds of a quantity are drawn on its own line
        kind = limit["text"].split()[1].split("_")[0]
        assert kind not in ("charge", "discharge") or plan["lines"][limit["line"]]["name"] == kind


def test_parts_that_are_no_outcomes_are_drawn_by_themselves() -> None:
    bakery = stakes.Program(
        decide={"hours": stakes.Quantity(cost=1, upper=9)},
        recourse={"missing": stakes.Quantity(cost=3)},
        recourse_constraints={"demand": "2 * hours + missing >= outcome"},
    )
    _, plan = (chart.plain() for chart in parts_of(bakery).charts[0])
    assert (plan["names"], [line["name"] for line in plan["lines"]]) == (list(NAMES), ["action"])
    averse = stakes.CVaRCost(stakes.ScheduleCost(4.0, 1.0, ramp=1.0), level=0.5)
    with pytest.warns(StakesWarning, match="1.5 of 3 members"):
        assert len(parts_of(averse).charts[0]) == 1
