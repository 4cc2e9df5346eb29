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
from stakes.data.case_table import CaseTable
from stakes.errors import SettingError

_TEST, _VALIDATION = 0.2, 0.2  # of all cases, and of those before the test

Measure = Callable[[Tensor, Tensor], Tensor]
"""A further number of each case, (...), from its action (..., A) and outcome (..., D)."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One decision, and the cases it is learned from, chosen by and judged on; cases are in the order of time."""

    name: str  # its short name, also that of its figure and of the folder of its results
    title: str  # what it is called
    text: str  # what is decided, from which data, in a few sentences
    unit: str  # the unit of the cost
    cost: Cost  # what an action costs at an outcome
    train: CaseTable  # the cases that methods learn from
    validation: CaseTable  # later cases, which stop trainings, give recent errors and choose among candidates
    test: CaseTable  # still later cases, which choose nothing
    block: int = 7  # how many neighbouring cases depend on each other
    gap: int = 1  # how many rows before a case were not known yet when it was forecast
    attribution: str = ""  # what the licence of the data asks to be said
    measures: Mapping[str, Measure] = field(default_factory=dict)  # further numbers of each case, by name

    def __post_init__(self) -> None:
        require_count("block", self.block)
        require_count("gap", self.gap, least=0)
        widths = {(part.features.shape[1], part.outcome.shape[1]) for part in self.parts.values()}
        if len(widths) > 1:
            raise SettingError(f"the parts of {self.name} must have the same features and outcomes, got {widths}")

    @property
    def parts(self) -> dict[str, CaseTable]:
        """The three parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def before_test(self) -> CaseTable:
        """The training and the validation cases."""
        return self.train.followed_by(self.validation)

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
    """How much is done."""

    seeds: int = 10  # how many seeds each method that depends on chance gets
    members: int = 500  # how many members a decision is made from where they are error vectors or quantiles
    network_members: int = 250  # how many where they are drawn from a network
    epochs: int = 60  # the largest number of epochs of a training
    patience: int = 10  # after so many epochs without a better validation a training stops
    decision_members: int = 50  # how many members the decision is made from in training
    steps: int = 1000  # of the optimiser, where a method counts those

    def __post_init__(self) -> None:
        for each in fields(self):
            require_count(each.name, getattr(self, each.name))


WHOLE = RunEffort()
"""A whole run."""

QUICK = RunEffort(seeds=2, members=100, network_members=50, epochs=4, patience=4, decision_members=20, steps=20)
"""A reduced run, which shows that everything works and proves nothing."""


def chronological_cases(
    features: NDArray[np.float64], outcome: NDArray[np.float64], days: NDArray[np.datetime64]
) -> tuple[CaseTable, CaseTable, CaseTable]:
    """Training, validation and test cases: the last fifth is the test, the last fifth before it the validation."""
    known = int((1 - _TEST) * len(days))
    learned = int((1 - _VALIDATION) * known)
    inputs, outcomes = (torch.tensor(values, dtype=torch.float32) for values in (features, outcome))
    edges = (slice(0, learned), slice(learned, known), slice(known, len(days)))
    first, second, third = (CaseTable(inputs[rows], outcomes[rows], days[rows]) for rows in edges)
    return first, second, third


class Forecast(NamedTuple):
    """Members of the cases that choose and of those that judge; actions follow from them and from the cost."""

    validation: Tensor | None
    test: Tensor  # members of the test cases


class Actions(NamedTuple):
    """Actions that are decided already, as by a rule or a policy."""

    validation: Tensor | None  # actions (n, A) for the validation cases; None where nothing is chosen by them
    test: Tensor  # those for the test cases
    known: Mapping[str, Tensor] = MappingProxyType({})


Candidates = Mapping[str, Forecast | Actions]
"""Forecasts, or actions, by name."""


@dataclass(frozen=True)
class CandidateSource:
    """What is computed at once, and kept: one or several candidates that share their training."""

    name: str  # its name, that of the file of its results
    make: Callable[[Problem, int, RunEffort], Candidates]  # makes the candidates of a problem for a seed
    candidates: tuple[str, ...]  # their names
    seeded: bool = True  # whether they depend on the seed; others are made once


@dataclass(frozen=True)
class Method:
    """A row of the table: one candidate, or the one of several that costs least on the validation cases of a seed."""

    name: str  # its short name
    title: str  # what it is, in words
    candidates: tuple[str, ...]  # the candidates it may take
    ours: bool = False  # whether it is a forecast trained by this project, which figures tell apart from its rivals


@dataclass(frozen=True)
class Plan:
    """A problem before its data are read, with all that is compared."""

    name: str  # the name of the problem
    load: Callable[[str | None], Problem]
    sources: tuple[CandidateSource, ...]  # what makes candidates
    methods: tuple[Method, ...]  # the rows of its table, from top to bottom
    reference: str  # the method that all others are compared with: what a practitioner would do
    pairs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        made = [candidate for source in self.sources for candidate in source.candidates]
        wanted = {candidate for method in self.methods for candidate in method.candidates}
        if len(set(made)) < len(made) or not wanted <= set(made):
            raise SettingError(f"every candidate of {self.name} must be made once, got {made} for {sorted(wanted)}")
        for name in (self.reference, *(name for pair in self.pairs for name in pair)):
            self.method(name)

    def method(self, name: str) -> Method:
        """A method by its name."""
        for method in self.methods:
            if method.name == name:
                return method
        raise SettingError(f"{self.name} has no method {name!r}, only {[method.name for method in self.methods]}")
