"""What solves a problem: candidates that are made together, methods that take one of them, and plans of both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from torch import Tensor

from stakes.errors import SettingError
from stakes.paper.programs.problem import Problem, RunEffort

__all__ = ["Actions", "CandidateSource", "Candidates", "Forecast", "Method", "Plan"]


class Forecast(NamedTuple):
    """Members of the cases that choose and of those that judge; actions follow from them and from the cost.

    Attributes:
        validation: Members (n, M, D) of the validation cases, made without any error of theirs; None where nothing is
            chosen by them.
        test: Members of the test cases.
    """

    validation: Tensor | None
    test: Tensor


class Actions(NamedTuple):
    """Actions that are decided already, as by a rule or a policy.

    Attributes:
        validation: Actions (n, A) for the validation cases; None where nothing is chosen by them.
        test: Those for the test cases.
        known: What else is known of the test cases, (n,) each, by the name of the metric.
    """

    validation: Tensor | None
    test: Tensor
    known: Mapping[str, Tensor] = MappingProxyType({})


Candidates = Mapping[str, Forecast | Actions]
"""Forecasts, or actions, by name."""


@dataclass(frozen=True)
class CandidateSource:
    """What is computed at once, and kept: one or several candidates that share their training.

    Attributes:
        name: Its name, that of the file of its results.
        make: Makes the candidates of a problem for a seed.
        candidates: Their names.
        seeded: Whether they depend on the seed; others are made once.
    """

    name: str
    make: Callable[[Problem, int, RunEffort], Candidates]
    candidates: tuple[str, ...]
    seeded: bool = True


@dataclass(frozen=True)
class Method:
    """A row of the table: one candidate, or the one of several that costs least on the validation cases of a seed.

    Attributes:
        name: Its short name.
        title: What it is, in words.
        candidates: The candidates it may take.
        ours: Whether it is a forecast trained by this project, which figures tell apart from its rivals.
    """

    name: str
    title: str
    candidates: tuple[str, ...]
    ours: bool = False


@dataclass(frozen=True)
class Plan:
    """A problem before its data are read, with all that is compared.

    Attributes:
        name: The name of the problem.
        load: Reads it; takes the folder of the tables that are not shipped, None for the current one.
        sources: What makes candidates.
        methods: The rows of its table, from top to bottom.
        reference: The method that all others are compared with: what a practitioner would do.
        pairs: Further pairs of methods whose costs are compared, (method, less this one).
    """

    name: str
    load: Callable[[str | None], Problem]
    sources: tuple[CandidateSource, ...]
    methods: tuple[Method, ...]
    reference: str
    pairs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        made = [candidate for source in self.sources for candidate in source.candidates]
        wanted = {candidate for method in self.methods for candidate in method.candidates}
        if len(set(made)) < len(made) or not wanted <= set(made):
            raise SettingError(f"every candidate of {self.name} must be made once, got {made} for {sorted(wanted)}")
        for name in (self.reference, *(name for pair in self.pairs for name in pair)):
            self.method(name)

    def method(self, name: str) -> Method:
        """A method by its name.

        Args:
            name: Its name.
        """
        for method in self.methods:
            if method.name == name:
                return method
        raise SettingError(f"{self.name} has no method {name!r}, only {[method.name for method in self.methods]}")
