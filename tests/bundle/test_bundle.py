import errno
import hashlib
import json
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from golden.make_bundle import FOLDER as GOLDEN
from golden.make_bundle import LAYOUT, SPEC, decisions, table
from safetensors.torch import load_file
from safetensors.torch import save as safetensors_bytes
from torch import Tensor

from stakes import ImplicitModel, NewsvendorCost, ProtectionCost, ShortfallCost, WindDispatchCost, cost_function
from stakes.bundle import DataFingerprint, bundle_files, is_bundle, load_bundle, record_file, save_bundle
from stakes.bundle.estimator_settings import EstimatorSettings
from stakes.cost_text.written_cost import CostSpec
from stakes.errors import BundleError, SettingError, StakesError
from stakes.evaluation.headroom import Headroom
from stakes.evaluation.intervals import Difference
from stakes.files import read_json, write_json
from stakes.forecaster import DecisionAwareForecaster
from stakes.method.training_settings import DiffusionSettings, ImplicitSettings, TrainingSettings

TRAINING = TrainingSettings(batch=16, members=3, validation_members=4, validate_every=1, learning_rate=0.01)
FEATURES = list(LAYOUT.features)
PARTS = {"settings.json", "state.json", "weights.safetensors", "metrics.jsonl"}


def small(features: int, outcomes: int) -> ImplicitModel:
    return ImplicitModel(features, outcomes, noise=2, hidden=3, layers=1)


KINDS: dict[str, dict[str, Any]] = {
    "implicit": {},
    "diffusion": {"model": DiffusionSettings(noise=2, hidden=4, layers=1, steps=25)},
    "ensemble": {"ensemble": 2, "decision_weight": 0.4},
    "auto": {
        "decision_weight": "auto",
        "weights": np.array([0.6]),
        "tolerance": 500.0,
        "block": 1,
        "ensemble": np.int64(2),
    },
    "outcomes": {"decision_weight": 0.4},
    "own model": {"model": small},
    "arrays": {},
}


@cache
def fitted(kind: str, cost: Any = None) -> DecisionAwareForecaster:
    given: dict[str, Any] = {"model": ImplicitSettings(noise=2, hidden=4, layers=1), "decision_weight": 0.0}
    given |= {"members": 20, "epochs": 2, "training": TRAINING, "device": "cpu", "random_state": 0} | KINDS[kind]
    made = table(60)
    outcomes = made[["load", "wind"]] if kind == "outcomes" else made["load"]
    features = made[FEATURES].to_numpy() if kind == "arrays" else made[FEATURES]
    return DecisionAwareForecaster(cost or SPEC.build(), **given).fit(features, outcomes)


def assert_same(found: DecisionAwareForecaster, expected: DecisionAwareForecaster) -> None:
    features: Any = table(9)[FEATURES]
    if not hasattr(expected, "feature_names_in_"):
        features = features.to_numpy()
    for name in ("decide", "sample", "predict", "expected_cost"):
        assert np.array_equal(getattr(found, name)(features), getattr(expected, name)(features)), name
    assert vars(found).keys() == vars(expected).keys()
    for name in ("n_features_in_", "n_outputs_", "target_names_", "single_output_", "decision_weight_", "noise_seed_"):
        assert getattr(found, name) == getattr(expected, name), name
        assert type(getattr(found, name)) is type(getattr(expected, name)), name
    assert (found.frontier_, found.validation_cases_) == (expected.frontier_, expected.validation_cases_)
    assert len(found.baseline_models_) == len(expected.baseline_models_)
    for mine, theirs in zip(found.baseline_models_, expected.baseline_models_, strict=True):
        assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in mine.state_dict().items())


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "deep" / "bundle"
    return save_bundle(folder, fitted("implicit"), cost_spec=SPEC, layout=LAYOUT, about={"data": DATA})


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(saved, tmp_path / "bundle"))


DATA = DataFingerprint("load.csv", 60, "a" * 64, "2020-01-01T00:00:00", "2020-03-01T00:00:00")


# Round trips


