"""What cannot be used is refused: exit code 2, one line, and nothing of the user's touched."""

import json
import os
from pathlib import Path

import pytest
from calls import called, complaint

COST = "shortfall:penalty=5"


def test_one_member_cannot_be_evaluated() -> None:
    Path("one.csv").write_text("time,a\n2020-01-01,1\n")
    said = complaint("evaluate", "--members", "one.csv", "--outcomes", "outcomes.csv", "--cost", COST)
    assert said == "'one.csv' has one member per case; scores and spread need at least two"


WORDS = [
    (["decide"], "decide needs FOLDER and NEWDATA, or --members and --cost"),
    (["decide", "folder"], "decide needs FOLDER and NEWDATA"),
    (["decide", "--members", "members.csv"], "--members needs --cost"),
    (["decide", "folder", "members.csv", "--members", "members.csv", "--cost", COST], "not both"),
    (["decide", "nowhere", "members.csv"], "nowhere"),
    (["decide", "mine.csv", "members.csv"], "mine.csv"),
    (["decide", "nowhere", "members.csv", "--time", "t"], "--point and --unit belong to --members"),
    (["evaluate", "nowhere", "members.csv", "--unit", "mm"], "turns forecasts in a NetCDF file into its own unit"),
    (["decide", "--members", "members.csv", "--cost", COST, "--target", "power"], "--target must name columns of"),
    (["decide", "--members", "nowhere.csv", "--cost", COST], "there is no file 'nowhere.csv'"),
    (["decide", "--members", "member.csv", "--cost", COST], "did you mean 'members.csv'?"),
    (["decide", "--members", ".", "--cost", COST], "is a folder"),
    (["decide", "--members", "members.csv", "--cost", COST, "--time", "when"], "'when'"),
    (["decide", "--members", "members.csv", "--cost", COST, "--quantiles", "0.5,1.5"], "between 0 and 1, got 1.5"),
    (["decide", "--members", "members.csv", "--cost", COST, "--quantiles", "low"], "quantiles must be numbers"),
    (["decide", "--members", "members.csv", "--cost", COST, "--out", "mine.csv"], "exists already"),
    (["decide", "--members", "members.csv", "--cost", COST, "--out", "a.txt"], "ends in .csv"),
    (["decide", "--members", "members.csv", "--cost", COST, "--out", "no/a.csv"], "there is no folder 'no'"),
    (["decide", "--members", "members.csv", "--cost", COST, "--out", "folder.csv"], "is a folder"),
    (["decide", "--member", "members.csv"], "--member"),
    (["evaluate"], "evaluate needs FOLDER and DATA"),
    (["evaluate", "--members", "members.csv", "--cost", COST], "--members needs --outcomes too"),
    (["evaluate", "--members", "members.csv", "--outcomes", "outcomes.csv"], "--members needs --cost too"),
    (["evaluate", "nowhere", "members.csv", "--outcomes", "outcomes.csv"], "there is no folder nowhere"),
    (["evaluate", "nowhere", "outcomes.csv"], "nowhere"),
    (["evaluate", "nowhere", "outcomes.csv", "--block", "0"], "block must be a whole number of at least 1, got 0"),
    (["evaluate", "nowhere", "outcomes.csv", "--block", "week"], "--block"),
    (["evaluate", "nowhere", "outcomes.csv", "--cases", "mine.csv"], "exists already"),
    (["report", "nowhere"], "nowhere"),
    (["report", "nowhere", "--out", "mine.csv"], ".html"),
    (["check-cost"], "--cost"),
    (["check-cost", "outcomes.csv", "--cost", COST], "check-cost needs --target"),
    (["check-cost", "outcomes.csv", "--cost", COST, "--target", "pwer"], "did you mean 'power'?"),
    (["check-cost", "--cost", COST, "--target", "power"], "--target needs the table"),
    (["check-cost", "--members", "members.csv", "--cost", COST, "--target", "power"], "--target must name columns"),
    (["check-cost", "outcomes.csv", "--members", "members.csv", "--cost", COST], "not both"),
    (["data"], ""),
    (["data", "lst"], "lst"),
    (["refit", "nowhere", "outcomes.csv", "--out", "x"], "there is no folder nowhere with a fit"),
    (["refit", ".", "outcomes.csv", "--out", "."], "holds neither a fit nor a recalibration"),
]


