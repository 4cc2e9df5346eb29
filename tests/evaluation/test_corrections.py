import json

import numpy as np
import pytest
import scoringrules
import torch
from own_corrections import moving
from refusals import refuses

import stakes
from stakes.errors import NonFiniteError, SettingError, ShapeError, StakesError
from stakes.evaluation.intervals import paired_difference

HOURS = np.datetime64("2020-01-01T00") + np.arange(4000)
PLAIN = json.loads(moving(60, (0.0,), (1.0,)).to_json())
MODEL = PLAIN["models"]


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
    found = moving(100, (0.0, 0.0), (1.0, 1.0)).apply(members)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, members)


def test_shift_and_factor_by_hand() -> None:
    found = moving(100, (10.0,), (3.0,)).apply([[[1.0], [2.0], [6.0]]])
    np.testing.assert_allclose(found, [[[7.0], [10.0], [22.0]]])  # mean 3: 13 - 6, - 3, + 9


def test_bounds_are_kept() -> None:
    _, members, outcomes = world(300, width=2, low=1.0, narrow=0.5)
    correction = stakes.Correction.fit(members, np.clip(outcomes, 0, 1), lower=0.0, upper=[1.0, 0.9])
    found = correction.apply(members)
    assert found.min() == 0.0
    assert found.max((0, 1)).tolist() == [1.0, 0.9]


def test_errors_of_the_hour_and_the_season() -> None:
    _, members, outcomes = world(4000)
    hours = HOURS[0] + 5 * np.arange(4000)
    night = np.cos(2 * np.pi * (hours - hours.astype("datetime64[D]")) / np.timedelta64(1, "D"))
    outcomes += 2 * night[:, None]
    correction = stakes.Correction.fit(members, outcomes, hours, by=("season", "hour"))
    assert (correction.terms.season, correction.terms.hour_waves) == (True, 3)
    moved = correction.apply(np.zeros((3, 5, 1)), ["2024-05-05T00", "2024-05-05T06", "2024-05-05T12"])[:, 0, 0]
    np.testing.assert_allclose(moved, [2.0, 0.0, -2.0], atol=0.3)


def test_errors_of_the_lead_and_the_site() -> None:
    _, members, outcomes = world(1000)
    leads, sites = np.tile([24.0, 48.0], 500), np.repeat(["hill", "shore"], 500)
    outcomes += np.where(leads == 48, 3.0, 0.0)[:, None] + np.where(sites == "hill", 5.0, 0.0)[:, None]
    correction = stakes.Correction.fit(members, outcomes, leads=leads, sites=sites, by=("lead", "site"))
    found = correction.apply(np.zeros((4, 3, 1)), leads=[24, 48, 24, 48], sites=["hill", "hill", "shore", "shore"])
    np.testing.assert_allclose(found[:, 0, 0], [5.0, 8.0, 0.0, 3.0], atol=0.4)


def test_few_cases_of_an_hour_are_corrected_as_all() -> None:
    _, members, outcomes = world(300, low=1.0)
    correction = stakes.Correction.fit(members, outcomes, HOURS[:300], by=("hour",))
    assert correction.terms.hour_waves == 0
    found = correction.apply(np.zeros((2, 3, 1)), HOURS[:2])
    np.testing.assert_allclose(found, correction.shift[0])


def test_the_shape_of_past_errors() -> None:
    """Members are symmetric, errors are not: quantiles of the errors take their place."""
    random = np.random.default_rng(3)
    members = random.normal(size=(2000, 1, 1)) + random.normal(size=(2000, 20, 1))
    outcomes = members.mean(1) + random.exponential(size=(2000, 1)) - 1
    forecasts = {
        shape: stakes.Correction.fit(members[:1000], outcomes[:1000], shape=shape).apply(members[1000:])
        for shape in ("members", "errors")
    }
    assert forecasts["errors"].shape == (1000, 100, 1)
    scores = {shape: crps(drawn, outcomes[1000:]).mean() for shape, drawn in forecasts.items()}
    assert scores["errors"] < 0.97 * scores["members"]


