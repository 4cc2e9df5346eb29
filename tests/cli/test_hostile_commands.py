"""The soak of the commands in short: each small table and a few of the changed bundles, with one command each."""

import cProfile
import itertools
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from adversarial_bundles import bundle_changes
from adversarial_inputs import parquet_files, tables
from hostile_commands import Said, bundle_commands, called, good_fit, table_commands

from stakes.workflows import fit


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good.csv and a fit of it."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fit, "write_comparison", lambda *_: None)  # drawing it takes longer than all else
        good_fit(folder)
    return folder


def in_turn(base: Path, file: Path, place: int) -> list[str]:
    """One of the commands that do not train."""
    lines = [words for words in table_commands(file, base) if words[0] != "fit"]
    return lines[place % len(lines)]


@pytest.mark.parametrize(("suffix", "inputs"), [(".csv", tables), (".parquet", parquet_files)])
def test_adversarial_tables(base: Path, tmp_path: Path, suffix: str, inputs: object) -> None:
    assert callable(inputs)
    for place, (name, content) in enumerate(inputs(1)):
        file = tmp_path / f"table{suffix}"
        if len(content) > 20_000:  # which the soak itself is for
            continue
        file.write_bytes(content)
        words = in_turn(base, file, place)
        assert not called(words).fault(1 << 20), (name, words)


def calls_of(words: list[str]) -> int:
    """How many functions a command calls."""
    profile = cProfile.Profile()
    with profile:
        assert called(words).code == 0
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("place", [0, 1, 5])  # decide and evaluate members, decide by a fit
def test_a_column_more_takes_few_calls_however_many_there_are(base: Path, tmp_path: Path, place: int) -> None:
    """A `Series` for each column takes about 1,000 calls, a look through all columns for each of them 800."""
    lines = {}
    for columns in (200, 800):
        numbers = np.random.default_rng(0).normal(50, 10, (4, columns)).round(2)
        table = pd.DataFrame(numbers, columns=[f"m{number}" for number in range(columns)])
        table.insert(0, "time", pd.date_range("2020-01-01", periods=4, freq="h"))
        table.to_csv(tmp_path / f"{columns}.csv", index=False)
        lines[columns] = list(table_commands(tmp_path / f"{columns}.csv", base))[place]
    called(lines[800])  # which may import something
    assert calls_of(lines[800]) - calls_of(lines[200]) < 300 * 600


def test_changed_bundles(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_training(*_: object) -> None:
        raise fit.InterruptedTraining("training is left out here")

    monkeypatch.setattr(fit, "_trained", no_training)
    monkeypatch.setattr(fit, "write_comparison", lambda *_: None)
    changes = list(bundle_changes(base / "fit", seed=0))
    for place, (name, change) in enumerate(itertools.islice(changes, 0, None, len(changes) // 12)):
        copy = tmp_path / str(place) / "fit"
        shutil.copytree(base / "fit", copy)
        change(copy)
        lines = [words for words in bundle_commands(copy, tmp_path) if words[0] != "report"]
        words = lines[place % len(lines)]
        said = called(words)
        shutil.rmtree(tmp_path / "refit", ignore_errors=True)
        assert not said.fault(1 << 20) or said.code == 130, (name, words, said.errors)


def test_faults_are_seen() -> None:
    assert "ended with None" in Said(None, "Traceback\n", 0.0).fault(1)
    assert "ended with 1" in Said(1, "", 0.0).fault(1)
    assert "said 2 lines" in Said(2, "stakes: a\nstakes: b\n", 0.0).fault(1)
    assert "said 0 lines" in Said(2, "", 0.0).fault(1)
    assert "said 1 lines" in Said(0, "warning\n", 0.0).fault(1)
    assert "characters" in Said(2, f"stakes: {'a' * 3000}\n", 0.0).fault(1)
    assert "took 9.0 s" in Said(0, "", 9.0).fault(1)
    assert Said(2, "stakes: a\n", 0.1).fault(1) == Said(0, "", 6.0).fault(10**6) == ""
