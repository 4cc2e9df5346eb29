from pathlib import Path

import pytest
from artifacts.damage import forged
from artifacts.forecasters import DATA, PARTS, assert_same, contents, fitted
from golden.make_bundle import LAYOUT
from refusals import refuses

from stakes.artifacts.fits import load_bundle
from stakes.artifacts.folder import read_manifest, record_file
from stakes.errors import BundleError, StakesError


def test_files_may_be_added(folder: Path) -> None:
    (folder / "evaluation").mkdir()
    for name in ("report.html", "evaluation/metrics.csv"):
        (folder / name).write_text(name)
        record_file(folder, name)
    assert read_manifest(folder).files.keys() == PARTS | {"report.html", "evaluation/metrics.csv"}
    bundle = load_bundle(folder)
    assert_same(bundle.forecaster, fitted("implicit"))
    assert bundle.notes == ()
    assert (bundle.layout, bundle.known.data) == (LAYOUT, DATA)

    (folder / "report.html").write_text("another")
    (folder / "evaluation/metrics.csv").unlink()
    missing, changed = sorted(load_bundle(folder).notes)
    assert changed == f"{folder}/report.html is not the file that was recorded when it was saved"
    assert missing == f"{folder}/evaluation/metrics.csv cannot be read: No such file or directory"
    record_file(folder, "report.html")
    assert len(load_bundle(folder).notes) == 1


@pytest.mark.parametrize(
    "name",
    ["../bundle.json", "/etc/passwd", "bundle.json", "weights.safetensors", ".lock", "a/../../x", "a\\b", "a\0b", ""],
)
def test_what_must_not_be_added_is_refused(name: str, folder: Path) -> None:
    before = contents(folder)
    refuses(StakesError, r"plain relative paths|was recorded when", record_file, folder, name)
    assert contents(folder) == before


def test_links_out_of_the_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secrets")
    (folder / "key").symlink_to(tmp_path / "secrets" / "key")
    for name in ("link/key", "key"):
        refuses(BundleError, "leads out of its folder", record_file, folder, name)
    forged("files", {**read_manifest(folder).files, "link/key": "0" * 64})(folder)
    assert load_bundle(folder).notes == (f"{folder}/link/key leads out of its folder",)
