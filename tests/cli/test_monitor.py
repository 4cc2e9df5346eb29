"""`stakes monitor`: exit codes, sentences and JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint
from scipy.special import ndtr
from user_files import past_forecasts

from stakes.cli import ALARM
from stakes.evaluation.drift import SeenErrors
from stakes.forecasting.recalibration import JudgedCorrection


def grown(shift: float = 0.0, wider: float = 1.0, cases: int = 90) -> None:
    """The past, and new cases whose outcomes lie higher or farther out than the past teaches."""
    past = past_forecasts()
    new = past_forecasts(cases, start="2020-06-09")
    middle = new.filter(regex="^m").mean(axis=1) + 2
    new["power"] = middle + shift + wider * (new["power"] - middle)
    pd.concat([past, new]).to_csv("longer.csv", index=False)


def test_errors_that_stayed_are_no_alarm(recalibrated: Path) -> None:
    grown()
    code, output, errors = called("monitor", str(recalibrated), "longer.csv")
    assert code == 0
    assert output.startswith("No drift detected in 90 new cases: ")
    assert "note: 160 cases up to 2020-06-08T00:00:00 " in errors
    assert "only large changes are noticed" in errors


@pytest.mark.parametrize(("change", "words"), [({"shift": 4.0}, "higher among"), ({"shift": -4.0}, "lower among")])
def test_errors_that_left_are_an_alarm(recalibrated: Path, change: dict[str, float], words: str) -> None:
    grown(**change)
    code, output, errors = called("monitor", str(recalibrated), "longer.csv", "--quiet")
    assert (code, errors) == (ALARM, "")
    assert output.startswith("Drift detected: ")
    assert words in output
    assert output.count("\n") == 1


def test_machines_get_every_question(recalibrated: Path) -> None:
    grown(wider=6.0)
    code, output, _ = called("monitor", str(recalibrated), "longer.csv", "--json", "--alpha", "0.2")
    record = json.loads(output)
    assert (code, record["left"], record["alpha"], record["enough"]) == (ALARM, True, 0.2, pytest.approx(15))
    assert (record["cases"], record["new_blocks"] * record["block"] + record["waiting"]) == (90, 90)
    questions = {each["question"]: each for each in record["questions"]}
    assert list(questions) == ["bias", "spread", "cost"]
    spread = questions["spread"]
    assert spread["left"]
    assert spread["new"] > spread["past"]
    assert spread["evidence"] >= record["enough"]
    assert spread["noticed_at"].startswith("2020-0")


def test_a_later_look_says_the_same_of_what_came_before(recalibrated: Path) -> None:
    looks = []
    for cases in (60, 90):
        generated = past_forecasts(90, start="2020-06-09").iloc[:cases]
        generated.assign(power=lambda table: table["power"] + 4).to_csv("new.csv", index=False)
        looks.append(json.loads(called("monitor", str(recalibrated), "new.csv", "--json")[1])["questions"][0])
    assert looks[0]["noticed_after"] == looks[1]["noticed_after"] is not None


def test_past_errors_that_stay_correlated_are_told(recalibrated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown()
    path = np.cumsum(np.random.default_rng(0).normal(size=160)) / 5
    lasting = property(lambda judged: SeenErrors(ndtr(path[: len(judged)]), path[: len(judged)]))
    record, errors = _look(recalibrated)
    assert "strongly correlated" not in errors
    assert all(0 <= each["correlation"] <= 0.5 for each in record["questions"])
    monkeypatch.setattr(JudgedCorrection, "errors", lasting)
    record, errors = _look(recalibrated)
    assert max(each["correlation"] for each in record["questions"]) > 0.5
    assert "past errors are strongly correlated" in errors
    assert "false alarms may exceed alpha" in errors


def _look(folder: Path) -> tuple[Any, str]:
    _, output, errors = called("monitor", str(folder), "longer.csv", "--json")
    return json.loads(output), errors


def test_what_cannot_be_done_is_named(recalibrated: Path) -> None:
    grown()
    words = ("monitor", str(recalibrated), "longer.csv")
    assert complaint(*words, "--alpha", "1.5") == "alpha must lie between 0 and 1, got 1.5"
    assert "leave out --forecast" in complaint(*words, "--forecast", "longer.csv")
    assert complaint(*words, "--cost", "newsvendor:underage=1,overage=1,upper=30").startswith(
        "the cost must be that of"
    )
    assert "bundle.json" in complaint("monitor", ".", "longer.csv")


def table(rows: int, shift: float = 0.0) -> pd.DataFrame:
    """A daily load of a wind forecast; from the 600th day on it lies higher."""
    generator = np.random.default_rng(2)
    wind, noise = generator.normal(size=(2, rows))
    load = 20 + 3 * wind + noise + shift * (np.arange(rows) >= 600)
    return pd.DataFrame({"time": pd.date_range("2020-01-01", periods=rows, freq="D"), "wind": wind, "load": load})


def test_a_fit_in_service_is_watched_as_a_recalibration_is() -> None:
    table(600).to_csv("past.csv", index=False)
    quick = ["--model", "linear", "--decision-weight", "0", "--members", "100", "--workers", "1"]
    given = ["--target", "load", "--time", "time", "--cost", "newsvendor:underage=3,overage=1,upper=90", "--quiet"]
    assert called("fit", "past.csv", *given, *quick, "--test-fraction", "0.4", "--out", "fit")[0] == 0
    table(900).to_csv("longer.csv", index=False)
    code, output, errors = called("monitor", "fit", "longer.csv")
    assert (code, "300 new cases" in output) == (0, True)
    assert "600 cases up to 2021-08-22T00:00:00 " in errors
    table(900, shift=2.0).to_csv("longer.csv", index=False)
    code, output, _ = called("monitor", "fit", "longer.csv", "--json")
    bias, _, cost = json.loads(output)["questions"]
    assert (code, bias["left"], cost["left"]) == (ALARM, True, True)
    assert bias["new"] > bias["past"] + 0.2
    table(600, shift=2.0).to_csv("longer.csv", index=False)
    assert "no new case with an outcome" in called("monitor", "fit", "longer.csv")[1]
    assert "--forecast" in complaint("monitor", "fit", "longer.csv", "--forecast", "past.csv")


def test_a_fit_without_test_cases_has_nothing_to_hold_new_ones_against() -> None:
    table(60).to_csv("past.csv", index=False)
    quick = ["--model", "linear", "--decision-weight", "0", "--test-fraction", "0", "--quiet"]
    given = ["--target", "load", "--time", "time", "--cost", "newsvendor:underage=3,overage=1,upper=90"]
    assert called("fit", "past.csv", *given, *quick, "--out", "fit")[0] == 0
    assert "no test cases" in complaint("monitor", "fit", "past.csv")
