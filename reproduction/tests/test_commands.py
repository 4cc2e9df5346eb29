import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
import torch
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from reproduction_calls import called, complaint

from reproduction.runs import sweep
from reproduction.runs import sweep as train_and_resume
from reproduction.runs.folder import RunFolder
from reproduction.runs.settings import RunSettings, run_from_plain
from reproduction.tasks import task_types
from stakes.files import locked

TRAINING = {"epochs": 2, "validate_every": 1, "members": 2, "validation_members": 4, "batch": 400}
TINY: dict[str, Any] = {
    "task": "synthetic",
    "model": {"hidden": 4, "layers": 1, "noise": 2},
    "training": TRAINING,
}
many_examples = examples(200)


def toml(value: Any, top: bool = True) -> str:
    """Plain values as TOML."""
    if isinstance(value, Mapping):
        pairs = [f"{json.dumps(name)} = {toml(inner, top=False)}" for name, inner in value.items()]
        return "\n".join(pairs) if top else f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(toml(inner, top=False) for inner in value)}]"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return hex(value)  # long ones are read in this form only
    if isinstance(value, str | bool):
        return json.dumps(value)
    return value.isoformat() if isinstance(value, date | datetime | time) else repr(value)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test in a folder of its own, with the file tiny.toml."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(toml(TINY))


@pytest.fixture
def trained() -> Iterator[list[RunSettings]]:
    """The runs that would have been trained."""
    with instead_of_training() as runs:
        yield runs


@contextmanager
def instead_of_training() -> Iterator[list[RunSettings]]:
    """Notes the runs of `train` and `sweep`, and trains none."""
    runs: list[RunSettings] = []

    def no_training(folders: Sequence[RunFolder], *_: object) -> None:
        runs.extend(folder.settings() for folder in folders)

    def no_sweep(points: sweep.Sweep, folder: Path, execution: object) -> Path:
        runs.extend(point.run for point in points.points)
        return folder / "table.csv"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_and_resume, "train_folders", no_training)
        patch.setattr(train_and_resume, "prepare", lambda run: None)
        patch.setattr(sweep, "run_sweep", no_sweep)
        yield runs


# A round trip


def test_train_and_resume(tmp_path: Path) -> None:
    assert called("train", "tiny.toml", "--out", "run") == (0, "run\n", "")
    folder = RunFolder(Path("run"))
    assert folder.settings() == run_from_plain(TINY)
    state = folder.state()
    assert state is not None
    assert (state.status, state.epoch) == ("finished", 2)
    folder.model()
    weights = Path("run/weights.safetensors").stat()
    for words in (
        ["resume", "run"],
        ["train", "tiny.toml", "--out", "run"],
        ["resume", str(tmp_path / "run"), "--quiet"],
    ):
        assert called(*words) == (0, f"{words[1] if words[0] == 'resume' else 'run'}\n", "")
    assert Path("run/weights.safetensors").stat() == weights


@pytest.mark.usefixtures("workers")
def test_sweep_and_resume() -> None:
    Path("sweep.json").write_text(json.dumps({**TINY, "grid": {"seed": [0], "decision_weight": [0.0, 0.5]}}))
    words = ["sweep", "sweep.json", "--out", "all", "--seed=7", "--device", "cpu", "--workers", "1"]
    assert called(*words) == (0, "all/table.csv\n", "")
    assert Path("all/table.csv").read_text().count("finished") == 2
    assert called("resume", "all") == (0, "all/table.csv\n", "")


def test_a_run_has_a_folder_of_its_own_by_default(trained: list[RunSettings]) -> None:
    for seed in ("0", "1"):
        assert called("train", "tiny.toml", "--seed", seed)[0] == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == sorted(run.name for run in trained)
    assert called("train", "tiny.toml", "--seed", "0") == (0, f"runs/{trained[0].name}\n", "")


