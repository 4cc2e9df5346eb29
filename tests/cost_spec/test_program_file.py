"""A program in a TOML file: what it says, and its record."""

import json
from pathlib import Path

import pytest
from cost_spec.programs_in_toml import BAKERY
from refusals import refuses

from stakes import Program, Quantity
from stakes.artifacts.folder import chosen_cost, words_for
from stakes.cost_spec.files import program_of, program_record, read_program, recorded_program
from stakes.cost_spec.spec import CostSpec, cost_again
from stakes.errors import SettingError, StakesError
from stakes.settings import to_plain


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
    bakery.write_text(BAKERY, encoding="utf-8-sig")  # with a byte order mark
    assert read_program(bakery) == (EXPECTED, "EUR", "h")


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
    for order in (["plant"], None):
        refuses(StakesError, r"^cost\.program\.order ", recorded_program, record | {"order": order}, "cost.program")


def test_a_cost_given_again_must_be_that_of_the_record(bakery: Path) -> None:
    kept = CostSpec.parse(str(bakery)).kept()
    assert cost_again(kept, str(bakery)).build() == kept.build()
    refuses(SettingError, "--cost", cost_again, kept, f"{bakery}:staff=7")
    bakery.write_text(BAKERY.replace("upper = 6", "upper = 7"))
    refuses(SettingError, "--cost", cost_again, kept, str(bakery))


def test_a_program_made_in_python_is_kept_by_a_bundle() -> None:
    words = words_for(EXPECTED)
    assert words is not None
    cost, kept, notes = chosen_cost(json.loads(json.dumps(words.record())), None)
    assert (cost, notes) == (EXPECTED, ())
    assert kept is not None
    assert str(kept) == "program.toml:staff=8,rate=1/1.5,margin=5"
