"""Corrections that are made where they are expected to help."""

from functools import partial

import numpy as np
import pytest
import torch
from own_corrections import moving
from torch import Tensor

import stakes
from stakes.forecasting.corrections import corrected, correction_sentence
from stakes.forecasting.recalibration import helpful_correction

COST = stakes.ImbalanceCost(short=4.0, long=1.0, lower=-50.0, upper=50.0)


def forecasts(spread: float, shift: float = 0.0, cases: int = 400, outcomes: int = 1, seed: int = 0):
    """Members (N, 20, D) that believe in some of the spread of the outcomes (N, D), and are too low."""
    generator = torch.Generator().manual_seed(seed)
    draw = partial(torch.randn, generator=generator)
    known = draw(cases, 1, outcomes)
    members = known + spread * draw(cases, 20, outcomes)
    return members, known[:, 0] + shift + draw(cases, outcomes)


def helpful(members: Tensor, outcome: Tensor, cost: stakes.Cost = COST, bounded=lambda members: members):
    return helpful_correction(members, outcome, cost, lead=2, block=7, bounded=bounded)


def test_errors_that_last_are_corrected() -> None:
    correction = helpful(*forecasts(0.4, 1.0))
    assert correction is not None
    assert correction.cases == 400
    assert correction.shift[0] == pytest.approx(1.0, abs=0.15)
    assert correction.factor[0] == pytest.approx(2.5, abs=0.4)


def test_a_forecast_that_is_right_is_hardly_moved() -> None:
    """What may be due to chance is left out of a correction, so that a needless one does no harm."""
    for seed in range(20):
        correction = helpful(*forecasts(1.0, cases=200, seed=seed))
        if correction is not None:
            assert abs(correction.shift[0]) < 0.4
            assert abs(np.log(correction.factor[0])) < 0.3


def test_errors_that_changed_are_not_learned_from() -> None:
    members, outcome = forecasts(1.0, 1.0)
    outcome[200:] -= 2.0  # too low before, too high afterwards
    assert helpful(members, outcome) is None


@pytest.mark.parametrize("cases", [199, 69])
def test_few_cases_tell_nothing(cases: int) -> None:
    assert helpful(*forecasts(0.4, 1.0, cases)) is None


def test_a_better_score_that_costs_more_is_not_taken() -> None:
    """Members that are too high by 3 are the better for whoever pays 1,000 for every unit that is missing."""
    members, outcome = forecasts(1.0, -3.0, cases=3000)  # of fewer cases the score would tell more than the cost
    dear = stakes.NewsvendorCost(1000.0, 1.0, -50.0, 50.0)
    assert helpful(members, outcome) is not None
    assert helpful(members, outcome, dear) is None


def test_the_judge_sees_the_bounds() -> None:
    """A correction that the bounds take back again helps nothing."""
    members, outcome = forecasts(0.4, 1.0)
    assert helpful(members, outcome, bounded=lambda _: members) is None


def test_corrected_members() -> None:
    members, outcome = forecasts(0.4, 1.0, outcomes=2)
    correction = helpful(members, outcome)
    assert corrected(members, None) is members
    np.testing.assert_array_equal(corrected(members, correction).numpy(), correction.apply(members.numpy()))
    assert corrected(members, correction).dtype == members.dtype


def test_what_is_said() -> None:
    correction = moving(220, (-65.9,), (1.46,))
    assert correction_sentence(correction, ("loaves",)) == (
        "Members are corrected by the errors of the newest 220 cases that the models had not seen, which made later "
        "ones better: moved by -65.9, their spread multiplied by 1.46."
    )
    both = moving(220, (1.0, -3.0), (1.5, 1.5))
    assert "moved by -3 to 1 (largest shift: rolls), their spread multiplied by 1.5." in correction_sentence(
        both, ("loaves", "rolls")
    )
