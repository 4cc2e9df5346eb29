"""A correction trained further on the decision: the same coefficients, by a mixture of score and cost."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.data.given_forecasts import GivenForecasts
from stakes.evaluation.forecast_terms import StandardTerms
from stakes.method.costs import Cost
from stakes.method.decision_score import DecisionScore
from stakes.method.models.sample_model import TrainingDraw
from stakes.method.objective import DecisionAwareObjective
from stakes.method.program_actions import PartlyFree, PartsCost, ProgramCost
from stakes.method.risk import risk_of
from stakes.recalibrator.state import RecalibratorState

__all__ = ["DecisionTraining", "ordered_crps", "trained_on_decision"]

_MOST_CASES = 2000
_MOST_NUMBERS = 1 << 20  # of members, at least for 500 cases
_ITERATIONS, _EVALUATIONS = 20, 40  # at most; a cost with kinks would search long along each line
_SOLVED_MEMBERS = 50  # to decide from where every action takes a solver; what they teach is judged with all of them
_IN_THE_TAIL = 5  # members at least, of a cost that is averse to risk
_PULL = 10.0  # cases' worth, by which further terms are drawn to what the score has taught


def trained_on_decision(
    state: RecalibratorState, past: GivenForecasts, cost: Cost, decision_weight: float, weight: NDArray[np.float64]
) -> RecalibratorState:
    """The state with coefficients of the least mixture of score and cost, from those of the least score.

    Args:
        state: What the score has taught, with a model of each outcome.
        past: The past cases it was learned from.
        cost: What an action costs at an outcome.
        decision_weight: How much the decision counts, from 0 to below 1.
        weight: How much each case counts, (N,).
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped]  # not at once: deciding needs none of it

    most = min(_MOST_CASES, max(500, _MOST_NUMBERS // sum(len(model.shape) for model in state.models)))
    if len(past) > most:
        kept = np.sort(np.random.default_rng(0).choice(len(past), most, replace=False))
        past, weight = past.rows(kept), weight[kept]
    training = DecisionTraining(state, past, cost, decision_weight, weight)
    start = training.start()

    def loss_and_slopes(coefficients: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        moved = torch.from_numpy(coefficients).reshape(start.shape).requires_grad_()
        loss = training.loss(moved)
        (slopes,) = torch.autograd.grad(loss, moved)
        return float(loss.detach()), slopes.reshape(-1).numpy()

    options = {"maxiter": _ITERATIONS, "maxfun": _EVALUATIONS}
    minimum = minimize(loss_and_slopes, start.reshape(-1).numpy(), jac=True, method="L-BFGS-B", options=options)
    moved = torch.from_numpy(minimum.x).reshape(start.shape)
    better = bool(torch.isfinite(moved).all()) and minimum.fun < loss_and_slopes(start.reshape(-1).numpy())[0]
    return replace(training.state(moved if better else start), decision_weight=decision_weight)


class DecisionTraining:
    """The objective as a function of how far coefficients of standardised terms move, (D, 2, P).

    Args:
        state: Where the coefficients start.
        past: The past cases.
        cost: What an action costs at an outcome.
        decision_weight: How much the decision counts.
        weight: How much each case counts, (N,).
    """

    def __init__(
        self,
        state: RecalibratorState,
        past: GivenForecasts,
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
        count = len(state.models[0].shape)
        places = np.broadcast_to(np.arange(count)[:, None], (len(past), count, len(state.models))).astype(np.float64)
        self._places = torch.from_numpy(state.together(places, past)).long()[:, :: _step(cost, count)]
        self._outcome = torch.from_numpy(past.outcomes)
        self._share = torch.from_numpy(weight / weight.sum())
        pull = torch.from_numpy(self._terms[0].pull(_PULL))
        self._pull = pull * float((self._share**2).sum())  # one over the number of cases that count
        self._units = torch.tensor([model.unit for model in state.models])
        objective = DecisionAwareObjective(ordered_crps, DecisionScore(cost), decision_weight)
        terms = objective(self._draw(self.start()))
        assert terms.decision is not None
        score, decision = (float((self._share * term.abs()).sum()) or 1.0 for term in (terms.score, terms.decision))
        self._objective = replace(objective, score_scale=score, decision_scale=decision)

    def start(self) -> Tensor:
        """Coefficients that have not moved."""
        return torch.zeros(len(self._terms), 2, self._columns[0].shape[1], dtype=torch.float64)

    def members(self, moved: Tensor) -> Tensor:
        """The members (N, M, D) that are decided from, K or fewer.

        Args:
            moved: How far the coefficients of location and log scale have moved, (D, 2, P).
        """
        return self._quantiles(moved).gather(1, self._places)

    def _quantiles(self, moved: Tensor) -> Tensor:
        """The quantiles (N, K, D) of each outcome, ascending."""
        quantiles = []
        for model, columns, (location, log_scale), (by, scaled) in zip(
            self._state.models, self._columns, self._starts, moved, strict=True
        ):
            scale = (log_scale + columns @ scaled).clip(*model.log_scale_range).exp()
            shape = torch.tensor(model.shape, dtype=torch.float64)
            modelled = (location + model.unit * (columns @ by))[:, None] + scale[:, None] * shape
            quantiles.append(model.in_outcome_unit(modelled))
        return torch.stack(quantiles, -1)

    def loss(self, moved: Tensor) -> Tensor:
        """The mixture of score and cost, with the pull to where the coefficients started.

        Args:
            moved: How far the coefficients have moved, (D, 2, P).
        """
        total = self._objective(self._draw(moved)).total
        return (self._share * total).sum() + (self._pull * moved**2).sum()

    def state(self, moved: Tensor) -> RecalibratorState:
        """The state with coefficients that have moved so far.

        Args:
            moved: How far, (D, 2, P).
        """
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


def _step(cost: Cost, count: int) -> int:
    """Which of so many members are decided from: every so-manieth, where every action takes a solver."""
    if isinstance(cost, PartlyFree) or not isinstance(cost, ProgramCost | PartsCost):
        return 1
    risk = risk_of(cost)
    least = _SOLVED_MEMBERS if risk is None else max(_SOLVED_MEMBERS, _IN_THE_TAIL / (1 - risk.level))
    return max(1, int(count / least))


def ordered_crps(samples: Tensor, outcome: Tensor) -> Tensor:
    """The mean over the outcomes of the plain CRPS of members in ascending order: that of their quantile scores, (...).

    Args:
        samples: Members (..., M, D), ascending along M.
        outcome: Outcomes (..., D).
    """
    count = samples.shape[-2]
    levels = (torch.arange(count, dtype=samples.dtype, device=samples.device)[:, None] + 0.5) / count
    above = samples - outcome[..., None, :]
    return 2 * (above * ((above > 0).to(samples.dtype) - levels)).mean((-2, -1))
