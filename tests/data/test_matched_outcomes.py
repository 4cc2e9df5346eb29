"""Outcomes find their forecasts by name, or are refused in words."""

import pytest

from stakes.data.forecasts.reading import matched_actions, matched_outcomes
from stakes.errors import TableError
from stakes.programs.schedules import ScheduleCost
from stakes.programs.storage import ArbitrageCost


@pytest.mark.parametrize(
    ("targets", "outcomes", "expected"),
    [
        (["north", "south"], ["south", "north"], ("north", "south")),
        (["f_CAPITL", "f_CENTRL"], ["load_CENTRL", "load_CAPITL"], ("load_CAPITL", "load_CENTRL")),
        (["north_f", "south_f"], ["obs south", "obs north"], ("obs north", "obs south")),
        (["A", "AB"], ["y_ab", "y_a"], ("y_a", "y_ab")),
        (["t2m"], ["temperature"], ("temperature",)),
        (["h0", "h10", "h11"], ["obs_11", "obs_00", "obs_10"], ("obs_00", "obs_10", "obs_11")),
    ],
)
def test_names_that_share_their_own_part_match(
    targets: list[str], outcomes: list[str], expected: tuple[str, ...]
) -> None:
    assert matched_outcomes(targets, outcomes, in_order=False) == (expected, ())


def test_names_that_share_nothing_are_matched_in_the_order_given_and_told() -> None:
    matched, notes = matched_outcomes(["52 4", "55 8"], ["delft", "ribe"], in_order=True)
    assert matched == ("delft", "ribe")
    assert notes == (
        "names do not tell which outcome belongs to which forecast: taken in order, delft of 52 4, ribe of 55 8",
    )


@pytest.mark.parametrize(
    ("targets", "outcomes", "in_order", "said"),
    [
        (["north", "south"], ["a", "b"], False, "must have the names of the forecasts' targets, north, south"),
        (["north", "south", "west"], ["north", "south", "east"], True, "rename the columns"),
        (
            ["north", "south"],
            ["north"],
            True,
            "an outcome for each target of the forecasts, north, south, got 1",
        ),
    ],
)
def test_what_may_belong_to_another_is_refused(
    targets: list[str], outcomes: list[str], in_order: bool, said: str
) -> None:
    with pytest.raises(TableError, match=said):
        matched_outcomes(targets, outcomes, in_order)


def test_actions_find_their_parts_by_name() -> None:
    plan, hours = ScheduleCost(short=5.0, long=1.0), ["h0", "h2", "h10"]
    assert matched_actions(plan, hours, ["did_h0", "did_h10", "did_h2"]) == ("did_h0", "did_h2", "did_h10")
    assert matched_actions(plan, hours, ["b", "c", "a"]) == ("b", "c", "a")
    assert matched_actions(plan, ["h0"], ["did"]) == ("did",)
    battery = ArbitrageCost(power=1.0, energy=2.0)
    columns = ["discharge_h1", "discharge_h0", "charge_h1", "charge_h0"]
    assert matched_actions(battery, ["h0", "h1"], columns) == tuple(reversed(columns))
    assert matched_actions(battery, ["h0", "h1"], ["a", "b"]) == ("a", "b")