@pytest.mark.parametrize(("words", "message"), WORDS, ids=lambda value: " ".join(value)[:60])
def test_words_that_cannot_be_used(words: list[str], message: str) -> None:
    Path("folder.csv").mkdir()
    before = sorted(os.listdir())
    if words == ["data"]:  # help, as `stakes` alone gives
        assert called(*words)[0] == 0
    else:
        assert message in complaint(*words)
    assert sorted(os.listdir()) == before
    assert Path("mine.csv").read_text() == "mine"


FIT = ["outcomes.csv", "--cost", COST, "--out", "x"]
OF_TIMES = ["--target", "power", "--time", "time", "--calendar", "hour"]
FITS = [
    (["--target", "pwer"], "did you mean 'power'?"),
    (["--target", "power"], "features"),
    (["--target", "power", "--lags", "0,soon", "--time", "time", "--lead", "12"], "lags"),
    (["--target", "power", "--lags", "0"], "lags"),
    (["--target", "power", "--lead", "12"], "lead"),
    (["--target", "power", "--calendar", "moon", "--time", "time"], "calendar"),
    (["--target", "power", "--calendar", "hour"], "calendar"),
    (["--target", "power", "--separator", "::"], "separator"),
    (["--target", "power", "--encoding", "latin-99"], "encoding"),
    ([*OF_TIMES, "--decision-weight", "heavy"], "decision_weight"),
    ([*OF_TIMES, "--decision-weight", "1.5"], "decision_weight"),
    ([*OF_TIMES, "--model", "linnear"], "linear"),
    ([*OF_TIMES, "--members", "many"], "--members"),
    ([*OF_TIMES, "--members", "100000000"], "members must be at most 1,000,000"),
    ([*OF_TIMES, "--test-fraction", "1"], "test_fraction"),
    ([*OF_TIMES, "--test-fraction", "0.999"], "test_fraction"),
    ([*OF_TIMES, "--validation-fraction", "1"], "validation_fraction"),
    ([*OF_TIMES, "--seed", "99999999999"], "seed must lie between 0 and 4294967295"),
    ([*OF_TIMES, "--tolerance", "nan"], "tolerance"),
    ([*OF_TIMES, "--ensemble", "0"], "ensemble"),
    ([*OF_TIMES, "--epochs", "0"], "epochs"),
    ([*OF_TIMES, "--device", "gpu"], "device must be one of auto, cpu, cuda, got 'gpu'"),
]


@pytest.mark.parametrize(("words", "message"), FITS, ids=lambda value: " ".join(value)[:60])
@pytest.mark.parametrize("command", ["fit", "backtest"])
def test_fits_that_cannot_be_done(command: str, words: list[str], message: str) -> None:
    assert message in complaint(command, *FIT, *words)
    assert not Path("x").exists()


@pytest.mark.parametrize(
    "words",
    [
        "decide folder absent.csv",
        "evaluate folder absent.csv",
        "decide --members absent.nc",
        "evaluate --members absent.csv --outcomes absent.csv",
        "check-cost absent.csv --target a,b",
        "fit absent.csv --target a,b --out new",
        "recalibrate absent.csv --forecast m1:m3 --outcome a --out new",
    ],
)
def test_a_wrong_cost_is_refused_before_any_data_are_read(words: str) -> None:
    assert "ramp must be positive" in complaint(*words.split(), "--cost", "schedule:short=5,long=1,ramp=0")


OUTPUTS = [
    ["decide", "--members", "members.csv", "--cost", COST, "--out", "./members.csv"],
    ["decide", "folder", "outcomes.csv", "--out", "outcomes.csv"],
    ["evaluate", "folder", "outcomes.csv", "--cases", "outcomes.csv"],
    ["evaluate", "--members", "members.csv", "--outcomes", "outcomes.csv", "--cost", COST, "--cases", "outcomes.csv"],
]


