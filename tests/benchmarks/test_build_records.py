"""The shipped records are what their source tables say, and tables that would lose something are not packed."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.build_records import RECIPES, Recipe, main
from stakes.data.records import load_record, record_names
from stakes.errors import RecordError, StakesError

SOURCE = Path(__file__).parents[3] / "shared" / "data" / "embed"
needs_source = pytest.mark.skipif(not SOURCE.is_dir(), reason="the source tables are not here")


def test_every_record_has_a_recipe() -> None:
    assert tuple(recipe.name for recipe in RECIPES) == record_names()


WIDE = [recipe for recipe in RECIPES if not recipe.varies_by]
LONG = [recipe for recipe in RECIPES if recipe.varies_by]


@needs_source
@pytest.mark.parametrize("recipe", WIDE, ids=lambda recipe: recipe.name)
def test_packed_values_equal_the_source_exactly(recipe: Recipe) -> None:
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
@pytest.mark.parametrize("recipe", LONG, ids=lambda recipe: recipe.name)
def test_packed_values_of_a_long_table_equal_the_source_exactly(recipe: Recipe) -> None:
    record = load_record(recipe.name)
    table = pd.read_csv(SOURCE / recipe.table, parse_dates=["date"])
    for quantity, keys in recipe.varies_by.items():
        means = table.pivot_table(quantity, "date", list(keys)) if keys else table.groupby("date")[[quantity]].mean()
        names = ["_".join([quantity, *map(str, np.atleast_1d(key))]) if keys else quantity for key in means]
        wide = means.set_axis(names, axis=1)
        assert (record.times == wide.index.to_numpy("datetime64[s]")).all()
        places = [place for place, column in enumerate(record.columns) if column in wide]
        assert places
        np.testing.assert_allclose(record.values[:, places], wide[[record.columns[place] for place in places]], 1e-12)


def _write_tables(folder: Path, numbers: list[str], times: list[str]) -> None:
    for recipe in RECIPES:
        if recipe.varies_by:
            _write_long_table(folder, recipe, numbers, times)
            continue
        lines = [",".join(["time", *(name for name, _, _ in recipe.columns)])]
        lines += [
            ",".join([time, *[number] * len(recipe.columns)]) for time, number in zip(times, numbers, strict=True)
        ]
        (folder / recipe.table).write_bytes(gzip.compress("\n".join(lines).encode()))


def _write_long_table(folder: Path, recipe: Recipe, numbers: list[str], times: list[str]) -> None:
    """Every shop and product of the record, all with the same numbers, cut to what each column can hold."""
    shops = sorted({name.split("_")[1] for name, _, _ in recipe.columns if name.startswith("demand_")})
    lines = [",".join(["date", "store", "product", *recipe.varies_by])]
    for time, number in zip(times, numbers, strict=True):
        values = ",".join([number, *[number.split(".")[0]] * (len(recipe.varies_by) - 1)])
        lines += [f"{time},{shop},{product},{values}" for shop in shops for product in (101, 109, 110)]
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
def test_tables_that_would_lose_something_are_not_packed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], numbers: list[str], times: list[str], message: str
) -> None:
    _write_tables(tmp_path, numbers, times)
    assert main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_build_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write_tables(tmp_path, ["1", "", "2.5"], ["2020-01-01", "2020-01-02", "2020-01-03"])
    assert main([str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert "wind_irish.npz" in capsys.readouterr().out
    values = load_record("load_france", tmp_path / "out").values
    np.testing.assert_array_equal(values, np.array([[1.0], [np.nan], [2.5]]).repeat(24, axis=1))
    demand = load_record("demand_bakery", tmp_path / "out").select("demand_2_101", "is_holiday").values
    np.testing.assert_array_equal(demand, np.array([[1.0, 1.0], [np.nan, np.nan], [2.5, 2.0]]))
    assert main([str(tmp_path / "nowhere")]) == 2
    (tmp_path / RECIPES[0].table).write_bytes(gzip.compress(b"time,other\n2020-01-01,1\n"))
    assert main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "must have a column 'ws10', got time, other" in capsys.readouterr().err
    assert issubclass(RecordError, StakesError)
