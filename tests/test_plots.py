"""What `stakes.plots` draws: the numbers behind the marks, on the axes that are given."""

from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from refusals import refuses

import stakes
from stakes import plots
from stakes.errors import CostError, SettingError, ShapeError

MEMBERS = np.random.default_rng(0).gamma(8.0, 7.0, size=101)
NEWSVENDOR = stakes.NewsvendorCost(underage=4.0, overage=1.0, lower=0.0, upper=200.0)


@pytest.fixture
def axes() -> Axes:
    return Figure().subplots()


def lines(axes: Axes) -> dict[str, np.ndarray[Any, Any]]:
    return {str(line.get_label()): np.asarray(line.get_xydata()) for line in axes.lines}


def test_axes_go_in_and_come_out_and_pyplot_knows_no_figure(axes: Axes) -> None:
    before = pyplot.get_fignums()
    assert plots.plot_decision(NEWSVENDOR, MEMBERS, ax=axes) is axes
    assert pyplot.get_fignums() == before
    own = plots.plot_decision(NEWSVENDOR, MEMBERS)
    assert pyplot.gcf() is own.get_figure()
    pyplot.close()


def test_the_curve_of_a_decision_is_the_mean_over_its_members(axes: Axes) -> None:
    weights = np.linspace(0.1, 1.0, len(MEMBERS))
    plots.plot_decision(NEWSVENDOR, MEMBERS, weights=weights, ax=axes)
    curve, _, best = (np.asarray(line.get_xydata()) for line in axes.lines)
    short, long = (np.maximum(sign * (MEMBERS - curve[:, :1]), 0.0) for sign in (1, -1))
    assert curve[:, 1] == pytest.approx(np.average(4 * short + long, axis=1, weights=weights))
    order = np.argsort(MEMBERS)
    reached = weights[order].cumsum() / weights.sum()
    assert best[0, 0] == pytest.approx(MEMBERS[order][np.searchsorted(reached, 0.8)])
    assert best[0, 1] <= curve[:, 1].min() + 1e-9


def test_the_forecast_stands_below_actions_on_its_scale_alone(axes: Axes) -> None:
    frost = stakes.ProtectionCost(threshold=0.0, false_alarm_ratio=0.3, hazard="below")
    plots.plot_decision(frost, MEMBERS - 50, ax=axes)
    assert "forecast" not in [text.get_text() for text in axes.texts]
    refuses(SettingError, "outcomes", plots.plot_cost, frost, ax=axes)


def test_a_cost_is_drawn_at_outcomes_from_low_to_high(axes: Axes) -> None:
    plots.plot_cost(NEWSVENDOR, [10.0, 20.0, 40.0], ax=axes)
    drawn = lines(axes)
    assert list(drawn) == ["outcome 10", "outcome 20", "outcome 40"]
    for name, curve in drawn.items():
        apart = float(name.split()[1]) - curve[:, 0]
        assert curve[:, 1] == pytest.approx(4 * np.maximum(apart, 0) + np.maximum(-apart, 0))


def test_names_of_lines_do_not_overlap() -> None:
    axes = plots.plot_cost(NEWSVENDOR, [99.0, 99.5, 100.0])
    heights = sorted(text.get_position()[1] if not hasattr(text, "xy") else text.xy[1] for text in axes.texts)
    assert np.diff(heights).min() > 0.03
    pyplot.close()


def test_reliability_is_the_mean_of_equally_many_cases(axes: Axes) -> None:
    expected = np.random.default_rng(1).permutation(100.0 + np.arange(100.0))
    plots.plot_reliability({"raw": (expected, 2 * expected)}, bins=4, ax=axes)
    (marks,) = (line for line in axes.lines if line.get_marker() == "o")
    middle = np.array([112.0, 137.0, 162.0, 187.0]) + 0.0
    assert np.asarray(marks.get_xydata()) == pytest.approx(np.stack([middle, 2 * middle], 1), rel=0.01)
    refuses(ShapeError, "pairs of costs", plots.plot_reliability, (expected, expected[:5]), ax=axes)


def test_a_schedule_stands_before_its_forecast_with_the_limits_that_bind(axes: Axes) -> None:
    hours = np.arange(6.0)
    members = 10 * hours + np.linspace(-3, 3, 7)[:, None]
    cost = stakes.ScheduleCost(short=4.0, long=1.0, ramp=8.0)
    solution = stakes.solve_action(cost, torch.tensor(members))
    prices = stakes.limit_prices(cost, torch.tensor(members))
    limits = [parts for parts, binds in zip(prices.parts, prices.binds, strict=True) if binds]
    plots.plot_schedule(solution.action, members, hours * 10, limits=limits, unit="MW", ax=axes)
    steps = [patch for patch in axes.patches if hasattr(patch, "get_data")]
    wide, half, action = (patch.get_data() for patch in steps)
    assert wide.values - wide.baseline == pytest.approx(np.full(6, 0.9 * 6))
    assert half.values - half.baseline == pytest.approx(np.full(6, 3.0))
    assert action.values == pytest.approx(solution.action.numpy())
    bars = [line for line in axes.lines if line.get_linewidth() == 3 and len(line.get_xdata())]
    assert len(bars) == len(limits) > 0
    refuses(ShapeError, "equally many parts", plots.plot_schedule, [1.0], members, ax=axes)
    refuses(CostError, "vector action", plots.plot_decision, cost, members, ax=axes)


@pytest.mark.parametrize("tested", [True, False])
def test_a_selection_marks_what_every_candidate_costs(tested: bool, axes: Axes) -> None:
    random = np.random.default_rng(0)
    members = random.normal(size=(300, 1)) + 0.5 * random.normal(size=(300, 10))
    cost = stakes.NewsvendorCost(9.0, 1.0, -10.0, 10.0)
    recalibrator = stakes.Recalibrator(cost, decision_weights=(), test_fraction=0.3 if tested else 0.0)
    selection = recalibrator.fit(members, members.mean(1) + 1 + random.normal(size=300)).selection_
    plots.plot_selection(selection, ax=axes)
    assert bool(selection.tested) is tested
    shown = [each.cost for each in (selection.tested or selection.candidates)]
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() in ("o", "s") and len(line.get_xdata())]
    assert marks == pytest.approx(shown)
    assert ("test" if tested else "validation") in axes.get_xlabel()


def test_regret_is_drawn_by_outcome_and_by_hour(axes: Axes) -> None:
    random = np.random.default_rng(0)
    outcome = random.normal(50, 10, size=(480, 2))
    members = outcome[:, None] + random.normal(size=(480, 9, 2)) * [1.0, 4.0]
    cost = stakes.ImbalanceCost(10.0, 1.0, lower=0.0, upper=300.0)
    times = np.datetime64("2020-01-01", "h") + np.arange(480)
    found = stakes.attribute_regret(members, outcome, cost, names=["north", "south"], times=times)
    plots.plot_regret(found, ax=axes)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["north", "south"]
    marks = next(line for line in axes.lines if line.get_marker() == "o")
    assert np.asarray(marks.get_ydata()) == pytest.approx(found.by_outcome.mean(0))
    hours = Figure().subplots()
    plots.plot_regret(found, "hour", ax=hours)
    assert np.asarray(hours.lines[0].get_ydata()) == pytest.approx(found.regret.reshape(-1, 24).mean(0))
    refuses(SettingError, "kind must be one of outcome, members, hour, got 'site'", plots.plot_regret, found, "site")
