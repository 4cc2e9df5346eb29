import errno
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from artifacts.forecasters import PARTS, assert_same, contents, fitted, small
from artifacts.killed_savers import leave_killed
from forked_processes import forked
from golden.make_bundle import LAYOUT, SPEC
from refusals import refuses

from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.artifacts.folder import is_saved, read_manifest, record_file
from stakes.errors import BundleError, StakesError
from stakes.forecasting.forecaster import DecisionAwareForecaster


def test_a_forecaster_must_be_fitted(tmp_path: Path) -> None:
    refuses(ValueError, "not fitted", save_bundle, tmp_path / "bundle", DecisionAwareForecaster(SPEC.build()))
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layout": replace(LAYOUT, features=("wind", "sun"))}, "layout.feature_names must be"),
        ({"layout": replace(LAYOUT, targets=("demand",))}, "layout.targets must be"),
        ({"about": {"data": {"file": "load.csv"}}}, "about.data.rows and about.data.sha256 must be given"),
        ({"about": {"data": {"file": "load.csv", "rows": 3, "sha256": "short"}}}, "about.data.sha256 must be 64"),
        ({"about": {"quality": 3}}, "about.quality must be a table"),
        ({"about": {"model": small}}, "cannot be written"),
        ({"about": {"a": {1: 2}}}, "must have texts as keys"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(given: Any, message: str, folder: Path) -> None:
    before = contents(folder)
    refuses(StakesError, re.escape(message), save_bundle, folder, fitted("implicit"), **given)
    assert contents(folder) == before


def test_saving_again_replaces_the_bundle(folder: Path) -> None:
    (folder / "report.html").write_text("the old one")
    record_file(folder, "report.html")
    save_bundle(folder, fitted("ensemble"))
    assert_same(load_bundle(folder).forecaster, fitted("ensemble"))
    assert read_manifest(folder).files.keys() == PARTS
    assert (folder / "report.html").exists()


def test_files_of_something_else_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("of a training run")
    refuses(BundleError, r"holds a settings\.json", save_bundle, tmp_path, fitted("implicit"))
    assert contents(tmp_path) == {"settings.json": b"of a training run"}


@pytest.mark.parametrize("nth", range(1, 5))
def test_a_full_disk_leaves_the_old_bundle(nth: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, write, count = contents(folder), os.write, 0

    def fails(descriptor: int, content: Any) -> int:
        nonlocal count
        count += 1
        if count == nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", fails)
    refuses(StakesError, "cannot be written: No space left on device; what", save_bundle, folder, fitted("ensemble"))
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
    refuses(BundleError, "save it again", save_bundle, folder, fitted("ensemble"))
    monkeypatch.undo()
    refuses(BundleError, r"there is no bundle\.json", load_bundle, folder)
    save_bundle(folder, fitted("ensemble"))
    assert_same(load_bundle(folder).forecaster, fitted("ensemble"))
    assert sorted(contents(folder)) == sorted({*PARTS, "bundle.json"})


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("kills")
    savers = forked(lambda: leave_killed(base))
    _, errors = savers.communicate()
    assert savers.returncode == 0, errors
    return base


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("scenario", "left"), [("first", {None, 22}), ("again", {None, 11, 22})])
def test_a_kill_leaves_the_old_bundle_or_none_or_the_new_one(scenario: str, left: set[int | None], kills: Path) -> None:
    seeds: dict[str, int | None] = {}
    for folder in sorted((kills / scenario).glob("*/bundle")):
        seeds[folder.parent.name] = load_bundle(folder).forecast.state.noise_seed if is_saved(folder) else None
    assert set(seeds.values()) == left
    in_order = [seeds[name] for name in sorted(seeds) if name.startswith("before")]
    assert len(in_order) > 12
    assert in_order == sorted(in_order, key=[11, None, 22].index)
    assert in_order.count(None) <= 8 or scenario == "first"


def test_a_folder_is_saved_to_after_a_kill(kills: Path, tmp_path: Path) -> None:
    for scenario in ("first", "again"):
        killed = [path for path in sorted((kills / scenario).glob("before-*/bundle")) if not is_saved(path)]
        folder = shutil.copytree(killed[-1], tmp_path / scenario)
        refuses(BundleError, r"there is no bundle\.json", load_bundle, folder)
        save_bundle(folder, fitted("implicit"))
        assert_same(load_bundle(folder).forecaster, fitted("implicit"))
        assert sorted(contents(folder)) == sorted({*PARTS, "bundle.json"})
