import gzip
import io
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forecast_files import read
from refusals import refuses

from stakes.data.tables.columns import column_numbers, column_times
from stakes.data.tables.files import read_table, without_noise, write_table
from stakes.data.tables.layout import TableLayout
from stakes.errors import CheckpointError, TableError
from stakes.files import unpacked_limit

SIMPLE = "time,load\n2020-01-01,1.5\n2020-01-02,2.5\n"


def written(folder: Path, content: str | bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet(table: pd.DataFrame) -> bytes:
    stream = io.BytesIO()
    table.to_parquet(stream)
    return stream.getvalue()


def arrow(names: list[str], *columns: list[object]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table([pa.array(column) for column in columns], names=names), stream)
    return stream.getvalue()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_separator_is_found(tmp_path: Path, separator: str) -> None:
    table = read_table(written(tmp_path, SIMPLE.replace(",", separator)))
    assert list(table.columns) == ["time", "load"]
    assert table["load"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize("line", ["sep=;", "SEP=;", '"sep=;"', "sep=;\r"])
def test_the_separator_that_excel_names_counts(tmp_path: Path, line: str) -> None:
    table = read_table(written(tmp_path, f"{line}\nLast, Nord, MW;b\n1,5;2\n"))
    assert (list(table.columns), table.to_numpy().tolist()) == (["Last, Nord, MW", "b"], [[1.5, 2]])
    refuses(TableError, r"line 3 of .* has 1 fields", read_table, written(tmp_path, f"{line}\na;b\n1\n"))


@pytest.mark.parametrize("header", ["0,1,2,3", "1,2,3,4"])
def test_members_may_be_counted_in_the_header(tmp_path: Path, header: str) -> None:
    path = written(tmp_path, f"{header}\n0.5,0.6,0.7,0.8\n0.1,0.2,0.3,0.4\n")
    assert list(read_table(path).columns) == header.split(",")
    assert read(path).members.shape == (2, 4, 1)


@pytest.mark.parametrize("row", ["0,1", "2,3,4", "0,1,3", "0.0,1.0,2.0"])
def test_other_numbers_are_no_header(tmp_path: Path, row: str) -> None:
    refuses(TableError, "has no header", read_table, written(tmp_path, f"{row}\n{row}\n"))


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_decimal_commas_where_the_comma_does_not_separate(tmp_path: Path, separator: str) -> None:
    text = "Zeit;Last, MW;n\n2020-01-01;1,5;-,25\n2020-01-02;-;1,5e3\n2020-01-03;3;7.5\n".replace(";", separator)
    table = read_table(written(tmp_path, text))
    assert list(table.columns) == ["Zeit", "Last, MW", "n"]
    np.testing.assert_array_equal(table["Last, MW"], [1.5, np.nan, 3])
    assert table["n"].tolist() == [-0.25, 1500, 7.5]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"])
def test_an_encoding_is_found(tmp_path: Path, encoding: str) -> None:
    table = read_table(written(tmp_path, "Größe,naïve\n1,2\n3,4\n".encode(encoding)))
    assert list(table.columns) == ["Größe", "naïve"]


@pytest.mark.parametrize("name", ["a.CSV", "a.tsv", "a.txt"])
def test_text_under_its_usual_names(tmp_path: Path, name: str) -> None:
    assert read_table(written(tmp_path, SIMPLE, name)).shape == (2, 2)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.txt.gz", "a.csv"])
def test_gzip_by_content(tmp_path: Path, name: str) -> None:
    assert read_table(written(tmp_path, gzip.compress(SIMPLE.encode()), name)).shape == (2, 2)


def test_quotes_blank_lines_spaces_and_line_ends(tmp_path: Path) -> None:
    text = '\r\n"name, long", b\r\n\r\n"x ""y""\r\nz", 1 \r\n  \r\n,\r\n w,2\r\n\r\n'
    table = read_table(written(tmp_path, text))
    assert list(table.columns) == ["name, long", "b"]
    assert table["name, long"].tolist() == ['x "y"\r\nz', "w"]
    assert table["b"].tolist() == [1, 2]


def test_a_separator_at_the_end_of_every_line_makes_no_column(tmp_path: Path) -> None:
    assert list(read_table(written(tmp_path, "a,b,\n1,2,\n3,4,\n")).columns) == ["a", "b"]


@pytest.mark.parametrize("marker", ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "-", "#N/A", "<NA>"])
def test_missing_values(tmp_path: Path, marker: str) -> None:
    table = read_table(written(tmp_path, f"a,b\n1,{marker}\n2,5\n"))
    np.testing.assert_array_equal(column_numbers(table, ["b", "a"], "features"), [[np.nan, 1], [5, 2]])


def test_true_and_false_are_1_and_0(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a,b\nTrue,false\nFALSE,\n"))
    np.testing.assert_array_equal(column_numbers(table, ["a", "b"], "features"), [[1, 0], [0, np.nan]])
    assert column_numbers(pd.DataFrame({"a": [True, False]}), ["a"], "features").tolist() == [[1], [0]]


def test_numbers_are_read_to_the_last_digit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(500) * 10.0 ** np.arange(-250, 250)
    write_table(pd.DataFrame({"a": values}), tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv")["a"].tolist() == values.tolist()


def test_parquet_with_nullable_integers_zones_and_an_index(tmp_path: Path) -> None:
    index = pd.date_range("2020-03-28 23:00", periods=3, freq="h", tz="UTC").tz_convert("Europe/Berlin")
    table = pd.DataFrame({"n": pd.array([1, None, 3], "Int64"), "d": [Decimal("1.5")] * 3}, index)
    kept = read_table(written(tmp_path, parquet(table), "a.parquet"))
    assert list(kept.columns) == ["time", "n", "d"]
    np.testing.assert_array_equal(column_numbers(kept, ["n", "d"], "features"), [[1, 1.5], [np.nan, 1.5], [3, 1.5]])
    assert column_times(kept, "time").tolist() == index.tz_convert(None).to_pydatetime().tolist()


def test_bytes_of_a_parquet_file_are_no_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, arrow(["y", "x", "b"], [1, 2], [3, 5], [b"\xff\x00", None]), "a.parquet")
    table = read_table(path)
    assert TableLayout(("y",)).resolved(table).features == ("x",)
    refuses(TableError, "'b'", column_numbers, table, ["b"], "features")
    refuses(TableError, "'b'", column_times, table, "b")
    refuses(TableError, "'b'", read, path)


def test_row_numbers_of_a_parquet_file_are_no_column(tmp_path: Path) -> None:
    for table, columns in (
        (pd.DataFrame({"a": [1, 2]}, [3, 7]), ["a"]),
        (pd.DataFrame({"time": [1, 2]}, pd.DatetimeIndex(["2020-01-01", "2020-01-02"])), ["time"]),
        (pd.DataFrame({"a": [1, 2]}, pd.Index(["x", "y"], name="case")), ["case", "a"]),
    ):
        assert list(read_table(written(tmp_path, parquet(table), "a.parquet")).columns) == columns


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "new/a.csv"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    index = pd.DatetimeIndex(["2020-01-01 00:00", "2020-01-01 01:00"], name="time")
    write_table(pd.DataFrame({"a": [1.5, np.nan], "é": ["x,y", 'z"']}, index), tmp_path / name)
    table = read_table(tmp_path / name)
    assert list(table.columns) == ["time", "a", "é"]
    assert table["é"].tolist() == ["x,y", 'z"']
    assert column_times(table, "time").tolist() == index.to_pydatetime().tolist()
    assert [path.name for path in (tmp_path / name).parent.iterdir()] == [Path(name).name]


def test_no_text_that_is_written_is_a_formula(tmp_path: Path) -> None:
    texts = ["=cmd|' /C calc'!A0", "+x", "-x", "@x", "x=1", "-1.5", None, -2.5]
    table = pd.DataFrame({"=label": texts, "-n": [-1.0] * 8}, pd.Index(["=i"] * 8, name="@case"))
    write_table(table, tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[0] == "'@case,'=label,'-n"
    assert [line.split(",")[1] for line in lines[1:]] == [
        "'=cmd|' /C calc'!A0", "'+x", "'-x", "'@x", "x=1", "-1.5", "", "-2.5"
    ]  # fmt: skip
    assert all(line.startswith("'=i,") and line.endswith(",-1.0") for line in lines[1:])
    assert table["=label"].tolist() == texts


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    refuses(TableError, r"to a \.csv or \.parquet file", write_table, pd.DataFrame({"a": [1]}), tmp_path / "a.xlsx")
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_table(pd.DataFrame({"a": [1]}), written(tmp_path, "") / "a.csv")


FILES: dict[str, tuple[str, str | bytes, str]] = {
    "blank lines only": ("a.csv", "\n  \n\n", "is empty"),
    "no header but times": ("a.csv", "2020-01-01 00:00,2\n2020-01-02 00:00,3\n", "has no header"),
    "no header, decimal commas": ("a.csv", "1,5;2,5\n3,5;4,5\n", "has no header"),
    "column name twice but for spaces": ("a.csv", "a,b, a \n1,2,3\n", "has the column 'a' twice"),
    "column without a name": ("a.csv", "a,,c\n1,2,3\n", "column 2 of .* has no name"),
    "index of pandas": ("a.csv", ",a\n0,5\n1,6\n", "column 1 of .* has no name"),
    "unnamed last column with content": ("a.csv", "a,b,\n1,2,3\n", "column 3 of .* has no name"),
    "row too long": ("a.csv", "a,b\n1,2\n\n1,2,3\n", "line 4 of .* has 3 fields, but the header has 2"),
    "quote never closed": ("a.csv", 'a,b\n1,"2\n3,4\n', "line 3 of .* cannot be read: unexpected end of data"),
    "text after a quote": ("a.csv", 'a,b\n1,"2"x\n', "line 2 of .* cannot be read"),
    "huge field": ("a.csv", f"a,b\n1,{'x' * 200_000}\n", "line 2 of .* cannot be read: field larger"),
    "binary after text": ("a.csv", b"a,b\n1,\x00\x01\n", "is not a text file"),
    "old Excel named CSV": ("a.csv", b"\xd0\xcf\x11\xe0\xa1", "looks like an Excel file"),
    "parquet named CSV": ("a.csv", b"PAR1xxxx", "is a parquet file; let its name end in .parquet"),
    "NetCDF named CSV": ("a.csv", b"\x89HDF\r\n", "is a NetCDF or HDF5 file, not text"),
    "CSV named parquet": ("a.parquet", SIMPLE, "is not a valid parquet file"),
    "empty parquet": ("a.parquet", b"", "is not a valid parquet file"),
    "parquet cut short": ("a.parquet", parquet(pd.DataFrame({"a": [1]}))[:-20], "is not a valid parquet file"),
    "parquet without rows": ("a.parquet", parquet(pd.DataFrame({"a": []})), "has 0 rows and 1 columns"),
    "parquet column twice": ("a.parquet", arrow(["a", "a"], [1], [2]), "has the column 'a' twice"),
    "xlsx": ("a.xlsx", b"PK", "is a spreadsheet; export the sheet as CSV"),
    "ods": ("a.ods", b"PK", "is a spreadsheet"),
    "unknown suffix": ("a.dat", SIMPLE, r"must end in \.csv, \.tsv, \.txt \(or these with \.gz\), \.parquet, \.nc"),
    "no suffix": ("table", SIMPLE, "must end in"),
    "only gz": ("table.gz", SIMPLE, "must end in"),
    "NetCDF": ("a.nc", b"CDF", "cannot be read as NetCDF"),
}


@pytest.mark.parametrize(("name", "content", "expected"), FILES.values(), ids=FILES)
def test_a_malformed_file_is_refused_in_one_line(
    tmp_path: Path, name: str, content: str | bytes, expected: str
) -> None:
    refuses(TableError, expected, read_table, written(tmp_path, content, name))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    written(tmp_path, SIMPLE, "load.csv")
    for name, expected in (
        ("folder.csv", "is a folder"),
        ("laod.csv", r"there is no file .*laod.csv'; did you mean 'load.csv'"),
    ):
        refuses(TableError, expected, read_table, tmp_path / name)
    refuses(TableError, r"there is no file .*none/x.csv'$", read_table, tmp_path / "none" / "x.csv")


def test_a_small_file_that_unpacks_to_very_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unpacked_limit(1000) == 1 << 28
    monkeypatch.setattr("stakes.files._UNPACKED", 1 << 22)
    packed = gzip.compress(b"a\n" + bytes(1 << 22), 1)
    expected = rf"has {len(packed):,} bytes and unpacks to more than 4,194,304, .*unpack"
    refuses(TableError, expected, read_table, written(tmp_path, packed, "a.csv.gz"))
    part = pa.table({"a": np.zeros(1 << 14), "b": np.zeros(1 << 14)})
    with pq.ParquetWriter(tmp_path / "a.parquet", part.schema) as file:
        for _ in range(17):
            file.write_table(part)
    refuses(TableError, "unpacks to 4,456,448, beyond the limit of 4,194,304", read_table, tmp_path / "a.parquet")


def test_a_large_file_may_unpack_to_twenty_times_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stakes.files._UNPACKED", 1000)
    numbers = pd.DataFrame({"a": np.random.default_rng(0).random(1000)})
    for name in ("a.csv.gz", "a.parquet"):
        write_table(numbers, tmp_path / name)
        assert len(read_table(tmp_path / name)) == 1000
    write_table(numbers * 0, tmp_path / "zeros.csv.gz")
    refuses(TableError, "unpack", read_table, tmp_path / "zeros.csv.gz")


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    refuses(TableError, rf"{name}' must be a regular file", read_table, tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = written(tmp_path, SIMPLE)
    path.chmod(0)
    refuses(TableError, "cannot be read: Permission denied", read_table, path)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"encoding": "klingon"}, "encoding"), ({"encoding": "ascii"}, "'ascii'"), ({"separator": ", "}, "separator")],
)
def test_bad_options(tmp_path: Path, options: dict[str, str], expected: str) -> None:
    refuses(TableError, expected, read_table, written(tmp_path, "ä,b\n1,2\n"), **options)