def test_fine_tuning_starts_from_a_run_or_a_file() -> None:
    assert called("train", "tiny.toml", "--out", "first")[0] == 0
    for start, out in (("first", "a"), ("first/weights.safetensors", "b")):
        assert called("train", "tiny.toml", "--start-from", start, "--out", out) == (0, f"{out}\n", "")
    first, *tuned = (Path(out, "weights.safetensors").read_bytes() for out in ("first", "a", "b"))
    assert tuned[0] == tuned[1] != first


# Flags

FLAGS: list[tuple[list[str], dict[str, Any]]] = [
    (["--training.epochs", "3"], {"training": {**TRAINING, "epochs": 3}}),
    (["--training.validate-every", "2"], {"training": {**TRAINING, "validate_every": 2}}),
    (["--training", "{epochs = 3}"], {"training": {"epochs": 3}}),
    (["--seed=2"], {"seed": 2}),
    (["--decision-weight", "0"], {"decision_weight": 0}),
    (["--task", "frost"], {"task": "frost"}),
    (["--task.false_alarm_ratio", "0.3"], {"task": {"name": "synthetic", "false_alarm_ratio": 0.3}}),
    (["--model.hidden=7"], {"model": {**TINY["model"], "hidden": 7}}),
    (["--model", "diffusion"], {"model": "diffusion"}),
    (["--model", "implicit", "--model.hidden", "7"], {"model": {"name": "implicit", "hidden": 7}}),
    (["--start-from", "runs/a-b"], {"start_from": "runs/a-b"}),
    (
        ["--seed=2", "--quiet", "--training.epochs", "3", "--device=cpu", "--task.data-seed=5"],
        {"seed": 2, "training": {**TRAINING, "epochs": 3}, "task": {"name": "synthetic", "data_seed": 5}},
    ),
]


@pytest.mark.parametrize(("flags", "changed"), FLAGS, ids=lambda value: " ".join(value) if value else "")
def test_flags_go_on_top_of_the_file(flags: list[str], changed: dict[str, Any], trained: list[RunSettings]) -> None:
    for words in (["--out", "run", "tiny.toml", *flags], ["tiny.toml", *flags, "--out=run"]):
        assert called("train", *words) == (0, "run\n", "")
        assert trained.pop() == run_from_plain({**TINY, **changed})


def test_flags_go_on_top_of_every_file_of_a_sweep(trained: list[RunSettings]) -> None:
    Path("other.toml").write_text(toml({**TINY, "seed": 8}))
    words = ["tiny.toml", "other.toml", "--training.epochs", "3", "--grid.task.data-seed", "[0, 1]", "--out=all"]
    assert called("sweep", *words) == (0, "all/table.csv\n", "")
    assert [(run.seed, run.task.data_seed) for run in trained] == [(0, 0), (0, 1), (8, 0), (8, 1)]
    assert {run.training.epochs for run in trained} == {3}


# What cannot be done


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", "seed 3", "'a.toml'"),
        ("a.txt", "", "'a.txt'"),
        ("a.toml", "", "task"),
        ("a.toml", "[task]\npenalty = 3", "task.name"),
        ("a.toml", toml({**TINY, "sed": 3}), "'sed'; did you mean 'seed'"),
        ("a.toml", toml({**TINY, "training": {"epochs": "many"}}), "training.epochs"),
        ("a.toml", toml({**TINY, "task": {"name": "wind", "record": "wind_north"}}), "task.record"),
    ],
)
@pytest.mark.parametrize("command", ["train", "sweep"])
def test_a_file_that_cannot_be_used_is_refused(command: str, name: str, content: str, message: str) -> None:
    Path(name).write_text(content)
    assert message in complaint(command, name, "--out", "x")
    assert not Path("x").exists()


