"""The trees of a bundle: saved as text, and refused where they are not what was saved."""

from collections.abc import Callable
from pathlib import Path

import lightgbm
import pytest
from artifacts.damage import edit, forged, vouched
from artifacts.forecasters import FEATURES, assert_same, fitted
from golden.make_bundle import table

from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.artifacts.folder import read_manifest
from stakes.errors import BundleError

NAME = "trees-0.txt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_bundle(tmp_path / "bundle", fitted("trees"))


def test_trees_are_saved_as_lightgbm_writes_them(folder: Path) -> None:
    assert NAME in read_manifest(folder).files
    features = table(9)[FEATURES].to_numpy()
    trees = fitted("trees").trees_
    assert trees is not None
    expected = lightgbm.Booster(model_str=trees.texts[0]).predict(features)
    assert (lightgbm.Booster(model_file=folder / NAME).predict(features) == expected).all()
    assert not any(path.suffix in (".pkl", ".pickle") for path in folder.iterdir())


def test_a_bundle_with_trees_is_saved_over_one_without_and_again(folder: Path) -> None:
    save_bundle(folder, fitted("implicit"))
    assert NAME not in read_manifest(folder).files
    assert_same(load_bundle(folder).forecaster, fitted("implicit"))
    save_bundle(folder, fitted("trees"))
    assert_same(load_bundle(folder).forecaster, fitted("trees"))


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / NAME).unlink(), "cannot be read"),
    "cut": (edit(NAME, lambda content: content[:-5]), "is damaged: its SHA-256 is"),
    "no text": (vouched(NAME, lambda content: b"\xff\xfe"), f"{NAME} must be text"),
    "no trees": (vouched(NAME, lambda content: b"a forest"), "trees must be in LightGBM's text format"),
    "none": (forged("trees", 0, "state.json"), "has wrong tensors"),
    "too many": (forged("trees", 2, "state.json"), "trees must be 0 or one for each of the outcomes, got 2"),
    "another base": (forged("parameters.base", "linear", "training.json"), "base linear goes with no trees"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damaged_trees_are_refused(case: str, folder: Path) -> None:
    damage, message = DAMAGES[case]
    damage(folder)
    with pytest.raises(BundleError, match=message):
        load_bundle(folder).forecaster  # noqa: B018
