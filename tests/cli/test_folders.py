"""Commands on the folder of a fit that is not as it should be."""

import json
import shutil
from pathlib import Path

import pytest
from calls import called, complaint
from load_tables import load_table

from stakes.service.routes import Service
from stakes.service.schemas import DecideRequest
from stakes.service.server import ServiceSettings
from stakes.service.sources import open_source

COMMANDS = (["decide", "load", "new.csv", "--out", "a.csv"], ["evaluate", "load", "new.csv", "--cases", "a.csv"])


@pytest.fixture(autouse=True)
def copied(fitted: Path) -> None:
    shutil.copytree(fitted, "load")
    load_table().to_csv("new.csv", index=False)


def no_record() -> str:
    Path("load/bundle.json").unlink()
    return "there is no bundle.json"


def no_layout() -> str:
    changed("layout", None)
    return "saved without the layout"


def own_cost() -> str:
    changed("cost", {"name": "costs.py:mine", "parameters": {}, "unit": "", "action_unit": "", "sha256": "0" * 64})
    return "costs.py:mine"


def no_feature() -> str:
    load_table().drop(columns="load").to_csv("new.csv", index=False)
    return "'load'"


def text_among_the_numbers() -> str:
    load_table().astype({"load": str}).replace({"load": {str(load_table()["load"][7]): "high"}}).to_csv(
        "new.csv", index=False
    )
    return "got 'high' in data row 8"


def one_row() -> str:
    load_table().iloc[:1].to_csv("new.csv", index=False)
    return ""


def changed(key: str, value: object) -> None:
    """Write another bundle.json, with its checksum."""
    from stakes.files import read_json, write_json

    write_json(Path("load/bundle.json"), {**read_json(Path("load/bundle.json")), key: value})


FAULTS = (no_record, no_layout, own_cost, no_feature, text_among_the_numbers, one_row)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_folders_and_tables_that_cannot_be_used(fault, words: list[str]) -> None:  # type: ignore[no-untyped-def]
    message = fault()
    assert message in complaint(*words)
    assert not Path("a.csv").exists()


def test_what_test_cases_said_against_a_fit_is_told_wherever_it_decides() -> None:
    said = "Warning: the forecast underestimates the cost of its decisions."
    changed("about", json.loads(Path("load/bundle.json").read_text())["payload"]["about"] | {"alarms": [said]})
    for words in COMMANDS:
        assert f"note: {said.removesuffix('.')}\n" in called(*words, "--force")[2]
    source = open_source(Path("load"), None, ServiceSettings())
    request = DecideRequest(features=[[10.0] * len(source.model()["features"])])
    assert said.removesuffix(".") in Service(source).decide(request).notes


def test_a_report_needs_an_evaluation() -> None:
    assert "evaluation" in complaint("report", "load")
    assert not Path("load/report.html").exists()


def test_an_own_cost_is_given_again() -> None:
    own_cost()
    Path("costs.py").write_text("def mine(action, outcome):\n    return (action - outcome) ** 2\n")
    words = ["decide", "load", "new.csv", "--cost", "costs.py:mine:lower=0,upper=30", "--json", "--quiet"]
    code, output, errors = called(*words)
    assert (code, errors) == (0, "")
    assert json.loads(output)["cost"] == "costs.py:mine:lower=0,upper=30"


def test_an_own_cost_that_fails_is_told_in_one_line() -> None:
    Path("costs.py").write_text("def mine(action, outcome):\n    return action.nonsense\n")
    for words in COMMANDS:
        said = complaint(*words, "--cost", "costs.py:mine:lower=0,upper=30")
        assert "costs.py" in said
        assert "nonsense" in said
