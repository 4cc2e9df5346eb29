import json
from dataclasses import replace
from pathlib import Path

import pytest
from calls import called

from stakes import demo
from stakes.fitting import fit
from stakes.fitting.inputs import FitInputs

pytestmark = pytest.mark.usefixtures("unarranged_figures")


def test_the_demo_goes_from_tables_to_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_MEMBERS", 10)
    monkeypatch.setattr(fit, "_OUTCOMES_KEPT", 50)
    for name, rows in (("_loads", 400), ("_sites", 200)):
        shortened(monkeypatch, name, rows)
    code, page, errors = called("demo", "--out", str(tmp_path), "--epochs", "1", "--workers", "1")
    assert code == 0, errors
    for words in ("France", "The last decisions", "climatology_cost", "anything to gain", "Regret against the true"):
        assert words in page + errors
    for example in demo.EXAMPLES:
        assert (tmp_path / example.name / "report.html").is_file()
    code, page, errors = called("demo", "--out", str(tmp_path), "--epochs", "1", "--workers", "1", "--json")
    assert code == 0, errors
    records = json.loads(page)  # of the fits that are there already
    assert list(records) == [example.name for example in demo.EXAMPLES]
    assert records["simulated_sites"]["regret"].startswith("Regret against the true optimum: ")
    assert len(records["french_load"]["last_decisions"]) == 4


def shortened(monkeypatch: pytest.MonkeyPatch, name: str, rows: int) -> None:
    table = getattr(demo, name)
    examples = tuple(
        replace(example, table=lambda: table().tail(rows)) if example.table is table else example
        for example in demo.EXAMPLES
    )
    monkeypatch.setattr(demo, "EXAMPLES", examples)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FitInputs]:
    """What is fitted to, all of it."""
    folder = tmp_path_factory.mktemp("whole")
    return {example.name: FitInputs.read(example.request(folder, None)) for example in demo.EXAMPLES}


@pytest.mark.parametrize("example", demo.EXAMPLES, ids=lambda example: example.name)
def test_the_demo_does_not_doubt_its_own_data(whole: dict[str, FitInputs], example: demo.Example) -> None:
    inputs = whole[example.name]
    assert inputs.cases.outcomes is not None
    assert inputs.spec.doubts(inputs.cases.outcomes) == []


def test_the_french_load_is_judged_on_2021(whole: dict[str, FitInputs]) -> None:
    fitted, test = whole["french_load"].split
    assert test is not None
    assert fitted.times is not None
    assert test.times is not None
    assert str(test.times[0])[:7] in ("2021-01", "2019-12")
    assert len(test) > 1400
    assert not any(str(time).startswith("2020") for time in (*fitted.times, *test.times))


def test_the_simulated_sites_have_1500_cases_to_train_on(whole: dict[str, FitInputs]) -> None:
    fitted, test = whole["simulated_sites"].split
    assert test is not None
    assert (len(fitted), len(test)) == (4500, 4000)
    assert round((1 - demo.EXAMPLES[1].validation_fraction) * len(fitted)) == 1500