@pytest.mark.parametrize("kind", KINDS)
def test_a_forecaster_comes_back_bit_for_bit(kind: str, tmp_path: Path) -> None:
    forecaster = fitted(kind)
    assert save_bundle(tmp_path / "bundle", forecaster) == tmp_path / "bundle"
    before = torch.get_rng_state()
    found = load_bundle(tmp_path / "bundle", model=small if kind == "own model" else None)
    assert torch.equal(torch.get_rng_state(), before)
    assert_same(found.forecaster, forecaster)
    assert found.notes == ()
    assert found.layout is None
    again = save_bundle(tmp_path / "again", found.forecaster, about=found.about)
    assert (again / "weights.safetensors").read_bytes() == (tmp_path / "bundle/weights.safetensors").read_bytes()
    assert (again / "state.json").read_bytes() == (tmp_path / "bundle/state.json").read_bytes()
    assert (again / "metrics.jsonl").read_bytes() == (tmp_path / "bundle/metrics.jsonl").read_bytes()


def test_every_parameter_is_kept() -> None:
    kept = {field.name for field in fields(EstimatorSettings)}
    assert kept == fitted("implicit").get_params().keys() - {"cost", "n_jobs", "verbose"}


def test_another_device_is_taken_where_there_is_no_such_one(folder: Path) -> None:
    forged("device", "cuda:99", "settings.json")(folder)
    found = load_bundle(folder)
    assert found.notes == ("there is no device cuda:99 here; the forecast is computed on another",)
    found.forecaster.decide(table(3)[FEATURES])


def test_parameters_come_back(saved: Path) -> None:
    assert load_bundle(saved).forecaster.get_params() == fitted("implicit").get_params()


def test_what_is_known_about_it_comes_back(tmp_path: Path) -> None:
    headroom = Headroom(3.0, 2.0, 4.0, 0.0, Difference(-1.0, -2.0, -0.5), 60)
    metrics = [{"metric": "cost", "value": np.float64(1.5), "cases": np.int64(3), "high": math.nan}]
    about = {"data": DATA, "headroom": headroom, "metrics": metrics, "path": Path("a/b"), "created": "never"}
    save_bundle(tmp_path, fitted("implicit"), cost_spec=SPEC, layout=LAYOUT, about=about)
    found = load_bundle(tmp_path)
    assert (found.cost_spec, found.layout) == (CostSpec.from_record(SPEC.record()), LAYOUT)
    assert found.about["data"] == vars(DATA)
    assert found.about["headroom"]["gain"] == [-1.0, -2.0, -0.5]
    assert found.about["metrics"] == [{"metric": "cost", "value": 1.5, "cases": 3, "high": None}]
    assert found.about["path"] == "a/b"
    assert found.about["frontier"] is None
    assert found.about["versions"].keys() == {"stakes", "torch", "python"}
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", found.about["created"])


def test_the_files_are_named_with_their_hashes(saved: Path) -> None:
    files = bundle_files(saved)
    assert files.keys() == PARTS
    assert sorted(path.name for path in saved.iterdir()) == sorted({*PARTS, "bundle.json"})
    for name, sha256 in files.items():
        assert hashlib.sha256((saved / name).read_bytes()).hexdigest() == sha256
    names = load_file(saved / "weights.safetensors").keys()
    assert "model.0.network.layers.0.weight" in names
    assert all(name.startswith("model.0.") for name in names)


def test_weights_of_the_baseline_are_kept_beside(tmp_path: Path) -> None:
    forecaster = with_cost(SPEC.build())
    forecaster.baseline_models_ = fitted("ensemble").models_
    save_bundle(tmp_path, forecaster)
    prefixes = {".".join(name.split(".")[:2]) for name in load_file(tmp_path / "weights.safetensors")}
    assert prefixes == {"model.0", "baseline.0", "baseline.1"}
    assert_same(load_bundle(tmp_path).forecaster, forecaster)


def test_where_there_is_a_bundle(saved: Path, tmp_path: Path) -> None:
    assert is_bundle(saved)
    assert not is_bundle(tmp_path)
    assert not is_bundle(tmp_path / "nowhere")
    assert not is_bundle(saved / "settings.json")


