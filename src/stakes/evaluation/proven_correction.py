"""A correction by past errors that is taken only with proof, on cases that came after those it was learned from."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.evaluation.corrections import Correction
from stakes.evaluation.fresh_errors import corrected_in_time
from stakes.evaluation.shift_and_factor import LEAST_CASES
from stakes.evaluation.simultaneous_bounds import upper_bounds
from stakes.evaluation.weight_frontier import LEAST_BLOCKS
from stakes.method.actions import optimal_action
from stakes.method.costs import Cost
from stakes.method.scores import energy_score
from stakes.number_text import number_text

__all__ = ["ORIGINS", "corrected", "correction_sentence", "proven_correction"]

ORIGINS = 4
"""Blocks of cases, the first of which has no errors before it; each other one is corrected by those before it."""


def proven_correction(
    members: Tensor, outcome: Tensor, cost: Cost, *, lead: int, block: int, bounded: Callable[[Tensor], Tensor]
) -> Correction | None:
    """The correction of all these errors, where those of earlier cases mend later ones; None where they do not.

    It must lower the energy score, 97.5 % sure, and must not raise the mean cost. The cases are cut into four blocks;
    each is corrected as it could have been at the time.

    Args:
        members: Members (N, M, D) of forecasts that did not see the outcomes, in the order of time.
        outcome: What happened, (N, D).
        cost: What a decision costs.
        lead: How many rows before it happens a case is forecast.
        block: How many neighbouring cases belong together.
        bounded: Draws members to what outcomes cannot cross.
    """
    cases = len(outcome)
    if cases < max(ORIGINS * LEAST_CASES, LEAST_BLOCKS * block):
        return None
    known, seen = members.double().numpy(), outcome.double().numpy()
    mended = bounded(torch.from_numpy(corrected_in_time(known, seen, lead=lead, block=-(-cases // ORIGINS))).float())
    change = _change(members, mended, lambda forecast: energy_score(forecast, outcome))
    if not upper_bounds(change[None], block=block)[0] < 0:
        return None
    paid = _change(members, mended, lambda forecast: cost(optimal_action(cost, forecast, thorough=True), outcome))
    if paid.mean() > 0:
        return None
    return Correction.fit(known, seen)


def corrected(members: Tensor, correction: Correction | None) -> Tensor:
    """Members (N, M, D) corrected, or as they are where there is no correction.

    Args:
        members: Members (N, M, D).
        correction: What past errors say; None for nothing.
    """
    return members if correction is None else torch.from_numpy(correction.apply(members.numpy()))


def correction_sentence(correction: Correction, names: tuple[str, ...]) -> str:
    """What a user should know of a correction.

    Args:
        correction: What is done to the members.
        names: The names of the outcomes.
    """
    shift, factor = correction.overall.shift, correction.overall.factor
    of_what = "" if len(names) == 1 else f" (largest shift: {names[int(np.argmax(np.abs(shift)))]})"
    return (
        f"Members are corrected by the errors of the newest {correction.overall.cases} cases that the models had not "
        f"seen, which made later ones better: moved by {_span(shift)}{of_what}, their spread multiplied by "
        f"{_span(factor)}."
    )


def _change(before: Tensor, after: Tensor, judged: Callable[[Tensor], Tensor]) -> NDArray[np.float64]:
    """What is judged of each case, after less before, (N,)."""
    with torch.no_grad():
        return np.asarray((judged(after) - judged(before)).double().numpy())


def _span(values: tuple[float, ...]) -> str:
    low, high = number_text(min(values)), number_text(max(values))
    return low if low == high else f"{low} to {high}"
