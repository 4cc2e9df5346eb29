"""The command line: the commands by name, each imported when it is called."""

import logging
import sys
import warnings
from typing import TextIO

from cyclopts import App, CycloptsError, Group

from stakes import __version__
from stakes.console import complain, exit_code_of
from stakes.errors import StakesWarning

_DECISIONS = Group("From a table and a cost to decisions", sort_key=1)
_COMMANDS: dict[Group | None, dict[str, str]] = {
    _DECISIONS: {
        "data": "Real records, which are inside the package.",
        "fit": "Fit a forecaster to a table and a cost, and choose how much the decision weighs. A second start goes "
        "on where the first was interrupted.",
        "decide": "The action for every row: with a fitted forecaster and new data, or with an ensemble that you "
        "already have.",
        "evaluate": "What a fitted forecaster, or an ensemble that you already have, was worth where the outcomes are "
        "known.",
        "value": "For which costs a forecast is worth buying, and what it saves there, against another or climatology.",
        "implied-cost": "Which price past actions behave as if they had, such as of being short against being long.",
        "recalibrate": "Correct a forecast that somebody else makes, an ensemble, quantiles or single numbers, by its "
        "own past errors, where that is expected to pay.",
        "monitor": "Whether the errors of a recalibrated forecast have left what was learned; ends with exit code 3 "
        "where they have. It may be asked as often as one likes.",
        "report": "Write the report of a fit or a recalibration again: one HTML file that needs no network.",
        "check-cost": "Whether a cost is fit for training, and where it will act: over the members of an ensemble, "
        "the outcomes of a table, or, without either, draws where it makes a difference.",
        "backtest": "Fit and judge as time goes on: at each origin on all cases before it, judged on those up to the "
        "next. A second start goes on where the first was interrupted.",
        "refit": "Fit the same again, layout, cost and settings, to new data.",
        "serve": "Serve a fit, or two to compare, over HTTP, with a page to look at its decisions; needs the extra "
        "`serve`.",
        "demo": "Decisions on three real records, from tables to reports. Two minutes on two cores.",
    },
}

app = App(
    name="stakes",
    version=__version__,
    help="Forecasts that know what is at stake: decision-aware training of sample-based generative models.",
    suppress_keyboard_interrupt=False,  # it would end without a word
)
for _group, _commands in _COMMANDS.items():
    for _name, _help in _commands.items():
        app.command(f"stakes.cli.{_name.replace('-', '_')}:app", name=_name, group=_group, help=_help)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; what goes wrong is one line on standard error. Returns the exit code."""
    return run_app(app, arguments)


def run_app(app: App, arguments: list[str] | None) -> int:
    """Run a command of an app; what goes wrong is one line on standard error."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # its fonts and caches are nobody's business
    with warnings.catch_warnings():
        warnings.showwarning = _print_warning
        return _exit_code(app, arguments)


def _exit_code(app: App, arguments: list[str] | None) -> int:
    try:
        return exit_code_of(
            lambda: app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        )
    except CycloptsError as error:
        return complain(str(error), 2)
    except SystemExit as ending:  # --help and --version
        return int(ending.code or 0)


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning of ours as one line, as all else that a command tells; those of libraries are nobody's business."""
    if issubclass(category, StakesWarning):
        sys.stderr.write(f"note: {' '.join(str(message).split())}\n")
