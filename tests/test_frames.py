"""Results as frames of pandas, and as notebooks show them."""

import numpy as np
import pytest
import torch

import stakes

MEMBERS = np.random.default_rng(0).gamma(8.0, 7.0, size=(80, 10))
NEWSVENDOR = stakes.NewsvendorCost(underage=4.0, overage=1.0, lower=0.0, upper=200.0)


def test_a_solution_has_a_row_for_each_case_and_a_column_for_each_part() -> None:
    one = stakes.solve_action(NEWSVENDOR, torch.tensor(MEMBERS)[..., None])
    frame = one.to_frame()
    assert frame["action"].tolist() == one.action[:, 0].tolist()
    assert frame["certified"].all()
    assert "gap" not in frame  # which one number has none of
    cost = stakes.ScheduleCost(short=4.0, long=1.0, ramp=2.0)
    several = stakes.solve_action(cost, torch.rand(2, 5, 9, 3))
    frame = several.to_frame()
    assert frame.index.tolist() == [(row, column) for row in range(2) for column in range(5)]
    assert frame.loc[(1, 3), "action_2"] == several.action[1, 3, 1].item()
    single = stakes.solve_action(cost, torch.rand(9, 3)).to_frame()
    assert len(single) == 1


def test_ten_rows_are_shown_under_a_line_about_all() -> None:
    solution = stakes.solve_action(NEWSVENDOR, torch.tensor(MEMBERS)[..., None])
    printed, shown = repr(solution).splitlines(), solution._repr_html_()
    assert (printed[0], len(printed), printed[-1]) == (
        "80 best actions, all certified",
        13,
        "10 of 80 rows; to_frame() has all.",
    )
    assert shown.startswith("<p>80 best actions, all certified</p><table")
    assert "10 of 80 rows" in shown
    assert shown.count("<tr") == 11


@pytest.fixture(scope="module")
def recalibrator() -> stakes.Recalibrator:
    return stakes.Recalibrator(NEWSVENDOR, decision_weights=()).fit(
        MEMBERS, np.random.default_rng(1).gamma(8.0, 7.0, size=80)
    )


def test_decisions_and_selections_have_frames(recalibrator: stakes.Recalibrator) -> None:
    decisions = recalibrator.solve(MEMBERS)
    frame = decisions.to_frame()
    assert list(frame.columns[:3]) == ["case", "action", "expected_cost"]
    assert frame["action"].tolist() == decisions.action.tolist()
    assert decisions._repr_html_().startswith("<p>80 decisions, ")
    selection = recalibrator.selection_
    assert selection.to_frame()["candidate"].tolist() == [each.name for each in selection.candidates]
    assert selection.candidates[0].why in selection._repr_html_()


def test_words_are_escaped() -> None:
    paid = np.random.default_rng(0).gamma(2.0, size=200)
    judged = stakes.frontier([0.0, 0.5], [paid, 0.9 * paid], [paid, paid])
    assert "<p>Weight 0.5 is selected" in judged._repr_html_()
    curve = stakes.value_curve(
        {"<b>new</b>": MEMBERS}, MEMBERS.mean(1), stakes.NewsvendorCost(stakes.ParameterRange(1, 5), 1.0, 0.0, 200.0)
    )
    assert "<b>" not in curve._repr_html_()
    assert "&lt;b&gt;" in curve._repr_html_()
