import json
import math
from dataclasses import replace
from math import nan

import numpy as np
import pytest
import xarray as xr
from invented_studies import invented_study
from made_studies import made_studies
from scipy.stats import norm

from reproduction.claims import method
from reproduction.claims.claim import (
    Check,
    Expected,
    Judgement,
    exact,
    falls,
    gap_change,
    nearest_weight,
    never_falls,
    never_rises,
    remark,
    required_parameter,
    smallest_and_largest,
)
from reproduction.claims.judging import all_claims, claims_record, judge_claims
from reproduction.claims_part import Verdict
from reproduction.study import Study, StudyError
from reproduction.study_collection import Studies, StudyKey
from stakes.evaluation.intervals import Difference, Resampling, Sampled

CLAIMS = {claim.identifier: claim for claim in all_claims()}


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "_SETS", 600)
    monkeypatch.setattr(method, "_ROUNDS", 2)
    monkeypatch.setattr(method, "_SIZES", (2, 5, 8))


def synthetic() -> Study:
    return made_studies("synthetic").find("synthetic", "diffusion")


def wind() -> Study:
    return made_studies("wind").find("wind", "implicit")


@pytest.mark.parametrize(
    ("expected", "bound", "low", "high", "found"),
    [
        ("below", 0.0, -2.0, -1.0, "holds"),
        ("below", 0.0, 1.0, 2.0, "fails"),
        ("below", 0.0, -1.0, 1.0, "open"),
        ("below", 0.0, -1.0, 0.0, "open"),
        ("below", 0.0, 0.0, 0.0, "open"),
        ("below", -10.0, -12.0, -11.0, "holds"),
        ("below", -10.0, -5.0, -1.0, "fails"),
        ("above", 0.0, 1.0, 2.0, "holds"),
        ("above", 0.0, -2.0, -1.0, "fails"),
        ("above", 0.0, -1.0, 1.0, "open"),
        ("above", 10.0, 1.0, 2.0, "fails"),
        ("above", 10.0, 9.0, 11.0, "open"),
        ("within", 2.0, -2.0, 2.0, "holds"),
        ("within", 2.0, 3.0, 4.0, "fails"),
        ("within", 2.0, -4.0, -3.0, "fails"),
        ("within", 2.0, 1.0, 3.0, "open"),
        ("within", 2.0, -5.0, 5.0, "open"),
        ("within", 0.0, 0.0, 0.0, "holds"),
        ("not below", 0.0, -1.0, 1.0, "holds"),
        ("not below", 0.0, 1.0, 2.0, "holds"),
        ("not below", 0.0, -2.0, -1.0, "fails"),
        ("not above", 0.0, -1.0, 1.0, "holds"),
        ("not above", 0.0, -2.0, -1.0, "holds"),
        ("not above", 0.0, 1.0, 2.0, "fails"),
        *((each, 0.0, nan, nan, "open") for each in ("below", "above", "within", "not below", "not above")),
    ],
)
def test_what_an_interval_says(expected: Expected, bound: float, low: float, high: float, found: Verdict) -> None:
    assert Check("x", Difference((low + high) / 2, low, high), expected, bound).verdict == found


@pytest.mark.parametrize(
    ("effects", "note", "found"),
    [
        ([-1.0, -2.0], "", "holds"),
        ([-1.0, 1.0], "", "fails"),
        ([-1.0, nan], "", "open"),
        ([nan, 1.0], "", "fails"),
        ([], "", "open"),
        ([-1.0], "a part could not be judged", "open"),
        ([1.0], "a part could not be judged", "fails"),
    ],
)
def test_checks_together(effects: list[float], note: str, found: Verdict) -> None:
    checks = tuple(falls("x", exact(effect)) for effect in effects)
    assert Judgement(CLAIMS["S1"], "main", checks, note).verdict == found
    beside = (remark(falls("y", exact(1.0))), remark(falls("z", exact(nan))))
    assert Judgement(CLAIMS["S1"], "main", (*checks, *beside), note).verdict == found


def of_values(mean: float, deviation: float, count: int = 60) -> Sampled:
    """The mean of so many independent values, which are not skewed."""
    values = np.random.default_rng(1).permutation(norm.ppf((np.arange(count) + 0.5) / count))
    values = mean + deviation * (values - values.mean()) / values.std()
    return Resampling(count).mean(values[None, None])


