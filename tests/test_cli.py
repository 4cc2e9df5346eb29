import logging
import subprocess
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from unittest import TestCase

import pytest
from calls import called, complaint

import stakes.cli
from stakes.cli import main
from stakes.errors import StakesWarning


def python(*words: str) -> str:
    result = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


# Help


COMMANDS = "fit decide evaluate recalibrate monitor report check-cost backtest refit serve demo"
COMMANDS += " data value implied-cost"
HEAVY = ("torch", "numpy", "pandas", "safetensors", "rich.progress", "stakes.training")


def test_the_list_of_commands_imports_none_of_them() -> None:
    """Asked in one process, here and below: what any of it imports would be there in the end."""
    heavy = (*HEAVY, "stakes.cli.flags", "stakes.cli.fit")
    code = (
        "import sys, stakes.cli; codes = [stakes.cli.main(words) for words in (['--help'], ['--version'], [])]\n"
        f"print(codes, [name for name in {heavy} if name in sys.modules])"
    )
    assert python("-c", code).splitlines()[-1] == "[0, 0, 0] []"


def test_no_help_of_a_command_imports_anything_heavy() -> None:
    asked = [*([name] for name in COMMANDS.split()), *(["data", name] for name in ("list", "export"))]
    code = (
        f"import sys, stakes.cli; codes = {{stakes.cli.main([*words, '--help']) for words in {asked}}}\n"
        f"print(codes, [name for name in {HEAVY} if name in sys.modules])"
    )
    assert python("-c", code).splitlines()[-1] == "{0} []"


def test_every_command_is_a_file() -> None:
    listed = {name for name in stakes.cli.app if not name.startswith("-")}
    assert listed == set(COMMANDS.split())
    files = {path.stem.replace("_", "-") for path in (Path(stakes.__file__).parent / "cli").glob("[a-z]*.py")}
    assert files - listed == {"flags", "output"}


def test_the_command_is_installed() -> None:
    (command,) = entry_points(group="console_scripts", name="stakes")
    assert command.load() is main


def test_version() -> None:
    assert called("--version") == (0, f"{stakes.__version__}\n", "")
    assert python("-m", "stakes.cli", "--version") == f"{stakes.__version__}\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["fit", "backtest", "--help", "--version"]),
        (["--help"], ["fit", "backtest", "--help", "--version"]),
        (["fit", "--help"], ["DATA", "--target", "--cost", "--baseline-action", "stakes fit load.csv"]),
        (["backtest", "--help"], ["DATA", "--target", "--origins", "--lags", "stakes backtest load.csv"]),
        (["decide", "--help"], ["FOLDER", "NEWDATA", "--members", "--quantiles", "stakes decide --members"]),
        (["evaluate", "--help"], ["--outcomes", "--block", "--cases", "--json", "stakes evaluate --members"]),
        (["check-cost", "--help"], ["--target", "--plot", "stakes check-cost --cost"]),
        (["data", "export", "--help"], ["NAME", "--out", "stakes data export"]),
        (["refit", "--help"], ["FOLDER", "DATA", "--out", "stakes refit load"]),
        (["demo", "--help"], ["--epochs", "stakes demo --epochs 2"]),
    ],
)
def test_help_names_what_there_is(words: list[str], expected: list[str]) -> None:
    code, output, errors = called(*words)
    assert (code, errors) == (0, "")
    assert [text for text in expected if text not in output] == []


WRONG_WORDS = [
    (["fti", "a.csv"], 'Unknown command "fti". Did you mean "fit"?'),
]


@pytest.mark.parametrize(("words", "message"), WRONG_WORDS, ids=lambda value: " ".join(value)[:60])
def test_commands_that_cannot_be_done_are_refused(words: list[str], message: str) -> None:
    assert message in complaint(*words)


def test_an_interrupt_outside_training_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stakes.cli.check_cost._checked", interrupted)
    assert called("check-cost", "--cost", "shortfall:penalty=3") == (130, "", "stakes: interrupted\n")


def test_matplotlib_keeps_its_notes_to_itself() -> None:
    with TestCase().assertNoLogs():
        called("data", "list")
        logging.getLogger("matplotlib.font_manager").warning("Matplotlib is building the font cache")


def test_warnings_of_libraries_are_kept_back_and_ours_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def warning(*_: object) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # in these tests they are errors
            warnings.warn("this will change in the next version", FutureWarning, stacklevel=1)
            warnings.warn("members\nfailed", StakesWarning, stacklevel=1)
        raise KeyboardInterrupt

    monkeypatch.setattr("stakes.cli.check_cost._checked", warning)
    words = ["check-cost", "--cost", "shortfall:penalty=3"]
    assert called(*words) == (130, "", "note: members failed\nstakes: interrupted\n")
