"""A program in a TOML file: what it says, and where it is wrong."""

import json
from pathlib import Path

import pytest
from refusals import refuses

from stakes import Program, Quantity
from stakes.artifacts.folder import chosen_cost, words_for
from stakes.cost_spec.files import program_of, program_record, read_program, recorded_program
from stakes.cost_spec.spec import CostSpec, cost_again
from stakes.errors import CostError, SettingError, StakesError
from stakes.settings import to_plain

BAKERY = """\
# hours of work for two products
unit = "EUR"
action_unit = "h"

[decide.hours]
cost = 2
upper = 6

[recourse]
missing = {cost = "margin"}

[recourse_constraints]
demand = "rate * hours + missing >= outcome"

[limits]
staff = "sum(hours) <= staff"

[numbers]
staff = 8
rate = [1, 1.5]
margin = 5
"""


@pytest.fixture
def bakery(tmp_path: Path) -> Path:
    path = tmp_path / "bakery.toml"
    path.write_text(BAKERY)
    return path


EXPECTED = Program(
    decide={"hours": Quantity(cost=2, upper=6)},
    recourse={"missing": Quantity(cost="margin")},
    recourse_constraints={"demand": "rate * hours + missing >= outcome"},
    limits={"staff": "sum(hours) <= staff"},
    numbers={"staff": 8, "rate": (1, 1.5), "margin": 5},
)


def test_a_file_says_what_the_words_of_python_say(bakery: Path) -> None:
    assert read_program(bakery) == (EXPECTED, "EUR", "h")
    assert program_of(json.loads(json.dumps(to_plain(EXPECTED)))) == EXPECTED


def test_a_file_may_begin_with_a_byte_order_mark(bakery: Path) -> None:
    bakery.write_text(BAKERY, encoding="utf-8-sig")
    assert read_program(bakery) == (EXPECTED, "EUR", "h")


