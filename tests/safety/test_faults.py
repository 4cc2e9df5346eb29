"""The tool that sows faults, and that every fault can still be sown and has its tests."""

from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refuses
from safety.faults import Fault, FaultError, Tree, check, main, read_faults, replaced, tried

FAULT = Fault("sign", "costs", "adds", "a - b", "a + b", ("test_minus.py",))
FAULTS = read_faults()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A package of one module, which its test calls."""
    (tmp_path / "src").mkdir()
    (tmp_path / "tests" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "minus.py").write_text("def minus(a, b):\n    return a - b\n\n\ndef other(a):\n    return -a\n")
    test = "from minus import minus\n\n\ndef test_minus():\n    assert minus(3, 2) == 1\n"
    (tmp_path / "tests" / "deep" / "test_minus.py").write_text(test)
    return tmp_path


def test_every_fault_can_be_sown_and_has_its_tests() -> None:
    assert check(Tree.read(Path(__file__).parents[2]), FAULTS) == []


def test_there_are_sixty_faults_over_all_packages() -> None:
    assert len(FAULTS) >= 60
    assert len({fault.package for fault in FAULTS}) >= 14


def test_code_is_found_however_it_is_wrapped_and_indented() -> None:
    text = "if a:\n    call(\n        one,\n        two\n    )\n"
    assert replaced(text, "call(one, two)", "if b:\n    call(two)") == "if a:\n    if b:\n        call(two)\n"


def test_a_fault_that_the_tests_see_is_caught_and_leaves_no_trace(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which would take seconds
    before = (root / "src" / "minus.py").read_text()
    tree = Tree.read(root)
    caught, told = tried(tree, FAULT)
    assert caught
    assert told.startswith("caught by tests/deep/test_minus.py::test_minus")
    assert (root / "src" / "minus.py").read_text() == before
    missed, told = tried(tree, replace(FAULT, find="return -a", replace="return a"))
    assert (missed, told) == (False, "MISSED")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"find": "a * b"}, "no file"),
        ({"find": "return"}, "src/minus.py, src/minus.py"),
        ({"replace": "a -"}, "no Python"),
        ({"tests": ("test_plus.py",)}, "no test test_plus.py"),
        ({"tests": ("test_minus.py::test_plus",)}, "no test test_minus.py::test_plus"),
    ],
)
def test_a_fault_that_cannot_be_sown_is_named(change: dict[str, str], words: str, root: Path) -> None:
    (sentence,) = check(Tree.read(root), [replace(FAULT, **change)])
    assert sentence.startswith("sign: ")
    assert words in sentence


def test_tests_are_found_where_they_have_moved(root: Path) -> None:
    (root / "reproduction" / "tests").mkdir(parents=True)
    (root / "tests" / "deep" / "test_minus.py").rename(root / "reproduction" / "tests" / "test_minus.py")
    assert Tree.read(root).tests(replace(FAULT, tests=("deep/test_minus.py::test_minus",))) == [
        "reproduction/tests/test_minus.py::test_minus"
    ]


def test_a_name_that_is_no_fault_is_refused() -> None:
    refuses(SystemExit, "", main, ["--check", "--only", "nothing"])


def test_two_faults_of_one_name_are_refused(tmp_path: Path) -> None:
    fault = '[[fault]]\nname = "a"\nwhat = "b"\nfind = "c"\nreplace = "d"\ntests = ["e"]\n'
    (tmp_path / "costs.toml").write_text(f'package = "costs"\n{fault}{fault}')
    refuses(FaultError, "'a'", read_faults, tmp_path)