def test_points_and_quantiles_take_the_shape_of_past_errors() -> None:
    random = np.random.default_rng(4)
    known = random.normal(size=(600, 1, 1))
    outcomes = known[:, 0] + random.normal(size=(600, 1))
    points = stakes.Correction.fit(known, outcomes, shape="errors")
    assert points.apply(known).std(1).mean() == pytest.approx(1.0, rel=0.1)
    levels, weights = stakes.quantile_members((0.1, 0.5, 0.9), known[:, 0] + np.array([-4.0, 0.0, 4.0]))
    wide = stakes.Correction.fit(levels[..., None], outcomes, weights=weights, shape="errors")
    assert wide.apply(levels[..., None], weights=weights).std(1).mean() == pytest.approx(1.0, rel=0.1)
    refuses(SettingError, "the forecasts must be quantiles", wide.apply, levels[..., None])
    for given in ({"members": known}, {"members": levels[..., None], "weights": weights}):
        refuses(ShapeError, "at least two in each case", stakes.Correction.fit, outcomes=outcomes, **given)


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
        times = HOURS[:300]
        np.testing.assert_array_equal(again.apply(members, times), correction.apply(members, times))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ("no JSON", "Correction"),
        ("[]", "must be a table"),
        ({"form": "rumour"}, "form"),
        ({"models": []}, None),
        ({"models": [{}]}, r"models\[0\]"),
        ({"models": 2 * MODEL}, "models"),
        ({"bounds": 2 * [[0, 1]]}, "bounds"),
        ({"bounds": [[1, 0]]}, "lower"),
        ({"order": [[0], [1, 0]]}, "order"),
        ({"order": []}, "order"),
        ({"seasons": []}, "'seasons'"),
    ],
)
def test_json_that_is_no_correction(changed: object, sentence: str | None) -> None:
    text = changed if isinstance(changed, str) else json.dumps(PLAIN | changed)
    if sentence is None:
        assert stakes.Correction.from_json(text).shift == (0.0,)
        return
    refuses(StakesError, sentence, stakes.Correction.from_json, text)


def test_what_cannot_be_learned_from() -> None:
    _, members, outcomes = world(60)
    holed = members.copy()
    holed[3, 2] = np.nan
    fit = stakes.Correction.fit
    refuses(NonFiniteError, "members", fit, holed, outcomes)
    refuses(NonFiniteError, "outcomes", fit, members, np.full_like(outcomes, np.inf))
    refuses(ShapeError, "outcomes", fit, members, outcomes[1:])
    refuses(ShapeError, "members", fit, members[..., 0], outcomes)
    refuses(ShapeError, "members", fit, members.astype(str), outcomes)
    refuses(ShapeError, "at least 50 past cases .* got 49", fit, members[:49], outcomes[:49])
    refuses(ShapeError, "at least two in each case", fit, members[:, :1], outcomes)
    refuses(SettingError, "dependence", fit, members, outcomes, dependence="ranks")
    refuses(SettingError, "shape", fit, members, outcomes, shape="round")
    refuses(SettingError, "leads", fit, members, outcomes, by=("lead",))
    refuses(SettingError, "by ", fit, members, outcomes, HOURS[:60], by="hour")
    refuses(ShapeError, "upper", fit, members, outcomes, upper=[1.0, 2.0])
    refuses(NonFiniteError, "lower", fit, members, outcomes, lower=np.nan)


def test_what_cannot_be_corrected() -> None:
    _, members, outcomes = world(1300)
    correction = stakes.Correction.fit(members, outcomes, HOURS[:1300], by=("hour",))
    refuses(ShapeError, "members", correction.apply, np.ones((3, 4, 2)), HOURS[:3])
    refuses(NonFiniteError, "members", correction.apply, np.full((3, 4, 1), np.nan), HOURS[:3])
    refuses(SettingError, "times", correction.apply, members[:3])
