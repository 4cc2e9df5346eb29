"""Tables as a crash, a careless user or an attacker may make them, for the soaks of the commands and of the service.

One call gives one of each kind, their sizes and places drawn by the seed: the next seed gives others.
"""

import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["flipped_bytes", "parquet_files", "tables"]

WIDEST = 120_000  # columns, more than are read

Chance = random.Random


def tables(seed: int) -> Iterator[tuple[str, bytes]]:
    """Texts that are no good table, or hardly one, each with the name of its kind."""
    chance = random.Random(seed)
    for name, make in _TABLES.items():
        text = make(chance, _size(chance))
        yield name, text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def parquet_files(seed: int) -> Iterator[tuple[str, bytes]]:
    """Parquet files of odd types, of odd names and sizes, and damaged ones, each with the name of its kind."""
    chance = random.Random(seed)
    rows = chance.choice([1, 2, 60])
    for name, column in _columns(rows).items():
        yield name, _parquet({"time": _hours(rows), "m0": pa.array([1.0] * rows), "m1": column})
    good = _parquet({"time": _hours(60), "m0": pa.array([1.0] * 60), "m1": pa.array([2.0] * 60)})
    yield "no rows", _parquet({"m0": pa.array([], pa.float64()), "m1": pa.array([], pa.float64())})
    yield "no columns", _parquet({})
    yield "names twice", _twice()
    yield "many columns", _parquet({f"m{place}": pa.array([1.0]) for place in range(2000)})
    yield "a column without a name", _parquet({"": pa.array([1.0]), " ": pa.array([2.0])})
    yield "many rows in few bytes", _parquet({name: pa.repeat(1.0, 10**5) for name in ("m0", "m1")})
    yield "cut", good[: chance.randrange(len(good))]
    yield "bytes flipped", flipped_bytes(chance, good)
    yield "the magic alone", b"PAR1PAR1"
    yield "text", b"time,m0\n2020-01-01,1\n"


# Tables


def _size(chance: Chance) -> int:
    """Mostly small, at times large."""
    return round(10 ** chance.uniform(1, 6))


