"""A reproduction that is interrupted, killed or damaged goes on to the same results."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_reproduction import EXECUTION, tiny_studies

from reproduction import studies as assessment
from reproduction.reproduce import Reproduction
from reproduction.run_studies import run_studies

DRIVER = Path(__file__).with_name("interrupted_reproduction.py")
INTERRUPTED = "stakes: interrupted; what is done is kept, and the same command goes on from there"


def results(folder: Path) -> dict[str, Any]:
    """All but what depends on the clock: the provenance, and the claim about computing time."""
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    del found["provenance"], found["claims"]["O1"]
    return found


STARTS: dict[str, tuple[int, int, list[str]]] = {  # exit code, runs evaluated by then, and what was said
    "whole": (0, 4, ["training 4 models", "evaluating 1 study", "drawing and judging"]),
    "training": (130, 0, ["training 4 models", INTERRUPTED]),
    "evaluation": (130, 1, ["training 4 models", "evaluating 1 study", INTERRUPTED]),
    "killed": (-9, 2, ["evaluating 1 study"]),
    "end": (0, 4, ["evaluating 1 study", "drawing and judging"]),
}


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.soak
def test_interruptions_and_a_kill_leave_the_same_results(tmp_path: Path) -> None:
    result = subprocess.run([sys.executable, str(DRIVER), str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert {name: start["code"] for name, start in said.items()} == {name: STARTS[name][0] for name in STARTS}
    for name, (_, evaluated, steps) in STARTS.items():
        estimate, *lines = said[name]["errors"].splitlines()
        assert estimate.startswith("a reduced run (--quick) of 4 models: about ")
        assert lines == steps
        assert said[name]["evaluated"] == evaluated
    assert results(tmp_path / "interrupted") == results(tmp_path / "whole")
    for name in ("summary.parquet", "studies/synthetic-diffusion-main/forecasts.parquet"):
        assert (tmp_path / "interrupted" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_damaged_study_is_evaluated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tiny_studies():
        (planned,) = Reproduction("synthetic", quick=True).planned()
        whole = run_studies([planned], tmp_path, EXECUTION)[planned.key]
    folder = tmp_path / "studies" / str(planned.key)
    found = {file: file.read_bytes() for file in folder.iterdir()}
    loads = 0
    cost = whole.values("cost", 0.9)
    evaluated = assessment.evaluated_run

    def counted(*arguments: Any) -> Any:
        nonlocal loads
        loads += 1
        return evaluated(*arguments)

    monkeypatch.setattr(assessment, "evaluated_run", counted)
    damages = {"forecasts.parquet": 0.5, "cases.parquet": 0.9, "study.json": 0.5}
    for name, share in damages.items():
        file = folder / name
        file.write_bytes(found[file][: int(share * len(found[file]))])
        assert (run_studies([planned], tmp_path, EXECUTION)[planned.key].values("cost", 0.9) == cost).all()
        assert {file: file.read_bytes() for file in folder.iterdir()} == found
    assert loads == 4 * len(damages)
    assert (run_studies([planned], tmp_path, EXECUTION)[planned.key].values("cost", 0.9) == cost).all()
    assert loads == 4 * len(damages), "a study that is whole is taken as it is"


def test_a_study_of_other_settings_is_not_taken_for_this_one(tmp_path: Path) -> None:
    with tiny_studies():
        (planned,) = Reproduction("synthetic", quick=True).planned()
        other = replace(planned, grid={**planned.grid, "seed": (0,)})
        studies = [run_studies([each], tmp_path, EXECUTION)[planned.key] for each in (planned, other, planned)]
        assert [study.seeds for study in studies] == [2, 1, 2]
