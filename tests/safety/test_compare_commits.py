"""What counts as a difference between two commits; the probes themselves are too slow for a test."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from safety import compare_commits
from safety.compare_commits import Differences, Exceptions, ExceptionsError, differences, main
from safety.probes import Probed

ROOT = Path(__file__).parents[2]


def compared(base: Any, head: Any, exceptions: Exceptions | None = None) -> Differences:
    return differences({"fit/a": base}, {"fit/a": head}, exceptions or Exceptions())


@pytest.mark.parametrize(
    "value", [1, 0.1, math.nan, None, True, "cost 3.5 EUR", np.array([1.0, math.nan]), np.zeros((2, 0))]
)
def test_what_is_the_same_does_not_differ(value: Any) -> None:
    assert compared(value, value) == Differences()


@pytest.mark.parametrize(
    ("base", "head"),
    [
        (1.0, 1.0 + 2**-52),
        (0.0, -0.0),
        (1, 1.0),
        (1, True),
        (1.0, None),
        (np.array([1.0, 2.0]), np.array([1.0, np.nextafter(2.0, 3.0)])),
        (np.array([0.0]), np.array([-0.0])),
        (np.zeros(2), np.zeros(3)),
        (np.zeros(2), np.zeros(2, np.float32)),
        ("cost 3.5 EUR", "cost 3.6 EUR"),
        ("cost 3.5 EUR", "price 3.6 EUR"),
        ("3", 3),
    ],
)
def test_a_single_bit_is_a_difference_of_numbers(base: Any, head: Any) -> None:
    found = compared(base, head)
    assert list(found.numbers) == ["fit/a"]
    assert not found.texts


def test_other_words_with_the_same_numbers_are_a_difference_of_texts() -> None:
    assert list(compared("cost 3.5 EUR", "price 3.5 EUR").texts) == ["fit/a"]


def test_what_is_there_no_more_and_what_is_new_differ() -> None:
    found = differences({"fit/a": 1}, {"fit/b": 1}, Exceptions())
    assert list(found.numbers) == ["fit/a", "fit/b"]


def test_exceptions_ignore_and_rename() -> None:
    exceptions = Exceptions(("fit/times*",), ((r"/ladder\.json#/rungs", "/selection.json#/candidates"),))
    base = {"fit/ladder.json#/rungs/0": 1, "fit/times#/0": 1, "decide/a": 1}
    head = {"fit/selection.json#/candidates/0": 1, "fit/times#/1": 2, "decide/a": 2}
    assert list(differences(base, head, exceptions).numbers) == ["decide/a"]


@pytest.mark.parametrize(
    "text", ['[[ignore]]\nkeys = "a"\n', '[[ignore]]\nkeys = "a"\nreason = " "\n', '[[skip]]\nkeys = "a"\n']
)
def test_an_exception_needs_a_reason(text: str, tmp_path: Path) -> None:
    (tmp_path / "exceptions.toml").write_text(text)
    refuses(ExceptionsError, "", Exceptions.read, tmp_path / "exceptions.toml")


def test_the_exceptions_of_the_repository_can_be_read() -> None:
    Exceptions.read(ROOT / "tests" / "safety" / "exceptions.toml")


def test_the_exit_code_tells_of_numbers_and_of_texts_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"same": {"fit/a": 1}, "text": {"fit/a": "one"}, "texts": {"fit/a": "two"}, "fails": {"fit/failed": "no"}}
    monkeypatch.setattr(compare_commits, "probed", lambda name, *_: found[name])
    pairs = (["same", "same"], ["same", "text"], ["text", "texts"], ["text", "texts", "--text"], ["fails", "fails"])
    assert [main(pair) for pair in pairs] == [0, 1, 0, 1, 1]


def test_values_are_kept_by_place_without_what_differs_from_run_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    probed = Probed(ROOT)
    probed.name = "fit"
    (tmp_path / "found.json").write_text(f'{{"rows": [1, 2.5], "sha256": "0", "seconds": 3, "out": "{tmp_path}/fit"}}')
    (tmp_path / "table.csv").write_text("a,b\n1.50,x\n")
    probed.keep_files()
    assert probed.found == {
        "fit/found.json#/rows/0": 1,
        "fit/found.json#/rows/1": 2.5,
        "fit/found.json#/out": "HERE/fit",
        "fit/table.csv#/a/0": "1.50",
        "fit/table.csv#/b/0": "x",
    }
    probed.found.clear()
    probed.keep_files()  # which have not changed
    probed.keep("told", f"in 3.2 s, {'ab' * 32}, 7 cases")
    assert probed.found == {"fit/told": "in TIME, HASH, 7 cases"}
