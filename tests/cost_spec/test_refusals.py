"""What is said about a text, a file or a record that makes no cost; `make snapshots` renews the sentences."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cost_spec.programs_in_toml import BAKERY
from refusals import refuses, sentence
from snapshots import assert_as_kept

from stakes.cost_spec.files import file_hash, read_program
from stakes.cost_spec.spec import CostSpec
from stakes.errors import CostError

LIBRARY = """

shortfal:penalty=5
quantile
Shortfall:penalty=5
schedule:short=50,long=5,rmap=300
shortfall:penalty=5,cvar_levl=0.9
shortfall:fee=5
shortfall:penalty=5,upper=2
shortfall
imbalance:short=1,long=1
newsvendor:upper=5
shortfall:penalty=high
shortfall:penalty=nan
shortfall:penalty=-5
shortfall:penalty=2,5
shortfall:penalty=
shortfall:5
shortfall:penalty=5,penalty=6
imbalance:short=1,long=1,lower=5,upper=5
imbalance:short=1,long=1,upper=-1
allocation:short=4,long=1,budget=5/6
imbalance:short=4/5,long=1,upper=9
schedule:short=4//5,long=1
schedule:short=4/five,long=1
schedule:short=4/5,long=1/2/3
schedule:short=4/-5,long=1
schedule:short=4
storage:price=9,short=5,long=0,power=1,energy=1
protection:threshold=0,false_alarm_ratio=1,hazard=under
wind_dispatch:penalty=5,ramp_speed=30
costs.py
costs.py:
costs.py:lower=0,upper=1
no/such/costs.py:profit
shortfall:penalty=50..1
shortfall:penalty=0..5
shortfall:penalty=-1..5:linear
shortfall:penalty=1..many
imbalance:short=1..2,long=1..2,upper=9
imbalance:short=1,long=1,upper=5..9
schedule:short=1..50,long=1
wind_dispatch:penalty=5,cutoff_speed=20..30
protection:threshold=0,false_alarm_ratio=0.2,hazard=a..b
shortfall:penalty=5,cvar_level=0.5..0.9
shortfall:penalty=5,cvar_level=1
shortfall:penalty=5,cvar_level=0.9,cvar_mix=0
shortfall:penalty=5,cvar_mix=0.5
shortfall:penalty=5,cvar_level=high
shortfall:penalty=5,cvar=0.9
"""
OF_A_FILE = """
profits
profit
profit:lower=0
profit:lower=3,upper=1
profit:lower=a,upper=1
profit:lower=0,upper=1,parts=two
profit:lower=0,upper=1,parts=2.5
profit:price=3,lower=0,upper=1
priced:lower=0,upper=1
ready:penalty=3
Tracking
nothing
wrong:penalty=3
number
stakes
"""
CONTENTS = [
    "x = 1\ndef f(:\n",
    "x = 1\n\nundefined\n",
    "import no_such_module\n",
    "raise SystemExit(3)\n",
    "import json\njson.loads('{')\n",
    "x = 1\0\n",
]
OF_A_PROGRAM = ["stuff=3", "cvar_levl=3", "staff=many", "staff=1/2/3"]
WRONG_LINES = [
    ("upper = 6", "uper = 6"),
    ("upper = 6", "upper = true"),
    ("upper = 6", 'upper = "six"'),
    ("upper = 6", "upper = inf"),
    ("upper = 6", "upper = -6"),
    ('"margin"}', '"margn"}'),
    (">= outcome", "> outcome"),
    ("[limits]", "[limit]"),
    ("staff = 8", "staff = [8, 9, 7]"),
    ('unit = "EUR"', "cvar_level = 0.75"),
    ("margin = 5", "margin = 5\ncvar_mix = 1"),
    ("margin = 5", "margin = 5\naction_unit = 1"),
    ("margin = 5", "margin = 5\nrte = 2"),
    ("staff = 8", "staff = eight"),
    ('unit = "EUR"', "unit = 3"),
    ("[decide.hours]", "[decided.hours]"),
    (BAKERY, ""),
]
RECORDS: list[dict[str, Any]] = [
    {"name": "shortfal", "parameters": {}},
    {"name": "shortfall"},
    {"name": "shortfall", "parameters": {"penalty": "5"}},
    {"name": "protection", "parameters": {"hazard": 5.0}},
    {"name": "shortfall", "parameters": {"penalty": [5]}},
    {"name": "schedule", "parameters": {"short": ["5"]}},
    {"name": "schedule", "parameters": {"short": []}},
    {"name": "shortfall", "parameters": {"penalty": 5.0}, "extra": 1},
    {"name": "costs.py:f", "parameters": {}},
]
CHANGED: list[dict[str, Any]] = [
    {"program": None},
    {"program": "decide"},
    {"program": {"decide": {"x": {"cost": "__import__('os')"}}}},
    {"parameters": {"stuff": 3.0}},
    {"parameters": {"staff": "8"}},
    {"name": "imbalance"},
    {"name": "shortfall", "parameters": {"penalty": 5.0}},
]


def of_text(text: str) -> str:
    return sentence(lambda: CostSpec.parse(text).build())


def sentences(folder: Path, own: str) -> Iterator[str]:
    yield from (of_text(text) for text in LIBRARY.splitlines()[1:])
    yield from (of_text(f"{own}:{text}") for text in OF_A_FILE.split())
    path, program = folder / "wrong.py", folder / "bakery.toml"
    for content in CONTENTS:
        path.write_text(content, encoding="utf-8")
        yield of_text(f"{path}:f")
    program.write_text(BAKERY)
    yield from (of_text(f"{program}:{text}") for text in OF_A_PROGRAM)
    record = CostSpec.parse(str(program)).record()
    for line, wrong in WRONG_LINES:
        assert line in BAKERY
        program.write_text(BAKERY.replace(line, wrong))
        yield sentence(read_program, program)
    program.unlink()
    yield from (sentence(CostSpec.from_record, each) for each in (*RECORDS, *(record | each for each in CHANGED)))


def test_what_is_said_of_what_makes_no_cost(tmp_path: Path, own: str) -> None:
    said = "\n".join(sentences(tmp_path, own)).replace(str(tmp_path), "FOLDER")
    said = re.sub(r"(line \d+: \w+Error|fails: SyntaxError|is not valid TOML): .*", r"\1", said)  # the words of Python
    assert_as_kept(Path(__file__).with_name("sentences.txt"), f"{said}\n")


@pytest.mark.parametrize("ending", ["py", "toml"])
def test_files_that_cannot_be_read(own: str, ending: str) -> None:
    folder, read = Path(own).parent, {"py": file_hash, "toml": read_program}[ending]
    (folder / f"costs.{ending}").touch()
    refuses(CostError, rf"no file .*; did you mean 'costs.{ending}'", read, folder / f"cost.{ending}")
    (folder / f"folder.{ending}").mkdir()
    refuses(CostError, "folder", read, folder / f"folder.{ending}")
    os.mkfifo(folder / f"pipe.{ending}")  # which would be waited for
    refuses(CostError, "pipe", read, folder / f"pipe.{ending}")


def test_programs_are_small_and_in_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "bakery.toml"
    for content, said in ((b"\xff\xfe", "UTF-8"), (b"#" * (1 << 20) + b"#", "1,048,576")):
        path.write_bytes(content)
        refuses(CostError, said, read_program, path)
