"""The likelihood in a real model of Darts: it trains, predicts members, is saved and loaded safely, and decides."""

import pickle
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from page_blocks import ROOT, blocks, commands
from refusals import refuses

from stakes.cli import main
from stakes.errors import CheckpointError, SettingError, ShapeError

# the warnings are those of other people's packages
pytestmark = [pytest.mark.plugins, pytest.mark.filterwarnings("ignore")]

COST = "shortfall:penalty=20"
HOURS, SAMPLES, SERIES = 4, 20, ["north", "south", "west"]
SHIFT, SCALE = [0.5, 0.5, 0.5], [0.3, 0.3, 0.3]
QUIET = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False, "logger": False}


def table(steps: int = 300) -> pd.DataFrame:
    """Power of three sites between 0 and 1 that share their weather."""
    noise = np.random.default_rng(0)
    weather = np.convolve(noise.normal(size=steps + 9), np.ones(10) / 3, "valid")
    power = 1 / (1 + np.exp(-weather[:, None] - 0.3 * noise.normal(size=(steps, len(SERIES)))))
    return pd.DataFrame(power, pd.date_range("2024-01-01", periods=steps, freq="6h"), SERIES)


def scaled() -> Any:
    from darts import TimeSeries

    return TimeSeries.from_dataframe(((table() - SHIFT) / SCALE).astype(np.float32))


def likelihood(**settings: Any) -> Any:
    from stakes.integrations.darts import DecisionAwareLikelihood

    return DecisionAwareLikelihood(**({"cost": COST, "across": "series", "scale": SCALE, "shift": SHIFT} | settings))


def recorder(values: list[float]) -> Any:
    """A callback that keeps the loss of every training step."""
    from pytorch_lightning.callbacks import LambdaCallback

    return LambdaCallback(on_train_batch_end=lambda *given: values.append(float(given[2]["loss"])))


def fitted(epochs: int = 8, callbacks: tuple[Any, ...] = (), **settings: Any) -> Any:
    from darts.models import TiDEModel

    model = TiDEModel(
        input_chunk_length=12,
        output_chunk_length=HOURS,
        hidden_size=32,
        likelihood=likelihood(**settings),
        optimizer_kwargs={"lr": 3e-3},
        n_epochs=epochs,
        random_state=0,
        pl_trainer_kwargs=QUIET | {"callbacks": list(callbacks), "enable_checkpointing": False},
    )
    return model.fit(scaled())


@pytest.fixture(scope="module")
def model() -> Any:
    return fitted()


def test_the_loss_falls() -> None:
    losses: list[float] = []
    fitted(callbacks=(recorder(losses),))
    assert np.mean(losses[-10:]) < 0.9 * np.mean(losses[:3])


@pytest.mark.parametrize(
    "settings",
    [
        {"score": "pointwise", "across": "hours"},
        {"score": "energy=1,pointwise=1", "across": "both"},
        {"second_term": "total"},
        {"decision_weight": 0.0, "scale": None, "factors": 0},
    ],
)
def test_each_score_and_second_term_trains(settings: dict[str, Any]) -> None:
    members = fitted(epochs=1, **settings).predict(HOURS, num_samples=3, random_state=0).all_values()
    assert np.isfinite(members).all()


def test_predict_draws_members_from_a_seed(model: Any) -> None:
    first, second = (model.predict(HOURS, num_samples=SAMPLES, random_state=1).all_values() for _ in range(2))
    assert first.shape == (HOURS, len(SERIES), SAMPLES)
    np.testing.assert_array_equal(first, second)


def test_members_are_joint_draws_of_hours_and_sites(model: Any) -> None:
    """Their covariance is that of the head, within five standard errors of 2,000 members."""
    numbers = model.predict(HOURS, predict_likelihood_parameters=True)
    assert list(numbers.components[:3]) == ["north_location", "north_scale", "north_loading_1"]
    location, scale, *loadings = numbers.values().reshape(HOURS * len(SERIES), -1).T
    covariance = np.diag(scale**2) + np.transpose(loadings) @ np.array(loadings)
    members = model.predict(HOURS, num_samples=2000, random_state=2).all_values().reshape(-1, 2000)
    variance = np.diag(covariance)
    assert np.abs((members.mean(1) - location) / np.sqrt(variance / 2000)).max() < 5
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / 2000)
    assert np.abs((np.cov(members) - covariance) / error).max() < 5
    assert np.abs(covariance[0, 1]) > 5 * error[0, 1]  # so that independent draws would not pass


def test_saved_and_loaded_without_trust_it_forecasts_the_same(model: Any, tmp_path: Path) -> None:
    from darts.models import TiDEModel

    model.save(str(tmp_path / "model.pt"))
    again = TiDEModel.load(str(tmp_path / "model.pt"))
    first, second = (each.predict(HOURS, num_samples=5, random_state=3).all_values() for each in (model, again))
    np.testing.assert_array_equal(first, second)
    assert again.likelihood == model.likelihood
    kept, loaded = model.likelihood.objective, again.likelihood.objective
    assert torch.equal(kept.scales, loaded.scales)
    assert kept.steps == loaded.steps > 0


def test_decisions_from_what_predict_writes(model: Any, tmp_path: Path) -> None:
    members = model.predict(HOURS, num_samples=SAMPLES, random_state=0) * SCALE[0] + SHIFT[0]
    values = members.to_dataframe(suppress_warnings=True)  # columns such as north_s0
    values.to_csv(tmp_path / "forecast.csv", index_label="time")
    files = [str(tmp_path / name) for name in ("forecast.csv", "decisions.csv")]
    assert main(["decide", "--members", files[0], "--cost", COST, "--out", files[1], "--quiet"]) == 0
    decisions = pd.read_csv(files[1])
    assert len(decisions) == HOURS
    assert decisions["action"].between(0, 1).all()


def test_what_another_version_saved_is_refused() -> None:
    kept = likelihood()
    state = kept.__getstate__() | {"layout": 7}
    refuses(CheckpointError, "layout 7", kept.__setstate__, state)
    assert pickle.loads(pickle.dumps(kept)) == kept


def test_bad_use() -> None:
    refuses(SettingError, "scale", likelihood, scale=None)
    refuses(SettingError, "scale", likelihood, scale=[0.3, 0.0, 0.3])
    refuses(ShapeError, "scale", fitted, epochs=1, scale=[0.3, 0.3])
    refuses(ShapeError, "short", fitted, epochs=1, cost="schedule:short=5/6,long=1")


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With less training than it shows; the commands are those that it has."""
    monkeypatch.chdir(tmp_path)
    page, names = ROOT / "docs" / "guides" / "darts.md", {"__name__": "__page__"}
    assert main(["data", "export", "load_france", "--out", "load.csv"]) == 0
    for block in blocks(page, "python", "sh"):
        if block.language == "python":
            exec(block.text.replace("n_epochs=10", "n_epochs=1"), names)
            continue
        for command in commands(block):
            if command.startswith("stakes decide"):
                assert main([*shlex.split(command)[1:], "--quiet"]) == 0
