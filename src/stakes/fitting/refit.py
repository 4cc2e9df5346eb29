"""`stakes refit`: the same layout, cost and settings, fitted to new data."""

from dataclasses import replace
from pathlib import Path

from stakes.cost_text.cost_on_record import cost_again
from stakes.errors import SettingError
from stakes.fitting.fit import FIT, FitResult, run_fit
from stakes.fitting.request import read_request
from stakes.training.execution import Execution

__all__ = ["run_refit"]


def run_refit(folder: Path, data: Path, out: Path, cost: str | None, execution: Execution) -> FitResult:
    """Fit again, to new data, what was asked for before.

    Args:
        folder: Of the old fit.
        data: The file of the new table.
        out: The folder to make.
        cost: Takes the place of the old cost; None for the old one, if it is of the library.
        execution: Where and how the models are trained.
    """
    if out.resolve() == folder.resolve():
        raise SettingError(f"a refit needs a folder of its own, got {str(out)!r}, which holds the old fit")
    if not (folder / FIT).is_file():
        raise SettingError(f"{folder} is no folder of a fit: there is no {FIT}")
    request, kept, _ = read_request(folder / FIT)
    wanted = str(cost_again(kept, None)) if cost is None else cost
    request = replace(request, data=str(data), cost=wanted)
    return run_fit(
        request, out, device=execution.device, workers=execution.workers, quiet=execution.quiet, headroom=False
    )
