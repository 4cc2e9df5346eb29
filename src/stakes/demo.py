"""Two decisions on the sum of many sites, from a table to a report: real electricity loads, and simulated wind sites.

Both are what `stakes fit` does with a table of the user's: the ladder is climbed on validation cases, and what is taken
is judged on the last ones. Of the simulated sites the truth is known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from stakes.data.layout import TableLayout
from stakes.data.records import load_record
from stakes.data.tables import write_table
from stakes.evaluation.intervals import paired_difference
from stakes.evaluation.study import Study
from stakes.fitting.fit import FitResult, run_fit
from stakes.fitting.inputs import FitInputs
from stakes.fitting.request import FitRequest
from stakes.number_text import fixed_text
from stakes.reports.ladder_words import rung_title
from stakes.tasks.portfolio import SimulatedPortfolio
from stakes.training.execution import Execution
from stakes.training.run_settings import task_data

__all__ = ["EXAMPLES", "DemoResult", "Example", "run_example"]

_MEMBERS = 200
_REGIONS = 12
_LAST = 4  # decisions shown
_LOCKDOWNS = ("2020-01-01", "2021-01-01")  # a year unlike any other


@dataclass(frozen=True)
class Example:
    """A table, what is decided on it and what that costs.

    Attributes:
        name: Of its folder.
        title: What it is about, for people.
        table: Makes the table.
        layout: Says what the columns of the table are.
        cost: What a decision costs, in words.
        test_fraction: The share of the cases, the last ones, to judge by.
        validation_fraction: The share of the others, their last ones, by which training stops and a weight is taken.
        attribution: Where the data comes from, and what to know about it.
        known_truth: Whether the data is simulated, so that the best action is known.
    """

    name: str
    title: str
    table: Callable[[], pd.DataFrame]
    layout: Callable[[pd.DataFrame], TableLayout]
    cost: str
    test_fraction: float
    validation_fraction: float = 0.25
    attribution: str = ""
    known_truth: bool = False

    def request(self, folder: Path, epochs: int | None) -> FitRequest:
        """What `stakes fit` is asked, with the table written beside the fit."""
        table, file = self.table(), folder / f"{self.name}.csv"
        folder.mkdir(parents=True, exist_ok=True)
        write_table(table, file)
        return FitRequest(
            str(file),
            self.cost,
            self.layout(table),
            members=_MEMBERS,
            epochs=epochs,
            test_fraction=self.test_fraction,
            validation_fraction=self.validation_fraction,
        )


def _loads() -> pd.DataFrame:
    """Loads in GW and temperatures of the 12 regions of mainland France, without the year of the lockdowns."""
    record = load_record("load_france")
    in_gigawatts = record.values / np.array([1000.0 if unit == "MW" else 1.0 for unit in record.units])
    table = pd.DataFrame(in_gigawatts, columns=list(record.columns))
    table.insert(0, "time", record.times)
    first, last = (np.datetime64(day) for day in _LOCKDOWNS)
    return table[(table["time"] < first) | (table["time"] >= last)]


def _load_layout(table: pd.DataFrame) -> TableLayout:
    loads, temperatures = tuple(table.columns[1 : 1 + _REGIONS]), tuple(table.columns[1 + _REGIONS :])
    return TableLayout(
        targets=loads,
        time="time",
        lags=(0.0, 24.0, 144.0),
        lead=24.0,
        known=temperatures,
        calendar=("hour", "weekday"),
    )


def _sites() -> pd.DataFrame:
    """Features and hub-height wind speeds of the simulated portfolio, its three splits one after the other."""
    data = task_data(SimulatedPortfolio())
    cases = (data.train, data.validation, data.test)
    values = torch.cat([torch.cat([part.features, part.outcome.clamp(min=0)], 1) for part in cases])
    return pd.DataFrame(values.numpy(), columns=[*data.feature_names, *data.outcome_names])


def _site_layout(table: pd.DataFrame) -> TableLayout:
    return TableLayout(targets=tuple(name for name in table.columns if name.startswith("site")))


EXAMPLES = (
    Example(
        name="french_load",
        title="Tomorrow's electricity for 12 regions of France, short 10 times as expensive as long",
        table=_loads,
        layout=_load_layout,
        cost="imbalance:short=10,long=1,upper=150,action_unit=GW",
        test_fraction=1 / 7,  # 2021 of 2014 to 2019 and 2021
        attribution="The temperature at the target time stands in for its forecast. "
        + load_record("load_france").attribution,
    ),
    Example(
        name="simulated_sites",
        title="The mean power of 60 simulated wind sites, lambda = 20",
        table=_sites,
        layout=_site_layout,
        cost="wind_dispatch:penalty=20,shear=0",
        test_fraction=4000 / 8500,
        attribution="Simulated speeds are normally distributed; those below zero are calm, and zero in the table.",
        known_truth=True,
        validation_fraction=2 / 3,  # 1,500 cases to train on, 1,500 to stop by and 1,500 to choose the weight by
    ),
)


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What an example has to show.

    Attributes:
        example: The example.
        fit: What its fit left.
        decisions: The last decisions, what happened and what they cost.
        regret: A sentence about the regret of both forecasts; empty where the truth is not known.
    """

    example: Example
    fit: FitResult
    decisions: pd.DataFrame
    regret: str = ""

    def record(self) -> dict[str, Any]:
        """All of it for machines."""
        words = {"title": self.example.title, "regret": self.regret, "attribution": self.example.attribution}
        return {**self.fit.record(), **words, "last_decisions": self.decisions}


