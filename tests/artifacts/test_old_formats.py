import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from artifacts.damage import forged
from artifacts.forecasters import FEATURES, PARTS
from golden.make_bundle import FOLDER as GOLDEN
from golden.make_bundle import LAYOUT, SPEC, decisions, table

from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.artifacts.manifest import bundle_files, record_file
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.layout import TableLayout
from stakes.errors import BundleError
from stakes.files import read_json
from stakes.forecasting.forecaster import DecisionAwareForecaster


def test_the_golden_bundles_give_the_golden_decisions() -> None:
    """A bundle of every format that ever was, as `tests/golden/make_bundle.py` made it then."""
    folders = sorted(GOLDEN.glob("bundle-*"))
    assert folders
    for folder in folders:
        bundle = load_bundle(folder)
        assert bundle.notes == ()
        assert (bundle.cost_spec, bundle.layout) == (CostSpec.from_record(SPEC.record()), LAYOUT)
        expected = json.loads((GOLDEN / f"{folder.name.replace('bundle', 'decisions')}.json").read_text())
        for name, values in decisions(bundle.forecaster).items():
            np.testing.assert_allclose(values, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_files_are_added_to_a_bundle_of_format_1(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "bundle-1", tmp_path / "bundle"))
    (folder / "report.html").write_text("a report")
    record_file(folder, "report.html")
    assert read_json(folder / "bundle.json")["format"] == 1
    assert bundle_files(folder).keys() == PARTS | {"report.html"}
    bundle = load_bundle(folder)
    assert bundle.about["versions"]["stakes"] == "0.1.0"
    save_bundle(folder, bundle.forecaster, cost_spec=bundle.cost_spec, layout=bundle.layout, about=bundle.about)
    assert read_json(folder / "bundle.json")["format"] == 2
    features = table(9)[FEATURES]
    assert np.array_equal(load_bundle(folder).forecaster.decide(features), bundle.forecaster.decide(features))


FORMAT_1: dict[str, tuple[Callable[[Path], None], str]] = {
    "a field missing": (forged("targets", ...), "targets must be given"),
    "numbers for names": (forged("features", [1, 2, 3]), r"features\[0\] must be text"),
    "other features": (forged("features", ["a", "b", "c"]), "features must be 'wind', .* in state.json, got 'a', 'b'"),
    "versions": (forged("versions", {"stakes": 1}), "versions.stakes must be text"),
    "of another format": (forged("format", 2), "there is no setting 'features'"),
    "other targets": (forged("target_names", ["demand"], "state.json"), "targets must be 'demand' .* got 'load'"),
    "other names": (forged("feature_names", ["a", "b", "c"], "state.json"), "features must be 'a', 'b', 'c'"),
    "another layout": (forged("layout.features", ["sun"]), r"layout\.feature_names must be"),
}


@pytest.mark.parametrize("case", FORMAT_1)
def test_hostile_and_damaged_bundles_of_format_1_are_refused(case: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "bundle-1", tmp_path / "bundle"))
    damage, message = FORMAT_1[case]
    damage(folder)
    with pytest.raises(BundleError, match=message) as raised:
        load_bundle(folder)
    assert "bundle.json: " in str(raised.value)


def test_weekdays_of_earlier_bundles_are_waves(tmp_path: Path) -> None:
    rows = table(40).assign(time=pd.date_range("2021-01-01", periods=40, freq="D"))
    layout = TableLayout(("load",), ("wind",), "time", calendar=("weekday_wave", "hour"))
    cases = layout.cases(rows)
    forecaster = DecisionAwareForecaster(SPEC.build(), model="linear", members=20, decision_weight=0.0, device="cpu")
    forecaster.fit(cases.feature_table, cases.outcome_table)
    for name, written in (("earlier", ["weekday", "hour"]), ("today", ["weekday_wave", "hour"])):
        save_bundle(tmp_path / name, forecaster, cost_spec=SPEC, layout=layout)
        forged("layout.calendar", written)(tmp_path / name)
        bundle = load_bundle(tmp_path / name)
        assert bundle.layout == layout
        np.testing.assert_array_equal(
            bundle.forecaster.decide(bundle.layout.inputs(rows).feature_table), forecaster.decide(cases.feature_table)
        )
    forged("layout.calendar", ["weekday", "season"])(tmp_path / "earlier")
    with pytest.raises(BundleError, match=r"layout\.feature_names must be"):
        load_bundle(tmp_path / "earlier")
