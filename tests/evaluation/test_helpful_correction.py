"""Corrections that are made where they are expected to help."""

from functools import partial

import numpy as np
import pytest
import torch
from own_corrections import moving
from torch import Tensor

import stakes
from stakes.forecasting.corrections import correction_sentence
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
            assert correction.models or correction.distances is not None  # or it would correct nothing


def test_errors_that_changed_widen_members_and_move_none() -> None:
    members, outcome = forecasts(1.0, 1.0)
    outcome[200:] -= 2.0  # too low before, too high afterwards
    correction = helpful(members, outcome)
    assert correction is not None
    assert correction.shift == (0.0,)
    assert 1.3 < correction.factor[0] < 1.7  # the root of 2 is right for many members


def test_members_that_are_too_near_or_too_far_are_put_where_errors_are() -> None:
    """Errors with tails, of members without: no one factor is right for small and large ones."""
    generator = torch.Generator().manual_seed(3)
    known, chi = torch.randn(3000, 1, 1, generator=generator), torch.randn(3000, 3, generator=generator).square().sum(1)
    members = known + 0.6 * torch.randn(3000, 200, 1, generator=generator)
    errors = torch.randn(3000, generator=generator) / (chi / 3).sqrt()  # of Student's t, whose variance is large
    correction = stakes.Correction.fit(members[:2000], (known[:, 0, 0] + errors)[:2000, None], shape="distances")
    assert correction.distances is not None
    later = torch.from_numpy(correction.apply(members[2000:].double().numpy()))
    np.testing.assert_allclose(later.mean(1), members[2000:].mean(1), atol=0.15)
    seen = known[2000:, 0, 0] + errors[2000:]
    for share in (0.5, 0.8, 0.95):
        low, high = (later[..., 0].quantile((1 + sign * share) / 2, dim=1) for sign in (-1, 1))
        assert ((low <= seen) & (seen <= high)).float().mean() == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("cases", [199, 69])
def test_few_cases_tell_nothing(cases: int) -> None:
    assert helpful(*forecasts(0.4, 1.0, cases)) is None


def test_a_better_score_that_costs_more_is_not_taken() -> None:
    """Members that are too high by 3 are the better for whoever pays 1,000 for every unit that is missing."""
    members, outcome = forecasts(1.0, -3.0, cases=3000)  # of fewer cases the score would tell more than the cost
    dear = stakes.NewsvendorCost(1000.0, 1.0, -50.0, 50.0)
    located, others = helpful(members, outcome), helpful(members, outcome, dear)
    assert located is not None
    assert located.models
    assert others is None or not others.models


def test_the_judge_sees_the_bounds() -> None:
    """A correction that the bounds take back again helps nothing."""
    members, outcome = forecasts(0.4, 1.0)
    assert helpful(members, outcome, bounded=lambda _: members) is None


def test_what_is_said() -> None:
    correction = moving(220, (-65.9,), (1.46,))
    said = correction_sentence(correction, ("loaves",))
    assert all(word in said for word in ("newest 220 cases", "by -65.9,", "by 1.46."))
    both = moving(220, (1.0, -3.0), (1.5, 1.5))
    assert "by -3 to 1 (largest shift: rolls), with the spread multiplied by 1.5." in correction_sentence(
        both, ("loaves", "rolls")
    )