def test_the_golden_bundles_give_the_golden_decisions() -> None:
    """A bundle of every format that ever was, as `tests/golden/make_bundle.py` made it then."""
    folders = sorted(GOLDEN.glob("bundle-*"))
    assert folders
    for folder in folders:
        found = load_bundle(folder)
        assert found.notes == ()
        assert (found.cost_spec, found.layout) == (CostSpec.from_record(SPEC.record()), LAYOUT)
        expected = json.loads((GOLDEN / f"{folder.name.replace('bundle', 'decisions')}.json").read_text())
        for name, values in decisions(found.forecaster).items():
            np.testing.assert_allclose(values, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_every_part_is_opened_once(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def counted(file: Any, *args: Any, **kwargs: Any) -> Any:
        if Path(file).parent == saved:
            opened.append(Path(file).name)
        return real(file, *args, **kwargs)

    real = open
    monkeypatch.setattr("builtins.open", counted)
    monkeypatch.setattr("io.open", counted)
    load_bundle(saved)
    assert sorted(opened) == sorted({*PARTS, "bundle.json"})


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


# Costs


@pytest.mark.parametrize(
    "cost",
    [
        ShortfallCost(3.0),
        WindDispatchCost(5),
        ProtectionCost(2.0, 0.5, "below"),
        NewsvendorCost(4.0, 1.0, 0.0, 9.0),
        SPEC.build(),
    ],
    ids=lambda cost: type(cost).__name__,
)
def test_a_cost_of_the_library_needs_no_words(cost: Any, tmp_path: Path) -> None:
    save_bundle(tmp_path, with_cost(cost))
    found = load_bundle(tmp_path)
    assert found.forecaster.cost == cost
    assert found.cost_spec is not None
    assert found.cost_spec.build() == cost


def with_cost(cost: Any) -> DecisionAwareForecaster:
    """The small forecaster, asked to decide for another cost."""
    forecaster = DecisionAwareForecaster(**fitted("implicit").get_params() | {"cost": cost})
    vars(forecaster).update({name: value for name, value in vars(fitted("implicit")).items() if name.endswith("_")})
    return forecaster


def test_words_must_be_those_of_the_cost(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cost_spec must be that of the forecaster's cost"):
        save_bundle(tmp_path, fitted("implicit"), cost_spec=CostSpec.parse("shortfall:penalty=3"))
    assert not is_bundle(tmp_path)


def test_a_cost_without_words_must_be_given_again(tmp_path: Path) -> None:
    cost = cost_function(lambda action, outcome: (action - outcome) ** 2, 0.0, 9.0)
    save_bundle(tmp_path, with_cost(cost))
    with pytest.raises(BundleError, match=r"bundle\.json: the cost is the user's own .*; pass it as cost="):
        load_bundle(tmp_path)
    found = load_bundle(tmp_path, cost=cost)
    assert_same(found.forecaster, with_cost(cost))
    assert found.cost_spec is None


def test_a_cost_of_the_users_file_must_be_given_again(tmp_path: Path) -> None:
    file, folder = tmp_path / "costs.py", tmp_path / "bundle"
    file.write_text("def squared(action, outcome):\n    return (action - outcome) ** 2\n")
    spec = CostSpec.parse(f"{file}:squared:lower=0,upper=9")
    forecaster = with_cost(spec.build())
    save_bundle(folder, forecaster)
    kept = read_json(folder / "bundle.json")["cost"]
    assert (kept["name"], kept["sha256"]) == ("costs.py:squared", hashlib.sha256(file.read_bytes()).hexdigest())
    with pytest.raises(BundleError, match=r"bundle\.json: the cost 'costs\.py:squared' is a user's own"):
        load_bundle(folder)
    found = load_bundle(folder, cost=spec)
    assert_same(found.forecaster, forecaster)
    assert (found.cost_spec, found.notes) == (spec, ())
    assert load_bundle(folder, cost=spec.build()).cost_spec == spec
    by_object = load_bundle(folder, cost=cost_function(lambda action, outcome: (action - outcome) ** 2, 0.0, 9.0))
    assert by_object.cost_spec is not None
    assert by_object.cost_spec.name == "costs.py:squared"

    file.write_text(file.read_text() + "# changed\n")
    changed = load_bundle(folder, cost=CostSpec.parse(str(spec)))
    assert changed.notes == ("the file of the cost 'costs.py:squared' has changed since the forecaster was fitted",)
    other = load_bundle(folder, cost=CostSpec.parse(f"{file}:squared:lower=0,upper=5"))
    (note,) = other.notes
    assert "was fitted for the cost 'costs.py:squared:lower=0,upper=9'; it now decides for" in note


def test_another_cost_may_be_given(saved: Path) -> None:
    spec = CostSpec.parse("imbalance:short=1,long=4,upper=9,unit=EUR,action_unit=MW")
    found = load_bundle(saved, cost=spec)
    assert found.cost_spec == spec
    assert "it now decides for imbalance:short=1" in found.notes[0]
    features = table(9)[FEATURES]
    assert (found.forecaster.decide(features) < fitted("implicit").decide(features)).all()
    by_object = load_bundle(saved, cost=ShortfallCost(3.0))
    assert by_object.forecaster.cost == ShortfallCost(3.0)
    assert str(by_object.cost_spec) == "shortfall:penalty=3"


@pytest.mark.parametrize(
    "cost", [SPEC.build(), CostSpec.parse("imbalance:short=4,long=1,upper=9")], ids=["object", "words"]
)
def test_the_same_cost_given_again_is_no_other(cost: Any, saved: Path) -> None:
    found = load_bundle(saved, cost=cost)
    assert (found.notes, found.cost_spec) == ((), replace(SPEC, parameters=dict(SPEC.parameters)))


def test_something_else_in_place_of_a_cost_is_refused(saved: Path) -> None:
    with pytest.raises(BundleError, match="cost must have lower, upper"):
        load_bundle(saved, cost="shortfall")  # type: ignore[arg-type]


# Models of the user's own


def test_a_model_of_the_users_must_be_given_again(tmp_path: Path) -> None:
    save_bundle(tmp_path, fitted("own model"))
    assert read_json(tmp_path / "settings.json")["model"] == "own"
    with pytest.raises(BundleError, match=r"settings\.json: the model .* pass its factory as model="):
        load_bundle(tmp_path)
    with pytest.raises(BundleError, match=r"model must make a torch module .*, got <class 'int'>"):
        load_bundle(tmp_path, model=lambda features, outcomes: features)
    with pytest.raises(StakesError, match=r"weights\.safetensors has wrong tensors: 'model\.0\.network"):
        load_bundle(tmp_path, model=lambda features, outcomes: ImplicitModel(features, outcomes, hidden=4))


def test_a_model_of_the_library_must_not_be_given(saved: Path) -> None:
    with pytest.raises(BundleError, match=r"settings\.json: .* implicit .* model="):
        load_bundle(saved, model=small)


# Saving


def test_a_forecaster_must_be_fitted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted"):
        save_bundle(tmp_path / "bundle", DecisionAwareForecaster(SPEC.build()))
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layout": replace(LAYOUT, features=("wind", "sun"))}, "layout.feature_names must be"),
        ({"layout": replace(LAYOUT, targets=("demand",))}, "layout.targets must be"),
        ({"about": {"data": {"file": "load.csv"}}}, "about.data.rows and about.data.sha256 must be given"),
        ({"about": {"data": {"file": "load.csv", "rows": 3, "sha256": "short"}}}, "about.data.sha256 must be 64"),
        ({"about": {"headroom": 3}}, "about.headroom must be a table"),
        ({"about": {"model": small}}, "cannot be written"),
        ({"about": {"a": {1: 2}}}, "must have texts as keys"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(given: Any, message: str, folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(StakesError, match=re.escape(message)):
        save_bundle(folder, fitted("implicit"), **given)
    assert contents(folder) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_saving_again_replaces_the_bundle(folder: Path) -> None:
    (folder / "report.html").write_text("the old one")
    record_file(folder, "report.html")
    save_bundle(folder, fitted("ensemble"))
    assert_same(load_bundle(folder).forecaster, fitted("ensemble"))
    assert bundle_files(folder).keys() == PARTS
    assert (folder / "report.html").exists()


def test_files_of_something_else_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("of a training run")
    with pytest.raises(BundleError, match=r"holds settings\.json of something else than a bundle"):
        save_bundle(tmp_path, fitted("implicit"))
    assert contents(tmp_path) == {"settings.json": b"of a training run"}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BundleError, match="cannot be written: File exists"):
        save_bundle(tmp_path / "file", fitted("implicit"))


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_full_disk_leaves_the_old_bundle(nth: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, write, count = contents(folder), os.write, 0

    def fails(descriptor: int, content: Any) -> int:
        nonlocal count
        count += 1
        if count == nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", fails)
    with pytest.raises(
        StakesError, match="cannot be written: No space left on device; what was saved before is intact"
    ):
        save_bundle(folder, fitted("ensemble"))
    monkeypatch.undo()
    assert contents(folder) == before
    assert_same(load_bundle(folder).forecaster, fitted("implicit"))
    save_bundle(folder, fitted("ensemble"))
    assert_same(load_bundle(folder).forecaster, fitted("ensemble"))


def test_a_failure_to_rename_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move = os.replace

    def fails(source: Path, target: Path) -> None:
        if target == folder / "weights.safetensors":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        move(source, target)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(BundleError, match=r"holds no bundle now, save it again: .*Input/output error"):
        save_bundle(folder, fitted("ensemble"))
    monkeypatch.undo()
    with pytest.raises(BundleError, match=r"holds no bundle: there is no bundle\.json"):
        load_bundle(folder)
    save_bundle(folder, fitted("ensemble"))
    assert_same(load_bundle(folder).forecaster, fitted("ensemble"))
    assert sorted(contents(folder)) == sorted({*PARTS, "bundle.json"})


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("kills")
    here = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, here / "bundle_children.py", base], env=environment, check=True)
    return base


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("scenario", "left"), [("first", {None, 22}), ("again", {None, 11, 22})])
def test_a_kill_leaves_the_old_bundle_or_none_or_the_new_one(scenario: str, left: set[int | None], kills: Path) -> None:
    found: dict[str, int | None] = {}
    for folder in sorted((kills / scenario).glob("*/bundle")):
        found[folder.parent.name] = load_bundle(folder).forecaster.noise_seed_ if is_bundle(folder) else None
    assert set(found.values()) == left
    in_order = [found[name] for name in sorted(found) if name.startswith("before")]
    assert len(in_order) > 12
    assert in_order == sorted(in_order, key=[11, None, 22].index)
    assert in_order.count(None) <= 8 or scenario == "first"


def test_a_folder_is_saved_to_after_a_kill(kills: Path, tmp_path: Path) -> None:
    for scenario in ("first", "again"):
        killed = [path for path in sorted((kills / scenario).glob("before-*/bundle")) if not is_bundle(path)]
        folder = shutil.copytree(killed[-1], tmp_path / scenario)
        with pytest.raises(BundleError, match=r"holds no bundle: there is no bundle\.json, or its saving was interr"):
            load_bundle(folder)
        save_bundle(folder, fitted("implicit"))
        assert_same(load_bundle(folder).forecaster, fitted("implicit"))
        assert sorted(contents(folder)) == sorted({*PARTS, "bundle.json"})


# Files that are added


def test_files_may_be_added(folder: Path) -> None:
    (folder / "evaluation").mkdir()
    for name in ("report.html", "evaluation/metrics.csv"):
        (folder / name).write_text(name)
        record_file(folder, name)
    assert bundle_files(folder).keys() == PARTS | {"report.html", "evaluation/metrics.csv"}
    found = load_bundle(folder)
    assert_same(found.forecaster, fitted("implicit"))
    assert found.notes == ()
    assert (found.layout, found.about["data"]) == (LAYOUT, vars(DATA))

    (folder / "report.html").write_text("another")
    (folder / "evaluation/metrics.csv").unlink()
    missing, changed = sorted(load_bundle(folder).notes)
    assert changed == f"{folder}/report.html is not the file that was recorded with the bundle"
    assert missing == f"{folder}/evaluation/metrics.csv cannot be read: No such file or directory"
    record_file(folder, "report.html")
    assert len(load_bundle(folder).notes) == 1


@pytest.mark.parametrize(
    "name",
    ["../bundle.json", "/etc/passwd", "bundle.json", "weights.safetensors", ".lock", "a/../../x", "a\\b", "a\0b", ""],
)
def test_what_must_not_be_added_is_refused(name: str, folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(StakesError, match=r"plain relative paths|was recorded when"):
        record_file(folder, name)
    assert contents(folder) == before


def test_links_out_of_the_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secrets")
    (folder / "key").symlink_to(tmp_path / "secrets" / "key")
    for name in ("link/key", "key"):
        with pytest.raises(BundleError, match="leads out of the folder"):
            record_file(folder, name)
    forged("files", {**bundle_files(folder), "link/key": "0" * 64})(folder)
    assert load_bundle(folder).notes == (f"{folder}/link/key leads out of the folder of the bundle",)


# Hostile and damaged files


def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes())) and None


def flipped(place: float) -> Callable[[bytes], bytes]:
    def flip(content: bytes) -> bytes:
        index = min(int(place * len(content)), len(content) - 1)
        return content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :]

    return flip


