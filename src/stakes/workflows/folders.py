"""A folder that a user names, whatever it holds: a fit, or a recalibrated forecast."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stakes.artifacts.manifest import is_recalibration
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.tables import read_table
from stakes.errors import SettingError
from stakes.files import content_digest
from stakes.workflows.decide import DecidedCases, decide_folder

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
    """The actions for new data, or for new forecasts.

    Args:
        folder: Of a fit or a recalibration.
        data: The table of the new data, or the file of the new forecasts.
        cost: The cost in words; None takes that of the folder.
        levels: Levels of the quantiles in the table, between 0 and 1.
        last: Whether only the newest time, or the last row, is decided for.
        cost_parameter: Which decision maker each case belongs to, of a fit whose cost has a range; None for any other.
        separator: The character between the fields of text files; None finds it out.
        encoding: The encoding of text files; None finds it out.
    """
    csv = {"separator": separator, "encoding": encoding}
    if is_recalibration(folder):
        from stakes.workflows.recalibrate import decide_recalibrated

        _refuse_parameter(cost_parameter)
        return decide_recalibrated(folder, data, cost, levels, last, **csv)
    _require_cost(cost)
    return decide_folder(folder, read_table(data, **csv), cost, levels, last, cost_parameter)


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
    """What the decisions of a folder were worth where outcomes are known.

    Args:
        folder: Of a fit or a recalibration.
        data: The table of the data, or the file of the forecasts.
        outcomes: The table of the outcomes, of a recalibration whose forecasts have a file of their own; None for any
            other.
        cost: The cost in words; None takes that of the folder.
        block: How many neighbouring cases depend on each other; None tells by their times.
        baseline_action: The column of today's action; None takes that of the folder.
        cost_parameter: Which decision maker each case belongs to, of a fit whose cost has a range; None for any other.
        separator: The character between the fields of text files; None finds it out.
        encoding: The encoding of text files; None finds it out.
    """
    csv = {"separator": separator, "encoding": encoding}
    if is_recalibration(folder):
        from stakes.workflows.recalibrate import evaluate_recalibrated

        _refuse_parameter(cost_parameter)
        return evaluate_recalibrated(folder, data, outcomes, cost, block, baseline_action, **csv)
    if outcomes is not None:
        raise SettingError("--outcomes belong to --members, or to a recalibration of a file of forecasts, not to a fit")
    from stakes.workflows.evaluate import evaluate_folder

    _require_cost(cost)
    table, sha256 = read_table(data, **csv), content_digest(data)
    return evaluate_folder(folder, table, cost, block, sha256, baseline_action, cost_parameter)


def _refuse_parameter(cost_parameter: str | None) -> None:
    if cost_parameter is not None:
        raise SettingError(f"--cost-parameter is for a fit whose cost has a range, got {cost_parameter!r}")


def refit_with(
    folder: Path, data: Path, forecasts: Path | None, out: Path, cost: str | None, execution: "Execution"
) -> "FitResult | RecalibrateResult":
    """The same again, with newer data.

    Args:
        folder: Of the old fit or recalibration.
        data: The newer table.
        forecasts: The newer file of forecasts, of a recalibration whose forecasts have a file of their own; None for
            any other.
        out: The folder to make.
        cost: Takes the place of the old cost; None for the old one, if it is of the library.
        execution: Where and how models are trained; a recalibration is only told to be quiet by it.
    """
    if is_recalibration(folder):
        from stakes.workflows.recalibrate import recalibrate_again

        return recalibrate_again(folder, data, out, forecasts=forecasts, cost=cost, quiet=execution.quiet)
    if forecasts is not None:
        raise SettingError(f"{folder} is a fit, which forecasts itself, got --forecast {str(forecasts)!r}")
    from stakes.workflows.fit import run_refit

    return run_refit(folder, data, out, cost, execution)


def report_of(folder: Path, cost: str | None, out: Path | None = None) -> Path:
    """Write FOLDER/report.html again, or, where asked, another file in its place; returns where it is.

    Args:
        folder: Of a fit or a recalibration.
        cost: The user's own cost, again, and no other; None takes the one on record.
        out: The other file; None for the folder's own.
    """
    if is_recalibration(folder):
        from stakes.workflows.recalibrate import report_recalibrated

        return report_recalibrated(folder, cost, out)
    from stakes.artifacts.fits import load_bundle
    from stakes.artifacts.manifest import errors_name, read_manifest
    from stakes.cost_spec.files import naming_own_cost
    from stakes.cost_spec.spec import cost_again
    from stakes.reports.fit_report import judged_fit_of, write_fit_report
    from stakes.training.checkpoints import MANIFEST

    manifest = read_manifest(folder)
    if manifest.cost is None:
        raise SettingError(f"{folder} was not made by `stakes fit`: it does not say what its cost is")
    with errors_name(folder / MANIFEST):
        kept = CostSpec.from_record(manifest.cost)
    fitted_cost = cost_again(kept, cost).build()
    with naming_own_cost(fitted_cost):
        return write_fit_report(judged_fit_of(load_bundle(folder, cost=fitted_cost), folder), folder, out)


def _require_cost(cost: str | None) -> None:
    """Raise where words make no cost, before a table is read, which may take long."""
    if cost is not None:
        CostSpec.parse(cost).build()
