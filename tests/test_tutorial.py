"""The commands of the tutorials, run one after the other, with fewer rows and a shorter training."""

import shlex
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from calls import called
from page_blocks import ROOT, blocks, commands

pytestmark = pytest.mark.usefixtures("blank_figures")

SHORTER = {
    "head -n 10229": "head -n 1101",
    "stakes fit": "stakes fit --decision-weight 0.1 --epochs 2 --members 50 --workers 1",
    "stakes recalibrate": "stakes recalibrate --decision-weights none",
}


def test_the_tutorial_goes_from_a_table_to_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks(ROOT / "docs" / "tutorials" / "table.md", "console") for line in commands(block)]
    assert {"stakes data", "stakes fit", "stakes decide"} <= {" ".join(line.split()[:2]) for line in lines}
    for line in lines:
        run(line)
    decisions, later, cases = (pd.read_csv(f"{name}.csv") for name in ("decisions", "later", "cases"))
    last = later["time"].max().replace(" ", "T")
    assert decisions["time"].max() == f"{last}Z"
    assert decisions["action"].between(0, 6000).all()
    assert set(cases["time"]) <= set(decisions["time"])
    assert Path("brittany/report.html").is_file()


def test_the_tutorial_for_a_forecast_goes_from_past_errors_to_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "tutorials" / "forecast.md"
    (made,) = blocks(page, "python")
    exec(made.text.replace("-4380:-1460", "-1860:-1460").replace("table[-1460:]", "table[-50:]"), {})
    for line in (line for block in blocks(page, "console") for line in commands(block)):
        run(line)
    as_it_is, decisions, later = (pd.read_csv(f"{name}.csv") for name in ("as_it_is", "decisions", "later"))
    assert as_it_is["action"].tolist() == pytest.approx(later["forecast"].tolist())
    assert len(decisions) == 50
    assert (decisions["action"] > later["forecast"]).mean() > 0.9  # too little is dearer than too much
    assert Path("service/report.html").is_file()


def run(line: str) -> None:
    for words, fewer in SHORTER.items():
        line = line.replace(words, fewer)
    if line.startswith("stakes "):
        code, _, errors = called(*shlex.split(line)[1:])
        assert code == 0, f"{line}\n{errors}"
    else:
        subprocess.run(["sh", "-ec", line], check=True)