@pytest.mark.parametrize(
    ("line", "wrong", "said"),
    [
        ("upper = 6", "uper = 6", ", line 7: there is no setting 'decide.hours.uper'; did you mean 'upper'?"),
        ("upper = 6", "upper = true", ", line 7: decide.hours.upper must be a number or a list or text, got True"),
        ("upper = 6", 'upper = "six"', ", line 7: decide.hours.upper: there is no 'six' here"),
        ("upper = 6", "upper = inf", ", line 7: decide.hours.upper must be a number or a list or text, got inf"),
        ("upper = 6", "upper = -6", ", line 5: decide.hours: lower must not lie above upper"),
        ('"margin"}', '"margn"}', ", line 10: recourse.missing.cost: there is no 'margn' here; did you mean"),
        (">= outcome", "> outcome", ", line 13: recourse_constraints.demand: it must say <=, >= or ="),
        ("[limits]", "[limit]", ", line 15: there is no setting 'limit'; did you mean 'limits'?"),
        (
            "staff = 8",
            "staff = [8, 9, 7]",
            ", line 19: numbers for each outcome must be equally many, got: numbers.staff has 3",
        ),
        (
            'unit = "EUR"',
            "cvar_level = 0.75",
            ", line 2: there is no setting 'cvar_level'; give it as bakery.toml:cvar_level=0.75",
        ),
        (
            "margin = 5",
            "margin = 5\ncvar_mix = 1",
            ", line 22: numbers.cvar_mix must have another name: cvar_mix is a word of every cost, given as bakery",
        ),
        ("margin = 5", "margin = 5\naction_unit = 1", ", line 22: numbers.action_unit must have another name"),
        (
            "margin = 5",
            "margin = 5\nrte = 2",
            ", line 22: numbers.rte is not used by any quantity, recourse constraint or limit; the numbers used are",
        ),
        ("staff = 8", "staff = eight", " is no TOML: Invalid value (at line 19, column 9)"),
        ('unit = "EUR"', "unit = 3", ", line 2: unit must be text, got 3"),
        ("[decide.hours]", "[decided.hours]", ", line 5: there is no setting 'decided'; did you mean 'decide'?"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(bakery: Path, line: str, wrong: str, said: str) -> None:
    assert line in BAKERY
    bakery.write_text(BAKERY.replace(line, wrong))
    assert f"the program 'bakery.toml'{said}" in refuses(CostError, "", read_program, bakery)


def test_a_file_that_cannot_be_read(tmp_path: Path, bakery: Path) -> None:
    refuses(CostError, "there is no file", read_program, tmp_path / "bakry.toml")
    (tmp_path / "folder.toml").mkdir()
    refuses(CostError, "is a folder, expected a TOML file", read_program, tmp_path / "folder.toml")
    bakery.write_bytes(b"\xff\xfe")
    refuses(CostError, "must be text in UTF-8", read_program, bakery)
    bakery.write_bytes(b"#" * (1 << 20) + b"#")
    refuses(CostError, "at most 1,048,576 bytes", read_program, bakery)
    bakery.write_text("")
    refuses(CostError, "decide", read_program, bakery)


def test_as_a_cost_in_words(bakery: Path) -> None:
    spec = CostSpec.parse(f"{bakery}:staff=9.5,margin=5/6,unit=USD")
    assert (spec.unit, spec.action_unit) == ("USD", "h")
    assert (spec.is_program, spec.is_own) == (True, False)
    assert spec.parameters == {"staff": 9.5, "rate": (1, 1.5), "margin": (5, 6)}
    assert str(spec) == f"{bakery}:staff=9.5,rate=1/1.5,margin=5/6,unit=USD,action_unit=h"
    assert CostSpec.parse(str(spec)) == spec
    built = spec.build()
    assert isinstance(built, Program)
    assert built.numbers == spec.parameters
    for text, said in {
        f"{bakery}:stuff=3": "the program 'bakery.toml' has no number 'stuff'; did you mean 'staff'?",
        f"{bakery}:cvar_levl=3": "has no number 'cvar_levl'; did you mean 'cvar_level'?",
        f"{bakery}:staff=many": "must be a number, or numbers for each outcome as in 1/2/3, got 'many'",
        f"{bakery}:staff=1/2/3": "must be equally many",
    }.items():
        assert said in refuses(CostError, "", CostSpec.parse, text)


def test_a_record_has_all_of_it_and_needs_no_file(bakery: Path) -> None:
    spec = CostSpec.parse(f"{bakery}:staff=9")
    record = json.loads(json.dumps(spec.record()))
    assert str(bakery.parent) not in json.dumps(record)
    bakery.unlink()
    kept = CostSpec.from_record(record)
    assert kept.record() == record
    assert kept.build() == spec.build()
    assert cost_again(kept, None) is kept
    assert CostSpec.given(kept) is kept


def test_a_record_keeps_the_order_of_what_is_decided() -> None:
    program = Program(
        decide={"plant": Quantity(cost=1, each=False), "bought": Quantity(cost="outcome", upper=1)},
        limits={"built": "sum(bought) <= plant"},
    )
    record = json.loads(json.dumps(program_record(program), sort_keys=True))
    found = recorded_program(record, "cost.program")
    assert (found, hash(found)) == (program, hash(program))
    assert found.part_names(["a", "b"]) == program.part_names(["a", "b"]) == ("plant", "bought_a", "bought_b")
    for order, said in ((["plant"], "must name all that is decided once"), (None, "order must be a list, got None")):
        refuses(StakesError, said, recorded_program, record | {"order": order}, "cost.program")


def test_a_cost_given_again_must_be_that_of_the_record(bakery: Path) -> None:
    kept = CostSpec.parse(str(bakery)).kept()
    assert cost_again(kept, str(bakery)).build() == kept.build()
    refuses(SettingError, "the cost must be that of the fit", cost_again, kept, f"{bakery}:staff=7")
    bakery.write_text(BAKERY.replace("upper = 6", "upper = 7"))
    refuses(SettingError, "the cost must be that of the fit", cost_again, kept, str(bakery))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"program": None}, "cost.program must be a table, got None"),
        ({"program": "decide"}, "cost.program must be a table, got 'decide'"),
        ({"program": {"decide": {"x": {"cost": "__import__('os')"}}}}, "only, got \"__import__('os')\""),
        ({"parameters": {"stuff": 3.0}}, "the program 'bakery.toml' has no number 'stuff'"),
        ({"parameters": {"staff": "8"}}, "numbers.staff must be"),
        ({"name": "imbalance"}, "the cost imbalance has no parameter"),
        ({"name": "shortfall", "parameters": {"penalty": 5.0}}, "cost.program belongs to a program, got the cost 'sho"),
    ],
)
def test_a_record_that_is_none_is_refused(bakery: Path, changed: dict[str, object], said: str) -> None:
    record = CostSpec.parse(str(bakery)).record()
    bakery.unlink()
    assert said in refuses(StakesError, "", CostSpec.from_record, record | changed)


def test_a_program_made_in_python_is_kept_by_a_bundle() -> None:
    words = words_for(EXPECTED)
    assert words is not None
    cost, kept, notes = chosen_cost(json.loads(json.dumps(words.record())), None)
    assert (cost, notes) == (EXPECTED, ())
    assert kept is not None
    assert str(kept) == "program.toml:staff=8,rate=1/1.5,margin=5"
