"""`evaluate`, `report` and `resume` on the folder of a run."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from golden_run import FOLDER
from reproduction_calls import called, complaint

pytestmark = pytest.mark.usefixtures("unarranged_figures")


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FOLDER / "finished", "run")


def test_a_run_is_evaluated_on_the_cases_of_its_task() -> None:
    code, output, errors = called("evaluate", "run", "--cases", "cases.csv")
    assert (code, errors) == (0, "")
    title, head, *rows = output.splitlines()
    assert title.startswith("task synthetic, cost protection:threshold=")
    assert title.endswith(": 400 cases, 95 % intervals from blocks of 8 neighbours")
    assert head.split() == ["metric", "value", "low", "high"]
    assert [row.split()[0] for row in rows[:3]] == ["energy_score", "cost", "expected_cost"]
    cases = pd.read_csv("cases.csv")
    assert len(cases) == 400
    record = json.loads(called("evaluate", "run", "--block", "5", "--json")[1])
    assert (record["cases"], record["block"]) == (400, 5)
    assert record["cost"].startswith("protection:")
    value = next(row["value"] for row in record["metrics"] if row["metric"] == "cost")
    assert value == pytest.approx(cases["cost"].mean())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "run", "later.csv"], "later.csv"),
        (["report", "run", "--cost", "shortfall:penalty=3"], "--cost"),
    ],
)
def test_what_the_task_says_is_not_given_again(words: list[str], message: str) -> None:
    assert message in complaint(*words)


def test_a_run_gets_its_report() -> None:
    assert called("report", "run") == (0, "run/report.html\n", "")
    page = Path("run/report.html").read_text("utf-8")
    assert "A run of the task synthetic" in page
    assert called("report", "run", "--out", "elsewhere.html") == (0, "elsewhere.html\n", "")
    assert Path("elsewhere.html").read_text("utf-8") == page
    assert called("resume", "run") == (0, "run\n", "")


@pytest.mark.parametrize("name", ["weights.safetensors", "metrics.jsonl"])
def test_results_that_are_gone_are_told(name: str) -> None:
    Path("run", name).unlink()
    again = "to train the run again, delete run/state.json and resume"
    assert complaint("resume", "run") == f"run/{name} cannot be read: No such file or directory; {again}"


def test_other_weights_than_those_of_the_run_are_told() -> None:
    with Path("run/weights.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    assert complaint("resume", "run").startswith("run/weights.safetensors is damaged: its SHA-256 is ")


def test_a_run_that_has_not_ended_is_told() -> None:
    Path("run/state.json").unlink()
    for command in ("evaluate", "report"):
        assert "the run in run has not finished; `python -m reproduction resume run` goes on with it" in complaint(
            command, "run"
        )
