"""`stakes refit`: the same layout, cost and settings, fitted to new data."""

from dataclasses import replace
from pathlib import Path

from stakes.commands.fit import FitRequest, FitResult, run_fit
from stakes.errors import SettingError, StakesError
from stakes.training.checkpoints import read_json
from stakes.training.execution import Execution
from stakes.typed import from_plain

__all__ = ["run_refit"]


def run_refit(
    folder: Path, data: Path, out: Path, cost: str | None, execution: Execution, fine_tune: bool = False
) -> FitResult:
    """Fit to `data` in `out` what was asked for in `folder`; a cost given here takes the place of the old one.

    To `fine_tune` is to start from the weights in `folder`.
    """
    if out.resolve() == folder.resolve():
        raise SettingError(f"a refit needs a folder of its own, got {str(out)!r}, which holds the old fit")
    request = _asked(folder)
    start = str(folder.resolve()) if fine_tune else None
    request = replace(request, data=str(data), cost=request.cost if cost is None else cost, start_from=start)
    return run_fit(
        request, out, device=execution.device, workers=execution.workers, quiet=execution.quiet, headroom=False
    )


def _asked(folder: Path) -> FitRequest:
    file = folder / "fit.json"
    if not file.is_file():
        raise SettingError(f"{folder} is no folder of a fit: there is no fit.json")
    asked = read_json(file)
    try:
        return from_plain(FitRequest, asked["request"], "request")
    except (KeyError, TypeError, StakesError) as error:
        raise SettingError(f"{file} does not say what was fitted: {error}") from error