WRONG_WORDS = [
    (["trian", "tiny.toml"], "tiny.toml"),
    (["train", "--seed", "3", "tiny.toml"], "--seed"),  # settings come after the file
    (["train", "tiny.toml", "--seed", "3", "other.toml"], "other.toml"),
    (["sweep", "--seed", "3", "tiny.toml", "--out", "x"], "file"),
    (["train", "tiny.toml", "--sed", "3"], "'sed'; did you mean 'seed'"),
    (["train", "tiny.toml", "--seed.x", "3"], "seed"),
    (["train", "tiny.toml", "--seed", "[" * 5000], "seed"),
    (["train", "tiny.toml", "--grid.seed", "[1]"], "'grid'"),
    (["sweep", "--out", "x"], "file"),
    (["sweep", "tiny.toml"], "--out"),
    (["sweep", "tiny.toml", "--out", "x", "--workers", "0"], "workers"),
    (["sweep", "tiny.toml", "--out", "x", "--device", "gpu"], "device"),
    (["sweep", "tiny.toml", "--out", "x", "--grid.seed", "3"], "grid.seed"),
    (["resume", "nowhere"], "nowhere"),
    (["resume", ".", "--device", "gpu"], "device"),
    (["resume", ".", "--seed", "3"], "--seed"),
]


@pytest.mark.parametrize(("words", "message"), WRONG_WORDS, ids=lambda value: " ".join(value)[:60])
def test_commands_that_cannot_be_done_are_refused(words: list[str], message: str) -> None:
    assert message in complaint(*words)
    assert not Path("runs").exists()
    assert not Path("x").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("words", [["train", "tiny.toml"], ["sweep", "tiny.toml"], ["resume", "run"]])
def test_a_gpu_that_is_not_there_is_refused(words: list[str], trained: list[RunSettings]) -> None:
    RunFolder(Path("run")).create(run_from_plain(TINY))
    out = [] if words[0] == "resume" else ["--out", "x"]
    assert "CUDA" in complaint(*words, *out, "--device", "cuda")
    assert not Path("x").exists()
    assert trained == []


@pytest.mark.parametrize("command", ["train", "sweep"])
@pytest.mark.parametrize("out", ["file", "file/below", "x" * 300, "read-only/folder"])
def test_a_folder_that_cannot_be_made_is_refused(command: str, out: str) -> None:
    Path("file").write_text("mine")
    Path("read-only").mkdir(mode=0o500)
    if out == "read-only/folder" and os.access("read-only", os.W_OK):
        pytest.skip("this user may write everywhere")
    assert out in complaint(command, "tiny.toml", "--out", out, "--device", "cpu")
    assert Path("file").read_text() == "mine"


def test_a_folder_with_another_run_is_refused(trained: list[RunSettings]) -> None:
    assert called("train", "tiny.toml", "--out", "run")[0] == 0
    assert "other settings" in complaint("train", "tiny.toml", "--seed", "1", "--out", "run")
    Path("run/settings.json").write_text("{")
    assert "run/settings.json" in complaint("train", "tiny.toml", "--out", "run")
    assert "run/settings.json" in complaint("resume", "run")
    assert len(trained) == 1


def test_altered_metrics_of_a_finished_run_are_told() -> None:
    assert called("train", "tiny.toml", "--out", "run", "--quiet")[0] == 0
    assert called("resume", "run") == (0, "run\n", "")
    metrics = Path("run/metrics.jsonl")
    metrics.write_text(metrics.read_text().replace('"epoch": 1', '"epoch": 2'))
    for words in (["resume", "run"], ["train", "tiny.toml", "--out", "run"]):
        assert "run/metrics.jsonl" in complaint(*words)


def test_a_folder_in_which_another_process_trains_is_refused() -> None:
    RunFolder(Path("run")).create(run_from_plain(TINY))
    with locked(Path("run")):
        for words in (["train", "tiny.toml", "--out", "run"], ["resume", "run"]):
            assert "another process" in complaint(*words)