def document(payload: bytes) -> Callable[[bytes], bytes]:
    """A payload with its true hash: an attacker can compute it, too."""
    return lambda _: b'{"sha256":"%s","payload":%s}\n' % (hashlib.sha256(payload).hexdigest().encode(), payload)


def with_value(table: Any, key: str, value: Any) -> Any:
    """A copy in which "a.b" is the value; `...` takes it out."""
    first, _, rest = key.partition(".")
    changed = {**table, first: with_value(table[first], rest, value) if rest else value}
    return {name: each for name, each in changed.items() if each is not ...}


def forged(key: str, value: Any, name: str = "bundle.json") -> Callable[[Path], None]:
    """Another value in a JSON file, all hashes made good."""

    def forge(folder: Path) -> None:
        write_json(folder / name, with_value(read_json(folder / name), key, value))
        if name != "bundle.json":
            vouch(folder, name)

    return forge


def vouch(folder: Path, name: str) -> None:
    record = read_json(folder / "bundle.json")
    record["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    write_json(folder / "bundle.json", record)


def vouched(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Another content of a file, and a bundle.json that vouches for it."""

    def replace(folder: Path) -> None:
        edit(name, change)(folder)
        vouch(folder, name)

    return replace


def tensors(change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        changed = change(load_file(folder / "weights.safetensors"))
        vouched("weights.safetensors", lambda _: safetensors_bytes(changed))(folder)

    return replace


def moved(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Something else in place of a file, which lies outside the folder now."""

    def replace(folder: Path) -> None:
        (folder / name).rename(folder.parent / "original")
        make(folder / name)

    return replace


def link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "original")


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**36)


