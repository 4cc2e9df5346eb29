import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stakes
from benchmarks.forecast_quality import __main__ as command
from benchmarks.forecast_quality import cells
from benchmarks.forecast_quality.cells import Cell, judged
from benchmarks.forecast_quality.comparison import compared, holm, summary
from benchmarks.forecast_quality.ours import estimator
from benchmarks.forecast_quality.page import quality_markdown
from benchmarks.forecast_quality.problems import Problem
from benchmarks.forecast_quality.rivals import blocked_folds, climatology, ridge


def made(rows: int = 480, train: int = 380, outcomes: int = 2) -> Problem:
    """A daily problem, linear in its two features, with outcomes that share half of their noise."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(rows, 2))
    noise = generator.normal(size=(rows, outcomes)) + generator.normal(size=(rows, 1))
    outcome = 5 + features.sum(1, keepdims=True) + 0.1 * noise
    times = np.datetime64("2020-01-01", "s") + np.timedelta64(1, "D") * np.arange(rows)
    cost = stakes.NewsvendorCost(3.0, 1.0, 0.0, 100.0)
    return Problem("made", features, outcome, times, train, 24, 168, {"": cost}, "m")


def test_holm_is_that_of_the_textbook() -> None:
    # Holm (1979) as in R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm([0.9, 0.001, 0.8]) == pytest.approx([1.0, 0.003, 1.0])
    assert holm([]) == []


def forecast(score: float, seeds: int = 1) -> dict[str, Any]:
    rows = np.random.default_rng(0).normal(size=(1, 350)) + score + np.linspace(0, 0.01, seeds)[:, None]
    times = np.datetime64("2020-01-01", "s") + np.timedelta64(1, "D") * np.arange(350)
    others = {name: np.ones((seeds, 350)) for name in ("gap", "variance")}
    return {
        "score": rows,
        "cost": -rows,
        "error": np.full((seeds, 350), 4.0),
        **others,
        "times": times,
        "seconds": [1.0],
    }


def test_a_rival_that_is_better_is_found_and_named() -> None:
    rows = compared(
        {"ours": forecast(2.0, 3), "better": forecast(1.5), "same": forecast(2.005), "old": forecast(4.0)}, "ours"
    )
    assert rows["ours"]["spread"] == 0.5
    assert rows["better"]["score less ours"][0] == pytest.approx(-0.505)
    assert rows["ours"]["seeds"] == 3
    found = summary({"a problem": rows}, "ours", ["better", "same"], "old")
    assert [(each["rival"], each["metric"]) for each in found["rival significantly better"]] == [("better", "score")]
    assert found["best rival"] == {"a problem": "better"}
    assert found["geometric mean of score over best rival"] == pytest.approx(
        rows["ours"]["score"] / rows["better"]["score"]
    )
    assert found["geometric mean of score over before"] == pytest.approx(rows["ours"]["score"] / rows["old"]["score"])
    assert rows["same"]["score p adjusted"] > rows["same"]["score p"] / 2 > 0.05
    page = quality_markdown({"problems": {"a problem": rows}, "ours": "ours"})
    ratio = rows["better"]["score"] / rows["ours"]["score"]
    assert f"| a problem | **{ratio:.3f}** | 1.000 ~ |" in page


def test_gaps_are_in_plain_digits() -> None:
    row = {"score": 1.0, "cost": 2.0, "gap": [-102.0, -0.00001234, 31.97], "spread": 0.9, "seconds": 113.0}
    page = quality_markdown({"problems": {"a problem": {"ours": row}}, "ours": "ours"})
    assert "| a problem | -102 [-0.000012, +32] | 0.90 | 113 |" in page


def test_the_page_of_the_docs_shows_what_was_measured() -> None:
    page = command.RESULTS.parents[2] / "docs" / "explanation" / "forecast_quality.md"
    assert page.read_text().partition(f"{command.TABLES}\n\n")[2] == quality_markdown(
        json.loads(command.RESULTS.read_text())
    )


def test_folds_leave_out_the_lead_time_on_both_sides() -> None:
    problem = made()
    held_out = []
    for fitted, held in blocked_folds(problem):
        apart = np.abs(problem.times[fitted][:, None] - problem.times[held]).min()
        assert apart >= np.timedelta64(24, "h")
        assert set(fitted) | set(held) == set(range(problem.train))  # neighbours of a daily record are a lead apart
        held_out.extend(held)
    assert held_out == list(range(problem.train))


def test_rows_too_close_to_the_test_are_refused() -> None:
    problem = made()
    with pytest.raises(ValueError, match="48 h after training rows, got 24"):
        Problem("x", problem.features, problem.outcomes, problem.times, problem.train, 48, 168, problem.costs, "m")


def test_ridge_draws_whole_residual_vectors() -> None:
    problem = made()
    members = ridge(problem, 500, 0)
    assert members.shape == (100, 500, 2)
    errors = members - members.mean(1, keepdims=True)
    correlation = np.corrcoef(errors.reshape(-1, 2).T)[0, 1]
    assert correlation == pytest.approx(0.5, abs=0.1)
    assert errors.std() == pytest.approx(0.1 * math.sqrt(2), rel=0.1)


def test_ours_is_fitted_on_the_training_rows_alone() -> None:
    problem = made()
    quick = {"epochs": 1, "ensemble": 1}
    members = estimator(quick, problem, 20, 0)[""]
    assert members.shape == (100, 20, 2)
    problem.outcomes[problem.train :] += 100.0
    np.testing.assert_array_equal(estimator(quick, problem, 20, 0)[""], members)


def test_what_is_judged_is_what_the_library_says() -> None:
    problem = made()
    members = ridge(problem, 50, 0)
    found = judged(problem, members)[""]
    scale = problem.outcomes[: problem.train].std(0)
    at_row_3 = ((members[3] / scale)[:, None] - (members[3] / scale)[None]).reshape(-1, 2)
    outcome = problem.outcomes[problem.train + 3]
    accuracy = np.linalg.norm((members[3] - outcome) / scale, axis=1).mean()
    assert found["score"][3] == pytest.approx(accuracy - np.linalg.norm(at_row_3, axis=1).sum() / (2 * 50 * 50))
    stock = np.sort(members[3].sum(1))[37]  # ceil(0.75 x 50) - 1
    gap = outcome.sum() - stock
    assert found["cost"][3] == pytest.approx(max(3 * gap, -gap))


def test_from_the_command_to_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(problem: Problem, members: int, seed: int) -> Any:
        raise RuntimeError("no such package")

    forecasts = {"climatology": climatology, "ridge": ridge, "stakes": ridge, "LightGBM": fails}
    for module in (cells, command):
        monkeypatch.setattr(module, "FORECASTS", forecasts)
        monkeypatch.setattr(module, "problems", lambda reference: {"made": made}, raising=False)
    (page := tmp_path / "page.md").write_text("# Who wins\n\n## All results\n\nold")
    given = ["--cells", str(tmp_path / "cells"), "--json", str(tmp_path / "quality.json"), "--seeds", "2"]
    given += ["--page", str(page)]
    assert command.main(given) == 0
    assert "made, LightGBM, seed 0: FAILED: RuntimeError('no such package')" in capsys.readouterr().out
    quality = json.loads((tmp_path / "quality.json").read_text())
    assert quality["summary"]["rival significantly better"] == []
    assert quality["summary"]["best rival"] == {"made": "ridge"}
    assert set(quality["problems"]["made"]) == {"climatology", "ridge", "stakes"}
    assert page.read_text() == f"# Who wins\n\n## All results\n\n{quality_markdown(quality)}"
    assert Cell("made", "stakes", 1).kept(tmp_path / "cells") is not None
    assert command.main([*given, "--forecasts", "climatology", "ridge", "stakes"]) == 0
    assert "seed 0" not in capsys.readouterr().out  # nothing is run twice
