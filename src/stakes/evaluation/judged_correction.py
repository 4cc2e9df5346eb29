"""Forecasts that somebody else makes and the same corrected, judged on the same cases: what each decided, expected and
paid, where outcomes lay among its members, and how far those lay apart.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.data.given_forecasts import GivenForecasts
from stakes.errors import ShapeError
from stakes.evaluation.case_metrics import require_finite_costs
from stakes.evaluation.forecast_table import todays_cost
from stakes.evaluation.metrics import LEVELS, Assessor
from stakes.evaluation.sequential_test import SeenErrors
from stakes.method.costs import Cost

__all__ = ["JudgedCorrection", "judge_correction"]

Floats = NDArray[np.float64]
Version = Literal["raw", "corrected"]

_LOW, _HIGH = LEVELS.index(0.1), LEVELS.index(0.9)
_OF_CASES = ("time", "site", "outcome", "foresight_cost", "today_action", "today_cost")
_OF_FORECASTS = ("action", "cost", "expected_cost", "energy_score", "pit", "error", "spread", "low", "high")


@dataclass(frozen=True, eq=False)
class JudgedCorrection:
    """What was measured of every case, in the order of time.

    Attributes:
        cases: A row for each of N cases. `outcome` is what the decision is about, `foresight_cost` what the best action
            for it costs; `time`, `site`, `today_action` and `today_cost` are there where they are known. Of the raw and
            the corrected forecast, as in `raw_cost` and `corrected_cost`: `action`, `cost`, `expected_cost`,
            `energy_score` (the CRPS of a single outcome), `pit`, `error` (of the members' mean), `spread` (comparable
            with it: of M members that count alike it is sqrt(1 + 1 / M) times theirs), `low` and `high`, the quantiles
            at 0.1 and 0.9.
        block: How many neighbouring cases depend on each other.
        raw_members: How many members the raw forecast has, 1 for a point; 0 where they do not count alike.
        corrected_members: How many the corrected one has.
    """

    cases: pd.DataFrame
    block: int
    raw_members: int
    corrected_members: int

    def __post_init__(self) -> None:
        needed = {
            "outcome",
            "foresight_cost",
            *(f"{version}_{name}" for version in _VERSIONS for name in _OF_FORECASTS),
        }
        if missing := sorted(needed - set(self.cases.columns)):
            raise ShapeError(f"cases must have the columns {', '.join(missing)}")

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def times(self) -> NDArray[np.datetime64] | None:
        """When the outcomes happened, (N,); None where it is not known."""
        return self.cases["time"].to_numpy() if "time" in self.cases else None

    def values(self, name: str, version: Version | None = None) -> Floats:
        """A column, (N,).

        Args:
            name: Of the column, without the version.
            version: Of which forecast; None for what depends on neither.
        """
        return self.cases[name if version is None else f"{version}_{name}"].to_numpy(np.float64)

    def members(self, version: Version) -> int:
        """How many members a forecast has; 0 where they do not count alike.

        Args:
            version: Which forecast.
        """
        return self.raw_members if version == "raw" else self.corrected_members

    @property
    def errors(self) -> SeenErrors:
        """What new cases are held against: where outcomes lay among the corrected members, and cost beyond hope."""
        excess = self.values("cost", "corrected") - self.values("expected_cost", "corrected")
        return SeenErrors(self.values("pit", "corrected"), excess)


_VERSIONS: tuple[Version, ...] = ("raw", "corrected")


def judge_correction(given: GivenForecasts, corrected: Floats, cost: Cost, block: int = 1) -> JudgedCorrection:
    """Judge forecasts as they came and as they were corrected.

    >>> import stakes
    >>> outcome = np.random.default_rng(0).normal(10, 1, (50, 1))
    >>> given = GivenForecasts(np.full((50, 1, 1), 9.0), outcomes=outcome)
    >>> corrected = np.broadcast_to(np.linspace(8, 12, 20)[None, :, None], (50, 20, 1))
    >>> judged = judge_correction(given, corrected, stakes.NewsvendorCost(9.0, 1.0, 0.0, 20.0))
    >>> bool(judged.values("cost", "corrected").mean() < judged.values("cost", "raw").mean())
    True

    Args:
        given: The N forecasts as they came, with their outcomes.
        corrected: The same corrected, (N, K, D), members that count alike.
        cost: What a decision costs.
        block: How many neighbouring cases depend on each other.
    """
    if given.outcomes is None or corrected.shape[::2] != given.members.shape[::2]:
        raise ShapeError(
            f"given must have outcomes, and as many cases and outcomes as corrected, got {given.members.shape} and "
            f"{corrected.shape}"
        )
    outcome = torch.from_numpy(given.outcomes)
    weights = np.ones(1) if given.is_point else given.weights
    raw, regret = _measured(given.members, outcome, cost, weights)
    better, _ = _measured(corrected, outcome, cost, None)
    columns = {
        "time": given.times,
        "site": given.sites,
        "outcome": Assessor(cost).total(outcome).numpy(),
        "foresight_cost": raw["cost"] - regret,
        "today_action": given.today,
        "today_cost": None if given.today is None else todays_cost(cost, given.today, outcome),
    }
    known = {name: columns[name] for name in _OF_CASES if columns[name] is not None}
    judged = {
        f"{version}_{name}": each[name] for version, each in (("raw", raw), ("corrected", better)) for name in each
    }
    table = pd.DataFrame(known | judged, index=given.index)
    counted_alike = given.is_point or given.weights is None
    return JudgedCorrection(table, block, given.members.shape[1] if counted_alike else 0, corrected.shape[1])


def _measured(
    members: Floats, outcome: torch.Tensor, cost: Cost, weights: Floats | None
) -> tuple[dict[str, Floats], Floats]:
    """What is told of one forecast, and what its decisions cost more than with foresight, (N,)."""
    assessor = Assessor(cost, weights=None if weights is None else torch.from_numpy(weights))
    found = {name: values.numpy() for name, values in assessor(torch.from_numpy(members.copy()), outcome).items()}
    require_finite_costs(found["cost"])
    if weights is None:
        found["spread"] = found["spread"] * np.sqrt(1 + 1 / members.shape[1])
    found |= {"low": found["quantile"][:, _LOW], "high": found["quantile"][:, _HIGH]}
    return {name: found[name].astype(np.float64) for name in _OF_FORECASTS}, found["foresight_regret"]
