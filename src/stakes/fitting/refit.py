"""`stakes refit`: the same layout, cost and settings, fitted to new data."""

from dataclasses import replace
from pathlib import Path

from stakes.cost_text.cost_on_record import cost_again
from stakes.errors import SettingError
from stakes.fitting.fit import FIT, FitResult, run_fit
from stakes.fitting.request import read_asked
from stakes.training.execution import Execution

__all__ = ["run_refit"]


def run_refit(
    folder: Path, data: Path, out: Path, cost: str | None, execution: Execution, fine_tune: bool = False
) -> FitResult:
    """Fit to `data` in `out` what was asked for in `folder`; a cost given here takes the place of the old one.

    A user's own cost must be given again. To `fine_tune` is to start from the weights in `folder`.
    """
    if out.resolve() == folder.resolve():
        raise SettingError(f"a refit needs a folder of its own, got {str(out)!r}, which holds the old fit")
    if not (folder / FIT).is_file():
        raise SettingError(f"{folder} is no folder of a fit: there is no {FIT}")
    request, kept, _ = read_asked(folder / FIT)
    start = str(folder.resolve()) if fine_tune else None
    wanted = str(cost_again(kept, None)) if cost is None else cost
    request = replace(request, data=str(data), cost=wanted, start_from=start)
    return run_fit(
        request, out, device=execution.device, workers=execution.workers, quiet=execution.quiet, headroom=False
    )
