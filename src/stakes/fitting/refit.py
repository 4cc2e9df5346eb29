"""`stakes refit`: the same layout, cost and settings, fitted to new data, and compared with the fit before."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from stakes.bundle.about_fit import AboutFit
from stakes.bundle.open_fit import layout_of, open_folder
from stakes.cost_text.cost_on_record import cost_again
from stakes.data.tables import read_table
from stakes.errors import SettingError, StakesError
from stakes.evaluation.intervals import paired_difference
from stakes.evaluation.study import Study
from stakes.fitting.fit import FIT, FitResult, run_fit
from stakes.fitting.request import FitRequest, read_request
from stakes.method.parameter_range import ranged_parameter
from stakes.number_text import amount_text, change_text, count_text
from stakes.training.execution import Execution

__all__ = ["run_refit"]

_NOT_COMPARED = "The old forecast and the new one are not compared"


def run_refit(folder: Path, data: Path, out: Path, cost: str | None, execution: Execution) -> FitResult:
    """Fit again, to new data, what was asked for before, and compare both on cases that neither has seen.

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
    wanted = cost_again(kept, None) if cost is None else cost
    request = replace(request, data=str(data), cost=wanted)
    result = run_fit(
        request, out, device=execution.device, workers=execution.workers, quiet=execution.quiet, headroom=False
    )
    try:
        sentence = _compared(folder, request, result)
    except StakesError as error:
        sentence = f"{_NOT_COMPARED}: {error}."
    return replace(result, sentences=(*result.sentences, sentence))


def _compared(folder: Path, request: FitRequest, result: FitResult) -> str:
    """What both cost on those test cases of the new fit that are newer than the old one."""
    if not (result.folder / "evaluation").is_dir() or result.decision_weight is None:
        return f"{_NOT_COMPARED}: no case was kept to judge by."
    old = open_folder(folder, request.cost)
    fitted, study = AboutFit.read(old.about).fitted, Study.load(result.folder / "evaluation")
    if fitted is None or fitted.last is None or "time" not in study.cases:
        return f"{_NOT_COMPARED}: without times nobody knows which cases are newer than the old fit."
    table = read_table(Path(request.data), separator=request.separator, encoding=request.encoding)
    cases = layout_of(old, folder).cases(table)
    times = pd.DatetimeIndex(study.case_values("time")[0])
    newer = times[times > np.datetime64(fitted.last)].intersection(pd.DatetimeIndex(cases.features.index))
    if not len(newer):
        return f"{_NOT_COMPARED}: no test case is newer than the old fit, which has seen all up to {fitted.last}."
    assert cases.outcomes is not None
    places, weight = times.get_indexer(newer), result.decision_weight
    ranged = ranged_parameter(old.forecaster.cost)
    whose = None
    if ranged is not None:  # the decision makers that the new fit was judged for
        values = study.values(ranged.name, weight)[0, 0, places].astype(np.float64)
        whose = {ranged.name: values.clip(ranged.range.low, ranged.range.high)}
    paid = old.forecaster.assess(cases.features.loc[newer], cases.outcomes.loc[newer], cost_parameters=whose)["cost"]
    new = study.values("cost", weight)[0, 0, places]
    change = paired_difference(new[None], paid[None], study.block)
    verdict = "costs less than" if change.mean < 0 else "costs more than"
    if not change.significant:
        verdict = "cannot be told apart by its cost from"
    costs = [amount_text(float(each.mean()), result.unit) for each in (new, paid)]
    return (
        f"On the {count_text(len(newer), 'test case')} newer than the old fit the new forecast {verdict} the old one: "
        f"{costs[0]} against {costs[1]} per case (change {change_text(change)})."
    )
