"""The loss in real models of neuralforecast: it trains, predicts members, is saved and loaded, and decides."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from page_blocks import ROOT, blocks, commands
from refusals import refuses

from stakes.cli import main
from stakes.errors import CheckpointError, SettingError, StakesError, StakesWarning

# the warnings are those of other people's packages
pytestmark = [pytest.mark.plugins, pytest.mark.filterwarnings("ignore")]

COST = "shortfall:penalty=20"
HOURS, SAMPLES, SERIES = 4, 20, ("north", "south", "west")
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}


def table(steps: int = 400) -> pd.DataFrame:
    """Power of three sites between 0 and 1 that share their weather."""
    noise = np.random.default_rng(0)
    weather = np.convolve(noise.normal(size=steps + 9), np.ones(10) / 3, "valid")
    power = 1 / (1 + np.exp(-weather[:, None] - 0.3 * noise.normal(size=(steps, len(SERIES)))))
    times = pd.date_range("2024-01-01", periods=steps, freq="6h")
    return pd.concat(
        [pd.DataFrame({"unique_id": name, "ds": times, "y": power[:, at]}) for at, name in enumerate(SERIES)]
    )


def model(kind: str, steps: int = 60, **settings: Any) -> Any:
    from neuralforecast.models import NHITS, TSMixerx

    from stakes.integrations.neuralforecast import DecisionAwareLoss

    chosen = {"cost": COST, "across": "hours" if kind == "NHITS" else "series", "samples": SAMPLES} | settings
    common = {"h": HOURS, "input_size": 12, "loss": DecisionAwareLoss(**chosen), "max_steps": steps, "random_seed": 1}
    common |= {"scaler_type": "standard", "learning_rate": 3e-3, "windows_batch_size": 64, **QUIET}
    if kind == "NHITS":
        return NHITS(**common, mlp_units=[[32, 32]] * 3)
    return TSMixerx(**common, n_series=len(SERIES), n_block=1, ff_dim=16, revin=False)


def fitted(kind: str, **settings: Any) -> Any:
    from neuralforecast import NeuralForecast

    tool = NeuralForecast(models=[model(kind, **settings)], freq="6h")
    tool.fit(table(), val_size=0)
    return tool


@pytest.fixture(scope="module")
def tools() -> dict[str, Any]:
    return {kind: fitted(kind) for kind in ("NHITS", "TSMixerx")}


@pytest.mark.parametrize("kind", ["NHITS", "TSMixerx"])
def test_the_loss_falls(kind: str, tools: dict[str, Any]) -> None:
    values = [value for _, value in tools[kind].models[0].train_trajectories]
    assert np.mean(values[-10:]) < 0.9 * np.mean(values[:3])


@pytest.mark.parametrize("kind", ["NHITS", "TSMixerx"])
@pytest.mark.parametrize(
    "settings", [{"score": "pointwise"}, {"score": "energy=1,pointwise=1"}, {"second_term": "total"}, {"factors": 0}]
)
def test_each_score_and_second_term_trains(kind: str, settings: dict[str, Any]) -> None:
    values = [value for _, value in fitted(kind, steps=3, **settings).models[0].train_trajectories]
    assert np.isfinite(values).all()


@pytest.mark.parametrize("kind", ["NHITS", "TSMixerx"])
def test_predict_writes_joint_members_in_the_unit_of_y(kind: str, tools: dict[str, Any]) -> None:
    forecast = tools[kind].predict()
    columns = [f"{kind}-sample-{place + 1}" for place in range(SAMPLES)]
    assert list(forecast.columns) == ["unique_id", "ds", kind, *columns]
    assert len(forecast) == len(SERIES) * HOURS
    assert forecast[columns].to_numpy().mean() == pytest.approx(forecast[kind].mean(), abs=0.2)
    assert 0 < forecast[kind].mean() < 1
    assert (forecast[columns].std(axis=1) > 0.01).all()
    pd.testing.assert_frame_equal(forecast, tools[kind].predict())  # from the same seed


def test_any_number_of_members_can_be_drawn(tools: dict[str, Any]) -> None:
    """Series that share their weather have members that move together, and those of 2,000 tell how much."""
    loss = tools["TSMixerx"].models[0].loss
    before = loss.samples, loss.output_names
    loss.samples, loss.output_names = 2000, ["", *(f"-sample-{place + 1}" for place in range(2000))]
    forecast = tools["TSMixerx"].predict()
    loss.samples, loss.output_names = before
    first = forecast[forecast["ds"] == forecast["ds"].min()].drop(columns=["unique_id", "ds", "TSMixerx"])
    assert np.corrcoef(first.to_numpy())[0, 1] > 0.3


@pytest.mark.parametrize("kind", ["NHITS", "TSMixerx"])
def test_saved_and_loaded_it_forecasts_the_same(kind: str, tools: dict[str, Any], tmp_path: Path) -> None:
    from neuralforecast import NeuralForecast

    tools[kind].save(str(tmp_path / "saved"), save_dataset=True, overwrite=True)
    again = NeuralForecast.load(str(tmp_path / "saved"))
    pd.testing.assert_frame_equal(again.predict(), tools[kind].predict())
    loss, kept = again.models[0].loss, tools[kind].models[0].loss
    assert loss.objective.scales.tolist() == kept.objective.scales.tolist()
    assert (loss.cost, loss.across, loss.objective.steps) == (COST, kept.across, kept.objective.steps)


def test_sums_over_series_are_decided_from_what_predict_writes(tools: dict[str, Any], tmp_path: Path) -> None:
    tools["TSMixerx"].predict().to_csv(tmp_path / "forecast.csv", index=False)
    decisions = decided(tmp_path, "--columns", f"TSMixerx-sample-1:TSMixerx-sample-{SAMPLES}")
    assert len(decisions) == HOURS  # one for each hour, about all series
    assert decisions["action"].between(0, 1).all()


def test_sums_over_hours_are_decided_from_what_predict_writes(tools: dict[str, Any], tmp_path: Path) -> None:
    forecast = tools["NHITS"].predict().rename(columns={"unique_id": "case"})
    forecast.to_csv(tmp_path / "forecast.csv", index=False)
    columns = f"NHITS-sample-1:NHITS-sample-{SAMPLES}"
    decisions = decided(tmp_path, "--columns", columns, "--time", "case", "--site", "ds")
    assert set(decisions["case"]) == set(SERIES)  # one for each series, about all hours


def decided(folder: Path, *words: str) -> pd.DataFrame:
    files = [str(folder / name) for name in ("forecast.csv", "decisions.csv")]
    assert main(["decide", "--members", files[0], "--cost", COST, *words, "--out", files[1], "--quiet"]) == 0
    return pd.read_csv(files[1])


def test_rolling_forecasts_and_early_stopping() -> None:
    from neuralforecast import NeuralForecast

    early = model("TSMixerx", steps=20, pretraining_steps=5)
    tool = NeuralForecast(models=[early], freq="6h")
    rolled = tool.cross_validation(table(), val_size=40, test_size=40, n_windows=None, step_size=4)
    assert rolled["cutoff"].nunique() == 10
    assert rolled[f"TSMixerx-sample-{SAMPLES}"].notna().all()


def test_normalised_values_are_doubted() -> None:
    """A scaler of the whole tool changes the unit that the cost sees, which one cannot see from within a loss."""
    from neuralforecast import NeuralForecast

    tool = NeuralForecast(models=[model("NHITS", steps=1)], freq="6h", local_scaler_type="standard")
    with pytest.warns(StakesWarning, match="does not look like a fraction of capacity"):
        tool.fit(table())


def test_a_model_of_another_version_is_refused(tools: dict[str, Any], tmp_path: Path) -> None:
    from neuralforecast import NeuralForecast

    tools["NHITS"].save(str(tmp_path), save_dataset=False, overwrite=True)
    (weights,) = tmp_path.glob("NHITS*.safetensors")
    weights.write_bytes(weights.read_bytes().replace(rb"\"layout\": 1", rb"\"layout\": 7"))
    refuses(CheckpointError, "was saved by another version of stakes: layout 7", NeuralForecast.load, str(tmp_path))


def test_recurrent_models_are_refused() -> None:
    from neuralforecast import NeuralForecast
    from neuralforecast.models import LSTM

    from stakes.integrations.neuralforecast import DecisionAwareLoss

    loss, sizes = DecisionAwareLoss(COST, "hours"), {"encoder_hidden_size": 32, "decoder_hidden_size": 32}
    recurrent = LSTM(h=HOURS, input_size=12, loss=loss, recurrent=True, max_steps=1, **sizes, **QUIET)
    tool = NeuralForecast(models=[recurrent], freq="6h")
    tool.fit(table())
    refuses(SettingError, "recurrent", tool.predict)


def test_bad_use(tools: dict[str, Any]) -> None:
    from stakes.integrations.neuralforecast import DecisionAwareLoss

    refuses(SettingError, "level", tools["NHITS"].predict, level=[80])
    with pytest.raises(SettingError, match="across"):
        fitted("NHITS", across="series", steps=1)
    refuses(StakesError, "short", fitted, "NHITS", cost="schedule:short=5/6/7,long=1", steps=1)
    refuses(SettingError, "depth", DecisionAwareLoss, COST, "hours", depth=3)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With less training than it shows; the commands are those that it has."""
    monkeypatch.chdir(tmp_path)
    page, names = ROOT / "docs" / "guides" / "neuralforecast.md", {"__name__": "__page__"}
    assert main(["data", "export", "load_france", "--out", "load.csv"]) == 0
    for block in blocks(page, "python", "sh"):
        if block.language == "python":
            exec(block.text.replace("max_steps=500", "max_steps=3"), names)
            continue
        for command in commands(block):
            if command.startswith("stakes decide"):
                assert main([*shlex.split(command)[1:], "--quiet"]) == 0
