"""What the paper claims of the method itself: where its gradient acts, what it costs, and that it is well defined."""

import time
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from reproduction.claims.claim import (
    Check,
    Claim,
    exact,
    falls,
    relative_change,
    remark,
    required_parameter,
    rises,
    stays,
    task_of,
)
from reproduction.runs.settings import task_data
from reproduction.study import Study, StudyError
from reproduction.tasks.task import Task
from stakes.actions.scalar_solvers import ProjectedGradient
from stakes.actions.solve import optimal_action, solve_action
from stakes.costs.cost import Cost
from stakes.costs.scalar_costs import ProtectionCost, WindDispatchCost
from stakes.evaluation.intervals import Resampling, Sampled

_PENALTY = 5.0  # the paper's main lambda
_NEAR_ZERO = 10.0  # per cent of the gradient elsewhere
_DEGENERATE = 10.0  # per cent of the CRPS
_SETS, _MEMBERS, _CHUNK = 100_000, 50, 5_000
_ROUNDS, _BATCH = 6, 256
_SIZES = (10, 50, 200)  # of members, and of iterations


def _gradient(study: Study) -> Iterator[Check]:
    penalty = required_parameter(study, _PENALTY)
    regions = ("ramp", "rated", "cut-off")
    of_members = {
        region: study.mean(f"gradient_{region}", 0.0, penalty) / study.mean(f"mass_{region}", 0.0, penalty)
        for region in regions
    }
    of_cases = {region: study.mean("gradient", 0.0, penalty, region) for region in regions}
    for means, which, counts in ((of_members, "members", True), (of_cases, "outcomes", False)):
        for other in ("ramp", "cut-off"):
            share = means["rated"] / means[other] * 100.0
            check = falls(
                f"gradient of {which} in the rated region, of those in the {other} region", share, below=_NEAR_ZERO
            )
            yield check if counts else remark(check)
    at_bound = study.forecasts["interior"].values == 0
    if not at_bound.any():
        raise StudyError("no forecast of this study has its best action at a bound")
    largest = float(np.abs(study.forecasts["gradient"].values[at_bound]).max())
    yield stays("largest gradient where the action is at a bound", exact(largest), 0.0, "")


def _alone(study: Study) -> Iterator[Check]:
    if not np.isclose(study.weights, 1.0).any():
        raise StudyError("this study has no weight 1")
    effect = relative_change(study, "energy_score", 1.0, required_parameter(study, _PENALTY))
    yield rises("CRPS, weight 1 against 0", effect, above=_DEGENERATE)
    yield remark(falls("cost, weight 1 against 0", relative_change(study, "cost", 1.0, _PENALTY)))


def _overhead() -> Iterator[Check]:
    middle = _SIZES[1]
    settings = list(dict.fromkeys([*((size, middle) for size in _SIZES), *((middle, size) for size in _SIZES)]))
    seconds: dict[tuple[int, int], list[float]] = {setting: [] for setting in settings}
    for turn in range(_ROUNDS + 1):
        for setting in settings:
            taken = _layer_seconds(*setting)
            if turn:  # the first one warms up
                seconds[setting].append(taken)
    fewest, most = _SIZES[0], _SIZES[-1]
    for few, many, counts in ((fewest, most, True), (fewest, middle, False), (middle, most, False)):
        members = _longer(seconds[many, middle], seconds[few, middle])
        iterations = _longer(seconds[middle, many], seconds[middle, few])
        for check in (
            rises(f"time with {many} members against {few}, {middle} iterations", members),
            rises(f"time with {many} iterations against {few}, {middle} members", iterations),
        ):
            yield check if counts else remark(check)


def _longer(seconds: list[float], compared_with: list[float]) -> Sampled:
    """How much longer the one takes, in per cent: the geometric mean of the ratios of all turns."""
    ratios = np.log(seconds) - np.log(compared_with)
    mean = Resampling(len(ratios)).mean(ratios[None, None])
    return mean.applied(np.expm1) * 100.0