def test_the_step_that_goes_the_other_way() -> None:
    path = {weight: of_values(mean, weight) for weight, mean in ((0.0, 0.0), (0.5, -3.0), (0.9, -1.0))}
    assert never_rises("x", path).what == "x, step from weight 0.5 to 0.9"
    assert (never_rises("x", path).verdict, never_falls("x", path).verdict) == ("fails", "fails")
    falling = {weight: path[weight] for weight in (0.0, 0.5)}
    assert (never_rises("x", falling).verdict, never_falls("x", falling).verdict) == ("holds", "fails")
    assert never_rises("x", {**falling, 0.9: exact(nan)}).verdict == "open"
    with pytest.raises(StudyError, match="at least two"):
        never_rises("x", {0.0: exact(0.0)})


def test_more_steps_have_wider_intervals() -> None:
    one = {0.0: exact(0.0), 0.1: of_values(2.2, math.sqrt(59))}  # 2.2 standard errors above zero
    many = one | dict.fromkeys((0.2, 0.3, 0.4), one[0.1])
    assert (never_rises("x", one).verdict, never_rises("x", many).verdict) == ("fails", "holds")


def test_every_claim_is_there_once() -> None:
    expected = [f"S{n}" for n in range(1, 7)] + [f"W{n}" for n in range(1, 8)] + [f"F{n}" for n in range(1, 10)]
    assert [claim.identifier for claim in all_claims()] == [*expected, "M1", "M2", "O1", "T1"]
    assert all(claim.statement.endswith(".") and claim.how.endswith(".") for claim in all_claims())


@pytest.mark.parametrize("choices", [("main",), ("biased_score", "epsilon", "decision_alone")], ids=["main", "choices"])
def test_every_claim_can_be_judged(choices: tuple[str, ...]) -> None:
    subjects = ("synthetic", "wind", "frost")
    studies = Studies({key: study for each in subjects for key, study in made_studies(each, *choices).items()})
    judged = judge_claims(studies)
    assert {judgement.claim.identifier for judgement in judged} == set(CLAIMS)
    record = claims_record(judged)
    json.dumps(record, allow_nan=False)
    assert list(record) == list(CLAIMS)
    written = [choice["checks"] for claim in record.values() for choice in claim["choices"].values()]
    assert [len(checks) for checks in written] == [len(judgement.checks) for judgement in judged]
    without_checks = [j for j in judged if not j.checks]
    assert all(j.note and j.verdict == "open" for j in without_checks)
    if choices == ("main",):
        assert {j.claim.identifier for j in without_checks} == {"F4", "M2"}  # few made cases are cold; a choice


def test_what_a_study_lacks_is_noted() -> None:
    study = wind()
    short = replace(study, forecasts=study.forecasts.sel(decision_weight=[0.0, 0.1]))
    (judgement,) = CLAIMS["W1"].judgements(Studies({StudyKey("wind", "implicit"): short}))
    assert (judgement.verdict, judgement.checks) == ("open", ())
    assert judgement.note == "this study has the weights 0, 0.1, none near 0.9"
    one = replace(study, forecasts=study.forecasts.sel(parameter=[5.0]))
    (judgement,) = CLAIMS["W4"].judgements(Studies({StudyKey("wind", "implicit"): one}))
    assert judgement.note == "this study has one penalty, 5: nothing to compare it with"
    with pytest.raises(StudyError, match="has penalty 5, not 3"):
        required_parameter(one, 3.0)
    assert (nearest_weight(study, 0.85), smallest_and_largest(study)) == (0.9, (3.0, 10.0))


def test_a_gap_counts_by_its_size_and_weight_0_is_near_to_none() -> None:
    study = invented_study(StudyKey("wind", "implicit"), (0.0, 0.2), (5.0,))
    gap = xr.zeros_like(study.forecasts["gap"]) + xr.DataArray([1.0, -0.5], dims="decision_weight")
    study = replace(study, forecasts=study.forecasts.assign(gap=gap))
    assert gap_change(study, 0.2).estimate == pytest.approx(-0.5)
    assert nearest_weight(study, 0.05) == 0.2


def test_checks_before_a_missing_part_are_kept() -> None:
    study = made_studies("frost").find("frost", "implicit")
    one = replace(study, forecasts=study.forecasts.sel(parameter=[0.2]))
    (judgement,) = CLAIMS["F1"].judgements(Studies({StudyKey("frost", "implicit"): one}))
    assert judgement.checks
    assert "not 0.3" in judgement.note
