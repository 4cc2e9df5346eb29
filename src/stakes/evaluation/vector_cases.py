"""Vector decisions as a report shows them: a few cases part by part, and what their limits cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.actions.solve import solve_action
from stakes.costs.cost import Cost, action_parts, part_names, shown_action
from stakes.programs.scenario_program import program_cost
from stakes.programs.shadow_prices import LimitPrices, limit_prices

Floats = NDArray[np.float64]
Draw = Callable[[NDArray[np.int64], int | None], Tensor]

BAND_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The levels of the quantiles that stand for the ensemble behind a schedule."""

_MOST_CASES, _MOST_MEMBERS = 200, 100  # whose limits are priced


@dataclass(frozen=True)
class BindingLimit:
    """A limit that an action is at."""

    kind: str  # the parameter that it is of, such as "ramp"
    place: str  # where it holds, such as "h06 to h07, up"
    price: float  # what one unit more would save, in the cost's unit per unit of the action
    parts: tuple[int, ...]  # which parts of the action it is about, counted from 0


@dataclass(frozen=True)
class ShownCase:
    """What was forecast, decided and seen of one case."""

    name: str  # what is special about it, such as "the dearest case"
    case: int  # its place among the cases
    quantiles: tuple[tuple[float, ...], ...]  # of the forecast of each outcome, at `BAND_LEVELS`, (5, D)
    action: tuple[float, ...]  # what was decided, (A,)
    outcome: tuple[float, ...]  # what happened, (D,); none where it is not known yet
    binding: tuple[BindingLimit, ...]  # the limits that bind, the dearest first


@dataclass(frozen=True)
class LimitWorth:
    """What the limits of one parameter are worth, over many cases."""

    kind: str  # the parameter, such as "ramp"
    share: float  # the share of the cases in which at least one of them binds
    saved: float  # what one unit more, allowed everywhere at once, would save a case in the mean
    place: str  # where it binds most often; empty where it never does
    place_share: float  # in which share of the cases it binds there


@dataclass(frozen=True)
class JudgedParts:
    """Decisions with many parts, on test cases."""

    outcomes: tuple[str, ...]  # the names of the D outcomes
    parts: tuple[str, ...]  # the names of the A parts of an action
    shown: tuple[ShownCase, ...]  # a few cases, part by part
    limits: tuple[LimitWorth, ...]  # what the limits of each parameter are worth
    cases: int  # over how many cases that was found


def judged_parts(
    cost: Cost,
    outcomes: Sequence[str],
    outcome: Floats,
    paid: Floats,
    draw: Draw,
    weights: Tensor | None = None,
) -> JudgedParts | None:
    """What a report shows of decisions with many parts; None for decisions about one number.

    The cases that are shown are the last one, the one of median cost and the dearest. Limits are priced over at most
    200 cases and 100 members.
    """
    count = action_parts(cost, len(outcomes))
    if count == 1:
        return None
    order, last = np.argsort(paid, kind="stable"), len(paid) - 1
    chosen = {"the last case": last, "a case of median cost": order[last // 2], "the dearest case": order[last]}
    every = np.linspace(0, last, min(len(paid), _MOST_CASES)).round().astype(np.int64)
    limits: tuple[LimitWorth, ...] = ()
    if program_cost(cost) is not None:
        limits = _worth(limit_prices(cost, draw(every, _MOST_MEMBERS), outcomes, weights=weights))
    rows = np.array([*chosen.values()], dtype=np.int64)
    members = draw(rows, None)
    shown = tuple(
        shown_case(cost, outcomes, members[place], outcome[row], name, int(row), weights)
        for place, (name, row) in enumerate(chosen.items())
    )
    return JudgedParts(tuple(outcomes), part_names(cost, outcomes), shown, limits, len(every))


def shown_case(
    cost: Cost,
    outcomes: Sequence[str],
    members: Tensor,
    outcome: Floats | None = None,
    name: str = "",
    case: int = 0,
    weights: Tensor | None = None,
) -> ShownCase:
    """One case part by part."""
    action = shown_action(cost, solve_action(cost, members, weights=weights).action)
    return ShownCase(
        name,
        case,
        quantile_bands(members, weights),
        tuple(action.tolist()),
        () if outcome is None else tuple(float(value) for value in outcome),
        binding_limits(cost, outcomes, members, weights),
    )


def binding_limits(
    cost: Cost, outcomes: Sequence[str], members: Tensor, weights: Tensor | None = None
) -> tuple[BindingLimit, ...]:
    """The limits that the best action of one case is at, the dearest first; none are known of a cost averse to risk."""
    if program_cost(cost) is None:
        return ()
    prices = limit_prices(cost, members, outcomes, weights=weights)
    binding = [
        BindingLimit(prices.kinds[row], prices.places[row], float(prices.price[row]), prices.parts[row])
        for row in prices.binds.nonzero()[:, 0].tolist()
    ]
    return tuple(sorted(binding, key=lambda limit: -limit.price))


def quantile_bands(members: Tensor, weights: Tensor | None = None) -> tuple[tuple[float, ...], ...]:
    """Quantiles of the forecast of each outcome, at `BAND_LEVELS`, (5, D)."""
    values = members.double().numpy()  # (M, D)
    shares = np.ones(len(values)) if weights is None else weights.double().numpy()
    spread = np.broadcast_to(shares[:, None], values.shape)
    return tuple(map(tuple, np.quantile(values, BAND_LEVELS, axis=0, method="inverted_cdf", weights=spread).tolist()))


def _worth(prices: LimitPrices) -> tuple[LimitWorth, ...]:
    saved, limits = prices.saved_by(), []
    for kind, each in saved.items():
        which = torch.tensor([own == kind for own in prices.kinds])
        binds = prices.binds[:, which].double()
        often = binds.mean(0)
        place = int(often.argmax())
        names = [name for name, own in zip(prices.places, prices.kinds, strict=True) if own == kind]
        worth = float(each.nanmean())
        share, highest = float(binds.amax(-1).mean()), float(often[place])
        limits.append(LimitWorth(kind, share, worth, names[place] if share else "", highest))
    return tuple(limits)
