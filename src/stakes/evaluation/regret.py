"""Where the money went: what decisions cost more than with perfect foresight, by case, by outcome and by member."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.costs.cost import (
    Cost,
    outcome_total,
    ranged_parameter,
    require_cost,
    require_finite_costs,
    user_cost_errors,
)
from stakes.costs.member_weights import case_parts
from stakes.data.case_table import checked_times, outcome_names
from stakes.errors import CostError, SettingError, ShapeError
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, Resampling, block_length
from stakes.evaluation.metrics import Region
from stakes.evaluation.value import given_forecast, given_outcomes
from stakes.scores.decision_score import foresight_costs, realised_cost
from stakes.text import amount_text

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
OUTCOME, MEMBERS, HOUR, SEASON, SITE = "outcome", "members", "hour", "season", "site"
_STEPS = 32  # from the outcome to the members, at each of which the action is differentiated
THIRDS = ("lowest third", "middle third", "highest third")
_SEASONS = ("Dec to Feb", "Mar to May", "Jun to Aug", "Sep to Nov")
_JUMPS = 0.05  # of the regret: more that no gradient explains is told


@dataclass(frozen=True, eq=False)
class RegretAttribution:
    """What decisions cost beyond perfect foresight, and which errors of the forecast caused it.

    Attributes:
        regret: The cost of each case beyond that of the best action for its outcome, (N,).
        by_outcome: The part of it that is due to the error of each outcome, (N, D).
        by_members: The part that is due to members of each region, (N, R).
        outcomes: The names of the D outcomes.
        regions: The names of the R regions of members.
        block: How many neighbouring cases depend on each other.
        times: When the outcomes happened, (N,); None if unknown.
        sites: Site of each case, (N,); None for one site.
        unit: The unit of the cost; empty if unknown.
    """

    regret: Floats
    by_outcome: Floats
    by_members: Floats
    outcomes: tuple[str, ...]
    regions: tuple[str, ...]
    block: int = 1
    times: Any = None
    sites: Any = None
    unit: str = ""

    @property
    def unattributed(self) -> float:
        """The share of the regret that no gradient explains, as where actions jump from one bound to another."""
        return float(1 - self.by_outcome.sum() / total) if (total := self.regret.sum()) else 0.0

    def parts(self) -> list["RegretPart"]:
        """What is due to each outcome and region of members, and what each hour, season and site has of it."""
        total, found = float(self.regret.sum()), []
        for kind, name, part in self._named():
            known = np.isfinite(part)
            mean = Difference(float(part[known].mean()), np.nan, np.nan)
            if len(np.unique(np.flatnonzero(known) // self.block)) >= LEAST_BLOCKS:
                mean = Resampling(len(part), block=self.block).mean(part[None, None]).interval()
            share = float(part[known].sum()) / total if total else np.nan
            found.append(RegretPart(kind, name, int(known.sum()), mean, share))
        return found

    def to_frame(self) -> "pd.DataFrame":
        """One row for each outcome, region of members, hour, season and site: the mean regret there, and its share.

        Of outcomes and of members it is the part of every case that is due to them, of hours, seasons and sites the
        regret of these cases alone. `low` and `high` are a 95 % interval, NaN where there are too few cases.
        """
        import pandas as pd

        rows = [(part.kind, part.name, part.cases, *part.mean, part.share) for part in self.parts()]
        return pd.DataFrame(rows, columns=["kind", "name", "cases", "regret", "low", "high", "share"])

    @property
    def sentence(self) -> str:
        """What the regret is, and where most of it comes from."""
        mean = float(self.regret.mean())
        told = f"Decisions cost {amount_text(mean, self.unit)} per case more than with perfect foresight."
        if not mean > 0:
            return told
        words = {OUTCOME: "is due to {}", MEMBERS: "is due to the {} of the members", HOUR: "falls at {}"}
        most = []
        for kind, parts in by_kind(self.parts()).items():
            first = max(parts, key=lambda part: part.share)
            if len(parts) > 1:
                most.append(f"{100 * first.share:.0f} % {words.get(kind, 'falls in {}').format(first.name)}")
        told += f" Of that, {', '.join(most)}." if most else ""
        if abs(self.unattributed) > _JUMPS:
            told += f" {100 * self.unattributed:.0f} % comes from jumps of the action, which no gradient explains."
        return told

    def _named(self) -> Iterator[tuple[str, str, Floats]]:
        """Kind, name and the regret of each case, NaN in those that do not belong to it."""
        for names, kind, parts in ((self.outcomes, OUTCOME, self.by_outcome), (self.regions, MEMBERS, self.by_members)):
            for place, name in enumerate(names):
                yield kind, name, parts[:, place]
        for kind, name, cases in case_groups(self.times, self.sites):
            yield kind, name, np.where(cases, self.regret, np.nan)


class RegretPart(NamedTuple):
    """The regret that is due to one outcome or region of members, or that of an hour, a season or a site."""

    kind: str
    name: str
    cases: int
    mean: Difference
    share: float  # of all regret


def by_kind(parts: Sequence[RegretPart]) -> dict[str, list[RegretPart]]:
    """The parts of each kind, in order."""
    return {kind: [part for part in parts if part.kind == kind] for kind in dict.fromkeys(part.kind for part in parts)}


def case_groups(times: Any, sites: Any) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Kind, name and cases of each hour, season and site of which there are several."""
    import pandas as pd

    if times is not None:
        moments = pd.DatetimeIndex(times)
        hours, seasons = moments.hour.to_numpy(), moments.month.to_numpy() % 12 // 3
        for kind, values in ((HOUR, hours), (SEASON, seasons)):
            present = np.unique(values)
            for value in present if len(present) > 1 else ():
                yield kind, f"{value:02d}:00" if kind == HOUR else _SEASONS[value], values == value
    of = None if sites is None else np.asarray(sites)
    named = () if of is None else pd.unique(of)
    for site in named if len(named) > 1 else ():
        yield SITE, str(site), of == site


