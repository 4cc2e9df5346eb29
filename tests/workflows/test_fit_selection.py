"""A fit whose linear candidate is selected: what it says and keeps, and that every command works with it."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called

from stakes.artifacts.fits import load_bundle
from stakes.artifacts.folder import read_manifest
from stakes.files import read_json
from stakes.service.server import ServiceSettings
from stakes.service.sources import open_source
from stakes.text import number_text
from stakes.training import progress
from stakes.workflows import fit

COST = "imbalance:short=10,long=1,upper=20,unit=EUR"
LITTLE = ["--weights", "0,0.5", "--epochs", "2", "--members", "20", "--block", "1"]
HERE = ["--device", "cpu", "--workers", "1", "--quiet"]
FIT = ["fit", "linear.csv", "--target", "y", "--cost", COST, *LITTLE, *HERE]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with linear.csv, `old`, a fit of it without a report, and what that said; read it only."""
    folder = tmp_path_factory.mktemp("selection")
    generator = np.random.default_rng(1)
    x = generator.normal(size=(300, 2))
    y = 8 + x @ [1.0, -0.5] + 0.5 * generator.normal(size=300)
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}).round(4).to_csv(folder / "linear.csv", index=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setattr(fit, "write_comparison", lambda *_: None)
        code, output, errors = called(*FIT, "--out", "old")
    assert (code, errors) == (0, "")
    (folder / "said.txt").write_text(output)
    return folder


@pytest.fixture(autouse=True)
def here(done: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it where the test runs; no figures are drawn, which takes longer than so little training."""
    shutil.copytree(done, ".", dirs_exist_ok=True)
    monkeypatch.setattr(fit, "write_comparison", lambda *_: None)


def test_the_selection_is_told_first() -> None:
    selection, table, sentences = Path("said.txt").read_text().split("\n\n")
    title, head, *candidates = selection.splitlines()
    assert title.startswith(
        "model selection on 30 validation cases: changes against the candidate selected before, 95 % intervals"
    )
    assert head.startswith("candidate") and head.endswith("result")  # noqa: PT018
    assert [line.split()[0] for line in candidates] == [
        *("climatology", "linear", "trees", "network", "decision", "pool"),
        "linear,",
    ]
    assert [line.split()[-1] for line in candidates[:2]] == ["before", "selected"]
    assert table.startswith("costs in EUR\n")
    headline, *others = sentences.splitlines()
    assert re.match(r"Follow the linear forecast: it saves [\d.]+ EUR per case against climatology \[", headline)
    assert any(line.startswith("The linear forecast was selected on 30 validation cases: expected") for line in others)
    assert any(line.startswith("On the 60 test cases the linear forecast costs 1.") for line in others)
    assert "weight" not in headline


def test_the_selection_is_kept_in_the_bundle_and_beside_it() -> None:
    forecaster = load_bundle(Path("old")).forecaster
    kept = forecaster.selection_
    assert kept.record() == read_json(Path("old/selection.json"))
    tested = [candidate.name for candidate in kept.tested]
    assert tested == [candidate.name for candidate in kept.candidates if candidate.cost is not None]
    assert tested[:4] == ["climatology", "linear", "trees", "network"]
    assert "selection.json" in read_manifest(Path("old")).files
    assert (forecaster.kind_, forecaster.decision_weight_, kept.selected.name) == ("linear", 0.0, "linear")


def test_each_name_has_one_number() -> None:
    kept = read_json(Path("old/selection.json"))
    metrics = load_bundle(Path("old")).known.metrics
    tested = {candidate["name"]: candidate["test_cost"] for candidate in kept["tested"]}
    assert tested["climatology"] == pytest.approx(metrics["climatology_cost"]["value"], rel=1e-6)
    assert kept["fitted_again"]["name"] == "linear"
    assert kept["fitted_again"]["test_cost"] == pytest.approx(metrics["cost"]["value"], rel=1e-6)
    assert not any("cost" in candidate for candidate in (*kept["candidates"], *kept["tested"]))
    shown = Path("said.txt").read_text()
    head, again = shown.splitlines()[1], next(line for line in shown.splitlines() if line.startswith("linear, fitted"))
    assert "validation cost (EUR)" in head
    assert "test cost (EUR)" in head
    assert f" {number_text(metrics['cost']['value'])} " in again


def test_machines_read_it_and_a_finished_fit_says_the_same() -> None:
    assert called(*FIT, "--out", "old") == (0, Path("said.txt").read_text(), "")
    record = json.loads(called(*FIT, "--out", "old", "--json")[1])
    assert record["selection"] == read_json(Path("old/selection.json"))
    assert (record["candidate"], record["decision_weight"]) == ("linear", 0.0)


def test_without_test_cases_nothing_is_tested_and_each_stage_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    words = [word for word in FIT if word != "--quiet"]
    code, output, errors = called(*words, "--test-fraction", "0", "--out", "new")
    assert code == 0
    lines = errors.splitlines()
    places = [lines.index(f"training {stage}") for stage in ("climatology", "the networks on their score")]
    assert places == sorted(places)
    assert "training networks for each decision weight" in lines
    assert any(line.endswith("of at most 2") and "epoch" in line for line in lines)
    selection = load_bundle(Path("new")).forecaster.selection_
    assert selection.tested == ()
    assert read_json(Path("new/selection.json")) == selection.record()
    assert "there is no report" in output


def test_an_interrupted_fit_selects_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = count(1)

    @contextmanager
    def stopping() -> Iterator[object]:
        yield lambda: next(counted) > 1

    with monkeypatch.context() as patched:
        patched.setattr(fit, "stop_on_interrupt", stopping)
        assert called(*FIT, "--out", "new")[0] == 130
    code, output, _ = called(*FIT, "--out", "new")
    assert (code, output.replace("new", "old")) == (0, Path("said.txt").read_text())
    for name in ("selection.json", "weights.safetensors"):
        assert read_manifest(Path("new")).files[name] == read_manifest(Path("old")).files[name]


def test_every_command_takes_a_linear_bundle() -> None:
    table = pd.read_csv("linear.csv").tail(20)
    table.loc[table.index[3], "a"] = None
    table.to_csv("new.csv", index=False)
    assert called("decide", "old", "new.csv", "--out", "decisions.csv")[0] == 0
    decisions = pd.read_csv("decisions.csv")
    assert decisions["missing_features"].tolist()[3] == "a"
    assert decisions["action"].between(0, 20).all()
    assert called("evaluate", "old", "new.csv", "--json")[0] == 0
    forecasts = open_source(Path("old"), None, ServiceSettings()).model()["forecasts"]
    assert forecasts[0].title == "The linear forecast"
    assert called("refit", "old", "linear.csv", *HERE, "--out", "again")[0] == 0
    again = load_bundle(Path("again")).forecaster.selection_
    assert again.record() == read_json(Path("old/selection.json"))
