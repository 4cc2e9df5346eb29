"""Forecasts corrected by their errors on validation cases; those cases themselves by the errors of their other half."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from stakes.evaluation.corrections import Correction
from stakes.paper.programs.methods import Forecast
from stakes.paper.programs.problem import Problem, RunEffort

__all__ = ["fresh_vectors", "halves", "mended_members"]

_LEARNED = 100  # members of a validation case that bias and spread are learned from


def halves(count: int) -> tuple[slice, slice]:
    """The first half of so many cases and the second.

    Args:
        count: How many cases there are.
    """
    return slice(0, count // 2), slice(count // 2, count)


def fresh_vectors(problem: Problem, location: Forecast, effort: RunEffort) -> Forecast:
    """Point forecasts with the error vectors of validation cases as members.

    Args:
        problem: What is decided.
        location: Point forecasts as single members, (n, 1, D).
        effort: How many members there are at most; these error vectors are evenly spread over the cases.
    """
    most = effort.members
    assert location.validation is not None
    errors = problem.validation.outcome - location.validation[:, 0]

    def learn(known: slice) -> Callable[[Tensor, slice], Tensor]:
        all_known = len(errors[known]) == len(errors)
        vectors = _evenly(errors[known], most if all_known else min(most, len(errors) // 2))  # halves alike
        return lambda points, rows: points[rows] + vectors

    return _crosswise(location, learn)


def mended_members(problem: Problem, forecast: Forecast) -> Forecast:
    """Members whose bias and spread are mended by their errors on validation cases (`stakes.Correction`).

    Args:
        problem: What is decided.
        forecast: The members as they come.
    """
    assert forecast.validation is not None
    every = max(1, forecast.validation.shape[1] // _LEARNED)
    members = forecast.validation[:, ::every].double().numpy()
    outcome = problem.validation.outcome.double().numpy()

    def learn(known: slice) -> Callable[[Tensor, slice], Tensor]:
        correction = Correction.fit(members[known], outcome[known], dependence="errors")
        return lambda drawn, rows: torch.from_numpy(np.asarray(correction.apply(drawn[rows].numpy())))

    return _crosswise(forecast, learn)


def _crosswise(forecast: Forecast, learn: Callable[[slice], Callable[[Tensor, slice], Tensor]]) -> Forecast:
    """The test cases by what all validation cases teach, and each half of these by what the other half does."""
    assert forecast.validation is not None
    first, second = halves(len(forecast.validation))
    validation = torch.cat([learn(second)(forecast.validation, first), learn(first)(forecast.validation, second)])
    return Forecast(validation, learn(slice(None))(forecast.test, slice(None)))


def _evenly(vectors: Tensor, most: int) -> Tensor:
    """At most so many of the vectors (N, D), evenly spread over all."""
    places = torch.linspace(0, len(vectors) - 1, min(most, len(vectors))).round().long()
    return vectors[places]
