import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
from refusals import refuses

from reproduction.study import Study, StudyError
from stakes.errors import SettingError
from stakes.evaluation.intervals import Resampling
from stakes.evaluation.metrics import LEVELS

MakeStudy = Callable[..., Study]
SIZES = (2, 3, 2, 2, 7)  # parameters, groups, weights, seeds, cases


@pytest.fixture
def study(make_study: MakeStudy) -> Study:
    generator = np.random.default_rng(0)
    metrics = {name: generator.normal(size=SIZES) for name in ("cost", "gap")}
    metrics["cost"][0, 1, 1, 0] = np.nan  # a run that failed
    metrics |= {"mass_high": generator.random(SIZES), "quantile": generator.normal(size=(*SIZES, 25))}
    cases = {"observed_high": generator.random((3, 7)) < 0.5, "outcome": generator.normal(size=(2, 3, 7))}
    return make_study(metrics, cases, weights=(0.0, 0.3), parameters=(1.0, 5.0), block=3, task="made", members=9)


def test_what_it_holds(study: Study) -> None:
    assert study.weights == [0.0, 0.3]
    assert study.parameters == [1.0, 5.0]
    assert (study.seeds, study.groups, study.regions) == (2, 3, ["high"])
    assert study.resampling == Resampling(7, 2, 3, block=3)
    assert study.values("gap", 0.3, 5.0).shape == (3, 2, 7)
    np.testing.assert_array_equal(study.values("gap", 0.3, 5.0), study.forecasts["gap"].values[1, :, 1])
    np.testing.assert_array_equal(study.values("gap", 0.3), study.forecasts["gap"].values[0, :, 1])
    np.testing.assert_array_equal(study.case_values("outcome", 5.0), study.cases["outcome"].values[1])
    for level in (0.1, 0.5, 0.98):
        wanted = study.forecasts["quantile"].sel(level=level).values[0, :, 0]
        np.testing.assert_array_equal(study.quantile(level, 0.0), wanted)


def test_means_equal_numpy(study: Study) -> None:
    high = study.cases["observed_high"].values[0][:, None]
    for parameter, place in ((1.0, 0), (5.0, 1)):
        values = study.forecasts["cost"].values[place, :, 1]
        assert study.mean("cost", 0.3, parameter).estimate == pytest.approx(np.nanmean(values))
        inside = np.where(high, values, np.nan)
        assert study.mean("cost", 0.3, parameter, "high").estimate == pytest.approx(np.nanmean(inside))
        wanted = [row[np.isfinite(row)].mean() if np.isfinite(row).any() else np.nan for row in inside.reshape(6, 7)]
        np.testing.assert_allclose(study.seed_means("cost", 0.3, parameter, "high"), wanted)
    wanted = study.forecasts["gap"].values[0, :, 1].mean(-1).reshape(-1)
    np.testing.assert_allclose(study.seed_means("gap", 0.3), wanted)


def test_a_seed_that_failed_at_one_weight_makes_no_difference(make_study: MakeStudy) -> None:
    cost = np.random.default_rng(0).normal(size=(3, 40)) + np.array([[0.0], [10.0], [20.0]])  # seeds, cases
    failed = cost.copy()
    failed[2] = np.nan
    study = make_study({"cost": np.stack([cost, failed])}, {"observed_high": np.arange(40) < 9}, weights=(0.0, 0.9))
    for region in (None, "high"):
        found, baseline = study.pair("cost", 0.9, region=region)
        assert (found - baseline).interval() == (0.0, 0.0, 0.0)
        assert found.estimate == study.mean("cost", 0.9, region=region).estimate
        assert baseline.estimate < study.mean("cost", 0.0, region=region).estimate - 4


def test_a_pair_without_failures_has_the_means_of_both(study: Study) -> None:
    for found, weight in zip(study.pair("gap", 0.3, 5.0, "high", "forecast"), (0.3, 0.0), strict=True):
        alone = study.mean("gap", weight, 5.0, "high", "forecast")
        assert found.estimate == alone.estimate
        np.testing.assert_allclose(found.interval(), alone.interval(), rtol=1e-12)


