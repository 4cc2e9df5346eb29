"""Bounds of outcomes: where they come from, and that drawing members to them costs no score."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import stakes
from stakes.data.forecasts.quantiles import OutcomeBounds, outcome_bounds, written_pair
from stakes.errors import SettingError
from stakes.settings import from_plain, to_plain

COST = stakes.ImbalanceCost(10.0, 1.0, 0.0, 10.0)


def column(*values: Any) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.atleast_1d(value) for value in values]).astype(np.float64))[:, None]


def atoms(values: torch.Tensor) -> Any:
    bounds = outcome_bounds("auto", COST, values)
    return None if bounds is None else bounds.pairs


SMOOTH = np.random.default_rng(0).uniform(0.1, 0.9, 980)


@pytest.mark.parametrize(
    ("values", "pairs"),
    [
        (column(SMOOTH), None),
        (column(SMOOTH, 0.0), None),  # a minimum is no bound
        (column(SMOOTH, 1.0), None),  # and no maximum
        (column(SMOOTH, np.zeros(20)), ((0.0, None),)),
        (column(SMOOTH, np.ones(20)), ((None, 1.0),)),
        (column(SMOOTH, np.zeros(20), np.ones(20)), ((0.0, 1.0),)),
        (column(SMOOTH, np.zeros(9)), None),  # too few ties
        (column(SMOOTH, np.zeros(20), np.full(10, 0.05)), None),  # the next value has many, too
        (column(SMOOTH, np.full(20, 0.05)), None),  # a lower bound is 0
        (column(SMOOTH - 1, np.zeros(20)), ((None, 0.0),)),
        (column(np.random.default_rng(0).poisson(3.0, 1000)), None),  # every value has ties
        (column(np.random.default_rng(0).poisson(3.0, 1000).clip(0, 4)), None),
        (column(np.random.default_rng(0).poisson(9.0, 1000), np.zeros(200)), ((0.0, None),)),
        (column(np.zeros(500), np.ones(500)), None),  # two classes
        (column(np.zeros(1000)), None),
        (column(SMOOTH[:5]), None),
    ],
)
def test_an_atom_is_found_and_nothing_else(values: torch.Tensor, pairs: Any) -> None:
    assert atoms(values) == pairs


def test_every_outcome_has_its_own_bounds() -> None:
    zeros, plain = column(SMOOTH, np.zeros(20)), column(SMOOTH, SMOOTH[:20])
    bounds = outcome_bounds("auto", COST, torch.cat([plain, zeros], 1))
    assert bounds == OutcomeBounds(((None, None), (0.0, None)), "found")
    assert bounds.sentences(("load", "wind")) == (
        "No member of wind lies below 0, at which many values lie exactly (outcome_bounds).",
    )
    clipped = bounds.clip(torch.tensor([[-1.0, -1.0], [2.0, 2.0]]))
    assert clipped.tolist() == [[-1.0, 0.0], [2.0, 2.0]]


def test_outcomes_with_the_same_bound_share_a_sentence() -> None:
    bounds = OutcomeBounds(((0.0, None),) * 60, "found")
    (sentence,) = bounds.sentences([f"site_{place}" for place in range(60)])
    assert sentence.startswith("No member of site_0, site_1, ")
    assert " more lies below 0, at which many values lie exactly (outcome_bounds)." in sentence


def test_the_user_comes_first_and_the_cost_next() -> None:
    zeros = column(SMOOTH, np.zeros(20))
    wind = stakes.WindDispatchCost(5.0)
    assert outcome_bounds(None, wind, zeros) is None
    assert outcome_bounds("auto", wind, column(SMOOTH)) == OutcomeBounds(((0.0, None),), "cost")
    assert outcome_bounds((-1.0, None), wind, zeros) == OutcomeBounds(((-1.0, None),), "given")
    assert outcome_bounds((-1.0, None), wind, zeros).sentences(("wind",)) == ()
    assert outcome_bounds("auto", wind, column(SMOOTH - 1)) is None  # what the data contradict
    assert "as the cost says" in outcome_bounds("auto", wind, zeros).sentences(("wind",))[0]


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        ((1.0, 0.0), "a lower bound below the upper one, got 1 and 0"),
        ((0.0, float("inf")), "outcome_bounds must be finite"),
        ((0.0,), "a lower and an upper bound, got"),
        ("much", "a lower and an upper bound, got 'much'"),
        ((0.5, None), "must hold all outcomes, but .* of 980 rows lie outside 0.5 to none"),
    ],
)
def test_bounds_that_cannot_be_used(bounds: Any, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        outcome_bounds(bounds, COST, column(SMOOTH))


def test_written_bounds() -> None:
    assert [written_pair(text) for text in ("auto", "none", "0,1", " ,2.5", "-1,")] == [
        "auto",
        None,
        (0.0, 1.0),
        (None, 2.5),
        (-1.0, None),
    ]
    for text in ("0", "0,1,2", "zero,1", ""):
        with pytest.raises(SettingError, match="outcome_bounds must be auto, none or two numbers"):
            written_pair(text)


def test_they_are_read_as_they_were_written() -> None:
    bounds = OutcomeBounds(((0.0, None), (None, 2.0)), "found")
    assert from_plain(OutcomeBounds, to_plain(bounds)) == bounds


numbers = st.floats(-3, 3, allow_subnormal=False)


@given(st.lists(numbers, min_size=2, max_size=8), st.floats(0, 1), numbers, numbers)
def test_drawing_members_to_the_bounds_never_costs_crps(members: list[float], share: float, a: float, b: float) -> None:
    """Of the forecast as it stands, for any outcome within the bounds."""
    lower, upper = sorted((a, b))
    if lower == upper:
        return
    bounds = OutcomeBounds(((lower, upper),), "given")
    outcome = torch.tensor([lower + share * (upper - lower)], dtype=torch.float64)
    drawn = torch.tensor(members, dtype=torch.float64)[:, None]
    clipped = bounds.clip(drawn)
    assert ((clipped >= lower) & (clipped <= upper)).all()
    before, after = (stakes.energy_score(each, outcome, "biased") for each in (drawn, clipped))
    assert after <= before + 1e-9
