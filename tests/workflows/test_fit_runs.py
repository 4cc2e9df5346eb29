"""`fit`, `refit`, `report` and `evaluate` as they really run: a user's own cost, and very little training."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint
from load_tables import load_table

from stakes.actions import solve as actions
from stakes.actions.scalar_solvers import NewtonBisection
from stakes.artifacts.fits import load_bundle
from stakes.artifacts.folder import JUDGED_CASES, read_judged, read_manifest
from stakes.cost_spec.spec import CostSpec
from stakes.files import read_json, write_json
from stakes.service.routes import Service
from stakes.service.schemas import DecideRequest, TableRequest
from stakes.service.server import ServiceSettings
from stakes.service.sources import SEEN, FitSource, open_source
from stakes.workflows import fit

OWN = "def paid(action, outcome):\n    return (action - outcome) ** 2\n"
COLUMNS = ["--target", "load", "--time", "time", "--lags", "0,12", "--lead", "12", "--baseline-action", "bought"]
LITTLE = ["--decision-weight", "0.5", "--epochs", "2", "--members", "10"]
HERE = ["--device", "cpu", "--workers", "1", "--quiet"]
COST = "costs.py:paid:lower=0,upper=20,unit=EUR"
FIT = ["fit", "load.csv", *COLUMNS, "--cost", COST, *LITTLE, *HERE]
WEIGHTS = "weights.safetensors"


@pytest.fixture(scope="module", autouse=True)
def few_iterations() -> Iterator[None]:
    """Training takes all iterations there are, 20 of them, and the best action of a square needs one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(actions, "NewtonBisection", partial(NewtonBisection, iterations=2))
        yield


