"""The command line: the commands by name, each imported when it is called, and the exit codes they end with."""

import atexit
import gc
import logging
import sys
import warnings
from typing import TextIO

from cyclopts import App, CycloptsError, Group

from stakes import __version__
from stakes.errors import StakesWarning, complain, exit_code_of

_COMMANDS: dict[Group | None, dict[str, str]] = {
    Group("Forecast and decide", sort_key=1): {
        "fit": "Fit a forecaster to a table and a cost. An interrupted fit resumes when the same command is repeated.",
        "recalibrate": "Correct existing forecasts by their past errors where that is expected to lower the cost.",
        "decide": "Recommend the best action for every row, from a fitted forecaster or from existing forecasts.",
        "refit": "Repeat a fit or a recalibration on newer data.",
        "serve": "Serve a fit or a recalibration over HTTP with a web page. Needs the extra `serve`.",
    },
    Group("Evaluate", sort_key=2): {
        "evaluate": "Evaluate forecasts and their decisions on cases with known outcomes.",
        "value": "Show for which costs a forecast is worth buying, and what it saves.",
        "backtest": "Fit and evaluate at successive times, each fit on earlier cases only. Repeat it to resume.",
        "monitor": "Test whether forecast errors have drifted; exit code 3 if they have. Run it as often as you like.",
        "report": "Write the HTML report of a fit or a recalibration again.",
    },
    Group("Costs and data", sort_key=3): {
        "check-cost": "Check whether a cost is fit for training and where it has a gradient.",
        "implied-cost": "Estimate the price that past actions imply.",
        "data": "List and export the real records that come with the package.",
        "demo": "Run three examples on real records, from table to report. Takes three minutes on two cores.",
    },
}

app = App(
    name="stakes",
    version=__version__,
    help="Forecasts for decisions: train them on a cost, find the best action, and report what it was worth.",
    suppress_keyboard_interrupt=False,  # it would end without a word
)
for _group, _commands in _COMMANDS.items():
    for _name, _help in _commands.items():
        app.command(f"stakes.cli.{_name.replace('-', '_')}:app", name=_name, group=_group, help=_help)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; what goes wrong is one line on standard error. Returns the exit code."""
    if arguments is None:  # a process of its own, which would spend a third of a short command on looking for garbage
        gc.set_threshold(50_000, 20, 100)
        atexit.register(gc.freeze)
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


ALARM = 3
"""How `stakes monitor` ends where errors have left what was learned: nothing went wrong, but somebody should look."""
