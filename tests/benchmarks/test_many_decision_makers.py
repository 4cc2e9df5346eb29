"""The study of one model for many decision makers runs, goes on where it was, and its page shows its results."""

import json
from pathlib import Path

import numpy as np
import pytest
from page_blocks import ROOT

from benchmarks import many_decision_makers as study

RESULTS = ROOT / "benchmarks" / "results" / "many_decision_makers.json"


def test_seeds_are_trained_and_paired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "STEPS", {"pretraining": 5, "training": 10})
    monkeypatch.setattr(study, "MODEL", study.ImplicitSettings(noise=2, hidden=4, layers=1))
    monkeypatch.setattr(study, "JUDGED", 4)
    runs = ["--runs", str(tmp_path / "runs")]
    study.main(["train", "simulated", "--sites", "2", "--seeds", "2", *runs])
    assert len(capsys.readouterr().out.splitlines()) == 2
    study.main(["train", "simulated", "--sites", "2", "--seeds", "2", *runs])
    assert not capsys.readouterr().out
    study.main(["summary", "--json", str(tmp_path / "summary.json"), *runs])
    told = json.loads((tmp_path / "summary.json").read_text())["problems"]["simulated"]
    seeds = [np.load(file) for file in sorted((tmp_path / "runs" / "simulated").glob("*.npz"))]
    assert (told["seeds"], told["sites"], told["test cases"]) == (2, 2, 6000)
    for place, penalty in enumerate(study.PENALTIES):
        row = told["penalties"][f"{penalty:g}"]
        change = np.mean([each["conditioned"][place] - each["own"][place] for each in seeds])
        assert row["conditioned less own"][0] == pytest.approx(change, abs=1e-6)
    assert told["steps of a seed"]["own"] == 5 * told["steps of a seed"]["conditioned"]


def test_the_page_shows_what_was_measured() -> None:
    page = (ROOT / "benchmarks" / "pages" / "many_decision_makers.md").read_text()
    record = json.loads(RESULTS.read_text())
    for told in record["problems"].values():
        for line in study.page_table(told):
            assert line in page