def attribute_regret(
    members: Any,
    outcomes: Any,
    cost: Cost,
    *,
    regions: Mapping[str, Region] | None = None,
    names: Sequence[str] | None = None,
    times: Any = None,
    sites: ArrayLike | None = None,
    block: int | Literal["auto"] = "auto",
    unit: str = "",
) -> RegretAttribution:
    """Attribute the cost above perfect foresight to the errors and the cases that caused it.

    The members are moved from the outcome y, where the best action is that of perfect foresight, to where they are, and
    the cost C(a*(x), y) is differentiated through the action on the way (integrated gradients, Sundararajan et al.
    2017). A member's error in one outcome costs

        (x_md - y_d) * integral over t from 0 to 1 of dC(a*(y + t (x - y)), y) / dx_md,

    and these add up to the regret, except for jumps of the action.

    >>> import numpy as np, stakes
    >>> random = np.random.default_rng(0)
    >>> load = random.normal(50, 10, size=(400, 2))
    >>> members = load[:, None] + random.normal(size=(400, 30, 2)) * [1.0, 4.0]  # the south is hard to tell
    >>> cost = stakes.ImbalanceCost(10.0, 1.0, lower=0.0, upper=300.0)
    >>> found = stakes.attribute_regret(members, load, cost, names=["north", "south"])
    >>> found.to_frame().set_index("name")["share"].round(2)[["north", "south"]].to_dict()
    {'north': 0.06, 'south': 0.94}

    Args:
        members: Members (N, M) or (N, M, D), points (N,), or a `ForecastSet`.
        outcomes: What happened, (N,) or (N, D), in the order of time.
        cost: What a decision costs.
        regions: Parts of the members by name, as for `stakes.evaluate`; None for thirds of each case's members, by what
            the cost looks at.
        names: The names of the outcomes; None for those of a table, or `y0`, `y1` and so on.
        times: When the outcomes happened, (N,), for hours and seasons; None if unknown.
        sites: Site of each case, (N,); None for one site.
        block: How many neighbouring cases depend on each other; "auto" derives it from their times.
        unit: The unit of the cost, for sentences.
    """
    require_cost(cost)
    if ranged_parameter(cost) is not None:
        raise CostError(f"cost must have a number for every parameter, got the range of {cost}")
    seen = given_outcomes(outcomes, "outcomes")
    given = given_forecast("members", members, outcomes, seen)
    width = seen.shape[1]
    called = outcome_names(outcomes, width) if names is None else tuple(names)
    if len(called) != width:
        raise SettingError(f"names must be one for each of {width} outcomes, got {len(called)}")
    moments, where = checked_times(times, len(seen)), None if sites is None else np.asarray(sites)
    if where is not None and where.shape != (len(seen),):
        raise ShapeError(f"sites must be one for each of the {len(seen)} cases, got shape {where.shape}")
    drawn = torch.from_numpy(np.asarray(given.members, dtype=np.float64))
    weights = None if given.weights is None else torch.from_numpy(np.asarray(given.weights, dtype=np.float64))
    parts = [attributed(cost, drawn[rows], seen[rows], weights, regions) for rows in case_parts(drawn)]
    regret, by_outcome, by_members = (torch.cat(each).numpy() for each in zip(*parts, strict=True))
    require_finite_costs(regret)
    return RegretAttribution(
        regret,
        by_outcome,
        by_members,
        called,
        tuple(regions or THIRDS),
        block_length(len(seen), moments, block),
        moments,
        where,
        unit,
    )


def attributed(
    cost: Cost,
    members: Tensor,
    outcome: Tensor,
    weights: Tensor | None = None,
    regions: Mapping[str, Region] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The regret of each case, (N,), by outcome, (N, D), and by region of the members, (N, R)."""
    start = outcome[:, None].expand_as(members)
    apart, slope = members - start, torch.zeros_like(members)
    with user_cost_errors(cost):
        for step in range(_STEPS):
            moved = (start + (step + 0.5) / _STEPS * apart).requires_grad_()
            with torch.enable_grad():
                paid = realised_cost(cost, moved, outcome, weights=weights).cost
            if paid.requires_grad:
                slope += torch.autograd.grad(paid.sum(), moved)[0] / _STEPS
        with torch.no_grad():
            regret = realised_cost(cost, members, outcome, weights=weights).cost - foresight_costs(cost, outcome)
    by_member = apart * slope  # (N, M, D)
    inside = _thirds(cost, members, weights) if regions is None else [each(members) for each in regions.values()]
    of_member = by_member.sum(-1)
    return regret, by_member.sum(-2), torch.stack([(of_member * each).sum(-1) for each in inside], -1)


def _thirds(cost: Cost, members: Tensor, weights: Tensor | None) -> list[Tensor]:
    """Which members (N, M) are in the lowest, the middle and the highest third of what the cost looks at."""
    order = outcome_total(cost, members).argsort(dim=-1, stable=True)
    shares = torch.ones_like(order, dtype=members.dtype) if weights is None else weights.expand(order.shape)
    sorted_shares = shares.gather(-1, order)
    middle = (sorted_shares.cumsum(-1) - sorted_shares / 2) / sorted_shares.sum(-1, keepdim=True)
    third = torch.zeros_like(middle).scatter(-1, order, middle).mul(len(THIRDS)).floor()
    return [third == place for place in range(len(THIRDS))]