def test_results_have_no_more_digits_than_they_can() -> None:
    odd = {"cost": [4159.999999999991, -6.12e-17, np.nan], "tiny": [1e-30, 2e-30, np.inf], "zero": [0.0, -0.0, 0.0]}
    table = pd.DataFrame({**odd, "number": [1, 2, 3], "label": ["a", "b", None]})
    table["single"] = np.array([0.1, -3.5e-8, 1e10], np.float32)
    cleaned = without_noise(table)
    assert cleaned["cost"].iloc[:2].tolist() == [4160.0, 0.0]
    assert not np.signbit(cleaned["cost"].iloc[1])
    assert np.isnan(cleaned["cost"].iloc[2])
    assert cleaned["tiny"].tolist() == [1e-30, 2e-30, np.inf]
    assert cleaned["single"].tolist() == [0.1, -3.5e-8, 1e10]
    pd.testing.assert_frame_equal(cleaned[["number", "label"]], table[["number", "label"]])
    assert without_noise(table.iloc[:0]).empty


CLEAN = {
    "numbers": ("1", "-2.5", "0.1234567890123456789", "1e-5", "+7"),
    "mixed": ("1", "", "NA", "2.5", " 3 "),
    "words": ("a b", "1", "-", " x", "true"),
    "truths": ("true", "False", "TRUE", "", "false"),
    "large": ("9223372036854775807", "99999999999999999999", "1", "2", "3"),
    "digits": ("1_0", "1", "2", "3", "4"),
    "quotes": ('"1"', "2", "3", "4", "5"),
    "tabs": ("\t", "1", "2", "3", "4"),
    "commas": ("1,5", "2", "3", "4", "5"),
}


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("separator", [";", ","])
def test_long_files_are_read_as_short_ones_are(tmp_path: Path, name: str, separator: str) -> None:
    """What is read at once is what is read row by row; rows that are too short are still told with their line."""
    cells = [f'"{cell}"' if separator in cell else cell for cell in CLEAN[name]]
    lines = [f"{cell}{separator}0{place}{separator}2020-01-0{place}" for place, cell in enumerate(cells, 1)]
    header = f"value{separator}site{separator}time"
    short = read_table(written(tmp_path, "\n".join([header, *lines])), frozenset(["site"]))
    long = read_table(written(tmp_path, "\n".join([header, *lines * 40])), frozenset(["site"]))
    assert long.dtypes.to_dict() == short.dtypes.to_dict()
    assert long.equals(pd.concat([short] * 40, ignore_index=True))
    with pytest.raises(TableError, match=r"line 202 of .* has 2 fields, but the header has 3"):
        read_table(written(tmp_path, "\n".join([header, *lines * 40, f"1{separator}2"])))
    without = written(tmp_path, "\n".join([header, *lines * 40, separator * 2, *lines]))
    assert len(read_table(without)) == 205
