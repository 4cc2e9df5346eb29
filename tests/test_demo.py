from pathlib import Path

import pytest

from stakes import demo
from stakes.training.runs import task_data


def test_demo_trains_compares_and_keeps_its_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, small in (("SEEDS", 1), ("TEST_MEMBERS", 10)):
        monkeypatch.setattr(demo, name, small)
    demo.main(["--out", str(tmp_path), "--epochs", "1"])
    page = capsys.readouterr().out
    for row in ("energy score", "realised cost", "signed calibration gap", "spread of sum", "95 % interval", "regret"):
        assert row in page
    assert len(list((tmp_path / "runs").iterdir())) == 4


def test_no_test_case_of_the_french_load_is_a_training_case() -> None:
    data = task_data(demo.EXAMPLES[0].points()[0].run.task)
    assert len(data.train) == 7256
    assert len(data.validation) == len(data.test) == 1428


@pytest.mark.parametrize("example", demo.EXAMPLES, ids=lambda example: example.settings["task"])
def test_pairs_differ_in_their_decision_weight_only(example: demo.Example) -> None:
    runs = {(point.run.decision_weight, point.run.seed): point.run for point in example.points()}
    assert len(runs) == 2 * demo.SEEDS
    for (weight, seed), run in runs.items():
        other = runs[(0.0, seed)]
        assert (run.task, run.model, run.training) == (other.task, other.model, other.training)
        assert weight in (0.0, example.decision_weight)