@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
def test_an_input_is_never_written(words: list[str]) -> None:
    assert complaint(*words, "--force").endswith("is an input too; choose another file")


def test_a_refused_fit_leaves_its_folder_free() -> None:
    Path("costs.py").write_text("def wrong(action, outcome):\n    return action.nonsense\n")
    words = ["fit", "members.csv", "--target", "m0", "--out", "x", "--device", "cpu", "--workers", "1", "--quiet"]
    words += ["--epochs", "1", "--decision-weight", "0", "--members", "5", "--test-fraction", "0"]
    assert "nonsense" in complaint(*words, "--cost", "costs.py:wrong:lower=0,upper=1")
    assert called(*words, "--cost", COST)[0] == 0
    assert "other data or settings" in complaint(*words, "--cost", "shortfall:penalty=6")


OWN_COSTS = {
    "raises": "def raises(action, outcome):\n    raise KeyError('x')\n",
    "shapeless": "def shapeless(action, outcome):\n    return action.sum()\n",
    "leaves": "def leaves():\n    raise SystemExit(0)\n",
    "leaves_later": "import sys\n\n\ndef leaves_later(action, outcome):\n    sys.exit(0)\n",
    "no_number": "def no_number(action, outcome):\n    return (action - outcome) ** 2 * float('nan')\n",
}


@pytest.mark.parametrize("name", OWN_COSTS)
def test_an_own_cost_that_gives_no_number(name: str) -> None:
    Path("costs.py").write_text(OWN_COSTS[name])
    cost = f"costs.py:{name}" if name == "leaves" else f"costs.py:{name}:lower=0,upper=1"
    expected = {"no_number": "60 of 60", "raises": "KeyError", "shapeless": "shape"}.get(name, "SystemExit")
    for words in (["decide"], ["evaluate", "--outcomes", "outcomes.csv"], ["check-cost"]):
        assert complaint(*words, "--members", "members.csv", "--cost", cost)
    assert expected in complaint("decide", "--members", "members.csv", "--cost", cost)


def test_a_backtest_with_an_own_cost_that_raises() -> None:
    Path("costs.py").write_text("def wrong(action, outcome):\n    return action.nonsense\n")
    words = ["backtest", "members.csv", "--target", "m0", "--out", "x", "--device", "cpu", "--workers", "1", "--quiet"]
    words += ["--epochs", "1", "--origins", "2", "--cost", "costs.py:wrong:lower=0,upper=1", "--members", "5"]
    assert complaint(*words).startswith("the cost costs.py:wrong fails for the outcomes of the table: AttributeError")
    assert not Path("x").exists()


def test_decisions_that_are_not_certified_are_told() -> None:
    Path("costs.py").write_text("def hilly(action, outcome):\n    return (9 * (action - outcome)).cos() * action\n")
    code, output, errors = called(
        "decide", "--members", "members.csv", "--cost", "costs.py:hilly:lower=0,upper=9", "--json"
    )
    assert code == 0
    count = json.loads(output)["uncertified"]
    assert count
    assert f"note: {count} of 60 decisions are not certified" in errors


TABLE = "x.csv --out x --cost a --target y"


@pytest.mark.parametrize("value", ["2.5", "1e3", "many", ""])
@pytest.mark.parametrize("words", [f"fit {TABLE} --block", f"backtest {TABLE} --origins", "serve x --port"])
def test_whole_numbers_are_not_rounded(words: str, value: str) -> None:
    flag = words.split()[-1]
    assert complaint(*words.split(), value) == f"Invalid value for {flag}: it must be a whole number, got {value!r}"


def test_what_is_wrong_is_said_in_a_line_that_a_terminal_can_show() -> None:
    Path("long.csv").write_text(f"time,{'m' * 100_000},\u202eb\n2020-01-01,1,2\n")
    said = complaint("check-cost", "long.csv", "--target", "load", "--cost", COST)
    assert said.startswith("targets: the table has no column 'load'; there are time, mmm")
    assert len(said) <= 2000
    Path("long.csv").write_text("time,\u202eb\n2020-01-01,1\n")
    assert complaint("check-cost", "long.csv", "--target", "load", "--cost", COST).endswith("there are time, \\u202eb")
