import errno
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from damaged_bytes import NOT_JSON
from refusals import refuses
from small_checkpoints import DTYPES, assert_same, assert_same_tensors, checkpoint, names

from stakes import files
from stakes.errors import CheckpointError
from stakes.training.stored_models import load_tensors, save_tensors
from stakes.training.trainer import Checkpoint, load_latest, save_checkpoint


def test_tensors_of_every_kind_come_back(tmp_path: Path) -> None:
    tied = torch.randn(4)
    tensors = {f"{dtype}": torch.arange(6).reshape(2, 3).to(dtype) for dtype in DTYPES} | {
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "expanded": torch.arange(3.0).expand(4, 3),
        "strided": torch.arange(10.0)[::3],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "infinite": torch.tensor([torch.inf, -torch.inf]),
        "negated view": torch.tensor([1 + 2j]).conj().imag,
        "tied": tied,
        "tied too": tied,
        "ü 'quoted'\n": torch.ones(1),
    }
    path = tmp_path / "a.safetensors"
    sha256 = save_tensors(path, tensors)
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    layout = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}
    for found in (load_tensors(path, sha256), load_tensors(path, None, layout)):
        assert_same_tensors(found, {name: tensor.detach() for name, tensor in tensors.items()})
        assert not any(tensor.requires_grad for tensor in found.values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_of_a_gpu_come_back_on_the_cpu(tmp_path: Path) -> None:
    tensor = torch.randn(3, 4)
    save_tensors(tmp_path / "a.safetensors", {"a": tensor.cuda().T})
    assert_same_tensors(load_tensors(tmp_path / "a.safetensors", None), {"a": tensor.T})


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"__metadata__": torch.ones(1)}, "__metadata__"),
        ({"a": torch.ones(1, dtype=torch.complex64)}, "'a' must be of floats, integers or bool, got torch.complex64"),
        ({"a": torch.ones(1).to_sparse()}, "cannot be written"),
        ({"a": torch.ones(1, device="meta")}, "cannot be written"),
        ({"\ud800": torch.ones(1)}, "cannot be written"),
        ({1: torch.ones(1)}, "cannot be written"),
        ({f"{index:0100d}": torch.ones(0) for index in range(10_000)}, "the header of tensor names has"),
    ],
    ids=["metadata", "complex", "sparse", "meta", "surrogate", "number as name", "too many"],
)
def test_tensors_that_could_not_be_read_again_are_not_written(tensors: Any, message: str, tmp_path: Path) -> None:
    refuses(CheckpointError, re.escape(message), save_tensors, tmp_path / "a.safetensors", tensors)
    assert names(tmp_path) == []


def test_a_checkpoint_comes_back_in_full(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "checkpoints"
    save_checkpoint(folder, checkpoint(120))
    found, reasons = load_latest(folder)
    assert_same(found, checkpoint(120))
    assert reasons == ()
    tensor_name, json_name = names(folder)
    assert re.fullmatch(r"epoch-00000120-[0-9a-f]{16}\.safetensors", tensor_name)
    assert json_name == "epoch-00000120.json"


def test_the_last_two_are_kept_and_foreign_files_stay(tmp_path: Path) -> None:
    foreign = ["best.safetensors", "epoch-00000001.pt", "epoch-1.json", "epoch-00000001.json.bak", ".secret.tmp"]
    foreign += ["epoch-00000001-best.safetensors", ".epoch-00000001.json.1-short.tmp", "epoch-٠٠٠٠٠٠٠١.json"]
    for name in foreign:
        (tmp_path / name).write_text("mine")
    for epoch in range(1, 6):
        save_checkpoint(tmp_path, checkpoint(epoch))
        found, reasons = load_latest(tmp_path)
        assert_same(found, checkpoint(epoch))
        assert reasons == ()
    own = [name for name in names(tmp_path) if name not in foreign]
    assert [name[:14] for name in own] == ["epoch-00000004"] * 2 + ["epoch-00000005"] * 2
    assert all((tmp_path / name).read_text() == "mine" for name in foreign)


def test_what_dead_writers_left_is_deleted(folder: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = {process: f".epoch-00000002.json.{process}-0123456789abcdef.tmp" for process in (dead.pid, os.getpid())}
    living = f".epoch-00000002-0123456789abcdef.safetensors.{os.getppid()}-0123456789abcdef.tmp"
    orphan = "epoch-00000007-0123456789abcdef.safetensors"
    for name in (*left.values(), living, orphan):
        (folder / name).write_text("half a")
    save_checkpoint(folder, checkpoint(3))
    assert [name for name in names(folder) if not name.startswith(("epoch-00000002", "epoch-00000003"))] == [living]


def test_a_failure_to_delete_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "unlink", refuse)
    save_checkpoint(folder, checkpoint(3))
    assert_same(load_latest(folder)[0], checkpoint(3))


@pytest.mark.parametrize("epoch", [-1, 10**8, True, 1.0, "1", None])
def test_an_epoch_must_be_a_whole_number_of_eight_digits(epoch: Any, tmp_path: Path) -> None:
    refuses(CheckpointError, "^epoch", save_checkpoint, tmp_path, Checkpoint(epoch, {}, {}))


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("")
    refuses(CheckpointError, "Not a directory", load_latest, tmp_path / "checkpoints")
    refuses(CheckpointError, "cannot be written: File", save_checkpoint, tmp_path / "checkpoints", checkpoint(1))


@pytest.mark.parametrize(("value", "message"), NOT_JSON.values(), ids=NOT_JSON)
def test_a_state_that_would_not_come_back_is_not_written(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=rf"^epoch-00000001\.json: .*{re.escape(message)}"):
        save_checkpoint(tmp_path, Checkpoint(1, {}, {"state": value}))
    assert names(tmp_path) == []


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
        said = rf"epoch-00000003\S* cannot be written: {re.escape(os.strerror(code))}; what was saved before is intact$"
        refuses(CheckpointError, said, save_checkpoint, folder, checkpoint(3))
    assert not [name for name in names(folder) if name.endswith(".tmp")]
    assert_same(load_latest(folder)[0], checkpoint(2))
    save_checkpoint(folder, checkpoint(4))
    assert [name[:14] for name in names(folder)] == ["epoch-00000002"] * 2 + ["epoch-00000004"] * 2