def _layer_seconds(members: int, steps: int) -> float:
    """The processor time of the paper's layer, forward and backward, for a batch."""
    generator = torch.Generator().manual_seed(members)
    samples = (10 + 4 * torch.randn(_BATCH, members, 1, generator=generator)).requires_grad_()
    start = time.process_time()
    optimal_action(WindDispatchCost(_PENALTY), samples, ProjectedGradient(steps)).sum().backward()
    return time.process_time() - start


def _convexity(*studies: Study) -> Iterator[Check]:
    for study in studies:
        task, name = task_of(study), study.about["task"]
        outcomes = task_data(task).train.outcome.double()
        costs = _costs(task, study)
        curvature, margin = inf, inf
        sets = -(-_SETS // len(costs))  # for each
        for place, cost in enumerate(costs):
            least = _interior_curvature(cost, outcomes, sets, seed=place)
            curvature = min(curvature, least)
            if isinstance(cost, ProtectionCost):
                ratio = float(cost.false_alarm_ratio)
                margin = min(margin, least - 2 * ratio / (2 + ratio))
        yield rises(f"{name}: least H at interior solutions", exact(curvature), "")
        if margin < inf:
            yield rises(f"{name}: least H less 2 α / (2 + α)", exact(margin), "")


def _costs(task: Task, study: Study) -> list[Cost]:
    """The cost of the task at every parameter of the study."""
    name = study.about["parameter"]
    if name is None:
        return [task.cost]
    return [cast(Task, replace(cast(Any, task), **{name: value})).cost for value in study.parameters]


def _interior_curvature(cost: Cost, outcomes: Tensor, sets: int, seed: int) -> float:
    """The least H = f''(a*) over sets drawn from outcomes (N, D), those with an interior a*; infinite without any."""
    generator = torch.Generator().manual_seed(seed)
    least = inf
    for start in range(0, sets, _CHUNK):
        shape = (min(_CHUNK, sets - start), _MEMBERS)
        solution = solve_action(cost, outcomes[torch.randint(len(outcomes), shape, generator=generator)])
        least = min([least, *solution.curvature[solution.interior].tolist()])
    return least


METHOD_CLAIMS = (
    Claim(
        "M1",
        "method",
        "The decision loss has no gradient where the best action is at a bound, and next to none in the rated region, "
        "where the power curve is flat.",
        "|d cost / d member|: exactly 0 for every forecast whose action is at a bound; its mean at weight 0, λ = 5, "
        "over members that lie in the rated region is below 10 % of that over members in the ramp, and in the cut-off "
        "region. Beside it by where the outcome was.",
        (("wind", "implicit"),),
        _gradient,
    ),
    Claim(
        "M2",
        "method",
        "The decision loss alone, weight 1, gives degenerate forecasts.",
        "λ = 5, all cases: the CRPS at weight 1 is more than 10 % above that at weight 0. Beside it the cost.",
        (("wind", "implicit"),),
        _alone,
        ("decision_alone",),
    ),
    Claim(
        "O1",
        "method",
        "The time of the optimisation layer grows with the number of members and of iterations.",
        "Processor time of projected gradient descent, forward and backward, for 256 forecasts of the wind task's "
        "kind, taken when the claim is judged: 200 against 10 members and iterations, in turns; intervals over "
        "these.",
        (),
        _overhead,
    ),
    Claim(
        "T1",
        "method",
        "The expected cost is strictly convex at every interior solution: H > 0 for 100,000 sets of 50 members from "
        "the marginal training distribution.",
        "100,000 random sets of training outcomes a task, shared between the parameters of its cost: the least H at "
        "interior solutions, for the protection cost also less 2 α / (2 + α), a theorem of our reconstruction.",
        (("synthetic", "diffusion"), ("wind", "implicit"), ("frost", "implicit")),
        _convexity,
        partial=True,
    ),
)
