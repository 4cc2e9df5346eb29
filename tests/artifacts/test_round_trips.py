import hashlib
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from artifacts.damage import forged
from artifacts.forecasters import DATA, FEATURES, KINDS, PARTS, assert_same, fitted, small, with_cost
from golden.make_bundle import FOLDER, LAYOUT, SPEC, decisions, table
from safetensors.torch import load_file

from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.artifacts.folder import read_manifest
from stakes.cost_spec.spec import CostSpec


@pytest.mark.parametrize("kind", KINDS)
def test_a_forecaster_comes_back_bit_for_bit(kind: str, tmp_path: Path) -> None:
    forecaster = fitted(kind)
    assert save_bundle(tmp_path / "bundle", forecaster) == tmp_path / "bundle"
    before = torch.get_rng_state()
    bundle = load_bundle(tmp_path / "bundle", model=small if kind == "own model" else None)
    assert torch.equal(torch.get_rng_state(), before)
    assert_same(bundle.forecaster, forecaster)
    assert bundle.notes == ()
    assert bundle.layout is None
    again = save_bundle(tmp_path / "again", bundle.forecaster, about=bundle.about)
    assert (again / "weights.safetensors").read_bytes() == (tmp_path / "bundle/weights.safetensors").read_bytes()
    assert (again / "state.json").read_bytes() == (tmp_path / "bundle/state.json").read_bytes()
    assert (again / "training.json").read_bytes() == (tmp_path / "bundle/training.json").read_bytes()


def test_the_golden_fit_gives_the_golden_decisions() -> None:
    bundle = load_bundle(FOLDER / "fit")
    assert bundle.notes == ()
    assert (bundle.cost_spec, bundle.layout) == (CostSpec.from_record(SPEC.record()), LAYOUT)
    expected = json.loads((FOLDER / "decisions.json").read_text())
    for name, values in decisions(bundle.forecaster).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_another_device_is_taken_where_there_is_no_such_one(folder: Path) -> None:
    forged("device", "cuda:99", "state.json")(folder)
    bundle = load_bundle(folder)
    assert bundle.notes == ("there is no device cuda:99 here; the forecast is computed on another",)
    bundle.forecast.solve(table(3)[FEATURES])


def test_what_is_known_about_it_comes_back(tmp_path: Path) -> None:
    metrics = {"cost": {"value": np.float64(1.5), "cases": np.int64(3), "high": math.nan}}
    about = {"data": DATA, "metrics": metrics, "path": Path("a/b")}
    save_bundle(tmp_path, fitted("implicit"), cost_spec=SPEC, layout=LAYOUT, about=about)
    bundle = load_bundle(tmp_path)
    assert (bundle.cost_spec, bundle.layout) == (CostSpec.from_record(SPEC.record()), LAYOUT)
    assert bundle.known.data == DATA
    assert bundle.known.metrics == {"cost": {"value": 1.5, "cases": 3.0, "high": None}}
    assert bundle.about["path"] == "a/b"
    assert bundle.versions.keys() == {"stakes", "torch", "python"}
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", bundle.created)


def test_the_files_are_named_with_their_hashes(saved: Path) -> None:
    files = read_manifest(saved).files
    assert files.keys() == PARTS
    assert sorted(path.name for path in saved.iterdir()) == sorted({*PARTS, "bundle.json"})
    for name, sha256 in files.items():
        assert hashlib.sha256((saved / name).read_bytes()).hexdigest() == sha256
    names = load_file(saved / "weights.safetensors").keys()
    assert "model.0.network.layers.0.weight" in names
    assert all(name.startswith("model.0.") for name in names)


def test_weights_of_the_baseline_are_kept_beside(tmp_path: Path) -> None:
    forecaster = with_cost(SPEC.build())
    forecaster.forecast_ = replace(forecaster.forecast_, baseline_models=fitted("ensemble").forecast_.models)
    save_bundle(tmp_path, forecaster)
    prefixes = {".".join(name.split(".")[:2]) for name in load_file(tmp_path / "weights.safetensors")}
    assert prefixes == {"model.0", "baseline.0", "baseline.1"}
    assert_same(load_bundle(tmp_path).forecaster, forecaster)


def test_every_part_is_opened_and_hashed_once(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    hashed: list[int] = []

    def hashing(content: bytes) -> Any:
        hashed.append(len(content))
        return sha256(content)

    def counted(file: Any, *args: Any, **kwargs: Any) -> Any:
        if Path(file).parent == saved:
            opened.append(Path(file).name)
        return real(file, *args, **kwargs)

    real, sha256 = open, hashlib.sha256
    monkeypatch.setattr("hashlib.sha256", hashing)
    monkeypatch.setattr("builtins.open", counted)
    monkeypatch.setattr("io.open", counted)
    load_bundle(saved)
    assert sorted(opened) == sorted({*PARTS, "bundle.json"})
    assert len(hashed) == len(opened)
