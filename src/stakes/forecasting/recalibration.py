"""What a recalibrator has learned, how it learns it from past cases, and what that was worth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.actions.cvar import risk_of
from stakes.argument_checks import require_one_of
from stakes.cost_spec.files import user_cost_errors
from stakes.costs.cost import Cost, vector_cost
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.layout import Pair
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.case_metrics import climatology_cost, part_by_part, require_finite_costs, todays_cost
from stakes.evaluation.drift import SeenErrors
from stakes.evaluation.metrics import LEVELS, Assessor
from stakes.evaluation.selection import CORRECTION_CANDIDATES, JudgedCases
from stakes.evaluation.vector_cases import Draw, JudgedParts, judged_parts
from stakes.forecasting.copula import reordered, reordered_as_members, vector_ranks
from stakes.forecasting.error_model import ErrorModel, ForecastTerms, StandardTerms, fit_error_model, quantile_levels
from stakes.models.sample_model import TrainingDraw
from stakes.scores.decision_score import DecisionScore, realised_costs
from stakes.scores.objective import DecisionAwareObjective, loss_scales
from stakes.scores.scoring_rules import energy_score
from stakes.settings import JsonText

ForecastForm = Literal["members", "quantiles", "points"]
"""In which form a forecast came: members that count alike, weighted ones made of quantiles, or single numbers."""

Floats = NDArray[np.float64]

_EQUAL_MEMBERS = 100  # that stand for weighted ones where nothing else will do


class CorrectedMembers(NamedTuple):
    """Members that decisions are made from."""

    members: Floats  # members (N, K, D)
    weights: Floats | None  # what each of them weighs, (K,); None where all count alike

    @property
    def equal_members(self) -> Floats:
        """Members (N, K, D) that count alike: 100 equally likely ones where they are weighted."""
        if self.weights is None:
            return self.members
        share = np.cumsum(self.weights) / self.weights.sum()
        chosen = np.searchsorted(share, quantile_levels(_EQUAL_MEMBERS))
        return np.sort(self.members, 1)[:, chosen]


@dataclass(frozen=True)
class RecalibratorState(JsonText):
    """A correction by past errors, ready for new forecasts."""

    candidate: str  # the candidate it is, one of `stakes.evaluation.selection.CORRECTION_CANDIDATES`
    form: ForecastForm  # in which form the forecasts come
    targets: tuple[str, ...]  # the names of the D outcomes
    bounds: tuple[Pair, ...]  # what each outcome cannot cross; members beyond are drawn to it
    cases: int  # from how many past cases it was learned
    terms: ForecastTerms  # what errors may depend on
    models: tuple[ErrorModel, ...] = ()  # the correction of each outcome; none where members stay as they came
    order: tuple[tuple[int, ...], ...] | None = None
    half_life: float | None = None  # after how many days a case counts half; None where all count alike
    decision_weight: float = 0.0  # how much the decision counted in the fit

    def __post_init__(self) -> None:
        require_one_of("candidate", self.candidate, CORRECTION_CANDIDATES)
        widths = {"bounds": len(self.bounds), "order": len(self.order[0]) if self.order else len(self.targets)}
        if self.models:
            widths["models"] = len(self.models)
        for name, width in widths.items():
            if width != len(self.targets):
                raise ShapeError(f"{name} must be of the {len(self.targets)} outcomes, got {width}")

    def apply(self, given: ForecastSet) -> CorrectedMembers:
        """The corrected members of new forecasts."""
        self._check(given)
        if not self.models:
            return CorrectedMembers(_within(given.members, self.bounds), given.weights)
        quantiles = np.stack(
            [model.quantiles(given, place, self.terms) for place, model in enumerate(self.models)], axis=-1
        )
        return CorrectedMembers(self.together(quantiles, given), None)

    def together(self, quantiles: Floats, given: ForecastSet) -> Floats:
        """Quantiles (N, K, D) of each outcome put together as members of all of them."""
        if len(self.targets) == 1:
            return quantiles
        if self.order is not None:
            return reordered(quantiles, np.array(self.order))
        return reordered_as_members(quantiles, given.members)

    def _check(self, given: ForecastSet) -> None:
        if given.members.shape[2] != len(self.targets):
            raise ShapeError(f"members must be of {len(self.targets)} outcomes, got {given.members.shape[2]}")
        if form_of(given) != self.form:
            raise SettingError(f"the forecasts must come as {self.form}, as in the fit, got {form_of(given)}")
        if self.models and self.order is None and len(self.targets) > 1:
            count, members = len(self.models[0].shape), given.members.shape[1]
            if count % members:
                raise ShapeError(
                    f"members must be as many as in the fit, or divide {count}, since they say how outcomes go "
                    f"together, got {members}"
                )


def form_of(given: ForecastSet) -> ForecastForm:
    """In which form forecasts came."""
    if given.weights is not None:
        return "quantiles"
    return "points" if given.is_point else "members"


def _within(members: Floats, bounds: tuple[Pair, ...]) -> Floats:
    ends = ((low if low is not None else -np.inf, high if high is not None else np.inf) for low, high in bounds)
    lower, upper = zip(*ends, strict=True)
    return np.clip(members, lower, upper)


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
_IN_THE_TAIL = 5  # members at least, of a cost that is averse to risk
_PULL = 10.0  # cases' worth, by which further terms are drawn to what the score has taught


def trained_on_decision(
    state: RecalibratorState, past: ForecastSet, cost: Cost, decision_weight: float, weight: NDArray[np.float64]
) -> RecalibratorState:
    """The state with coefficients of the least mixture of score and cost, from those of the least score."""
    from scipy.optimize import minimize  # not at once: deciding needs none of it

    most = min(_MOST_CASES, max(500, _MOST_NUMBERS // sum(len(model.shape) for model in state.models)))
    if len(past) > most:
        kept = np.sort(np.random.default_rng(0).choice(len(past), most, replace=False))
        past, weight = past.rows(kept), weight[kept]
    training = DecisionTraining(state, past, cost, decision_weight, weight)
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
        state: RecalibratorState,
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

    def state(self, moved: Tensor) -> RecalibratorState:
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
    """The mean over the outcomes of the plain CRPS of members in ascending order: that of their quantile
    scores, (...).
    """
    count = samples.shape[-2]
    levels = (torch.arange(count, dtype=samples.dtype, device=samples.device)[:, None] + 0.5) / count
    above = samples - outcome[..., None, :]
    return 2 * (above * ((above > 0).to(samples.dtype) - levels)).mean((-2, -1))


_MEMBERS = 100  # of one outcome, or more where the forecast has more
_VECTORS = 200  # of several outcomes by error vectors


@dataclass(frozen=True)
class CorrectionPlan:
    """What a candidate learns."""

    candidate: str = "raw"  # its name, one of `stakes.evaluation.selection.CORRECTION_CANDIDATES`
    margins: Literal["raw", "bias_and_spread", "linear"] = "raw"
    dependence: Literal["members", "errors"] = "members"
    half_life: float | None = None  # after how many days a case counts half; None where all count alike
    decision_weight: float = 0.0  # how much the decision counts in the fit


def learned(
    past: ForecastSet,
    plan: CorrectionPlan,
    bounds: tuple[Pair, ...],
    cost: Cost,
    like: RecalibratorState | None = None,
) -> RecalibratorState:
    """What past cases teach."""
    terms = ForecastTerms.for_cases(past, linear=plan.margins == "linear")
    state = RecalibratorState(
        plan.candidate, form_of(past), past.targets, bounds, len(past), terms, half_life=plan.half_life
    )
    weight = case_weights(past, plan.half_life)
    if plan.margins != "raw":
        count = _member_count(past, plan)
        before = like.models if like is not None else (None,) * len(bounds)
        models = [
            fit_error_model(past, place, terms, pair, count, weight, before[place]) for place, pair in enumerate(bounds)
        ]
        state = replace(state, models=tuple(models))
    if state.models and plan.dependence == "errors" and len(bounds) > 1:
        state = replace(state, order=tuple(map(tuple, _ranks(past, state, weight).tolist())))
    return trained_on_decision(state, past, cost, plan.decision_weight, weight) if plan.decision_weight else state


def case_weights(past: ForecastSet, half_life: float | None) -> Floats:
    """How much each case counts, (N,): the newest 1, one that is a half-life older half of it."""
    if half_life is None or past.times is None:
        return np.ones(len(past))
    age = (past.times.max() - past.times).astype(np.float64) / 86400
    return np.asarray(0.5 ** (age / half_life))


def _member_count(past: ForecastSet, plan: CorrectionPlan) -> int:
    """How many members are made: for several outcomes as many of each member that came, or of each error vector."""
    members = past.members.shape[1]
    if past.members.shape[2] == 1:
        return max(_MEMBERS, members)
    return _VECTORS if plan.dependence == "errors" else members * -(-_MEMBERS // members)


def _ranks(past: ForecastSet, state: RecalibratorState, weight: Floats) -> NDArray[np.int64]:
    errors = [model.standardised_errors(past, place, state.terms) for place, model in enumerate(state.models)]
    return vector_ranks(np.stack(errors, 1), weight)


Version = Literal["raw", "corrected"]

_LOW, _HIGH = LEVELS.index(0.1), LEVELS.index(0.9)
_OF_FORECASTS: tuple[str, ...] = ("cost", "expected_cost", "energy_score", "pit_from", "pit_to")
_OF_FORECASTS += ("error", "spread", "low", "high")
_OF_PLAIN_COST = ("plain_cost", "plain_expected_cost")  # where a decision is averse to risk


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
        """When the outcomes happened, (N,); None where it is not known."""
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
