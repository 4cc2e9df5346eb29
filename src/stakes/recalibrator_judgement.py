"""What forecasts were worth case by case, as they came and as they were corrected."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.data.given_forecasts import GivenForecasts
from stakes.data.time_axis import Times
from stakes.evaluation.case_metrics import require_finite_costs
from stakes.evaluation.ladder import JudgedCases
from stakes.method.actions import optimal_action
from stakes.method.costs import Cost
from stakes.method.scores import energy_score
from stakes.recalibrator_state import CorrectedMembers

__all__ = ["ForecastWorth", "JudgedForecasts", "forecast_worth", "judged_forecasts"]

Floats = NDArray[np.float64]

_NUMBERS_AT_ONCE = 1 << 21  # members of all outcomes
_SCORED_MEMBERS = 50  # of several outcomes, of which the energy score takes all pairs


class ForecastWorth(NamedTuple):
    """What some forecasts were worth.

    Attributes:
        cost: What their actions cost, (N,).
        score: Their energy scores, (N,); of one outcome the CRPS.
        action: Their actions: (N,), or (N, A) where an action has A > 1 parts.
        place: Where each outcome lies among its members, (N, D): its rank from 0 to 1, uniform where they are right.
        spread: The standard deviation of the members, (N, D).
        error: The outcome less the members' mean, (N, D).
    """

    cost: Floats
    score: Floats
    action: Floats
    place: Floats
    spread: Floats
    error: Floats

    @property
    def cases(self) -> JudgedCases:
        """Cost and score."""
        return JudgedCases(self.cost, self.score)


@dataclass(frozen=True, eq=False)
class JudgedForecasts:
    """The test cases: what the forecasts were worth there as they came, and corrected by what was learned before.

    Attributes:
        index: What the cases are called, (N,).
        times: When their outcomes happened, (N,); None where it is not known.
        outcomes: What happened, (N, D).
        raw: What the forecasts were worth as they came.
        corrected: What they were worth corrected.
        today_cost: What the user's own actions cost, (N,); None where they are not known.
        members: How many members the forecasts had as they came.
        block: How many neighbouring cases depend on each other.
    """

    index: "pd.Index[Any]"
    times: Times | None
    outcomes: Floats
    raw: ForecastWorth
    corrected: ForecastWorth
    today_cost: Floats | None
    members: int
    block: int

    def table(self) -> pd.DataFrame:
        """One line per case; a column for each outcome where there are several."""
        columns: dict[str, Floats] = {}
        for name, worth in (("raw", self.raw), ("corrected", self.corrected)):
            for field, values in worth._asdict().items():
                columns |= _columns(f"{name}_{field}", values)
        columns |= _columns("outcome", self.outcomes)
        if self.today_cost is not None:
            columns["today_cost"] = self.today_cost
        return pd.DataFrame(columns, index=self.index)


def forecast_worth(cost: Cost, forecasts: CorrectedMembers, outcomes: Floats) -> ForecastWorth:
    """What forecasts were worth.

    Args:
        cost: What an action costs at an outcome.
        forecasts: The members that the actions are decided from.
        outcomes: What happened, (N, D).
    """
    members, weights = forecasts
    shared = None if weights is None else torch.from_numpy(weights)
    size = max(1, _NUMBERS_AT_ONCE // (members.shape[1] * members.shape[2]))
    parts = []
    for samples, outcome in zip(
        torch.from_numpy(members).split(size), torch.from_numpy(outcomes).split(size), strict=True
    ):
        with torch.no_grad(), naming_own_cost(cost):
            action = optimal_action(cost, samples, weights=shared, thorough=True)
            paid = cost(action, outcome)
        scored = samples if samples.shape[2] == 1 else samples[:, :: -(-samples.shape[1] // _SCORED_MEMBERS)]
        kept = shared if scored is samples else None
        parts.append((paid, energy_score(scored, outcome, "biased", weights=kept), action))
    costs, scores, actions = (torch.cat(each).double().numpy() for each in zip(*parts, strict=True))
    require_finite_costs(costs)
    mean = np.average(members, 1, weights)
    spread = np.sqrt(np.average((members - mean[:, None]) ** 2, 1, weights))
    taken = actions[..., 0] if actions.shape[-1] == 1 else actions
    return ForecastWorth(costs, scores, taken, _places(forecasts, outcomes), spread, outcomes - mean)


def judged_forecasts(
    cost: Cost, given: GivenForecasts, raw: ForecastWorth, corrected: ForecastWorth, block: int
) -> JudgedForecasts:
    """The test cases with all that is known of them.

    Args:
        cost: What an action costs at an outcome.
        given: The test cases, with outcomes.
        raw: What the forecasts were worth as they came.
        corrected: What they were worth corrected.
        block: How many neighbouring cases depend on each other.
    """
    assert given.index is not None
    assert given.outcomes is not None
    today = None
    if given.today is not None:
        action, outcome = torch.from_numpy(given.today)[:, None], torch.from_numpy(given.outcomes)
        with torch.no_grad(), naming_own_cost(cost):
            today = cost(action, outcome).double().numpy()
        require_finite_costs(today)
    members = given.members.shape[1]
    return JudgedForecasts(given.index, given.times, given.outcomes, raw, corrected, today, members, block)


def _places(forecasts: CorrectedMembers, outcomes: Floats) -> Floats:
    """Where outcomes lie among M members, (N, D): ties, and the place between two members, by chance."""
    members, weights = forecasts
    count = members.shape[1]
    share = np.full(count, 1 / count) if weights is None else weights / weights.sum()
    below, tied = (
        np.einsum("nmd,m->nd", compared(members, outcomes[:, None]), share) for compared in (np.less, np.equal)
    )
    chance = np.random.default_rng(0).uniform(size=outcomes.shape)
    return np.asarray((count * (below + chance * tied) + chance) / (count + 1))


def _columns(name: str, values: Floats) -> dict[str, Floats]:
    if values.ndim == 1 or values.shape[1] == 1:
        return {name: values.reshape(len(values))}
    return {f"{name}_{place}": column for place, column in enumerate(values.T, start=1)}
