"""Small files of a user: an ensemble, its outcomes, and a table; every test in a folder of its own."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from load_tables import load_table
from quick_figures import figures_left_blank

from stakes.artifacts.fits import save_bundle
from stakes.cost_spec.spec import CostSpec
from stakes.data.forecasts.layout import ForecastLayout
from stakes.data.tables.layout import TableLayout
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.forecasting.parameters import RecalibratorSettings
from stakes.training.settings import ESTIMATOR_MODELS, ImplicitSettings, TrainingSettings
from stakes.workflows.recalibrate import RecalibrateRequest, run_recalibrate

CASES, MEMBERS = 60, 12
SMALL = ImplicitSettings(hidden=16, layers=1, noise=4)


@pytest.fixture(scope="module", autouse=True)
def quick_fits() -> Iterator[None]:
    """The default network is a small one, and nobody looks at the figures of reports."""
    with pytest.MonkeyPatch.context() as patch, figures_left_blank():
        patch.setitem(ESTIMATOR_MODELS, "implicit", lambda: SMALL)
        yield


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """members.csv, outcomes.csv and mine.csv, which no command may overwrite."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    centre = generator.uniform(0.3, 0.7, CASES)
    times = pd.date_range("2020-01-01", periods=CASES, freq="12h", name="time")
    members = centre[:, None] + generator.normal(0, 0.05, (CASES, MEMBERS))
    names = [f"m{place}" for place in range(MEMBERS)]
    pd.DataFrame(members.round(4), times, names).to_csv("members.csv")
    pd.DataFrame({"power": (centre + generator.normal(0, 0.05, CASES)).round(4)}, times).to_csv("outcomes.csv")
    Path("mine.csv").write_text("mine")


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small fit of both weights, load 12 h ahead, and the action of today; read it only."""
    return small_fit(tmp_path_factory.getbasetemp())


@cache
def small_fit(base: Path) -> Path:
    """Made once, though every room that imports the fixture has one of its own."""
    table = load_table()
    layout = TableLayout(("load",), time="time", lags=(0, 12), lead=12, baseline_action="bought").resolved(table)
    cases = layout.cases(table)
    spec = CostSpec.parse("imbalance:short=10,long=1,upper=20,unit=EUR,action_unit=GW")
    forecaster = DecisionAwareForecaster(
        spec.build(),
        model=SMALL,
        weights=(0.0, 0.5),
        members=20,
        training=TrainingSettings(
            epochs=5, pretraining_epochs=100, learning_rate=0.01, validate_every=5, validation_members=4
        ),
        random_state=0,
        device="cpu",
    )
    forecaster.fit(cases.feature_table, cases.outcome_table, times=cases.times)
    if not forecaster.forecast_.baseline_models:  # weight 0 was chosen; the commands are to see both
        forecaster.forecast_ = replace(forecaster.forecast_, baseline_models=forecaster.forecast_.models)
    return save_bundle(base / "fitted" / "load", forecaster, cost_spec=spec, layout=layout)


def past_forecasts(cases: int = 160, start: str = "2020-01-01") -> pd.DataFrame:
    """Eight members a day, two too low and too sure of themselves, what happened, and what was done."""
    generator = np.random.default_rng(cases)
    centre = generator.normal(10, 3, cases)
    members = centre[:, None] + generator.normal(0, 0.4, (cases, 8)) - 2
    table = pd.DataFrame(members.round(3), columns=[f"m{place}" for place in range(1, 9)])
    table.insert(0, "time", pd.date_range(start, periods=cases, freq="D"))
    return table.assign(power=(centre + generator.normal(0, 1, cases)).round(3), done=12.0)


@pytest.fixture(scope="session")
def recalibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `wind` of a small recalibration, beside past.csv that it learned from; read it only."""
    return small_recalibration(tmp_path_factory.getbasetemp())


@cache
def small_recalibration(base: Path) -> Path:
    """Made once, like `small_fit`, with a report whose figures nobody looks at."""
    folder = base / "recalibrated"
    folder.mkdir()
    past_forecasts().to_csv(folder / "past.csv", index=False)
    request = RecalibrateRequest(
        folder / "past.csv",
        "newsvendor:underage=9,overage=1,upper=30,unit=EUR",
        ForecastLayout(outcomes=("power",), columns=("m1:m8",), lead=24.0, today=("done",)),
        settings=RecalibratorSettings(decision_weights=()),
    )
    with figures_left_blank():
        return run_recalibrate(request, folder / "wind", quiet=True).folder
