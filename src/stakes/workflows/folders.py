"""A folder that a user names, whatever it holds: a fit, or a recalibrated forecast."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stakes.artifacts.folder import open_as_judged, open_folder, read_manifest
from stakes.cost_spec.files import user_cost_errors
from stakes.data.tables.files import read_table
from stakes.errors import SettingError
from stakes.files import content_digest
from stakes.workflows.decide import DecidedCases, decide_fit

if TYPE_CHECKING:
    from stakes.training.execution import Execution
    from stakes.workflows.evaluate import Evaluation
    from stakes.workflows.fit import FitResult
    from stakes.workflows.recalibrate import RecalibrateResult


def decide_with(
    folder: Path,
    data: Path,
    cost: str | None,
    levels: Sequence[float],
    last: bool = False,
    *,
    cost_parameter: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> DecidedCases:
    """The actions for new data, or for new forecasts."""
    opened, csv = open_folder(folder, cost), {"separator": separator, "encoding": encoding}
    if opened.kind == "fit":
        return decide_fit(opened, folder, read_table(data, **csv), cost, levels, last, cost_parameter)
    from stakes.workflows.recalibrate import decide_recalibrated

    _refuse_parameter(cost_parameter)
    return decide_recalibrated(opened, data, cost, levels, last, **csv)


def evaluate_with(
    folder: Path,
    data: Path,
    outcomes: Path | None,
    cost: str | None,
    block: int | None = None,
    baseline_action: str | None = None,
    *,
    cost_parameter: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> "Evaluation":
    """What the decisions of a folder were worth where outcomes are known."""
    opened, csv = open_folder(folder, cost), {"separator": separator, "encoding": encoding}
    if opened.kind == "recalibration":
        from stakes.workflows.recalibrate import evaluate_recalibrated

        _refuse_parameter(cost_parameter)
        return evaluate_recalibrated(opened, data, outcomes, cost, block, baseline_action, **csv)
    if outcomes is not None:
        raise SettingError("--outcomes belong to --members, or to a recalibration of a file of forecasts, not to a fit")
    from stakes.workflows.evaluate import evaluate_fit

    table, sha256 = read_table(data, **csv), content_digest(data)
    return evaluate_fit(opened, folder, table, cost, block, sha256, baseline_action, cost_parameter)


def _refuse_parameter(cost_parameter: str | None) -> None:
    if cost_parameter is not None:
        raise SettingError(f"--cost-parameter is for a fit whose cost has a range, got {cost_parameter!r}")


def refit_with(
    folder: Path, data: Path, forecasts: Path | None, out: Path, cost: str | None, execution: "Execution"
) -> "FitResult | RecalibrateResult":
    """The same again, with newer data."""
    if read_manifest(folder).kind == "recalibration":
        from stakes.workflows.recalibrate import recalibrate_again

        return recalibrate_again(folder, data, out, forecasts=forecasts, cost=cost, quiet=execution.quiet)
    if forecasts is not None:
        raise SettingError(f"{folder} is a fit, which forecasts itself, got --forecast {str(forecasts)!r}")
    from stakes.workflows.fit import run_refit

    return run_refit(folder, data, out, cost, execution)


def report_of(folder: Path, cost: str | None, out: Path | None = None) -> Path:
    """Write FOLDER/report.html again, or, where asked, another file in its place; returns where it is."""
    from stakes.reports.comparison import comparison_of_folder
    from stakes.reports.report import write_comparison

    opened = open_as_judged(folder, cost)
    with user_cost_errors(opened.forecast.cost if opened.kind == "fit" else opened.recalibrator.cost):
        return write_comparison(comparison_of_folder(opened, folder), folder, out)
