"""What a correction is worth: whether it helps, how it is trained on the decision, and how both are judged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.costs.cost import Cost, outcome_total, require_finite_costs, risk_of, user_cost_errors, vector_cost
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.layout import Pair
from stakes.errors import ShapeError
from stakes.evaluation.case_metrics import Draw, JudgedParts, climatology_cost, judged_parts, part_by_part, todays_cost
from stakes.evaluation.drift import SeenErrors
from stakes.evaluation.metrics import LEVELS, Assessor
from stakes.evaluation.selection import (
    START,
    JudgedCases,
    judged_candidate,
    step_level,
    too_few_to_choose,
    untested_candidate,
)
from stakes.forecasting.corrections import (
    ORIGINS,
    CorrectedMembers,
    Correction,
    CorrectionPlan,
    case_weights,
    corrected_in_time,
)
from stakes.forecasting.error_model import LEAST_CASES, StandardTerms, quantile_levels
from stakes.models.sample_model import TrainingDraw
from stakes.scores.decision_score import DecisionScore, foresight_costs, realised_cost, realised_costs
from stakes.scores.objective import DecisionAwareObjective, loss_scales
from stakes.scores.scoring_rules import energy_score

Floats = NDArray[np.float64]

_SCORED_MEMBERS = 50  # of several outcomes, of which the energy score takes all pairs


def forecast_worth(cost: Cost, forecasts: CorrectedMembers, outcomes: NDArray[np.float64]) -> JudgedCases:
    """What the actions of N forecasts cost, and the energy scores of the very members that these were decided from."""
    members, shared = forecasts.members, None if forecasts.weights is None else torch.from_numpy(forecasts.weights)
    every = 1 if members.shape[2] == 1 or shared is not None else -(-members.shape[1] // _SCORED_MEMBERS)

    def score(samples: Tensor, outcome: Tensor) -> Tensor:
        return energy_score(samples[:, ::every], outcome, "biased", weights=shared)

    samples, seen = torch.from_numpy(members), torch.from_numpy(outcomes)
    with user_cost_errors(cost):
        decided = realised_costs(cost, samples, seen, weights=shared, score=score)
    judged = JudgedCases(*decided.cost_and_score())
    require_finite_costs(judged.cost)
    return judged


_MOST_CASES = 2000
_MOST_NUMBERS = 1 << 20  # of members, at least for 500 cases
_ITERATIONS, _EVALUATIONS = 20, 40  # at most; a cost with kinks would search long along each line
_SOLVED_MEMBERS, _SOLVED_ITERATIONS = 50, 10  # of vector actions; what they teach is judged with all members
_IN_THE_TAIL = 5  # members at least, of a risk-averse cost
_PULL = 10.0  # cases' worth, by which further terms are drawn to what the score has taught


def trained_on_decision(
    state: Correction, past: ForecastSet, cost: Cost, decision_weight: float, weight: NDArray[np.float64]
) -> Correction:
    """The state with coefficients of the least mixture of score and cost, from those of the least score."""
    from scipy.optimize import minimize  # not at once: deciding needs none of it

    most = min(_MOST_CASES, max(500, _MOST_NUMBERS // sum(len(model.shape) for model in state.models)))
    if len(past) > most:
        kept = np.sort(np.random.default_rng(0).choice(len(past), most, replace=False))
        past, weight = past.rows(kept), weight[kept]
    training = DecisionTraining(state, past, past.priced(cost), decision_weight, weight)
    start = training.start()
    losses: list[float] = []

    def loss_and_slopes(coefficients: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        moved = torch.from_numpy(coefficients).reshape(start.shape).requires_grad_()
        loss = training.loss(moved)
        (slopes,) = torch.autograd.grad(loss, moved)
        losses.append(float(loss.detach()))
        return losses[-1], slopes.reshape(-1).numpy()

    iterations = _ITERATIONS if vector_cost(cost) is None else _SOLVED_ITERATIONS
    options = {"maxiter": iterations, "maxfun": _EVALUATIONS}
    minimum = minimize(loss_and_slopes, start.reshape(-1).numpy(), jac=True, method="L-BFGS-B", options=options)
    moved = torch.from_numpy(minimum.x).reshape(start.shape)
    better = bool(torch.isfinite(moved).all()) and minimum.fun < losses[0]
    return replace(training.state(moved if better else start), decision_weight=decision_weight)


class DecisionTraining:
    """The objective as a function of how far coefficients of standardised terms move, (D, 2, P)."""

    def __init__(
        self,
        state: Correction,
        past: ForecastSet,
        cost: Cost,
        decision_weight: float,
        weight: NDArray[np.float64],
    ) -> None:
        assert past.outcomes is not None
        self._state = state
        self._terms = [
            StandardTerms.of(model.term_values(past, place, state.terms)) for place, model in enumerate(state.models)
        ]
        self._columns = [torch.from_numpy(terms.columns) for terms in self._terms]
        self._starts = [
            tuple(map(torch.from_numpy, model.location_and_log_scale(past, place, state.terms)))
            for place, model in enumerate(state.models)
        ]
        every = len(state.models[0].shape)
        count = _members_to_learn_from(cost, every)
        levels = quantile_levels(count), quantile_levels(every)
        self._shapes = [torch.from_numpy(np.interp(*levels, model.shape)) for model in state.models]
        places = np.broadcast_to(np.arange(every)[:, None], (len(past), every, len(state.models))).astype(np.float64)
        kept = torch.from_numpy(state.together(places, past))[:, np.arange(count) * every // count]
        self._places = kept.argsort(1).argsort(1)  # of each member kept among those of its outcome
        self._outcome = torch.from_numpy(past.outcomes)
        self._share = torch.from_numpy(weight / weight.sum())
        pull = torch.from_numpy(self._terms[0].pull(_PULL))
        self._pull = pull * float((self._share**2).sum())  # one over the number of cases that count
        self._units = torch.tensor([model.unit for model in state.models])
        objective = DecisionAwareObjective(ordered_crps, DecisionScore(cost), decision_weight)
        terms = objective(self._draw(self.start()))
        assert terms.decision is not None
        scales = loss_scales([(terms.score, terms.decision.abs())], counts=self._share)
        score, decision = (float(scale) or 1.0 for scale in scales)
        self._objective = replace(objective, score_scale=score, decision_scale=decision)

    def start(self) -> Tensor:
        """Coefficients that have not moved."""
        return torch.zeros(len(self._terms), 2, self._columns[0].shape[1], dtype=torch.float64)

    def members(self, moved: Tensor) -> Tensor:
        """The members (N, K, D) that are decided from."""
        return self._quantiles(moved).gather(1, self._places)

    def _quantiles(self, moved: Tensor) -> Tensor:
        """The quantiles (N, K, D) of each outcome, ascending."""
        quantiles = []
        for model, columns, shape, (location, log_scale), (by, scaled) in zip(
            self._state.models, self._columns, self._shapes, self._starts, moved, strict=True
        ):
            scale = (log_scale + columns @ scaled).clip(*model.log_scale_range).exp()
            modelled = (location + model.unit * (columns @ by))[:, None] + scale[:, None] * shape
            quantiles.append(model.in_outcome_unit(modelled))
        return torch.stack(quantiles, -1)

    def loss(self, moved: Tensor) -> Tensor:
        """The mixture of score and cost, with the pull to where the coefficients started."""
        total = self._objective(self._draw(moved)).total
        return (self._share * total).sum() + (self._pull * moved**2).sum()

    def state(self, moved: Tensor) -> Correction:
        """The state with coefficients that have moved so far."""
        models = []
        for model, terms, steps in zip(self._state.models, self._terms, moved.numpy(), strict=True):
            changed: dict[str, Any] = {}
            for name, step in zip(("location", "log_scale"), steps, strict=True):
                further = terms.coefficients(step)
                changed[name] = {term: value + further[term] for term, value in getattr(model, name).items()}
            models.append(replace(model, **changed))
        return replace(self._state, models=tuple(models))

    def _draw(self, moved: Tensor) -> TrainingDraw:
        quantiles = self._quantiles(moved)
        members = quantiles.gather(1, self._places)
        return TrainingDraw(quantiles / self._units, self._outcome / self._units, members, self._outcome)


def _members_to_learn_from(cost: Cost, count: int) -> int:
    """How many of so many members the decision is learned from: all for a scalar action, fewer for a vector action."""
    if vector_cost(cost) is None:
        return count
    risk = risk_of(cost)
    least = _SOLVED_MEMBERS if risk is None else max(_SOLVED_MEMBERS, _IN_THE_TAIL / (1 - risk.level))
    return count // max(1, int(count / least))


def ordered_crps(samples: Tensor, outcome: Tensor) -> Tensor:
    """The mean over the outcomes of the plain CRPS of members in ascending order, (...)."""
    count = samples.shape[-2]
    levels = (torch.arange(count, dtype=samples.dtype, device=samples.device)[:, None] + 0.5) / count
    above = samples - outcome[..., None, :]
    return 2 * (above * ((above > 0).to(samples.dtype) - levels)).mean((-2, -1))


def learned(
    past: ForecastSet, plan: CorrectionPlan, bounds: tuple[Pair, ...], cost: Cost, like: Correction | None = None
) -> Correction:
    """What past cases teach by the score, and then by the decision."""
    found = Correction.learned(past, plan, bounds, like)
    if not plan.decision_weight:
        return found
    return trained_on_decision(found, past, cost, plan.decision_weight, case_weights(past, plan.half_life))


_HARM = 0.02  # of what is paid above foresight: by no more may distances be expected to raise the cost


def located_correction(members: Floats, outcomes: Floats, times: Any = None, leads: Any = None) -> Correction:
    """Location and scale of each outcome, and then the distances of errors from the mean."""
    found = Correction.fit(members, outcomes, times, leads=leads)
    return found.at_distances(np.asarray(found.apply(members)), outcomes)


distance_correction = partial(Correction.fit, shape="distances")
"""The distances of errors from the mean, which stays where it is."""


def helpful_correction(
    members: Tensor,
    outcome: Tensor,
    cost: Cost,
    *,
    lead: int,
    block: int,
    bounded: Callable[[Tensor], Tensor],
    origins: int = ORIGINS,
) -> Correction | None:
    """The correction of all these errors: of location and scale where that helps, or else of distances without harm.

    The cases are cut into blocks. Each is corrected as it could have been at the time, and all are judged as a
    candidate is. What moves members must be expected to make later cases cheaper. What only puts them as far from their
    mean as errors were is right by construction: it must not be expected to cost over 2 % more of what is paid above
    foresight.
    """
    cases = len(outcome)
    if cases < ORIGINS * LEAST_CASES or too_few_to_choose(cases, block):
        return None
    known, seen = members.double().numpy(), outcome.double().numpy()
    before = _judged(cost, members, outcome)
    below = untested_candidate("raw", None, before, START)
    foresight = float(foresight_costs(cost, outcome).mean())
    above = float(before.cost.mean()) - foresight
    for fit, most in ((located_correction, 0.0), (distance_correction, _HARM * above)):
        in_time = corrected_in_time(known, seen, lead=lead, block=-(-cases // origins), fit=fit)
        after = _judged(cost, bounded(torch.from_numpy(in_time).float()), outcome)
        change = judged_candidate(
            "recent_errors", after, below, before, foresight=foresight, block=block, level=step_level(1)
        )
        moved = not np.array_equal(after.score, before.score)
        if moved and change.expected_change is not None and change.expected_change < most:
            found = fit(known, seen)
            return found if found.models or found.distances is not None else None
    return None


def _judged(cost: Cost, members: Tensor, outcome: Tensor) -> JudgedCases:
    with torch.no_grad():
        paid, score = realised_cost(cost, members, outcome).cost, energy_score(members, outcome)
    return JudgedCases(*(each.double().numpy() for each in (paid, score)))


Version = Literal["raw", "corrected"]

_LOW, _HIGH = LEVELS.index(0.1), LEVELS.index(0.9)
_OF_FORECASTS: tuple[str, ...] = ("cost", "expected_cost", "energy_score", "pit_from", "pit_to")
_OF_FORECASTS += ("error", "spread", "low", "high")
_OF_PLAIN_COST = ("plain_cost", "plain_expected_cost")  # where a decision is risk-averse


@dataclass(frozen=True, eq=False)
class JudgedCorrection:
    """What was measured of every case, in the order of time."""

    cases: pd.DataFrame
    block: int  # how many neighbouring cases depend on each other
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
        """When the outcomes happened, (N,); None if unknown."""
        return self.cases["time"].to_numpy() if "time" in self.cases else None

    def values(self, name: str, version: Version | None = None) -> Floats:
        """A column, (N,)."""
        return self.cases[name if version is None else f"{version}_{name}"].to_numpy(np.float64)

    def pit(self, version: Version) -> Floats:
        """The middle of where the PIT of each outcome lies, (N,)."""
        return (self.values("pit_from", version) + self.values("pit_to", version)) / 2

    @property
    def errors(self) -> SeenErrors:
        """What new cases are held against: where outcomes lay among the corrected members, and cost beyond hope."""
        excess = self.values("cost", "corrected") - self.values("expected_cost", "corrected")
        return SeenErrors(self.pit("corrected"), excess)


_VERSIONS: tuple[Version, ...] = ("raw", "corrected")


def judge_correction(
    given: ForecastSet,
    corrected: Floats,
    cost: Cost,
    block: int = 1,
    weights: Floats | None = None,
    past: ForecastSet | None = None,
) -> JudgedCorrection:
    """Judge forecasts as they came and as they were corrected, and the constant action that was best for past cases.

    >>> import stakes
    >>> outcome = np.random.default_rng(0).normal(10, 1, (50, 1))
    >>> given = ForecastSet(np.full((50, 1, 1), 9.0), outcomes=outcome)
    >>> corrected = np.broadcast_to(np.linspace(8, 12, 20)[None, :, None], (50, 20, 1))
    >>> judged = judge_correction(given, corrected, stakes.NewsvendorCost(9.0, 1.0, 0.0, 20.0))
    >>> bool(judged.values("cost", "corrected").mean() < judged.values("cost", "raw").mean())
    True
    """
    if given.outcomes is None or corrected.shape[::2] != given.members.shape[::2]:
        raise ShapeError(
            f"given must have outcomes, and as many cases and outcomes as corrected, got {given.members.shape} and "
            f"{corrected.shape}"
        )
    outcome, cost = torch.from_numpy(given.outcomes), given.priced(cost)
    raw, regret = _measured(given.members, outcome, cost, given.weights, given.targets)
    better, _ = _measured(corrected, outcome, cost, weights, given.targets)
    columns = {
        "time": given.times,
        "site": given.sites,
        "outcome": outcome_total(cost, outcome).numpy(),
        "foresight_cost": raw["cost"] - regret,
        **_today(given, cost, outcome),
    }
    if past is not None and past.outcomes is not None:
        constant = climatology_cost(cost, outcome, given.sites, (torch.from_numpy(past.outcomes), past.sites))
        columns["climatology_cost"] = constant if np.isfinite(constant).all() else None
    known = {name: values for name, values in columns.items() if values is not None}
    versions = zip(_VERSIONS, (raw, better), strict=True)
    judged = {f"{version}_{name}": values for version, measured in versions for name, values in measured.items()}
    parts = judged_parts(cost, given.targets, given.outcomes, better["cost"], *_drawn(corrected, weights))
    return JudgedCorrection(pd.DataFrame(known | judged, index=given.index), block, parts)


def _today(given: ForecastSet, cost: Cost, outcome: torch.Tensor) -> dict[str, Floats]:
    """The action that was taken, part by part, and what it cost."""
    if given.today is None:
        return {}
    paid = {"action": given.today, "cost": todays_cost(cost, given.today, outcome)}
    return {f"today_{name}": values for name, values in part_by_part(paid, cost, given.targets).items()}


def _drawn(members: Floats, weights: Floats | None) -> tuple[Draw, torch.Tensor | None]:
    """How members are drawn, and what they weigh; of equally likely ones the first are as good as any."""

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
    assessor = Assessor(cost, weights=None if weighted is None else torch.from_numpy(weighted), chosen=True)
    measured = {name: values.numpy() for name, values in assessor(samples, outcome).items()}
    require_finite_costs(measured["cost"])
    if weights is None:
        measured["spread"] = measured["spread"] * np.sqrt(1 + 1 / count)
    share = np.full(count, 1 / count) if weights is None else weights / weights.sum()
    total, seen = outcome_total(cost, samples).numpy(), outcome_total(cost, outcome).numpy()[:, None]
    below, up_to = ((compare(total, seen) @ share).clip(0, 1) for compare in (np.less, np.less_equal))  # sums round
    if weights is None:
        below, up_to = below * count / (count + 1), (up_to * count + 1) / (count + 1)
    measured |= {"pit_from": below, "pit_to": up_to}
    measured |= {"low": measured["quantile"][:, _LOW], "high": measured["quantile"][:, _HIGH]}
    measured = part_by_part(measured, cost, targets)
    others = [name for name in measured if name in ("action", *_OF_PLAIN_COST) or name.startswith("action_")]
    told = {name: measured[name].astype(np.float64) for name in (*others, *_OF_FORECASTS)}
    return told, measured["foresight_regret"]
