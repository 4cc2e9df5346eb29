"""All candidates of the problems made and judged in one folder; what is there already is not done again."""

import hashlib
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reproduction.programs.problem import Actions, CandidateSource, Forecast, Measure, Plan, Problem, RunEffort
from stakes.actions.solve import solve_action
from stakes.data.case_table import CaseTable
from stakes.errors import CheckpointError, StakesError
from stakes.files import canonical_json, read_bytes, write_atomically
from stakes.scores.scoring_rules import energy_score
from stakes.settings import to_plain
from stakes.training.processes import called_for_each
from stakes.training.progress import StatusLines
from stakes.training.weight_search import one_thread

Floats = NDArray[np.float64]
Judged = dict[str, Floats]
"""Numbers of each case, (n,), by name: `JUDGED_METRICS` and the measures of the problem; NaN for what is not there."""

JUDGED_METRICS = ("cost", "expected_cost", "energy_score", "certified")
_NUMBERS_AT_ONCE = 1 << 22  # of members
_SCORED = 100  # members of a test case whose energy score is taken: it goes with their square


def judge(problem: Problem, candidate: Forecast | Actions, part: str) -> Judged:
    """The numbers of each case of a part; nothing where the candidate has none of it."""
    cases: CaseTable = problem.parts[part]
    values: Tensor | None = getattr(candidate, part)
    if values is None:
        return {}
    if isinstance(candidate, Actions):
        known = {name: _floats(each) for name, each in candidate.known.items()} if part == "test" else {}
        return _paid(problem, values, cases.outcome) | _without_forecast(len(cases)) | known
    size = max(1, _NUMBERS_AT_ONCE // values[0].numel())
    pieces = [
        _decided(problem, members, outcome, scored=part == "test" and values.shape[1] > 1)
        for members, outcome in zip(values.split(size), cases.outcome.split(size), strict=True)
    ]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _decided(problem: Problem, members: Tensor, outcome: Tensor, scored: bool) -> Judged:
    solution = solve_action(problem.cost, members)
    beside = {
        "expected_cost": _floats(solution.expected_cost),
        "energy_score": _scores(members, outcome) if scored else np.full(len(outcome), np.nan),
        "certified": _floats(solution.certified),
    }
    return _paid(problem, solution.action, outcome) | beside


def _scores(members: Tensor, outcome: Tensor) -> Floats:
    every = max(1, members.shape[1] // _SCORED)
    return _floats(energy_score(members[:, ::every], outcome))


def _paid(problem: Problem, action: Tensor, outcome: Tensor) -> Judged:
    seen = outcome.to(action.dtype)
    measures: dict[str, Measure] = {"cost": problem.cost, **problem.measures}
    with torch.no_grad():
        return {name: _floats(measure(action, seen)) for name, measure in measures.items()}


def _without_forecast(count: int) -> Judged:
    return {name: np.full(count, np.nan) for name in ("expected_cost", "energy_score", "certified")}


def _floats(values: Tensor) -> Floats:
    return values.detach().double().numpy()


_PARTS = ("validation", "test")
_LIMIT = 1 << 28  # bytes of a file of results
_FORMAT = 2  # of what is kept; a new one when methods change, so that older results are made anew


@dataclass(frozen=True, eq=False)
class Results:
    """What all candidates of a problem were worth."""

    problem: Problem  # the problem
    plan: Plan  # what was compared
    seeds: int  # how many seeds there are
    by_seed: Mapping[tuple[str, str, int], Judged]

    def values(self, candidate: str, part: str, metric: str) -> Floats:
        """Numbers (seeds, cases)."""
        return np.stack([self.by_seed[candidate, part, seed][metric] for seed in range(self.seeds)])


def run_problem(
    plan: Plan, problem: Problem, out: Path, effort: RunEffort, processes: int = 1, say: StatusLines | None = None
) -> Results:
    """Make and judge what is not yet there."""
    say = say or StatusLines(quiet=True)
    calls = {
        (source.name, seed): (source, problem, seed, effort, _file(out, problem, source, seed))
        for source in plan.sources
        for seed in range(effort.seeds if source.seeded else 1)
    }
    missing = {key: call for key, call in calls.items() if _kept(call[-1], _fingerprint(*call[:-1])) is None}
    if missing:
        with say.counting(f"{problem.title}: {len(missing)} of {len(calls)} computations to do") as report:
            for done, _ in enumerate(called_for_each(_make_and_keep, missing, processes), 1):
                report(done, len(missing))
    by_seed = {}
    for source in plan.sources:
        for seed in range(effort.seeds):
            judged = read_results(calls[source.name, seed if source.seeded else 0][-1])
            for (candidate, part), numbers in judged.items():
                by_seed[candidate, part, seed] = numbers
    return Results(problem, plan, effort.seeds, by_seed)


def read_results(file: Path) -> dict[tuple[str, str], Judged]:
    """The judged parts of each candidate in a file, by name and part."""
    judged: dict[tuple[str, str], Judged] = {}
    for name, values in _arrays(file).items():
        if name != "fingerprint":
            candidate, part, metric = name.split("/")
            judged.setdefault((candidate, part), {})[metric] = values
    return judged


def _make_and_keep(source: CandidateSource, problem: Problem, seed: int, effort: RunEffort, file: Path) -> None:
    with one_thread():
        candidates = source.make(problem, seed, effort)
        if set(candidates) != set(source.candidates):
            raise StakesError(f"{source.name} must make {source.candidates}, got {tuple(candidates)}")
        judged = {(name, part): judge(problem, each, part) for name, each in candidates.items() for part in _PARTS}
    arrays = {f"{name}/{part}/{metric}": v for (name, part), numbers in judged.items() for metric, v in numbers.items()}
    content = io.BytesIO()
    fingerprint = np.array(_fingerprint(source, problem, seed, effort))
    np.savez_compressed(content, fingerprint=fingerprint, **arrays)  # type: ignore[arg-type]
    write_atomically(file, content.getvalue())


def _file(out: Path, problem: Problem, source: CandidateSource, seed: int) -> Path:
    return out / "kept" / problem.name / f"{source.name}-{seed}.npz"


def _fingerprint(source: CandidateSource, problem: Problem, seed: int, effort: RunEffort) -> str:
    about = {
        "format": _FORMAT,
        "source": source.name,
        "made_by": _made_by(source.make),
        "candidates": list(source.candidates),
        "seed": seed,
        "problem": problem.digest,
        "effort": {name: value for name, value in to_plain(effort).items() if name != "seeds"},
    }
    return hashlib.sha256(canonical_json(about).encode()).hexdigest()


def _made_by(make: object) -> str:
    """A function by its name, and what it is given: settings that change it make another one of it."""
    if not isinstance(make, partial):
        return f"{make.__module__}.{make.__qualname__}" if isinstance(make, FunctionType) else repr(make)
    given = [*make.args, *(item for name, value in sorted(make.keywords.items()) for item in (name, value))]
    return f"{_made_by(make.func)}({', '.join(map(_made_by, given))})"


def _kept(file: Path, fingerprint: str) -> Path | None:
    """The file, if it is there and was made from the same problem by the same settings."""
    try:
        return file if str(_arrays(file)["fingerprint"]) == fingerprint else None
    except (CheckpointError, KeyError):
        return None


def _arrays(file: Path) -> dict[str, Floats]:
    try:
        with np.load(io.BytesIO(read_bytes(file, _LIMIT)), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (BadZipFile, EOFError, ValueError, zlib.error) as error:
        raise CheckpointError(f"{file} holds no results: {error}") from error
