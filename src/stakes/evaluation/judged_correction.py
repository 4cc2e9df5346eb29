"""Forecasts that somebody else makes and the same corrected, judged on the same cases: what each decided, expected and
paid, where outcomes lay among its members, and how far those lay apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.data.given_forecasts import GivenForecasts
from stakes.errors import ShapeError
from stakes.evaluation.case_metrics import part_by_part, require_finite_costs
from stakes.evaluation.forecast_table import todays_cost
from stakes.evaluation.judged_parts import Draw, JudgedParts, judged_parts
from stakes.evaluation.metrics import LEVELS, Assessor
from stakes.evaluation.sequential_test import SeenErrors
from stakes.method.costs import Cost

__all__ = ["JudgedCorrection", "judge_correction"]

Floats = NDArray[np.float64]
Version = Literal["raw", "corrected"]

_LOW, _HIGH = LEVELS.index(0.1), LEVELS.index(0.9)
_OF_FORECASTS: tuple[str, ...] = ("cost", "expected_cost", "energy_score", "pit_from", "pit_to")
_OF_FORECASTS += ("error", "spread", "low", "high")
_OF_PLAIN_COST = ("plain_cost", "plain_expected_cost")  # where a decision is averse to risk


@dataclass(frozen=True, eq=False)
class JudgedCorrection:
    """What was measured of every case, in the order of time.

    Attributes:
        cases: A row for each of N cases. `outcome` is what the decision is about, `foresight_cost` what the best action
            for it costs; `time`, `site`, `today_action` and `today_cost` are there where they are known. Of the raw and
            the corrected forecast, as in `raw_cost` and `corrected_cost`: `action` (`action_PART` for each of several
            parts), `cost`, `expected_cost`,
            `energy_score` (the CRPS of a single outcome), `pit_from` and `pit_to` (between which the PIT lies:
            k / (M + 1) and (k + 1) / (M + 1) above k of M members that count alike, more where members tie with it),
            `error` (of the members' mean), `spread` (comparable with it: of M members that count alike it is
            sqrt(1 + 1 / M) times theirs), `low` and `high`, the quantiles at 0.1 and 0.9. Where the cost averts risk,
            `plain_cost` and `plain_expected_cost` are those without the aversion.
        block: How many neighbouring cases depend on each other.
        parts: What is shown of decisions with many parts, by the corrected forecast; None where they are about one
            number.
    """

    cases: pd.DataFrame
    block: int
    parts: JudgedParts | None = None

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

    def pit(self, version: Version) -> Floats:
        """The middle of where the PIT of each outcome lies, (N,).

        Args:
            version: Of which forecast.
        """
        middle = (self.values("pit_from", version) + self.values("pit_to", version)) / 2
        return np.asarray(middle.clip(0, 1))  # folders of earlier versions hold sums that were rounded up

    @property
    def errors(self) -> SeenErrors:
        """What new cases are held against: where outcomes lay among the corrected members, and cost beyond hope."""
        excess = self.values("cost", "corrected") - self.values("expected_cost", "corrected")
        return SeenErrors(self.pit("corrected"), excess)


_VERSIONS: tuple[Version, ...] = ("raw", "corrected")


def judge_correction(
    given: GivenForecasts, corrected: Floats, cost: Cost, block: int = 1, weights: Floats | None = None
) -> JudgedCorrection:
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
        corrected: The same corrected, (N, K, D).
        cost: What a decision costs.
        block: How many neighbouring cases depend on each other.
        weights: What each corrected member weighs, (K,); None where all count alike.
    """
    if given.outcomes is None or corrected.shape[::2] != given.members.shape[::2]:
        raise ShapeError(
            f"given must have outcomes, and as many cases and outcomes as corrected, got {given.members.shape} and "
            f"{corrected.shape}"
        )
    outcome = torch.from_numpy(given.outcomes)
    raw, regret = _measured(given.members, outcome, cost, given.weights, given.targets)
    better, _ = _measured(corrected, outcome, cost, weights, given.targets)
    columns = {
        "time": given.times,
        "site": given.sites,
        "outcome": Assessor(cost).total(outcome).numpy(),
        "foresight_cost": raw["cost"] - regret,
        **_today(given, cost, outcome),
    }
    known = {name: values for name, values in columns.items() if values is not None}
    versions = zip(_VERSIONS, (raw, better), strict=True)
    judged = {f"{version}_{name}": values for version, measured in versions for name, values in measured.items()}
    parts = judged_parts(cost, given.targets, given.outcomes, better["cost"], *_drawn(corrected, weights))
    return JudgedCorrection(pd.DataFrame(known | judged, index=given.index), block, parts)


def _today(given: GivenForecasts, cost: Cost, outcome: torch.Tensor) -> dict[str, Floats]:
    """The action that was taken, part by part, and what it cost."""
    if given.today is None:
        return {}
    paid = {"action": given.today, "cost": todays_cost(cost, given.today, outcome)}
    return {f"today_{name}": values for name, values in part_by_part(paid, cost, given.targets).items()}


def _drawn(members: Floats, weights: Floats | None) -> tuple[Draw, torch.Tensor | None]:
    """How members are drawn, and what they weigh; of those that count alike the first ones are as good as any."""

    def draw(rows: NDArray[np.int64], most: int | None) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(members[rows, : None if weights is not None else most]))

    return draw, None if weights is None else torch.from_numpy(weights)


def _measured(
    members: Floats, outcome: torch.Tensor, cost: Cost, weights: Floats | None, targets: Sequence[str]
) -> tuple[dict[str, Floats], Floats]:
    """What is told of one forecast, and what its decisions cost more than with foresight, (N,)."""
    count = members.shape[1]
    weighted = np.ones(1) if weights is None and count == 1 else weights  # of a point nothing else has a score
    samples = torch.from_numpy(np.ascontiguousarray(members))
    assessor = Assessor(cost, weights=None if weighted is None else torch.from_numpy(weighted))
    measured = {name: values.numpy() for name, values in assessor(samples, outcome).items()}
    require_finite_costs(measured["cost"])
    if weights is None:
        measured["spread"] = measured["spread"] * np.sqrt(1 + 1 / count)
    share = np.full(count, 1 / count) if weights is None else weights / weights.sum()
    total, seen = assessor.total(samples).numpy(), assessor.total(outcome).numpy()[:, None]
    below, up_to = ((compare(total, seen) @ share).clip(0, 1) for compare in (np.less, np.less_equal))  # sums round
    if weights is None:
        below, up_to = below * count / (count + 1), (up_to * count + 1) / (count + 1)
    measured |= {"pit_from": below, "pit_to": up_to}
    measured |= {"low": measured["quantile"][:, _LOW], "high": measured["quantile"][:, _HIGH]}
    measured = part_by_part(measured, cost, targets)
    others = [name for name in measured if name in ("action", *_OF_PLAIN_COST) or name.startswith("action_")]
    told = {name: measured[name].astype(np.float64) for name in (*others, *_OF_FORECASTS)}
    return told, measured["foresight_regret"]
