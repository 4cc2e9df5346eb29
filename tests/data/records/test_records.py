import csv
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.build_records import RECIPES, build_records, main

from stakes.data.records import load_record, record_names, records_folder
from stakes.errors import RecordError, SettingError, StakesError

SOURCE = Path(__file__).parents[4] / "shared" / "data" / "embed"
needs_source = pytest.mark.skipif(not SOURCE.is_dir(), reason="the source tables are not here")
NAMES = ("wind_north_sea", "wind_nora10", "frost_merra2", "frost_era5", "load_france", "wind_irish")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(str(records_folder()), tmp_path / "records"))


def test_the_six_records_are_there() -> None:
    assert record_names() == NAMES
    assert tuple(recipe.name for recipe in RECIPES) == NAMES


@pytest.mark.parametrize(
    ("name", "first", "last", "rows", "step_hours", "columns"),
    [
        ("wind_north_sea", "1980-01-01T00:00", "2023-04-29T18:00", 126_599, 3, 2),
        ("wind_nora10", "1958-01-01T00:00", "1979-12-31T21:00", 64_280, 3, 2),
        ("frost_merra2", "1997-01-01T00:30", "2019-04-30T18:30", 32_620, 6, 9),
        ("frost_era5", "1999-01-01T00:00", "2020-05-08T18:00", 31_196, 6, 4),
        ("load_france", "2014-01-01T00:00", "2021-12-31T18:00", 11_688, 6, 24),
        ("wind_irish", "1961-01-01T00:00", "1978-12-31T00:00", 6_574, 24, 12),
    ],
)
def test_span_step_and_shape(name: str, first: str, last: str, rows: int, step_hours: int, columns: int) -> None:
    record = load_record(name)
    assert record.times[0] == np.datetime64(first)
    assert record.times[-1] == np.datetime64(last)
    assert set(np.diff(record.times)) == {np.timedelta64(step_hours, "h")}
    assert record.values.shape == (rows, columns) == (len(record.times), len(record.columns))
    assert record.values.dtype == np.float64
    assert len(record.units) == columns
    assert record.title
    assert record.attribution
    assert record.source


def test_only_clock_change_hours_of_load_are_missing() -> None:
    for name in set(NAMES) - {"load_france"}:
        assert np.isfinite(load_record(name).values).all()
    record = load_record("load_france")
    missing = np.isnan(record.values)
    loads = [column.startswith("load_") for column in record.columns]
    assert (missing.any(1) == missing[:, loads].all(1)).all()
    assert not missing[:, np.logical_not(loads)].any()
    assert [str(day)[5:7] for day in record.times[missing.any(1)]] == ["10"] * 8


@needs_source
@pytest.mark.parametrize("recipe", RECIPES, ids=NAMES)
def test_packed_values_equal_the_source_exactly(recipe) -> None:
    record = load_record(recipe.name)
    with gzip.open(SOURCE / recipe.table, "rt", encoding="utf-8") as table:
        header, *rows = csv.reader(table)
    cells = np.array(rows)
    assert (record.times == cells[:, 0].astype("datetime64[s]")).all()
    for place, column in enumerate(record.columns):
        source = cells[:, header.index(column)]
        expected = np.where(source == "", "nan", source).astype(np.float64)
        np.testing.assert_array_equal(record.values[:, place], expected)


