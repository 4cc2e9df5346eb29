import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_checkpoints import assert_same, checkpoint, names

from stakes import files
from stakes.errors import CheckpointError
from stakes.training.checkpoints import load_latest, save_checkpoint

HARNESS = Path(__file__).parents[1] / "helpers" / "kill_injection.py"
CHILDREN = Path(__file__).parents[1] / "helpers" / "checkpoint_children.py"


def test_every_file_is_durable_before_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def recorded(name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def call(target: Any, *rest: Any) -> Any:
            path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else str(rest[0])
            suffixes = re.findall(r"json|safetensors|tmp", Path(path).name)
            steps.append(f"{name} {' '.join(suffixes) or 'folder'}")
            return original(target, *rest)

        return call

    save_checkpoint(tmp_path / "checkpoints", checkpoint(1))
    for name in ("write", "fsync", "replace"):
        monkeypatch.setattr(os, name, recorded(name))
    save_checkpoint(tmp_path / "checkpoints", checkpoint(2))
    assert steps == [
        *("write safetensors tmp", "fsync safetensors tmp", "replace safetensors", "fsync folder"),
        *("write json tmp", "fsync json tmp", "replace json", "fsync folder"),
    ]


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("children")
    subprocess.run([sys.executable, CHILDREN, base], check=True)
    return base


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux")
@pytest.mark.parametrize(
    ("scenario", "before", "after"),
    [("first", None, 1.0), ("next", 2.0, 3.0), ("again", 1.0, 2.0), ("back", 2.0, 3.0)],
    ids=["first", "next", "again", "back"],
)
def test_a_kill_leaves_the_old_or_the_new(left_behind: Path, scenario: str, before: Any, after: float) -> None:
    for moment, least in (("before", 13), ("during", 2), ("after", 13)):
        runs = sorted((left_behind / scenario).glob(f"{moment}-*"))
        assert len(runs) > least  # the last one was not killed
        values = [value_left(run / "checkpoints") for run in runs]
        turn = values.index(after)
        assert values == [before] * turn + [after] * (len(runs) - turn)
        assert turn > 0
        for run in runs:
            save_checkpoint(run / "checkpoints", checkpoint(10, 4.0))
            assert value_left(run / "checkpoints") == 4.0
            assert len([name for name in names(run / "checkpoints") if name.endswith(".json")]) <= 2
            assert not [name for name in names(run / "checkpoints") if name.endswith(".tmp")]


def value_left(folder: Path) -> float | None:
    """The value of the newest checkpoint, which must be whole; no damaged one may be there."""
    found, reasons = load_latest(folder)
    assert reasons == ()
    if found is None:
        return None
    assert found.tensors["weights"].eq(found.state["value"]).all()
    return found.state["value"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux")
def test_the_harness_kills_scripts(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nfd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\nos.write(fd, b'12345678')\n"
    )
    (tmp_path / "run").mkdir()
    for at, status, content in (("2:before", -9, b""), ("1:during", -9, b"1234"), ("3:after", 0, b"12345678")):
        target = tmp_path / "run" / at
        environment = {**os.environ, "STAKES_TEST_KILL_AT": at, "STAKES_TEST_KILL_UNDER": str(tmp_path / "run")}
        assert subprocess.run([sys.executable, HARNESS, script, target], env=environment).returncode == status
        assert target.read_bytes() == content


def test_a_file_that_the_kernel_cuts_short_leaves_the_last_good_one(left_behind: Path) -> None:
    message = (left_behind / "limit.txt").read_text()
    assert "epoch-00000002-" in message
    assert message.endswith("cannot be written: File too large; what was saved before is intact")
    assert value_left(left_behind / "limit") == 1.0
    assert len(names(left_behind / "limit")) == 2


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize(("step", "nth"), [("open", 1), ("write", 1), ("write", 2), ("fsync", 1), ("replace", 1)])
def test_a_full_disk_is_explained_and_leaves_the_last_good_one(
    step: str, nth: int, code: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    original = open if step == "open" else getattr(os, step)

    def fail(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise OSError(code, os.strerror(code))
        return original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(*((files, "open") if step == "open" else (os, step)), fail, raising=False)
        with pytest.raises(CheckpointError) as raised:
            save_checkpoint(folder, checkpoint(3))
    reason = re.escape(os.strerror(code))
    assert re.search(
        rf"epoch-00000003\S* cannot be written: {reason}; what was saved before is intact$", str(raised.value)
    )
    assert isinstance(raised.value.__cause__, OSError)
    assert not [name for name in names(folder) if name.endswith(".tmp")]
    assert_same(load_latest(folder)[0], checkpoint(2))
    save_checkpoint(folder, checkpoint(4))
    assert [name[:14] for name in names(folder)] == ["epoch-00000002"] * 2 + ["epoch-00000004"] * 2