class Bomb:
    """What a pickle of this would run makes a file."""

    def __init__(self, folder: Path) -> None:
        self.arguments = (folder / "marker", "w")

    def __reduce__(self) -> Any:
        return open, self.arguments


def pickled(name: str) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        (folder / name).write_bytes(pickle.dumps(Bomb(folder)))
        if name != "bundle.json":
            vouch(folder, name)

    return replace


def deep_and_many(folder: Path) -> None:
    forged("model.layers", 500, "settings.json")(folder)
    forged("models", 1000, "state.json")(folder)


FIRST = "model.0.network.layers.0.weight"
OWN_COST = {"name": "costs.py:f", "parameters": {}, "unit": "", "action_unit": ""}
DIFFUSION = {"name": "diffusion", "steps": 10**12}
BUNDLE: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "bundle.json").unlink(), "holds no bundle"),
    "empty": (edit("bundle.json", lambda content: b""), "is damaged"),
    "cut": (edit("bundle.json", lambda content: content[:200]), "is damaged"),
    "a bit flipped": (edit("bundle.json", flipped(0.6)), "is damaged"),
    "a pickle": (pickled("bundle.json"), "is damaged"),
    "a list": (edit("bundle.json", document(b"[]")), "must hold a table"),
    "NaN": (edit("bundle.json", document(b'{"format":NaN}')), "no JSON that stakes writes"),
    "deep": (edit("bundle.json", document(b"[" * 10**5 + b"]" * 10**5)), "no JSON that stakes writes"),
    "too large": (moved("bundle.json", sparse), "bytes, at most"),
    "a pipe": (moved("bundle.json", os.mkfifo), "must be a regular file"),
    "a link": (moved("bundle.json", link), "must be a regular file"),
    "a newer format": (forged("format", 3), "was made by a newer version of stakes: it has format 3, this one reads 2"),
    "a far newer format": (forged("format", 10**400), "was made by a newer version"),
    "format 0": (forged("format", 0), "format must be 1 or 2, got 0"),
    "format true": (forged("format", True), "format must be 1 or 2, got True"),
    "no format": (forged("format", ...), "format must be 1 or 2, got None"),
    "a field too many": (forged("secret", 1), "there is no setting 'secret'"),
    "a field with an escape": (forged("\x1b[2J\n", 1), "there is no setting"),
    "a field missing": (forged("created", ...), "created must be given"),
    "a field of format 1": (forged("versions", {"stakes": "1"}), "there is no setting 'versions'"),
    "a number for a time": (forged("created", 1), "created must be text"),
    "a file above": (forged("files", {"../x": "0" * 64}), "plain relative paths"),
    "an absolute file": (forged("files", {"/etc/passwd": "0" * 64}), "plain relative paths"),
    "a hidden file": (forged("files", {".profile": "0" * 64}), "plain relative paths"),
    "no files": (forged("files", {}), "files must name settings.json"),
    "a short hash": (forged("files", dict.fromkeys(PARTS, "0")), "must be 64 hexadecimal digits"),
    "another cost": (forged("cost.name", "free"), "there is no cost 'free'"),
    "a cost below zero": (forged("cost.parameters.short", -1.0), "short must be positive"),
    "a cost of lists": (forged("cost.parameters.short", [1]), r"cost\.parameters\.short must be"),
    "a unit that clears the screen": (forged("cost.unit", "\x1b[2J"), "cost must be printable"),
    "a cost as text": (forged("cost", "imbalance"), "cost must be a table"),
    "an own cost without its hash": (forged("cost", OWN_COST), r"cost\.sha256 must be 64"),
    "an own cost": (forged("cost", OWN_COST | {"sha256": "0" * 64}), "give the file again"),
    "another layout": (forged("layout.features", ["sun"]), r"layout\.feature_names must be"),
    "a layout of another calendar": (forged("layout.calendar", ["moon"]), r"layout\.calendar\[0\] must be one of"),
    "about a list": (forged("about", []), "about must be a table"),
    "no rows": (forged("about.data.rows", 0), r"about\.data\.rows must be"),
}
SETTINGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "settings.json").unlink(), "cannot be read"),
    "exchanged with another": (
        lambda folder: forged("files", exchanged(folder))(folder),
        "damaged or of another bundle",
    ),
    "a bit flipped": (edit("settings.json", flipped(0.5)), "damaged or of another bundle: its SHA-256 is"),
    "a link": (moved("settings.json", link), "must be a regular file"),
    "a pickle": (pickled("settings.json"), "is damaged"),
    "too large": (moved("settings.json", sparse), "bytes, at most"),
    "wide": (forged("model.hidden", 10**9, "settings.json"), "model.hidden must be at most"),
    "long": (forged("model", DIFFUSION, "settings.json"), "model.steps must be at most"),
    "another model": (forged("model", "flow", "settings.json"), "model must be one of"),
    "an own model": (forged("model", "own", "settings.json"), "pass its factory as model="),
    "a model true": (forged("model.hidden", True, "settings.json"), r"model\.hidden must be a whole number"),
    "a field too many": (forged("command", "rm", "settings.json"), "there is no setting 'command'"),
    "a field missing": (forged("members", ..., "settings.json"), "members must be given"),
    "many members": (forged("members", 10**12, "settings.json"), "members must be at most"),
    "a device without numbers": (forged("device", "meta", "settings.json"), "device must be"),
    "another device": (forged("device", "/dev/sda", "settings.json"), "device must be"),
    "training": (forged("training.epochs", -1, "settings.json"), r"training\.epochs must be"),
}
STATE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a bit flipped": (edit("state.json", flipped(0.5)), "damaged or of another bundle"),
    "a negative seed": (forged("noise_seed", -1, "state.json"), "noise_seed must be"),
    "a weight above 1": (forged("decision_weight", 2, "state.json"), r"decision_weight must lie in \[0, 1\]"),
    "no targets": (forged("target_names", [], "state.json"), "target_names must be"),
    "other targets": (
        forged("target_names", ["demand"], "state.json"),
        "layout.targets must be 'demand' as in state.json, got 'load'",
    ),
    "fewer names": (forged("feature_names", ["wind"], "state.json"), "feature_names must be 3 names, got 1"),
    "other names": (
        forged("feature_names", ["a", "b", "c"], "state.json"),
        "layout.feature_names must be 'a', 'b', 'c' as in state.json, got 'wind'",
    ),
    "no models": (forged("models", 0, "state.json"), "models must be"),
    "many models": (forged("models", 10**9, "state.json"), "models must be at most"),
    "baselines below zero": (forged("baselines", -1, "state.json"), "baselines must be"),
    "an infinite action": (forged("climatology_action", 10**400, "state.json"), "climatology_action must be a number"),
    "another frontier": (forged("frontier", {"points": 3}, "state.json"), r"frontier\.chosen"),
    "numbers for names": (forged("feature_names", [1, 2, 3], "state.json"), r"feature_names\[0\] must be text"),
    "versions": (forged("versions", {"stakes": 1}, "state.json"), "versions.stakes must be text"),
    "no versions": (forged("versions", ..., "state.json"), "versions must be given"),
    "unknown": (forged("extra", 1, "state.json"), "there is no setting 'extra'"),
}
WEIGHTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "weights.safetensors").unlink(), "cannot be read"),
    "cut": (edit("weights.safetensors", lambda content: content[:-5]), "is damaged: its SHA-256 is"),
    "a bit flipped": (edit("weights.safetensors", flipped(0.9)), "is damaged: its SHA-256 is"),
    "a link": (moved("weights.safetensors", link), "must be a regular file"),
    "too large": (moved("weights.safetensors", sparse), "bytes, at most"),
    "a pickle": (pickled("weights.safetensors"), "the header of tensor names has"),
    "another type": (tensors(lambda found: {k: v.double() for k, v in found.items()}), f"'{FIRST}' must be"),
    "another shape": (tensors(lambda found: found | {FIRST: found[FIRST][:-1]}), f"'{FIRST}' must be"),
    "one too few": (tensors(lambda found: {k: v for k, v in found.items() if k != FIRST}), f"'{FIRST}' must be"),
    "one too many": (tensors(lambda found: found | {"baseline.0.x": torch.zeros(1)}), "'baseline.0.x' must be absent"),
    "NaN": (tensors(lambda found: found | {FIRST: found[FIRST] * math.nan}), f"{FIRST} must be finite"),
    "infinity": (tensors(lambda found: found | {FIRST: found[FIRST] + math.inf}), f"{FIRST} must be finite"),
    "of wider models": (forged("model.hidden", 5, "settings.json"), "has wrong tensors"),
    "of deeper models": (forged("model.layers", 500, "settings.json"), "has wrong tensors"),
    "of too many models": (deep_and_many, "no file holds 1000 models of"),
    "of more models": (forged("models", 2, "state.json"), "'model.1.feature_scaling.mean' must be"),
}
METRICS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a bit flipped": (edit("metrics.jsonl", flipped(0.5)), "damaged or of another bundle"),
    "no JSON": (vouched("metrics.jsonl", lambda content: b"{\n"), "is damaged"),
    "NaN": (vouched("metrics.jsonl", lambda content: b'{"loss": NaN}\n'), "NaN is no number"),
    "a list": (vouched("metrics.jsonl", lambda content: b"[1]\n"), "a line must be a table"),
    "deep": (vouched("metrics.jsonl", lambda content: b"[" * 10**5 + b"\n"), "is damaged"),
    "no text": (vouched("metrics.jsonl", lambda content: b"\xff\xfe\n"), "is damaged"),
}
FILES = {"bundle.json": BUNDLE, "settings.json": SETTINGS, "state.json": STATE, "weights.safetensors": WEIGHTS}
FILES["metrics.jsonl"] = METRICS
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


def exchanged(folder: Path) -> dict[str, str]:
    files = bundle_files(folder)
    return files | {"settings.json": files["state.json"], "state.json": files["settings.json"]}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in FILES.items() for case in cases])
def test_hostile_and_damaged_files_are_refused(name: str, case: str, folder: Path) -> None:
    damage, message = FILES[name][case]
    damage(folder)
    with pytest.raises(StakesError, match=message) as raised:
        load_bundle(folder)
    text = str(raised.value)
    assert name in text
    assert text.isprintable()  # on one line, too
    assert len(text) < 800
    assert not (folder / "marker").exists()


@pytest.mark.parametrize("case", FORMAT_1)
def test_hostile_and_damaged_bundles_of_format_1_are_refused(case: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "bundle-1", tmp_path / "bundle"))
    damage, message = FORMAT_1[case]
    damage(folder)
    with pytest.raises(BundleError, match=message) as raised:
        load_bundle(folder)
    assert "bundle.json: " in str(raised.value)


def test_a_pickle_of_the_bomb_would_make_the_marker(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path))).close()
    assert (tmp_path / "marker").exists()
