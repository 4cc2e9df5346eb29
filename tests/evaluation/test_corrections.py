import json

import numpy as np
import pytest
import scoringrules
import torch

import stakes
from stakes.errors import NonFiniteError, SettingError, ShapeError, StakesError
from stakes.evaluation.intervals import paired_difference
from stakes.forecasting.corrections import BiasScale

HOURS = np.datetime64("2020-01-01T00") + np.arange(4000)


def world(
    cases: int = 1500, members: int = 40, width: int = 1, low: float = 0.0, narrow: float = 1.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ideal members, the same too low and too narrow, and outcomes; what can be known changes from case to case."""
    random = np.random.default_rng(seed)
    known, spread = random.normal(size=(cases, 1, width)), random.uniform(0.5, 1.5, size=(cases, 1, 1))
    noise = random.normal(size=(cases, members, width))
    outcomes = (known + spread * random.normal(size=(cases, 1, width)))[:, 0]
    return known + spread * noise, known - low + narrow * spread * noise, outcomes


def crps(members: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Mean over the outcomes, (N,)."""
    return scoringrules.crps_ensemble(outcomes, np.moveaxis(members, 1, -1), estimator="nrg").mean(-1)


def test_a_calibrated_forecast_does_not_get_worse() -> None:
    changes = []
    for seed in range(20):
        _, members, outcomes = world(400, members=20, width=3, seed=seed)
        corrected = stakes.Correction.fit(members[:200], outcomes[:200]).apply(members[200:])
        changes.append(crps(corrected, outcomes[200:]).mean() / crps(members[200:], outcomes[200:]).mean() - 1)
    assert max(changes) < 0.02
    assert np.mean(changes) < 0.003


def test_a_biased_and_narrow_forecast_is_repaired_to_near_the_ideal() -> None:
    ideal, members, outcomes = world(3000, width=2, low=0.8, narrow=0.4)
    corrected = stakes.Correction.fit(members[:1500], outcomes[:1500]).apply(members[1500:])
    raw, mended, best = (crps(each, outcomes[1500:]) for each in (members[1500:], corrected, ideal[1500:]))
    assert raw.mean() > 1.2 * best.mean()
    assert mended.mean() < 1.01 * best.mean()
    assert paired_difference(mended[None], raw[None]).high < 0


def test_nothing_to_correct_changes_no_bit() -> None:
    members = np.random.default_rng(0).normal(size=(5, 4, 2)).astype(np.float32)
    found = stakes.Correction(BiasScale(100, (0.0, 0.0), (1.0, 1.0))).apply(members)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, members)


def test_shift_and_factor_by_hand() -> None:
    correction = stakes.Correction(BiasScale(100, (10.0,), (3.0,)))
    assert correction.apply([[[1.0], [2.0], [6.0]]]).tolist() == [[[7.0], [10.0], [22.0]]]  # mean 3: 13 - 6, - 3, + 9


def test_bounds_are_kept() -> None:
    _, members, outcomes = world(300, width=2, low=1.0, narrow=0.5)
    correction = stakes.Correction.fit(members, np.clip(outcomes, 0, 1), lower=0.0, upper=[1.0, 0.9])
    found = correction.apply(members)
    assert found.min() == 0.0
    assert found.max((0, 1)).tolist() == [1.0, 0.9]


def test_an_hour_with_an_error_of_its_own() -> None:
    _, members, outcomes = world(3000)
    outcomes[::24] += 2.0  # at midnight
    correction = stakes.Correction.fit(members, outcomes, HOURS[:3000], by=("hour",))
    assert len(correction.groups) == 24
    assert correction.groups["hour 00"].cases == 125
    assert correction.groups["hour 00"].shift[0] == pytest.approx(2.0, abs=0.3)
    assert np.abs([group.shift[0] for name, group in correction.groups.items() if name != "hour 00"]).max() < 0.4
    fresh = np.zeros((3, 5, 1))
    moved = correction.apply(fresh, ["2024-05-05T00", "2024-05-05T06", "2024-05-05T07"])[:, 0, 0]
    expected = [correction.groups[name].shift[0] for name in ("hour 00", "hour 06", "hour 07")]
    assert moved.tolist() == expected


def test_groups_with_few_cases_and_new_groups_take_what_holds_for_all() -> None:
    _, members, outcomes = world(300, low=1.0)
    leads = np.where(np.arange(300) < 40, 48.0, 24.0)
    correction = stakes.Correction.fit(members, outcomes, leads=leads, by=("lead",))
    assert list(correction.groups) == ["lead 24"]
    found = correction.apply(np.zeros((2, 3, 1)), leads=[48, 72])
    np.testing.assert_allclose(found, correction.overall.shift[0])


def test_dependence_from_past_errors() -> None:
    random = np.random.default_rng(1)
    joint = random.multivariate_normal([0, 0, 0], 0.9 + 0.1 * np.eye(3), size=(2000, 1))
    outcomes, members = joint[:, 0], random.normal(size=(2000, 50, 3))  # each outcome by itself is right
    apart = stakes.Correction.fit(members[:1000], outcomes[:1000])
    together = stakes.Correction.fit(members[:1000], outcomes[:1000], dependence="errors")
    assert apart.order is None
    assert len(together.order) == 200
    found = together.apply(members[1000:])
    np.testing.assert_array_equal(np.sort(found, 1), np.sort(apart.apply(members[1000:]), 1))
    total = outcomes[1000:].sum(1)
    before, after = (scoringrules.crps_ensemble(total, each.sum(2)) for each in (members[1000:], found))
    assert paired_difference(after[None], before[None]).high < 0
    assert found.sum(2).std() == pytest.approx(total.std(), rel=0.1)
    assert stakes.Correction.fit(members[..., :1], outcomes[:, :1], dependence="errors").order is None


