"""A vector decision about a real record, what solves it, and how much is done to solve it."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.argument_checks import require_count
from stakes.costs.cost import Cost
from stakes.data.cases import Cases
from stakes.errors import SettingError

_TEST, _VALIDATION = 0.2, 0.2  # of all cases, and of those before the test

Measure = Callable[[Tensor, Tensor], Tensor]
"""A further number of each case, (...), from its action (..., A) and outcome (..., D)."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One decision, and the cases it is learned from, chosen by and judged on; cases are in the order of time.

    Attributes:
        name: Its short name, also that of its figure and of the folder of its results.
        title: What it is called.
        text: What is decided, from which data, in a few sentences.
        unit: The unit of the cost.
        cost: What an action costs at an outcome.
        train: The cases that methods learn from.
        validation: Later cases, which stop trainings, give fresh errors and choose among candidates.
        test: Still later cases, which choose nothing.
        block: How many neighbouring cases depend on each other.
        gap: How many rows before a case were not known yet when it was forecast.
        attribution: What the licence of the data asks to be said.
        measures: Further numbers of each case, by name.
    """

    name: str
    title: str
    text: str
    unit: str
    cost: Cost
    train: Cases
    validation: Cases
    test: Cases
    block: int = 7
    gap: int = 1
    attribution: str = ""
    measures: Mapping[str, Measure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_count("block", self.block)
        require_count("gap", self.gap, least=0)
        widths = {(part.features.shape[1], part.outcome.shape[1]) for part in self.parts.values()}
        if len(widths) > 1:
            raise SettingError(f"the parts of {self.name} must have the same features and outcomes, got {widths}")

    @property
    def parts(self) -> dict[str, Cases]:
        """The three parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def before_test(self) -> Cases:
        """The training and the validation cases."""
        known = (self.train, self.validation)
        features, outcome = (torch.cat([getattr(part, name) for part in known]) for name in ("features", "outcome"))
        return Cases(features, outcome)

    @property
    def digest(self) -> str:
        """What tells this problem from another: the SHA-256 of its numbers and its cost."""
        digest = hashlib.sha256(f"{self.name} {self.cost!r} {self.gap}".encode())
        for part in self.parts.values():
            digest.update(part.features.numpy().tobytes())
            digest.update(part.outcome.numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class RunEffort:
    """How much is done.

    Attributes:
        seeds: How many seeds each method that depends on chance gets.
        members: How many members a decision is made from where they are error vectors or quantiles.
        network_members: How many where they are drawn from a network.
        epochs: The largest number of epochs of a training.
        patience: After so many epochs without a better validation a training stops.
        decision_members: How many members the decision is made from in training.
        steps: Of the optimiser, where a method counts those.
    """

    seeds: int = 10
    members: int = 500
    network_members: int = 250
    epochs: int = 60
    patience: int = 10
    decision_members: int = 50
    steps: int = 1000

    def __post_init__(self) -> None:
        for each in fields(self):
            require_count(each.name, getattr(self, each.name))


WHOLE = RunEffort()
"""A whole run."""

QUICK = RunEffort(seeds=2, members=100, network_members=50, epochs=4, patience=4, decision_members=20, steps=20)
"""A reduced run, which shows that everything works and proves nothing."""


def chronological_cases(
    features: NDArray[np.float64], outcome: NDArray[np.float64], days: NDArray[np.datetime64]
) -> tuple[Cases, Cases, Cases]:
    """Training, validation and test cases: the last fifth is the test, the last fifth before it the validation.

    Args:
        features: What is known of each day, (N, F), in the order of time.
        outcome: What happened, (N, D).
        days: Its date, (N,).
    """
    known = int((1 - _TEST) * len(days))
    learned = int((1 - _VALIDATION) * known)
    inputs, outcomes = (torch.tensor(values, dtype=torch.float32) for values in (features, outcome))
    edges = (slice(0, learned), slice(learned, known), slice(known, len(days)))
    first, second, third = (Cases(inputs[rows], outcomes[rows], days[rows]) for rows in edges)
    return first, second, third


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