def test_regions_by_hand(make_study: MakeStudy) -> None:
    mass = np.empty((2, 2, 6))  # weights, seeds, cases
    mass[0] = [[0.9, 0.1, 0.3, 0.0, 0.5, 0.2], [0.7, 0.1, 0.5, 0.0, 0.5, 0.2]]
    mass[1] = [[0.1, 0.1, 0.3, 0.0, 0.5, 0.9], [np.nan] * 6]  # of all: 0.57, 0.1, 0.37, 0, 0.5, 0.43
    observed = [False, True, True, False, True, False]
    study = make_study({"mass_high": mass, "cost": mass}, {"observed_high": observed}, weights=(0.0, 0.5))
    by_outcome, by_forecast = study.region("high"), study.region("high", "forecast")
    assert by_outcome is not None
    assert by_forecast is not None
    assert by_outcome.shape == by_forecast.shape == (1, 1, 6)
    assert by_outcome[0, 0].tolist() == observed
    assert by_forecast[0, 0].tolist() == [True, False, False, False, True, True]
    assert study.region(None) is None
    assert study.mean("cost", 0.0, region="high", by="forecast").estimate == pytest.approx((0.8 + 0.2 + 0.5) / 3)


def test_a_region_by_forecast_favours_no_weight(make_study: MakeStudy) -> None:
    generator = np.random.default_rng(0)
    mass = 0.5 + 0.1 * generator.normal(size=(3, 1, 3000))  # equally good forecasts that err each for itself
    study = make_study({"mass_high": mass}, {"observed_high": np.arange(3000) % 5 == 0}, weights=(0.0, 0.5, 0.9))
    means = [study.mean("mass_high", weight, region="high", by="forecast").estimate for weight in study.weights]
    np.testing.assert_allclose(means, means[0], atol=0.01)
    assert means[0] > 0.55


@pytest.mark.parametrize("single", [False, True])
def test_a_saved_study_comes_back_bit_for_bit(study: Study, tmp_path: Path, single: bool) -> None:
    if single:
        study = Study(study.forecasts.astype(np.float32), study.cases, study.about, study.block)
    validation = xr.full_like(study.forecasts["gap"].isel(case=0, drop=True), 0.1)
    times = np.datetime64("2020-01-01", "ns") + np.arange(7).astype("timedelta64[h]")
    timed = study.cases.assign(time=study.cases["outcome"].astype("datetime64[ns]"))
    timed["time"][:] = times
    kept = Study(study.forecasts.assign(validation_cost=validation), timed, study.about, study.block)
    kept.save(tmp_path / "a" / "study")
    found = Study.load(tmp_path / "a" / "study")
    assert (dict(found.about), found.block) == (dict(kept.about), 3)
    for name in ("forecasts", "cases"):
        before, after = getattr(kept, name), getattr(found, name)
        assert set(before.data_vars) == set(after.data_vars)
        for variable in before.data_vars:
            wanted = before[variable]
            assert after[variable].dtype == wanted.dtype, variable
            np.testing.assert_array_equal(after[variable].transpose(*wanted.dims).values, wanted.values)
        for axis in before.sizes:
            np.testing.assert_array_equal(after[axis].values, before[axis].values)
    np.testing.assert_array_equal(found.validation("cost", 0.3), np.full((3, 2), validation.values.flat[0]))
    same = (each.mean("cost", 0.3, 5.0, "high", "forecast") for each in (kept, found))
    first, second = same
    assert first.estimate == second.estimate
    np.testing.assert_array_equal(np.concatenate(first.replicates), np.concatenate(second.replicates))
    assert found.quantile(LEVELS[3], 0.3).tolist() == kept.quantile(LEVELS[3], 0.3).tolist()


