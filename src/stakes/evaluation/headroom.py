"""Whether a forecast's decisions leave anything to be gained, before any decision-aware training is paid for.

A policy is trained from features straight to the action, on the cost alone. Where it pays less than the best action of
a forecast trained on its score alone, that forecast misses something which the features know and the cost asks for.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from stakes.argument_checks import check_finite, require_count
from stakes.costs.cost import Cost
from stakes.data.case_table import CaseTable
from stakes.errors import ShapeError
from stakes.evaluation.intervals import paired_difference
from stakes.evaluation.selection import Headroom
from stakes.scores.decision_score import climatology_action, realised_costs
from stakes.training.policy import PolicySettings, train_policy

_STEPS = 2000  # of the policy's training, in 20 to 200 epochs


def headroom(
    cost: Cost,
    train: CaseTable,
    stopping: CaseTable,
    judged: CaseTable,
    plug_in: ArrayLike,
    *,
    block: int = 1,
    seed: int = 0,
    settings: PolicySettings | None = None,
    progressed: Callable[[int, int], None] | None = None,
) -> Headroom:
    """Train a policy on the cost alone, and compare it with the forecast's actions.

    >>> import stakes
    >>> features = torch.rand(300, 1, generator=torch.Generator().manual_seed(0))
    >>> train, stopping, judged = (CaseTable(part, part) for part in features.split(100))
    >>> few = PolicySettings(epochs=30)
    >>> gained = headroom(stakes.ShortfallCost(5.0), train, stopping, judged, torch.zeros(100), settings=few)
    >>> gained.gain.high < 0, gained.foresight_cost <= gained.policy_cost < gained.climatology_cost
    (True, True)

    Args:
        cost: What a decision costs.
        train: The cases on which the policy is trained.
        stopping: The cases that say when its training stops.
        judged: The N cases on which it is compared with the forecast.
        plug_in: What the actions of the forecast, trained on its score alone, cost on the judged cases, (N,).
        block: How many neighbouring cases depend on each other.
        seed: The seed of the policy's training.
        settings: How the policy is trained; None for as long as suits the number of cases.
        progressed: Told before every epoch of it how many of how many are done; None for nobody.
    """
    require_count("block", block)
    paid = torch.as_tensor(np.asarray(plug_in, dtype=np.float64))
    if paid.shape != (len(judged),):
        raise ShapeError(
            f"plug_in must be one cost for each of the {len(judged)} judged cases, got {tuple(paid.shape)}"
        )
    check_finite(paid, "plug_in", True)
    settings = settings or _policy_settings(len(train))
    policy = train_policy(cost, train, stopping, settings, seed, progressed=progressed)
    outcome = judged.outcome
    climatology = climatology_action(cost, train.outcome).expand(len(judged), -1)
    by_policy = cost(policy(judged.features), outcome)
    gain = paired_difference(by_policy[None], paid[None], min(block, len(judged)))
    return Headroom(
        forecast_cost=_mean(paid),
        policy_cost=_mean(by_policy),
        climatology_cost=_mean(cost(climatology, outcome)),
        foresight_cost=_mean(realised_costs(cost, outcome[:, None], outcome).cost),
        gain=gain,
        cases=len(judged),
    )


def _policy_settings(cases: int) -> PolicySettings:
    epochs = min(max(_STEPS // max(1, cases // PolicySettings.batch), 20), 200)
    return PolicySettings(epochs=epochs, patience=epochs // 5)


def _mean(values: Tensor) -> float:
    return float(values.double().mean())
