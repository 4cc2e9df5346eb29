"""The errors of a forecaster's newest rows, each forecast by a fit on the rows before it, and what they correct.

A forecast that is fitted on all rows has seen every outcome: it has no errors of its own to learn from. Those of the
search, whose models did not train on the newest rows, say at no cost whether a correction helps at all. Where it does,
the models are trained again from a few later origins, since the errors of a stale fit would correct a fresh one too
much, and the correction must help there, too.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from stakes.evaluation.corrections import Correction
from stakes.evaluation.fresh_errors import rolling_forecasts
from stakes.evaluation.proven_correction import ORIGINS

__all__ = ["DrawMembers", "NewestRows", "Which", "fresh_corrections"]

Which = Literal["chosen", "baseline"]
"""The forecast of the weight that was taken, or that of weight 0 beside it."""

DrawMembers = Callable[[Tensor], dict[Which, Tensor]]
"""Draws members (n, M, D) of features (n, F)."""

Judge = Callable[[Tensor, Tensor], Correction | None]
"""The correction of members (n, M, D) with these outcomes (n, D), or None where none is proven."""


class NewestRows(NamedTuple):
    """Which rows of a fit have errors.

    Attributes:
        features: Of all rows, (N, F), in the order of time.
        outcome: Their outcomes (N, D).
        first: The first row that was forecast by models that had seen none within its lead time.
        lead: How many rows the lead time has.
    """

    features: Tensor
    outcome: Tensor
    first: int
    lead: int


def fresh_corrections(
    rows: NewestRows, searched: DrawMembers, refitted: Callable[[slice], DrawMembers] | None, judge: Judge
) -> Mapping[Which, Correction | None]:
    """What corrects each forecast; None where nothing is proven to.

    Args:
        rows: The newest rows and those before them.
        searched: Draws by the models of the search, which were trained on rows before the first.
        refitted: Trains the same on some rows, the first ones; None where the models of the search are to be corrected
            themselves.
        judge: Proves a correction by members and outcomes, or does not.
    """
    features, outcome, first, lead = rows
    if first >= len(outcome):
        return {}
    drawn = searched(features[first:])
    corrections = {which: judge(members, outcome[first:]) for which, members in drawn.items()}
    if refitted is None or not any(corrections.values()):
        return corrections
    second = first + -(-(len(outcome) - first) // ORIGINS)
    later = rolling_forecasts(
        lambda known: _Stacked(refitted(known)), features, lead=lead, origins=ORIGINS - 1, first=second
    )
    rolling = torch.from_numpy(later.members)
    return {
        which: correction and judge(torch.cat([drawn[which][: second - first], rolling[:, place]]), outcome[first:])
        for place, (which, correction) in enumerate(corrections.items())
    }


class _Stacked(NamedTuple):
    """All forecasts of a row side by side, so that they are trained and drawn together."""

    drawn: DrawMembers

    def sample(self, X: Tensor, /) -> Tensor:  # noqa: N803 as scikit-learn calls it
        """Members (n, K, M, D) of K forecasts."""
        return torch.stack(list(self.drawn(X).values()), 1)