@pytest.fixture(scope="module")
def done(few_iterations: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with load.csv, costs.py and `old`, a fit of them; read it only."""
    folder = tmp_path_factory.mktemp("runs")
    table = load_table()
    table.loc[table.index[-30:], "bought"] = None
    table.to_csv(folder / "load.csv", index=False)
    (folder / "costs.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        code, output, errors = called(*FIT, "--out", "old")
    assert (code, errors) == (0, "")
    (folder / "said.txt").write_text(output)
    return folder


@pytest.fixture(autouse=True)
def here(done: Path, elsewhere: None) -> None:
    """All of it where the test runs."""
    shutil.copytree(done, ".", dirs_exist_ok=True)


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures are drawn, which takes longer than so little training."""
    monkeypatch.setattr(fit, "write_comparison", lambda *_: None)


def interrupted_when(asked: Callable[[], bool]) -> Callable[[], object]:
    """In place of `stop_on_interrupt`: Ctrl-C comes when this is so."""

    @contextmanager
    def stopping() -> Iterator[Callable[[], bool]]:
        yield asked

    return stopping


def test_what_a_fit_says_and_keeps(done: Path) -> None:
    said = Path("said.txt").read_text()
    lines = said.splitlines()
    assert lines[0] == "costs in EUR"
    table = {line.split()[0]: line.split() for line in lines if line}
    assert table["today_cases"][1] == "10"
    assert {"today_cost", "cost_beside_today", "cost_less_today"} <= set(table)
    sentences = lines[lines.index("") + 1 :]
    assert "the decision-aware forecast (weight 0.5)" in sentences[0]
    assert "today's action (known in 10 cases)" in said
    place = sentences.index("Decision weight 0.5, as given.")
    assert sentences[place + 1].startswith("Too early to tell whether weight 0.5 (given) pays")
    assert sentences[place + 2].startswith("On the 40 test cases the decision-aware forecast (weight 0.5) costs")
    seen = "fitted on all 198 cases, test cases included"
    assert seen in sentences[-3]
    assert sentences[-2:] == ["Report: old/report.html", "old"]
    assert seen in Path("old/report.html").read_text("utf-8")
    record = read_json(Path("old/bundle.json"))
    assert record["about"]["metrics"]["today_cases"]["value"] == 10
    assert record["about"]["fitted"]["cases"] == 198
    assert str(done) not in json.dumps(record)
    assert "costs.py:paid:lower=0,upper=20,unit=EUR" in json.dumps(record["about"]["settings"])
    assert str(done / "costs.py") not in Path("old/fit.json").read_text()
    assert not Path("old/checkpoints").exists()
    assert "evaluation/features.parquet" in read_manifest(Path("old")).files


def test_which_errors_cost_how_much_is_kept_and_shown() -> None:
    judged = read_judged(Path("old"))
    by_outcome, by_members = (judged.filter(like=f"regret_of_{kind}_") for kind in ("outcome", "members"))
    assert next(iter(by_members)) == "regret_of_members_lowest third"
    np.testing.assert_allclose(by_outcome.sum(axis=1), by_members.sum(axis=1), rtol=1e-9)
    assert by_outcome.sum(axis=1).mean() == pytest.approx(judged["foresight_regret"].mean(), rel=0.05)
    page = Path("old/report.html").read_text("utf-8")
    assert page.count("Where the money went</h2>") == 1
    assert "highest third" in page


def test_a_finished_fit_says_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And writes its report again where it is gone; what that draws is what `stakes report` does, below."""
    monkeypatch.setattr(fit, "write_comparison", lambda _, folder: (folder / "report.html").touch())
    Path("old/report.html").unlink()
    assert called(*FIT, "--out", "old") == (0, Path("said.txt").read_text(), "")
    assert Path("old/report.html").exists()


def test_refit_needs_the_own_cost_again() -> None:
    said = complaint("refit", "old", "load.csv", "--out", "new")
    assert said.endswith(f"give the file again, as in --cost PATH/{COST}")
    Path("costs.py").write_text("raise SystemExit('executed')\n")
    assert complaint("refit", "old", "load.csv", "--out", "new") == said
    assert not Path("new").exists()


@pytest.mark.usefixtures("no_report")
def test_a_fit_goes_on_wherever_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its first training, in the last one, which is for service, and where its folder cannot be written."""
    in_service = Path("new/checkpoints/service")
    when = {Path("new/checkpoints"): lambda: True, in_service: Path("new", JUDGED_CASES).exists}
    for trained, asked in when.items():
        with monkeypatch.context() as patched:
            patched.setattr(fit, "stop_on_interrupt", interrupted_when(asked))
            code, output, errors = called(*FIT, "--out", "new")
        assert (code, output) == (130, "")
        assert "interrupted" in errors
        assert any(trained.rglob("*.safetensors"))
        assert not Path("new/bundle.json").exists()

    def fails(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(fit, "save_bundle", fails)
        assert called(*FIT, "--out", "new")[0] == 2
    assert any(Path("new/checkpoints").rglob("*.safetensors"))
    resumed = called(*FIT, "--out", "new")
    assert resumed == called(*FIT, "--out", "new")  # the same table and sentences
    assert resumed[0] == 0
    assert not Path("new/checkpoints").exists()
    for name, sha256 in read_manifest(Path("old")).files.items():
        if name == WEIGHTS or name.startswith("evaluation/"):
            assert read_manifest(Path("new")).files[name] == sha256


def test_a_report_is_of_the_cost_of_the_fit() -> None:
    before = Path("old/report.html").read_bytes()
    assert complaint("report", "old").endswith(f"as in --cost PATH/{COST}")
    assert "must be that of the fit" in complaint("report", "old", "--cost", "shortfall:penalty=5")
    assert complaint("report", "old", "--cost", COST, "--out", "old/report.html", "--force").endswith("without --out")
    assert called("report", "old", "--cost", COST, "--out", "copy.html") == (0, "copy.html\n", "")
    assert Path("old/report.html").read_bytes() == before
    assert "Decisions on load" in Path("copy.html").read_text("utf-8")
    with Path("costs.py").open("a") as file:
        file.write("# another\n")
    assert "has changed since the fit" in complaint("report", "old", "--cost", COST)


def test_no_report_of_an_evaluation_that_was_changed() -> None:
    before = Path("old/report.html").read_bytes()
    file = Path("old/evaluation/cases.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    expected = "old/evaluation/cases.parquet is not the file that was recorded when it was saved"
    assert complaint("report", "old", "--cost", COST, "--force") == expected
    assert Path("old/report.html").read_bytes() == before


@pytest.mark.parametrize(("name", "value"), [("outcomes", [["a"]]), ("settings", 3), ("provenance", 3), ("metrics", 3)])
def test_no_report_of_what_no_fit_says(name: str, value: object) -> None:
    before = Path("old/report.html").read_bytes()
    record = read_json(Path("old/bundle.json"))
    write_json(Path("old/bundle.json"), record | {"about": record["about"] | {name: value}})
    assert complaint("report", "old", "--cost", COST, "--force").startswith(f"old/bundle.json: about.{name}")
    assert Path("old/report.html").read_bytes() == before


def test_columns_that_are_no_features_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "stop_on_interrupt", interrupted_when(lambda: True))  # they are told before any training
    load_table().assign(place="Rome", share="5%").to_csv("more.csv", index=False)
    words = ["fit", "more.csv", *COLUMNS, "--cost", COST, *LITTLE, *HERE[:-1], "--out", "new"]
    assert ": 'place', 'share'\n" in called(*words)[2]


def test_cases_of_the_fit_are_told() -> None:
    words = ["evaluate", "old", "load.csv", "--cost", COST, "--json"]
    code, output, errors = called(*words)
    assert code == 0
    assert "note: this is the table of the fit: 198 of 198 cases were part of the fit, " in errors
    rows = {row["metric"]: row["value"] for row in json.loads(output)["metrics"]}
    assert rows["today_cases"] == 168
    assert rows["cost_less_today"] == pytest.approx(rows["cost_beside_today"] - rows["today_cost"])
    table = pd.read_csv("load.csv")
    table.tail(60).to_csv("later.csv", index=False)
    errors = called(*words[:2], "later.csv", *words[3:])[2]
    assert "note: 58 of 58 cases lie in the time of the fit, 2021-01-02T00:00:00 to " in errors


@pytest.mark.usefixtures("no_report")
def test_test_cases_that_are_held_are_no_part_of_the_fit() -> None:
    """The forecast on trees is refitted, too."""
    code, output, _ = called(*FIT, "--base", "trees", "--hold-test", "--out", "held")
    assert code == 0
    assert "158 cases before the test" in output
    assert read_json(Path("held/bundle.json"))["about"]["fitted"]["cases"] == 158
    bundle = load_bundle(Path("held"), cost=CostSpec.parse(COST))
    assert (bundle.forecaster.base, bundle.forecaster.gap) == ("trees", 1)  # 12 h, the step of the table
    table = pd.read_csv("load.csv")
    for rows, told in ((60, "note: 18 of 58 cases lie in the time of the fit, 2021-01-02T00:00:00 to "), (40, "")):
        table.tail(rows).to_csv("later.csv", index=False)
        errors = called("evaluate", "held", "later.csv", "--cost", COST, "--json")[2]
        assert ("part of the fit" in errors) == bool(told)
        assert told in errors
    source = open_source(Path("held"), COST, ServiceSettings())
    assert isinstance(source, FitSource)
    assert source.cases().about == SEEN[False]
    served = open_source(Path("old"), COST, ServiceSettings())
    assert served.cases().about == SEEN[True]
    load_table(220).to_csv("longer.csv", index=False)
    assert called("refit", "held", "longer.csv", "--cost", COST, *HERE, "--out", "again")[0] == 0
    assert "trees-0.txt" in read_manifest(Path("again")).files
    assert read_json(Path("again/bundle.json"))["about"]["fitted"]["cases"] == 174


def test_what_speaks_against_a_forecast_is_repeated_wherever_it_decides() -> None:
    said = "Warning: the forecast underestimates"
    record = read_json(Path("old/bundle.json"))
    write_json(Path("old/bundle.json"), record | {"about": record["about"] | {"alarms": [f"{said}."]}})
    for command in ("decide", "evaluate"):
        assert f"note: {said}\n" in called(command, "old", "load.csv", "--cost", COST)[2]
    service = Service(open_source(Path("old"), COST, ServiceSettings()))
    case = service.cases().cases[0].features
    assert service.decide(DecideRequest(features=[case])).notes == [said]
    assert service.decide(DecideRequest(members=[[1.0, 2.0]])).notes == []
    assert said in service.table(TableRequest(csv=Path("load.csv").read_text())).notes
    assert [each.warnings for each in service.model().forecasts if each.name == "selected"] == [[said]]


def test_another_unit_is_told() -> None:
    table = load_table()
    table.assign(load=table["load"] * 1000).to_csv("new.csv", index=False)
    errors = called("decide", "old", "new.csv", "--cost", COST)[2]
    assert "named in outside_training_range" in errors
    assert "named in outside_training_range" in errors
    assert "check their unit" in errors
    assert "check their unit" not in called("decide", "old", "load.csv", "--cost", COST)[2]


@pytest.mark.filterwarnings("always::stakes.errors.StakesWarning")
@pytest.mark.usefixtures("no_report")
def test_a_feature_that_is_the_outcome_is_told_and_kept() -> None:
    table = load_table()
    table["ahead"] = table["load"].shift(-1)
    table.dropna(subset="ahead").to_csv("leak.csv", index=False)
    words = [*COLUMNS[:4], "--features", "load,ahead", "--lags", "0,12", "--lead", "12", "--model", "linear"]
    cost = ["--cost", "imbalance:short=10,long=1,upper=20", "--decision-weight", "0", "--base", "none"]
    code, output, errors = called("fit", "leak.csv", *words, *cost, *HERE, "--out", "leaky")
    assert code == 0, errors
    for said in (output, errors, *load_bundle(Path("leaky")).known.leaks):
        assert "'ahead@0h' reproduces the outcome 'load'" in said