def _repeated(text: str, size: int) -> str:
    return text * max(1, size // len(text))


def _wide(name: Callable[[int], str], cell: Callable[[int], str], rows: int = 1) -> Callable[[Chance, int], str]:
    def make(chance: Chance, size: int) -> str:
        columns = min(max(2, size // 8), WIDEST)
        lines = [",".join(map(name, range(columns)))]
        return "\n".join(lines + [",".join(map(cell, range(columns))) for _ in range(rows)]) + "\n"

    return make


def _tall(header: str, *rows: str) -> Callable[[Chance, int], str]:
    """The rows again and again; {n} counts them, {hour} is a time."""

    def make(chance: Chance, size: int) -> str:
        count = max(2, size // max(1, len(rows[0])))
        lines = [header]
        for place in range(count):
            day, hour = divmod(place, 24)
            time = f"{2000 + day // 336:04}-{day // 28 % 12 + 1:02}-{day % 28 + 1:02}T{hour:02}:00"
            lines.append(rows[place % len(rows)].replace("{n}", str(place)).replace("{hour}", time))
        return "\n".join(lines) + "\n"

    return make


def _cell(make: Callable[[int], str], separator: str = ",") -> Callable[[Chance, int], str]:
    """One long cell among good ones, in the first row, or in one far below."""

    def table(chance: Chance, size: int) -> str:
        rows = [f"2020-01-{day:02}{separator}{day}{separator}{2 * day}" for day in range(1, 29)]
        rows[chance.choice([0, 27])] = separator.join(["2020-01-31", make(size), "1"])
        return "\n".join([separator.join(["time", "m0", "m1"]), *rows]) + "\n"

    return table


def _lines(end: str) -> Callable[[Chance, int], str]:
    return lambda chance, size: _good(size).replace("\n", end)


def _good(size: int) -> str:
    return _tall("time,m0,m1,m2", "{hour},{n},2.5,3")(random.Random(0), min(size, 10_000))


def _one_of(*texts: str, separator: str = ",") -> Callable[[Chance, int], str]:
    """A small table with one of the texts as the value of a member, and of a time."""

    def make(chance: Chance, size: int) -> str:
        text, place = chance.choice(texts), chance.randrange(2)
        cells = ["2020-01-02", "5"]
        cells[place] = text
        return f"time{separator}m0{separator}m1\n2020-01-01{separator}1{separator}2\n" + separator.join([*cells, "6\n"])

    return make


def _sprinkled(what: bytes) -> Callable[[Chance, int], bytes]:
    """Bytes at any place of a good table."""

    def make(chance: Chance, size: int) -> bytes:
        content = _good(size).encode()
        place = chance.choice([0, len(content) // 2, len(content) - 1, chance.randrange(len(content))])
        return content[:place] + what + content[place:]

    return make


def _random_bytes(chance: Chance, size: int) -> bytes:
    return chance.randbytes(size)


def _random_characters(chance: Chance, size: int) -> str:
    letters = "0123456789.,;|\t\"'+-eE=@\r\n \x00\x85\u2028\ufeffa:T()[]{}/\\"
    return "".join(chance.choices(letters, k=min(size, 50_000)))


def flipped_bytes(chance: Chance, content: bytes) -> bytes:
    """With some bits of it turned; nothing becomes one byte."""
    changed = bytearray(content or b"\0")
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


_NUMBERS = ("1e400", "-1e400", "1e-400", "0x10", "1_000", "1e", "--1", "+-1", "1d5", "inf", "-Infinity", "nan(7)")
_NUMBERS += (
    "\u0661\u0662\u0663",
    "\uff11\uff12",
    "18446744073709551616",
    "5e-324",
    "1,5",
    "1.2.3",
    "\u22125",
    "1e9999",
)
_NUMBERS += ("1e38", "3.5e38", "1e308", "16777217", "1000000000.5", "1/2", "50%", "\u00bd", "1\u00a0000", "1'000")
_TIMES = ("9999-12-31", "0000-01-01", "0001-01-01", "-2020-01-01", "2020-02-30", "2020-13-01", "2020-01-01T25:00")
_TIMES += ("2020-12-31T23:59:60", "2020-01-01T00:00+99:99", "2020-01-01T00:00:00.123456789", "2020-W01-1", "2020-001")
_TIMES += ("292277026596-12-04", "1577836800", "now", "today", "2020now", "2020", "20200101", "01/02/2020", "2020-1-1")
_TIMES += ("1677-09-20", "2262-04-12", "2020-01-01T00:00Z[UTC]", "2020-01-01 00:00 Europe/Paris", "P1D", "NaT", "")
_FORMULAS = ("=cmd|' /C calc'!A0", "@SUM(1+1)*cmd|' /C calc'!A0", "+1+1", "-2+3", "=1", "\t=1", "'=1")
_NAMES = ("q0.1", "0.1", "p90", "quantile_0.5", "10%", "q101", "q-1", "q1e-3", "median", "q0.5", "q.5", "q50", "0", "1")

_TABLES: dict[str, Callable[[Chance, int], str | bytes]] = {
    "digits in the header": lambda chance, size: f"{'1' * size}x,b\n1,2\n",
    "digits in all of the header": lambda chance, size: f"{'1' * size},{'2' * size}\n1,2\n",
    "digits in a cell": _cell(lambda size: "1" * size),
    "digits in a cell, then a letter": _cell(lambda size: "1" * size + "x"),
    "digits and a decimal comma": _cell(lambda size: "1" * size + ",5", ";"),
    "decimals without end": _cell(lambda size: "0." + "3" * size),
    "an exponent without end": _cell(lambda size: "1e" + "9" * size),
    "signs": _cell(lambda size: "-" * size + "1"),
    "spaces before a number": _cell(lambda size: " " * size + "1"),
    "thousands without end": _cell(lambda size: _repeated("1 111", size)),
    "times without end": _cell(lambda size: "2020" + "T" * size),
    "brackets": _cell(lambda size: "[" * size),
    "parentheses and spaces": _cell(lambda size: _repeated("( ", size)),
    "a long text": _cell(lambda size: "a" * size),
    "a long text with line ends": _cell(lambda size: '"' + _repeated("a\n", size) + '"'),
    "a long name": lambda chance, size: f"time,{'m' * size},m1\n2020-01-01,1,2\n",
    "accents on one letter": lambda chance, size: f"time,e{chr(0x301) * min(size, 10**5)},m1\n2020-01-01,1,2\n",
    "wide": _wide(lambda place: f"m{place}", str),
    "wide, many rows": _wide(lambda place: f"m{place}", lambda place: "1", rows=5),
    "wide, one name": _wide(lambda place: "m", str),
    "wide, the last name twice": _wide(lambda place: f"m{max(place, 1)}", str),
    "wide, no names": _wide(lambda place: "", str),
    "wide, no number in a name": _wide(lambda place: f"m{place}x", str),
    "wide, texts": _wide(lambda place: f"m{place}", lambda place: f"t{place}"),
    "wide, almost alike": _wide(lambda place: f"a{place}b{place % 7}", str),
    "wide, empty cells": _wide(lambda place: f"m{place}", lambda place: ""),
    "wide, thousands": lambda chance, size: (
        _wide(lambda place: f"m{place}", lambda place: "1.234")(chance, size).replace(",", ";").replace("m0;", "0,5;")
    ),
    "tall": _tall("time,m0,m1", "{hour},1,2"),
    "tall, one time": _tall("time,m0,m1", "2020-01-01,1,2"),
    "tall, cases alike": _tall("case,m0,m1", "a{n},1,2"),
    "tall, backward in time": lambda chance, size: "\n".join(
        ["time,m0,m1", *reversed(_tall("", "{hour},1,2")(chance, size).split("\n"))]
    ),
    "tall, ragged at the end": lambda chance, size: _tall("time,m0,m1", "{hour},1,2")(chance, size) + "2020,1\n",
    "tall, texts": _tall("time,m0,m1", "{hour},x{n},2"),
    "tall, commas and points": _tall("time;m0;m1", "{hour};1.234;12,5", "{hour};987;1,25"),
    "tall, thousands or decimals": _tall("time;m0;m1", "{hour};1,234;987", "{hour};987;1,234"),
    "tall, long": _tall("time,number,load", "2020-01-01,{n},2"),
    "tall, long, a member twice": _tall("time,number,load", "2020-01-01,1,2"),
    "tall, long, a case for each member": _tall("time,number,load", "{hour},{n},2"),
    "blank lines": lambda chance, size: "time,m0,m1\n" + "\n" * size + "2020-01-01,1,2\n",
    "lines of separators": lambda chance, size: "time,m0,m1\n" + ",,\n" * (size // 3) + "2020-01-01,1,2\n",
    "separators alone": lambda chance, size: "," * size,
    "quotes alone": lambda chance, size: '"' * size,
    "quotes and separators": lambda chance, size: _repeated('"",', size),
    "spaces alone": lambda chance, size: " " * size,
    "line ends alone": lambda chance, size: "\n" * size,
    "nothing": lambda chance, size: "",
    "one byte": lambda chance, size: chance.randbytes(1),
    "a header alone": lambda chance, size: "time,m0,m1\n",
    "no header": lambda chance, size: "2020-01-01,1,2\n2020-01-02,3,4\n",
    "a quote that stays open": lambda chance, size: 'time,m0,m1\n2020-01-01,"1,2\n' + _good(size),
    "a quote that stays open in the header": lambda chance, size: '"time,m0,m1\n' + _good(size),
    "a quote within a cell": lambda chance, size: 'time,m0,m1\n2020-01-01,1"2"3,"4"5\n',
    "names twice": lambda chance, size: "time,m0,m0,M0,m0 \n2020-01-01,1,2,3,4\n",
    "names that look like quantiles": lambda chance, size: (
        ",".join(["time", *chance.sample(_NAMES, 5)]) + "\n2020-01-01,1,2,3,4,5\n"
    ),
    "the name of a member like one of the table": lambda chance, size: (
        "time,case,row,number,outcome,action\n1,2,3,4,5,6\n"
    ),
    "names with escapes": lambda chance, size: "time,\x1b[2Jm0,m1\u202e\n2020-01-01,1,2\n",
    "an odd number": _one_of(*_NUMBERS),
    "an odd number between semicolons": _one_of(*_NUMBERS, separator=";"),
    "an odd time": _one_of(*_TIMES),
    "a formula": _one_of(*_FORMULAS),
    "labels that are formulas": lambda chance, size: (
        "case,m0,m1\n" + "\n".join(f'"{formula}{place}",1,2' for place, formula in enumerate(_FORMULAS))
    ),
    "zones that differ": lambda chance, size: (
        "time,m0,m1\n2020-01-01T00:00Z,1,2\n2020-01-01T06:00+05:45,3,4\n"
        + f"2020-01-01T12:00{chance.choice(['', '-03:00', ' UTC', '+00'])},5,6\n"
    ),
    "large beside small": _tall("time,m0,m1", "{hour},1000000000,1000000050", "{hour},1000000001,1"),
    "true and false": _tall("time,m0,m1", "{hour},true,False", "{hour},1,0"),
    "a named separator": lambda chance, size: (
        f"sep={chance.choice([';', ',', chr(34), chr(0), ' ', 'é', ''])}\n" + "time;m0;m1\n2020-01-01;1;2\n"
    ),
    "carriage returns": _lines("\r"),
    "returns and feeds": _lines("\r\n"),
    "feeds and returns": _lines("\n\r"),
    "separators of lines in Unicode": _lines("\u2028"),
    "next lines": _lines("\x85"),
    "form feeds": _lines("\x0c"),
    "mixed line ends": lambda chance, size: "".join(
        line + chance.choice(["\n", "\r\n", "\r"]) for line in _good(size).splitlines()
    ),
    "a NUL": _sprinkled(b"\x00"),
    "a mark of UTF-8": _sprinkled(b"\xef\xbb\xbf"),
    "two marks of UTF-8": lambda chance, size: b"\xef\xbb\xbf\xef\xbb\xbf" + _good(size).encode(),
    "an escape": _sprinkled(b"\x1b[2J"),
    "no UTF-8": _sprinkled(b"\xff\xc3\x28\xa0"),
    "half a surrogate": lambda chance, size: _good(size).replace("m0", "m\ud800"),
    "UTF-16": lambda chance, size: _good(size).encode("utf-16"),
    "UTF-16 without a mark": lambda chance, size: _good(size).encode(chance.choice(["utf-16-le", "utf-16-be"])),
    "UTF-16, an odd byte": lambda chance, size: _good(size).encode("utf-16") + b"x",
    "UTF-32": lambda chance, size: _good(size).encode("utf-32"),
    "EBCDIC": lambda chance, size: _good(size).encode("cp500"),
    "deep JSON": lambda chance, size: "[" * size + "]" * size,
    "a table in JSON": lambda chance, size: json.dumps({"m0": [1, 2], "m1": [3, 4]}),
    "a table in HTML": lambda chance, size: "<table><tr><td>1</td></tr></table>\n" * 5,
    "random bytes": _random_bytes,
    "random characters": _random_characters,
    "a good table, bytes flipped": lambda chance, size: flipped_bytes(chance, _good(size).encode()),
    "packed": lambda chance, size: gzip.compress(_good(size).encode()),
    "packed, cut": lambda chance, size: gzip.compress(_good(size).encode())[:-9],
    "packed, much in little": lambda chance, size: gzip.compress(b"," * (8 * size)),
    "packed, bytes flipped": lambda chance, size: flipped_bytes(chance, gzip.compress(_good(size).encode())),
}


# Parquet


def _hours(rows: int) -> pa.Array:
    return pa.array(range(rows), pa.timestamp("s"))


def _parquet(columns: dict[str, pa.Array]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def _twice() -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], ["m0", "m0"]), stream)
    return stream.getvalue()


def _columns(rows: int) -> dict[str, pa.Array]:
    """A column of every type that may stand where a number is expected."""
    values: dict[str, tuple[Any, pa.DataType]] = {
        "binary": (b"\x00\xff", pa.binary()),
        "binary of one length": (b"ab", pa.binary(2)),
        "texts": ("1", pa.string()),
        "a decimal": (Decimal("1.50"), pa.decimal128(30, 2)),
        "a wide decimal": (Decimal(10) ** 60, pa.decimal256(70, 0)),
        "whole numbers, unsigned": (2**64 - 1, pa.uint64()),
        "half precision": (0.5, pa.float16()),
        "true": (True, pa.bool_()),
        "a list": ([1.0, 2.0], pa.list_(pa.float64())),
        "a struct": ({"a": 1.0}, pa.struct({"a": pa.float64()})),
        "a map": ([("a", 1.0)], pa.map_(pa.string(), pa.float64())),
        "a date": (10**6, pa.date32()),
        "a time of day": (1, pa.time32("s")),
        "a duration": (1, pa.duration("s")),
        "a time in the year 9999": (253402300799, pa.timestamp("s")),
        "a time with a zone": (0, pa.timestamp("ns", "Europe/Paris")),
        "nothing": (None, pa.null()),
        "missing": (None, pa.float64()),
        "infinite": (float("inf"), pa.float64()),
        "NaN": (float("nan"), pa.float32()),
        "very large": (1e300, pa.float64()),
    }
    columns = {name: pa.array([value] * rows, kind) for name, (value, kind) in values.items()}
    columns["a dictionary of numbers"] = pa.array([1.0] * rows).dictionary_encode()
    columns["a dictionary of texts"] = pa.array(["a"] * rows).dictionary_encode()
    return columns