def test_what_a_study_does_not_have_is_named(study: Study) -> None:
    refuses(StudyError, r"no 'costs'.*did you mean 'cost'", study.values, "costs", 0.3)
    refuses(SettingError, r"weights \[0.0, 0.3\], not 0.4", study.mean, "cost", 0.4)
    refuses(SettingError, r"cost parameters \[1.0, 5.0\], not 2", study.values, "cost", 0.3, 2.0)
    refuses(SettingError, r"no region 'hihg'; did you mean 'high'", study.region, "hihg")
    with pytest.raises(StudyError, match=r"no 'mass_high'"):
        Study(study.forecasts.drop_vars("mass_high"), study.cases, study.about).region("high", "forecast")


@pytest.mark.parametrize("damaged", ["forecasts.parquet", "cases.parquet", "study.json"])
def test_damaged_files_are_refused(study: Study, tmp_path: Path, damaged: str) -> None:
    study.save(tmp_path)
    file = tmp_path / damaged
    for content in (file.read_bytes()[: file.stat().st_size // 2], b"", b"\x93 no study\xff"):
        file.write_bytes(content)
        refuses(StudyError, "cannot be read", Study.load, tmp_path)
    file.unlink()
    refuses(StudyError, "cannot be read", Study.load, tmp_path)
    descriptions: list[tuple[str, object]] = [("about", {"about": None, "block": 1}), ("block", {"about": {}})]
    descriptions += [("block", {"about": {}, "block": block}) for block in (0, 1.5, True, "3")]
    descriptions += [("members", {"about": {"members": "many"}, "block": 1})]
    descriptions += [("targets", {"about": {"targets": 3}, "block": 1})]
    study.save(tmp_path)
    for named, described in descriptions if damaged == "study.json" else ():
        file.write_text(json.dumps(described))
        refuses(StudyError, named, Study.load, tmp_path)


CHANGES: list[tuple[str, str, Callable[[pd.DataFrame], pd.DataFrame]]] = [
    ("cases", "case", lambda table: table.iloc[:0]),
    ("forecasts", "case", lambda table: table.iloc[:0]),
    ("cases", "case", lambda table: table.assign(case=table["case"] + 1)),
    ("cases", "outcome", lambda table: table.drop(columns="outcome")),
    ("cases", "outcome", lambda table: table.assign(outcome=np.nan)),
    ("cases", "outcome", lambda table: table.assign(outcome="a")),
    ("cases", "group", lambda table: table.assign(group=np.nan)),
    ("cases", "time", lambda table: table.assign(time=3.5)),
    ("cases", "time", lambda table: table.assign(time=pd.NaT)),
    ("cases", "time", lambda table: table.assign(time=np.datetime64("9999-12-31", "s"))),
    ("forecasts", "seed", lambda table: table.drop(columns="seed")),
    ("forecasts", "decision_weight", lambda table: table.assign(decision_weight="a")),
    ("forecasts", "cost", lambda table: table.assign(cost="a")),
]


def test_tables_that_no_study_writes_are_refused_in_words(study: Study, tmp_path: Path) -> None:
    for name, named, change in CHANGES:
        study.save(tmp_path)
        file = tmp_path / f"{name}.parquet"
        change(pd.read_parquet(file)).to_parquet(file)
        refuses(StudyError, f"cannot be read: .*{named}", Study.load, tmp_path)


def test_an_error_of_the_table_reader_is_that_of_a_study(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise pa.ArrowCapacityError("too large")

    study.save(tmp_path)
    monkeypatch.setattr("reproduction.study.pd.read_parquet", fail)
    refuses(StudyError, "cannot be read: too large", Study.load, tmp_path)


def test_an_interrupted_save_leaves_no_mixture(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study.save(tmp_path)

    def interrupted(path: Path, content: bytes) -> None:
        if path.name == "cases.parquet":
            raise KeyboardInterrupt
        path.write_bytes(content)

    monkeypatch.setattr("reproduction.study.write_atomically", interrupted)
    refuses(KeyboardInterrupt, "", Study(study.forecasts + 1, study.cases, study.about).save, tmp_path)
    refuses(StudyError, "cannot be read", Study.load, tmp_path)
