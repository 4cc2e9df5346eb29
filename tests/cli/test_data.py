import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint

from stakes.data.records import load_record, record_names


def test_list() -> None:
    code, output, errors = called("data", "list")
    assert (code, errors) == (0, "")
    for name in record_names():
        assert f"{name}: " in output
    assert load_record("frost_merra2").attribution in output
    assert "temp_PAC (degC)\n" in output
    assert (
        "demand_25_101 (piece), demand_26_101 (piece), demand_27_101 (piece), demand_28_101 (piece) and 109 more\n"
        in output
    )


def test_list_for_machines() -> None:
    found = json.loads(called("data", "list", "--json")[1])
    assert [record["name"] for record in found["records"]] == list(record_names())
    wind = found["records"][0]
    record = load_record(wind["name"])
    assert (wind["rows"], wind["first"], wind["step_hours"]) == (len(record.times), str(record.times[0]), 3.0)
    assert wind["columns"][0] == {"name": record.columns[0], "unit": record.units[0]}


@pytest.mark.parametrize("file", ["wind.csv", "wind.parquet"])
def test_export(file: str) -> None:
    assert called("data", "export", "wind_irish", "--out", file) == (0, f"{file}\n", "")
    table = pd.read_csv(file) if file.endswith("csv") else pd.read_parquet(file)
    record = load_record("wind_irish")
    assert list(table.columns) == ["time", *record.columns]
    np.testing.assert_array_equal(pd.to_datetime(table["time"]).to_numpy("datetime64[s]"), record.times)
    np.testing.assert_array_equal(table[list(record.columns)], record.values)


def test_refusals() -> None:
    assert "did you mean 'wind_irish'?" in complaint("data", "export", "wind_irsh", "--out", "a.csv")
    assert "exists already" in complaint("data", "export", "wind_irish", "--out", "mine.csv")
    assert ".csv or .csv.gz or .parquet" in complaint("data", "export", "wind_irish", "--out", "a.xlsx")
    assert not Path("a.csv").exists()
    assert Path("mine.csv").read_text() == "mine"