def test_tensors_are_taken() -> None:
    _, members, outcomes = world(60)
    found = stakes.Correction.fit(torch.from_numpy(members), torch.from_numpy(outcomes))
    assert found == stakes.Correction.fit(members, outcomes)


def test_json_and_back() -> None:
    _, members, outcomes = world(300, width=2, low=0.3)
    full = stakes.Correction.fit(
        members, outcomes, HOURS[:300], by=("season", "hour"), dependence="errors", lower=-9.0, upper=(8.0, 9.0)
    )
    for correction in (full, stakes.Correction.fit(members, outcomes)):
        again = stakes.Correction.from_json(correction.to_json())
        assert again == correction
        times = HOURS[:300] if correction.by else None
        np.testing.assert_array_equal(again.apply(members, times), correction.apply(members, times))
    assert set(json.loads(full.to_json())) == {"overall", "groups", "by", "order", "lower", "upper"}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ("no JSON", "Correction must be JSON text"),
        ("[]", "must be a table"),
        ({"overall": {"cases": 60, "shift": [0], "factor": [-1]}}, "factor must not be negative, got -1"),
        ({"overall": {"cases": 60, "shift": [0], "factor": []}}, "shift and factor must have one number"),
        ({"overall": {"cases": 60, "shift": ["a"], "factor": [1]}}, r"overall\.shift\[0\] must be a number, got 'a'"),
        ({"lower": [0, 0]}, "lower must be of the 1 outcomes, got 2"),
        ({"lower": [1], "upper": [0]}, "lower must lie below upper"),
        ({"order": [[0], [1, 0]]}, "order must be of the 1 outcomes, got 2"),
        ({"order": []}, "order must have at least one error vector"),
        ({"by": ["moon"]}, "must be one of 'season', 'hour', 'lead', got 'moon'"),
        ({"groups": {"hour 00": {"cases": 60, "shift": [0, 0], "factor": [1, 1]}}}, "must be of the 1 outcomes, got 2"),
        ({"seasons": []}, "there is no setting 'seasons'"),
    ],
)
def test_json_that_is_no_correction(changed: object, sentence: str) -> None:
    plain = {"overall": {"cases": 60, "shift": [0.0], "factor": [1.0]}}
    text = changed if isinstance(changed, str) else json.dumps(plain | changed)
    with pytest.raises(StakesError, match=sentence):
        stakes.Correction.from_json(text)


def test_what_cannot_be_learned_from() -> None:
    _, members, outcomes = world(60)
    holed = members.copy()
    holed[3, 2] = np.nan
    fit = stakes.Correction.fit
    with pytest.raises(NonFiniteError, match="members must be finite, got 1 of 2400 that are not"):
        fit(holed, outcomes)
    with pytest.raises(NonFiniteError, match="outcomes must be finite"):
        fit(members, np.full_like(outcomes, np.inf))
    with pytest.raises(ShapeError, match=r"outcomes must have the shape \(60, 1\) of the members' .* got \(59, 1\)"):
        fit(members, outcomes[1:])
    with pytest.raises(ShapeError, match=r"members must have the shape \(cases, members, outcomes\)"):
        fit(members[..., 0], outcomes)
    with pytest.raises(ShapeError, match="members must hold numbers"):
        fit(members.astype(str), outcomes)
    with pytest.raises(ShapeError, match="at least 50 past cases to learn from, got 49"):
        fit(members[:49], outcomes[:49])
    with pytest.raises(ShapeError, match="at least two of each case"):
        fit(members[:, :1], outcomes)
    with pytest.raises(SettingError, match="dependence must be members or errors, got 'ranks'"):
        fit(members, outcomes, dependence="ranks")
    with pytest.raises(SettingError, match="by must be a tuple of season, hour, lead"):
        fit(members, outcomes, HOURS[:60], by="hour")
    with pytest.raises(ShapeError, match="upper must be one number or one of each of the 1 outcomes"):
        fit(members, outcomes, upper=[1.0, 2.0])
    with pytest.raises(NonFiniteError, match="lower must be finite"):
        fit(members, outcomes, lower=np.nan)


def test_what_cannot_be_corrected() -> None:
    _, members, outcomes = world(1300)
    correction = stakes.Correction.fit(members, outcomes, HOURS[:1300], by=("hour",))
    with pytest.raises(ShapeError, match="members must be of 1 outcomes, got 2"):
        correction.apply(np.ones((3, 4, 2)), HOURS[:3])
    with pytest.raises(NonFiniteError, match="members must be finite"):
        correction.apply(np.full((3, 4, 1), np.nan), HOURS[:3])
    with pytest.raises(SettingError, match="times must be given where cases are grouped by hour"):
        correction.apply(members[:3])