@needs_source
def test_building_twice_gives_the_same_bytes_and_the_shipped_values(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert build_records(SOURCE, first) == build_records(SOURCE, second)
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()
    for name in NAMES:
        np.testing.assert_array_equal(load_record(name, first).values, load_record(name).values)


def test_records_are_compact() -> None:
    sizes = [path.stat().st_size for path in Path(str(records_folder())).iterdir()]
    assert max(sizes) < 1_500_000
    assert sum(sizes) < 2_500_000


def test_records_need_neither_pandas_nor_torch() -> None:
    program = (
        "import sys\n"
        "for name in ('pandas', 'pyarrow', 'torch'): sys.modules[name] = None\n"
        "from stakes.data.records import load_record\n"
        "import stakes.data.lagged_series\n"
        "assert len(load_record('wind_irish').times) == 6574\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    with pytest.raises(RecordError, match=r"no record 'frost_mera2'; did you mean 'frost_merra2'\?"):
        load_record("frost_mera2")
    with pytest.raises(RecordError, match="there are wind_north_sea, "):
        load_record("../zzz")
    with pytest.raises(SettingError, match=r"no column 'ws_10'; did you mean 'ws10'\?"):
        load_record("wind_north_sea").select("ws_10")


def test_every_flipped_bit_and_truncation_is_noticed(folder: Path) -> None:
    path = folder / "wind_irish.npz"
    content = path.read_bytes()
    for place in np.random.default_rng(0).integers(len(content), size=20):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(RecordError, match="'wind_irish' is damaged"):
            load_record("wind_irish", folder)
        path.write_bytes(content[:place])
        with pytest.raises(RecordError, match="'wind_irish' is damaged"):
            load_record("wind_irish", folder)
    path.unlink()
    with pytest.raises(RecordError, match="'wind_irish' cannot be read"):
        load_record("wind_irish", folder)
    assert load_record("frost_era5", folder).name == "frost_era5"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"wind_irish": 3}', '{"wind_irish": {"title": "x"}}'])
def test_a_damaged_manifest_is_named(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(RecordError, match="manifest"):
        load_record("wind_irish", folder)


def _replace_archive(folder: Path, content: bytes) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["wind_irish"]["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "wind_irish.npz").write_bytes(content)


def test_pickles_and_wrong_arrays_are_refused_even_with_a_fitting_checksum(folder: Path) -> None:
    for arrays in (
        {"integers": np.array([print], dtype=object)},
        {"integers": np.zeros((12, 5), np.int32)},
        {"integers": np.zeros((12, 6574))},
        {"other": np.zeros(3)},
    ):
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        _replace_archive(folder, buffer.getvalue())
        with pytest.raises(RecordError, match="'wind_irish'"):
            load_record("wind_irish", folder)
    _replace_archive(folder, b"no archive")
    with pytest.raises(RecordError, match="'wind_irish' is no archive"):
        load_record("wind_irish", folder)


def test_select_every_and_metres_per_second() -> None:
    record = load_record("wind_north_sea")
    thinned = record.every(6).select("ws_hub", "ws10")
    assert thinned.columns == ("ws_hub", "ws10")
    np.testing.assert_array_equal(thinned.values, record.values[::2, ::-1])
    np.testing.assert_array_equal(thinned.times, record.times[::2])
    for hours in (0, 4, -3):
        with pytest.raises(SettingError, match=f"multiple of the step .* got {hours}"):
            record.every(hours)

    irish = load_record("wind_irish")
    assert set(irish.units) == {"knot"}
    metric = irish.in_metres_per_second()
    assert set(metric.units) == {"m/s"}
    np.testing.assert_allclose(metric.values, irish.values * 0.5144, rtol=1e-4)
    with pytest.raises(RecordError, match="'t2m' of record 'frost_era5' is in degC"):
        load_record("frost_era5").in_metres_per_second()


def _write_tables(folder: Path, numbers: list[str], times: list[str]) -> None:
    for recipe in RECIPES:
        lines = [",".join(["time", *(name for name, _, _ in recipe.columns)])]
        lines += [
            ",".join([time, *[number] * len(recipe.columns)]) for time, number in zip(times, numbers, strict=True)
        ]
        (folder / recipe.table).write_bytes(gzip.compress("\n".join(lines).encode()))


@pytest.mark.parametrize(
    ("numbers", "times", "message"),
    [
        (
            ["1", "1.501", "2"],
            ["2020-01-01", "2020-01-02", "2020-01-03"],
            "multiples of 1/100, got 1.501 at 2020-01-02",
        ),
        (["1", "1e9", "2"], ["2020-01-01", "2020-01-02", "2020-01-03"], "got 1e9"),
        (["1", "2", "3"], ["2020-01-01", "2020-01-02", "2020-01-04"], "step changes at 2020-01-04"),
    ],
)
def test_tables_that_would_lose_something_are_not_packed(tmp_path: Path, capsys, numbers, times, message) -> None:
    _write_tables(tmp_path, numbers, times)
    assert main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_build_command(tmp_path: Path, capsys) -> None:
    _write_tables(tmp_path, ["1", "", "2.5"], ["2020-01-01", "2020-01-02", "2020-01-03"])
    assert main([str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert "wind_irish.npz" in capsys.readouterr().out
    values = load_record("load_france", tmp_path / "out").values
    np.testing.assert_array_equal(values, np.array([[1.0], [np.nan], [2.5]]).repeat(24, axis=1))
    assert main([str(tmp_path / "nowhere")]) == 2
    (tmp_path / RECIPES[0].table).write_bytes(gzip.compress(b"time,other\n2020-01-01,1\n"))
    assert main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "must have a column 'ws10', got time, other" in capsys.readouterr().err
    assert issubclass(RecordError, StakesError)
