"""A folder that a user names, whatever it holds: a fit, or a recalibrated forecast."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stakes.artifacts.manifest import is_recalibration
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.files import read_table
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
    """The actions for new data, or for new forecasts."""
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
    """What the decisions of a folder were worth where outcomes are known."""
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
    """The same again, with newer data."""
    if is_recalibration(folder):
        from stakes.workflows.recalibrate import recalibrate_again

        return recalibrate_again(folder, data, out, forecasts=forecasts, cost=cost, quiet=execution.quiet)
    if forecasts is not None:
        raise SettingError(f"{folder} is a fit, which forecasts itself, got --forecast {str(forecasts)!r}")
    from stakes.workflows.fit import run_refit

    return run_refit(folder, data, out, cost, execution)


def report_of(folder: Path, cost: str | None, out: Path | None = None) -> Path:
    """Write FOLDER/report.html again, or, where asked, another file in its place; returns where it is."""
    if is_recalibration(folder):
        from stakes.workflows.recalibrate import report_recalibrated

        return report_recalibrated(folder, cost, out)
    from stakes.artifacts.fits import load_bundle
    from stakes.artifacts.manifest import errors_name, read_manifest
    from stakes.cost_spec.files import user_cost_errors
    from stakes.cost_spec.spec import cost_again
    from stakes.reports.fit_report import judged_fit_of, write_fit_report
    from stakes.training.stored_models import MANIFEST

    manifest = read_manifest(folder)
    if manifest.cost is None:
        raise SettingError(f"{folder} was not made by `stakes fit`: it does not say what its cost is")
    with errors_name(folder / MANIFEST):
        kept = CostSpec.from_record(manifest.cost)
    fitted_cost = cost_again(kept, cost).build()
    with user_cost_errors(fitted_cost):
        return write_fit_report(judged_fit_of(load_bundle(folder, cost=fitted_cost), folder), folder, out)


def _require_cost(cost: str | None) -> None:
    """Raise where words make no cost, before a table is read, which may take long."""
    if cost is not None:
        CostSpec.parse(cost).build()
