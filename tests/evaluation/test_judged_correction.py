"""Raw and corrected forecasts on the same cases."""

from typing import Any

import numpy as np
import pytest
import torch
from refusals import refuses

import stakes
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import ShapeError
from stakes.evaluation.drift import SeenErrors, watch_errors
from stakes.evaluation.metrics import Assessor
from stakes.forecasting.recalibration import JudgedCorrection, judge_correction

COST = stakes.NewsvendorCost(9.0, 1.0, 0.0, 30.0)


def cases(members: int = 11, sites: int = 1, **known: Any) -> tuple[ForecastSet, Any]:
    """Forecasts that lie 2 too low, and the same moved up."""
    generator = np.random.default_rng(0)
    centre = 10 + generator.normal(size=(40, 1, sites))
    outcomes = (centre + generator.normal(size=(40, 1, sites)))[:, 0]
    corrected = centre + generator.normal(size=(40, 50, sites))
    return ForecastSet(corrected[:, :members] - 2, outcomes=outcomes, **known), corrected


def test_both_are_what_the_assessor_says_of_them() -> None:
    given, corrected = cases(sites=2)
    judged = judge_correction(given, corrected, COST, block=5)
    outcome = torch.from_numpy(given.outcomes)
    for version, members in (("raw", given.members), ("corrected", corrected)):
        expected = Assessor(COST, chosen=True)(torch.from_numpy(members), outcome)
        for name in ("action", "cost", "expected_cost", "energy_score", "error"):
            assert judged.values(name, version) == pytest.approx(expected[name].numpy())  # type: ignore[arg-type]
        ratio = (1 + 1 / members.shape[1]) ** 0.5
        assert judged.values("spread", version) == pytest.approx(ratio * expected["spread"].numpy())  # type: ignore[arg-type]
        pit = (expected["pit"].numpy() * members.shape[1] + 0.5) / (members.shape[1] + 1)
        assert judged.pit(version) == pytest.approx(pit)  # type: ignore[arg-type]
        foresight = (expected["cost"] - expected["foresight_regret"]).numpy()
        assert judged.values("foresight_cost") == pytest.approx(foresight)
    assert judged.values("outcome") == pytest.approx(outcome.sum(1).numpy())
    assert (len(judged), judged.block) == (40, 5)
    assert judged.times is None
    assert "today_cost" not in judged.cases
    assert "site" not in judged.cases


def test_what_is_known_beside_forecasts_is_kept() -> None:
    days = np.arange("2024-01-01", "2024-02-10", dtype="datetime64[D]")
    given, corrected = cases(times=days, sites=1, today=np.full(40, 12.0))
    judged = judge_correction(given, corrected, COST)
    assert judged.times is not None
    assert judged.times[0] == np.datetime64("2024-01-01")
    outcome = judged.values("outcome")
    assert judged.values("today_cost") == pytest.approx(np.where(outcome > 12, 9 * (outcome - 12), 12 - outcome))


def test_a_point_has_no_spread() -> None:
    judged = judge_correction(*cases(members=1), COST)
    assert not judged.values("spread", "raw").any()
    assert judged.values("energy_score", "raw") == pytest.approx(np.abs(judged.values("error", "raw")))
    assert set(judged.values("pit_to", "raw") - judged.values("pit_from", "raw")) == {0.5}


def test_a_pit_lies_where_members_tie_and_by_their_weights() -> None:
    members, outcomes = np.tile([0.0, 0.0, 0.0, 5.0], (3, 1))[..., None], np.array([[0.0], [5.0], [9.0]])
    judged = judge_correction(ForecastSet(members, outcomes=outcomes), members, COST, weights=np.arange(1.0, 5.0))
    assert judged.values("pit_from", "raw") == pytest.approx([0, 0.6, 0.8])
    assert judged.values("pit_to", "raw") == pytest.approx([0.8, 1, 1])
    assert judged.values("pit_from", "corrected") == pytest.approx([0, 0.6, 1])
    assert judged.values("pit_to", "corrected") == pytest.approx([0.6, 1, 1])


def test_errors_are_those_of_the_corrected_forecast() -> None:
    judged = judge_correction(*cases(), COST)
    excess = judged.values("cost", "corrected") - judged.values("expected_cost", "corrected")
    assert judged.errors.excess == pytest.approx(excess)
    assert abs(judged.errors.pit.mean() - 0.5) < 0.1 < judged.pit("raw").mean() - 0.5


def test_forecasts_that_do_not_fit_are_named() -> None:
    given, corrected = cases()
    refuses(ShapeError, r"as corrected, got \(40, 11, 1\) and", judge_correction, given, corrected[:-1], COST)
    judged = judge_correction(given, corrected, COST)
    refuses(ShapeError, "cases", JudgedCorrection, judged.cases.drop(columns=["raw_cost", "corrected_pit_to"]), 1)


@pytest.mark.parametrize("beyond", [-100.0, 100.0])
def test_outcomes_beyond_all_weighted_members_have_a_pit_within_its_limits(beyond: float) -> None:
    """The sum of weights may round to just above 1, and `monitor` must still hear of such outcomes."""
    for count in range(2, 100):
        weights = np.random.default_rng(count).uniform(size=count)
        given = ForecastSet(np.full((3, 1, 1), 9.0), outcomes=np.full((3, 1), beyond))
        members = np.broadcast_to(np.linspace(8, 12, count)[:, None], (3, count, 1))
        pit = judge_correction(given, members, COST, weights=weights).pit("corrected")
        assert pit == pytest.approx(float(beyond > 0))
        assert ((pit >= 0) & (pit <= 1)).all()
        assert watch_errors(SeenErrors(pit, np.zeros(3)), SeenErrors(pit, np.zeros(3))).new_blocks == 3
