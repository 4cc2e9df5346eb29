"""`python -m reproduction programs` from end to end, on made-up problems."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from small_programs import small_plan

from reproduction.__main__ import main
from reproduction.programs import reproduce
from reproduction.programs.problem import Plan, Problem
from stakes.errors import TableError

pytestmark = pytest.mark.usefixtures("unarranged_figures")


def absent(folder: str | None) -> Problem:
    raise TableError(f"no table in {folder}")


def without_data() -> Plan:
    plan = small_plan("absent")
    return Plan("absent", absent, plan.sources, plan.methods, plan.reference)


def called(*words: str) -> tuple[int, str, str]:
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        code = main(["programs", *words])
    return code, output.getvalue(), errors.getvalue()


def test_what_is_there_is_compared_and_the_rest_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "all_plans", lambda: (without_data(), small_plan()))
    folder = tmp_path / "out"
    code, output, told = called("--budget", "quick", "--tables", "nowhere", "--out", str(folder), "--workers", "1")
    assert (code, output.strip()) == (0, str(folder / "report.html"))
    assert "absent was left out: no table in nowhere." in told
    results = json.loads((folder / "results.json").read_text())
    assert set(results["problems"]) == {"small"}
    assert results["notes"] == ["absent was left out: no table in nowhere."]
    assert results["reduced"] == reproduce.REDUCED_PROGRAMS
    assert results["provenance"]["command"] == "python -m reproduction programs --budget quick --tables nowhere"
    assert (folder / "figures" / "small.svg").exists()
    assert "A small schedule" in (folder / "report.html").read_text()
    assert "small: 3 of 3" not in called("--budget", "quick", "--tables", "nowhere", "--out", str(folder))[2]


def test_without_any_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "all_plans", lambda: (without_data(),))
    code, output, told = called("--out", str(tmp_path))
    assert (code, output) == (2, "")
    assert "absent was left out" in told


def test_one_figure_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "all_plans", lambda: (without_data(), small_plan(), small_plan("other")))
    code, output, _ = called("--budget", "quick", "--figure", "other", "--out", str(tmp_path), "--quiet")
    assert (code, output.strip()) == (0, str(tmp_path / "figures" / "other.svg"))
    assert {file.name for file in (tmp_path / "kept").iterdir()} == {"other"}
    assert not (tmp_path / "report.html").exists()
    code, _, told = called("--figure", "smal", "--out", str(tmp_path))
    assert (code, told) == (2, "stakes: there is no figure 'smal'; did you mean 'small'?\n")


@pytest.mark.parametrize("flag", ["model", "record"])
def test_what_it_does_not_take(flag: str, tmp_path: Path) -> None:
    code, _, told = called(f"--{flag}", "wind_nora10", "--out", str(tmp_path))
    assert code == 2
    assert told == f"stakes: programs has no {flag} to choose: --{flag} is for other subjects\n"
