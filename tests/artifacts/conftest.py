import shutil
from pathlib import Path

import pytest
from artifacts.forecasters import DATA, fitted
from golden.make_bundle import LAYOUT, SPEC

from stakes.artifacts.fits import save_bundle


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "deep" / "bundle"
    return save_bundle(folder, fitted("implicit"), cost_spec=SPEC, layout=LAYOUT, about={"data": DATA})


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(saved, tmp_path / "bundle"))