@pytest.mark.parametrize(
    "start", ["nowhere", "tiny.toml", ".", "other", "x" * 300, r"a\u0000b", "other/weights.safetensors"]
)
def test_weights_to_start_from_that_do_not_fit_are_refused(start: str) -> None:
    if start.startswith("other"):
        words = ["train", "tiny.toml", "--model", "{hidden = 5, layers = 1, noise = 2}", "--out", "other"]
        assert called(*words)[0] == 0
    Path("a.toml").write_text(f'start_from = "{start}"\n{toml(TINY)}')
    said = complaint("train", "a.toml", "--out", "run", "--device", "cpu")
    assert "start_from" in said or start in said


def test_training_that_fails_says_so() -> None:
    said = complaint(
        "train", "tiny.toml", "--training", toml({**TRAINING, "learning_rate": 1e30}, top=False), "--out=a"
    )
    assert "not finite in epoch 1" in said
    assert complaint("resume", "a") == said


def test_what_does_not_fit_into_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.toml").write_text(toml({**TINY, "training": {**TRAINING, "members": 10**12}}))
    assert "memory" in complaint("train", "a.toml", "--out", "a", "--device", "cpu")

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20 GiB")

    monkeypatch.setattr(train_and_resume, "train_folders", full)
    assert "memory" in complaint("train", "tiny.toml", "--out", "b", "--device", "cpu")


# Whatever a file holds

NAMES = "task model training seed decision_weight start_from grid paper name epochs hidden frequency data_seed x.y"
names = st.sampled_from(NAMES.split()) | st.text(max_size=5)
scalars = st.one_of(
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, 2, 10, -1, 2**63, 2**64, 0.5, 1e308, -0.0]),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    st.sampled_from([*task_types(), "implicit", "diffusion", "cosine", "fair", "scaled"]),
    st.datetimes() | st.dates() | st.times(),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
valid = st.sampled_from(
    [
        TINY,
        {"task": {"name": "synthetic", "false_alarm_ratio": 0.3}, "model": {"name": "diffusion", "steps": 30}},
        {"task": {"name": "wind", "penalty": 3.0}, "model": "implicit", "seed": 3, "decision_weight": 0.5},
        {"task": "frost", "start_from": "a", "training": {"schedule": "cosine", "gradient_clip": 1.0}},
        {**TINY, "grid": {"seed": [0, 1], "task": {"data_seed": [1]}}},
        {"paper": ["wind", "synthetic"], "grid": {"seed": [1], "decision_weight": [0.1]}},
    ]
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Files that are nearly right."""
    changed = json.loads(json.dumps(draw(valid)))
    for _ in range(draw(st.integers(0, 3))):
        table = changed
        while inner := [value for value in table.values() if isinstance(value, dict)]:
            if draw(st.booleans()):
                break
            table = draw(st.sampled_from(inner))
        known = sorted(table)
        change = draw(st.sampled_from(["delete", "replace", "insert"]))
        if change == "insert" or not known:
            table[draw(names)] = draw(values)
        elif change == "replace":
            table[draw(st.sampled_from(known))] = draw(values)
        else:
            del table[draw(st.sampled_from(known))]
    content = toml(changed).encode()
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        place = draw(st.integers(0, len(content)))
        content = content[:place] + draw(st.binary(max_size=3)) + content[place + draw(st.integers(0, 3)) :]
    return content


def is_toml(content: bytes) -> bool:
    try:
        tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return True


@many_examples
@given(files(), st.sampled_from(["train", "sweep"]))
def test_every_file_is_used_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, command: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "some.toml"
    file.write_bytes(content)
    with instead_of_training() as runs:
        folder = tmp_path_factory.mktemp("some") / "x"
        code, output, errors = called(command, str(file), "--out", str(folder), "--device", "cpu")
    if code == 0:
        assert is_toml(content)
        assert (output.count("\n"), errors) == (1, "")
        assert runs
    else:
        assert (code, output, errors.count("\n")) == (2, "", 1)
        assert errors.startswith("stakes: ")
        assert len(errors) < 1000
        assert runs == []


def test_the_tasks_are_listed() -> None:
    code, output, errors = called("tasks")
    assert (code, errors) == (0, "")
    assert [line.partition(":")[0] for line in output.splitlines()] == list(task_types())
