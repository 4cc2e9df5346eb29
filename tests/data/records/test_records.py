import hashlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

from stakes.data.records import load_record, records_folder
from stakes.errors import RecordError, SettingError

NAMES = ("wind_north_sea", "wind_nora10", "frost_merra2", "frost_era5", "load_france", "wind_irish", "demand_bakery")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(str(records_folder()), tmp_path / "records"))


@pytest.mark.parametrize(
    ("name", "first", "last", "rows", "step_hours", "columns"),
    [
        ("wind_north_sea", "1980-01-01T00:00", "2023-04-29T18:00", 126_599, 3, 2),
        ("wind_nora10", "1958-01-01T00:00", "1979-12-31T21:00", 64_280, 3, 2),
        ("frost_merra2", "1997-01-01T00:30", "2019-04-30T18:30", 32_620, 6, 9),
        ("frost_era5", "1999-01-01T00:00", "2020-05-08T18:00", 31_196, 6, 4),
        ("load_france", "2014-01-01T00:00", "2021-12-31T18:00", 11_688, 6, 24),
        ("wind_irish", "1961-01-01T00:00", "1978-12-31T00:00", 6_574, 24, 12),
        ("demand_bakery", "2016-01-02T00:00", "2019-04-30T00:00", 1_215, 24, 121),
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


def test_records_need_neither_pandas_nor_torch() -> None:
    program = (
        "import sys\n"
        "for name in ('pandas', 'pyarrow', 'torch'): sys.modules[name] = None\n"
        "from stakes.data.records import load_record\n"
        "assert len(load_record('wind_irish').times) == 6574\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    refuses(RecordError, "'frost_mera2'", load_record, "frost_mera2")
    refuses(RecordError, "there are wind_north_sea, ", load_record, "../zzz")
    refuses(SettingError, "'ws_10'", load_record("wind_north_sea").select, "ws_10")


def test_every_flipped_bit_and_truncation_is_noticed(folder: Path) -> None:
    path = folder / "wind_irish.npz"
    content = path.read_bytes()
    for place in np.random.default_rng(0).integers(len(content), size=20):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        refuses(RecordError, "'wind_irish'", load_record, "wind_irish", folder)
        path.write_bytes(content[:place])
        refuses(RecordError, "'wind_irish'", load_record, "wind_irish", folder)
    path.unlink()
    refuses(RecordError, "'wind_irish'", load_record, "wind_irish", folder)
    assert load_record("frost_era5", folder).name == "frost_era5"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"wind_irish": 3}', '{"wind_irish": {"title": "x"}}'])
def test_a_damaged_manifest_is_named(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    refuses(RecordError, "manifest", load_record, "wind_irish", folder)


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
        refuses(RecordError, "'wind_irish'", load_record, "wind_irish", folder)
    _replace_archive(folder, b"no archive")
    refuses(RecordError, "'wind_irish'", load_record, "wind_irish", folder)


def test_select_every_and_metres_per_second() -> None:
    record = load_record("wind_north_sea")
    thinned = record.every(6).select("ws_hub", "ws10")
    assert thinned.columns == ("ws_hub", "ws10")
    np.testing.assert_array_equal(thinned.values, record.values[::2, ::-1])
    np.testing.assert_array_equal(thinned.times, record.times[::2])
    for hours in (0, 4, -3):
        refuses(SettingError, f"multiple of the step .* got {hours}", record.every, hours)

    irish = load_record("wind_irish")
    assert set(irish.units) == {"knot"}
    metric = irish.in_metres_per_second()
    assert set(metric.units) == {"m/s"}
    np.testing.assert_allclose(metric.values, irish.values * 0.5144, rtol=1e-4)
    refuses(RecordError, "'t2m'", load_record("frost_era5").in_metres_per_second)