def run_example(example: Example, out: Path, execution: Execution, epochs: int | None = None) -> DemoResult:
    """Fit one example in a folder of its own within `out`, and see what its decisions are worth.

    Args:
        example: One of `EXAMPLES`.
        out: The folder to make.
        execution: Where and how the models are trained.
        epochs: How many epochs are trained at most; None for what suits the table.
    """
    request, folder = example.request(out / "data", epochs), out / example.name
    fit = run_fit(
        request,
        folder,
        device=execution.device,
        workers=execution.workers,
        quiet=execution.quiet,
        headroom=not example.known_truth,  # what is to be gained is known
    )
    regret = _against_truth(request, fit) if example.known_truth else ""
    return DemoResult(example, fit, _last_decisions(fit), regret)


def _called(fit: FitResult, weight: float) -> str:
    """The forecast of a weight, or of the rung that was taken below all weights."""
    return f"weight {weight:g}" if fit.ladder is None or fit.decision_weight else rung_title(fit.ladder.taken.name)


def _last_decisions(fit: FitResult) -> pd.DataFrame:
    """What was decided, what happened and what it cost, at the end of the test cases."""
    study = Study.load(fit.folder / "evaluation")
    last = slice(-_LAST, None)
    timed = "time" in study.cases
    columns: dict[str, Any] = {"time": study.case_values("time")[0, last]} if timed else {}
    columns["outcome"] = study.case_values("outcome")[0, last]
    for weight in study.weights:
        for name in ("action", "cost"):
            columns[f"{name}, {_called(fit, weight)}"] = study.values(name, weight)[0, 0, last]
    return pd.DataFrame(columns)


def _against_truth(request: FitRequest, fit: FitResult) -> str:
    """The expected cost above that of the true distribution's best action, and that of weight 0 where it is another."""
    _, test = FitInputs.read(request).split
    assert test is not None
    study, truth = (
        Study.load(fit.folder / "evaluation"),
        SimulatedPortfolio().truth(torch.tensor(test.features.to_numpy(np.float32))),
    )
    actions = {weight: torch.tensor(study.values("action", weight)[0, 0])[:, None] for weight in study.weights}
    regret = {weight: truth.regret(action) for weight, action in actions.items()}
    means = ", ".join(
        f"{fixed_text(float(values.mean()), 4)} ({_called(fit, weight)})" for weight, values in regret.items()
    )
    if len(regret) == 1:
        return f"Regret against the true optimum: {means}."
    change = paired_difference(regret[max(regret)][None], regret[0.0][None])
    share = fixed_text(100 * change.mean / float(regret[0.0].mean()), 0, signed=True)
    mean, low, high = (fixed_text(value, 4, signed=True) for value in change)
    return f"Regret against the true optimum: {means}; {share} % (change {mean}, 95 % interval {low} to {high})."
