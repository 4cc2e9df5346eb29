"""One forecast for many series: a location and a scale in units of each series' level, and pooled errors as members."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from stakes.argument_checks import require_count, require_finite
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost, vector_cost
from stakes.data.tables.panels import Floats, Panel, PanelCases, PanelScale, Places
from stakes.errors import CostError, SettingError, TableError
from stakes.evaluation.intervals import Difference, paired_difference
from stakes.forecasting.decisions import Decisions, solve_decisions
from stakes.forecasting.plan import TreeLocation
from stakes.training.execution import Engine, EngineKind

PanelModel = Literal["level", "linear", "trees"]
"""What forecasts the location: the level of each series itself, a linear model, or boosted trees, of all series."""

_FOLDS = 4
_SERIES_TO_PART = 20  # series that share what is left out
_ROUNDS, _PATIENCE = 400, 25
_TREES = {"learning_rate": 0.1, "bagging_fraction": 0.7, "bagging_freq": 1, "feature_fraction": 0.6, "verbosity": -1}
_SAME_EVERY_TIME = {"deterministic": True, "force_col_wise": True}
_SCALED_RANGE = (-5.0, 20.0)  # of an outcome in levels: the few beyond would say how all are forecast
_RIDGE = 1e-3
_NUMBERS = 5_000_000  # of features that are in memory in double precision
_WIDEST = 8.0  # standard deviations of a feature
_LEAST_SCALE = 0.05  # of a location in levels that is a scale
_SMALL_ERROR = 0.02  # of the mean error, added before its logarithm is taken
_BINS, _BIN_ERRORS = 8, 2000  # of the size that is forecast; errors in each
_SHARES = (0.0, 0.5, 1.0)  # of the conditional scale
_WIDENINGS = (0.8, 1.5)  # of members
_BREADTH_SHRINKAGE = 80.0  # errors that a series needs for half a scale of its own
_SHRINKAGES = (5.0, 20.0, 80.0)  # errors that a series needs to be corrected half-way
_RECENT = 0.25  # of the time: the errors by which a series is corrected
_JUDGED = 60_000  # validation cases
_VECTORS = 200  # past times whose errors are kept together
_RATIOS = (0.05, 0.95)  # levels of a quantile that trees forecast
_NUDGE = 0.2  # of the level: what an error of this size costs is the weight of a case


@dataclass(frozen=True, kw_only=True)
class PanelSettings:
    """How a forecast of a panel is fitted.

    Attributes:
        model: kind of model: level, linear or trees; auto selects
        members: members of a forecast, quantiles of pooled errors
        integer: take whole-number actions, the better neighbour of the best action
        test_fraction: share of the time, the latest part, held out as test
        validation_fraction: share of the time before, its last part, by which a candidate is selected
        most_rows: most cases to learn from, and to judge by, drawn evenly where there are more
        seed: random seed
        threads: of the trees; all cores by default
        engine: where parts of the series are worked on: serial, processes, or ray; no result depends on it
        workers: parts that are worked on at once; one per core by default
    """

    model: Literal["auto", "level", "linear", "trees"] = "auto"
    members: int = 100
    integer: bool = False
    test_fraction: float = 0.2
    validation_fraction: float = 0.25
    most_rows: int = 500_000
    seed: int = 0
    threads: int | None = None
    engine: EngineKind = "serial"
    workers: int | None = None

    def __post_init__(self) -> None:
        Engine(self.engine, self.workers)  # which checks them
        for name in ("members", "most_rows"):
            require_count(name, getattr(self, name))
        for name in ("test_fraction", "validation_fraction"):
            require_finite(name, getattr(self, name))
            if not 0 < getattr(self, name) < 1:
                raise SettingError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")

    @property
    def where(self) -> Engine:
        """Where parts of the series are worked on."""
        return Engine(self.engine, self.workers)


@dataclass(frozen=True)
class PanelCandidate:
    """A way to forecast, and what its decisions cost on the validation cases."""

    model: PanelModel
    base: Literal["level", "location"]  # what errors are scaled by, where the scale is not conditional
    share: float  # of the conditional scale in the scale, 0 for none
    shrinkage: float | None = None  # errors that a series needs to be corrected half-way; None corrects none
    cost: float = math.nan  # the mean cost of a validation case
    widening: float = 1.0  # of the errors out of fold, to those of the validation cases, which come later
    change: tuple[float, float, float] | None = None  # against the selected one, with its 95 % interval

    @property
    def name(self) -> str:
        """In words, such as "trees, conditional scale"."""
        scales: dict[float, str] = {0: f"scale proportional to {self.base}", 1: "conditional scale"}
        scale = scales.get(self.share, f"blended scale ({self.base}, conditional)")
        corrected = "" if self.shrinkage is None else f", corrected per series (shrinkage {self.shrinkage:g})"
        return f"{self.model}, {scale}{corrected}"


@dataclass(frozen=True)
class LinearPart:
    """A linear function of standardised features and of the words."""

    weights: NDArray[np.float64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    levels: tuple[int, ...]  # how many words each category has

    def __call__(self, features: Floats, words: Places) -> Floats:
        """The function at features (n, F) and words (n, C), (n,)."""
        stretches = _stretches(len(features), _NUMBERS // len(self.weights))
        parts = [self._design(features[rows], words[rows]) @ self.weights for rows in stretches]
        return np.concatenate(parts) if parts else np.empty(0)

    def _design(self, features: Floats, words: Places) -> Floats:
        standard = np.clip((features - self.mean) / self.scale, -_WIDEST, _WIDEST)
        hot = [np.eye(count + 1)[column][:, :count] for column, count in zip(words.T, self.levels, strict=True)]
        return np.concatenate([np.ones((len(features), 1)), np.nan_to_num(standard), *hot], 1)

    @classmethod
    def fitted(
        cls, features: Floats, words: Places, levels: tuple[int, ...], target: Floats, weight: Floats
    ) -> "LinearPart":
        """The ridge regression of least weighted squared error."""
        mean, scale = np.nan_to_num(np.nanmean(features, 0)), np.nan_to_num(np.nanstd(features, 0))
        part = cls(np.empty(0), mean.astype(np.float64), np.where(scale > 0, scale, 1.0).astype(np.float64), levels)
        width = 1 + features.shape[1] + sum(levels)
        gram, right = np.zeros((width, width)), np.zeros(width)
        for rows in _stretches(len(features), _NUMBERS // width):
            design = part._design(features[rows], words[rows])
            gram += (design * weight[rows, None]).T @ design
            right += design.T @ (weight[rows] * target[rows])
        ridge = _RIDGE * np.trace(gram) / width * np.eye(width)
        ridge[0, 0] = 1e-9
        return replace(part, weights=np.linalg.solve(gram + ridge, right))


class TreePart(NamedTuple):
    """Boosted trees of some seeds, their mean."""

    trees: TreeLocation

    def __call__(self, features: Floats, words: Places) -> Floats:
        """The function at features (n, F) and words (n, C), (n,)."""
        rows = torch.from_numpy(np.concatenate([features, words], 1, dtype=np.float32))
        values: Floats = self.trees(rows).mean(1).double().numpy()
        return values


Part = LinearPart | TreePart | None
"""What forecasts a location or a scale in levels; None for the level itself."""


@dataclass(frozen=True)
class PanelState:
    """What a fitted forecast of a panel holds, but for its trees and arrays."""

    candidate: PanelCandidate
    candidates: tuple[PanelCandidate, ...]
    scale: PanelScale
    step: int  # seconds
    members: int
    lower: float | None  # what no outcome falls below
    whole: bool  # whether outcomes are whole numbers
    integer: bool
    trained: int  # cases that were learned from

    def __post_init__(self) -> None:
        for name in ("step", "members"):
            require_count(name, getattr(self, name))


@dataclass(frozen=True, eq=False)
class FittedPanel:
    """A forecast of many series: members of each case, on its own scale."""

    state: PanelState
    location: Part
    spread: Part
    quantiles: Floats  # of scaled errors, for each bin of the forecast size (G, M)
    edges: Floats  # between the bins (G - 1,)
    keys: NDArray[np.str_]  # the series that it learned from (S,)
    shift: Floats  # what each series' scaled errors are off by (S,); empty where none is corrected
    breadth: Floats  # what each series' scaled errors are multiplied by (S,); empty for ones
    ranks: Floats  # past error vectors, as shares of all errors (T, S); NaN where a series has none
    level: "FittedPanel | None" = None  # the forecast that is the level of each series, to compare with

    def located(self, cases: PanelCases) -> tuple[Floats, Floats]:
        """Where the outcome of each case is to be expected, and how far off it may be, (n,) each in its units."""
        located = _of(self.location, cases)
        conditional = None if self.spread is None else np.exp(_of(self.spread, cases))
        scaled = _scale(self.state.candidate, located, conditional)
        return located * cases.level, scaled * cases.level

    def sample(self, cases: PanelCases, places: Places | None = None) -> NDArray[np.float64]:
        """Members (n, M) in increasing order; `places` (n,) are those of the cases' series among the learned ones."""
        location, scale = self.located(cases)
        errors = self.quantiles[np.searchsorted(self.edges, location)]
        if places is not None:
            learned = np.maximum(places, 0)
            if len(self.shift):
                errors = errors + np.where(places >= 0, self.shift[learned], 0.0)[:, None]
            if len(self.breadth):
                scale = scale * np.where(places >= 0, self.breadth[learned], 1.0)
        members = location[:, None] + scale[:, None] * errors
        if self.state.lower is not None:
            members = np.maximum(members, self.state.lower)
        return np.rint(members) if self.state.whole else members

    def places(self, keys: NDArray[np.str_]) -> Places:
        """Where these series are among those that were learned from; -1 for a new one."""
        found = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[found] == keys, found, -1) if len(self.keys) else np.full(len(keys), -1)

    def constant(self) -> "FittedPanel":
        """The level of each series with its pooled errors, as a forecast to compare with."""
        return self.level if self.level is not None else self

    def vectors(self, members: Floats, places: Places) -> Floats:
        """The members (S, M) of cases of one time as past error vectors order them, (M, S): joint across series.

        Series without a past error at one of these times have a place of their own there, the same every time.
        """
        count, past = members.shape[1], self.ranks
        if not len(past):
            raise SettingError(
                "the fit has too few times for past error vectors, which joint decisions need; fit a longer table"
            )
        chosen = past[np.linspace(0, len(past) - 1, count).round().astype(int)]  # (M, S)
        shares = np.where(places >= 0, chosen[:, np.maximum(places, 0)], np.nan)
        missing = np.random.default_rng(0).random(shares.shape)
        order = np.argsort(np.argsort(np.where(np.isnan(shares), missing, shares), axis=0, kind="stable"), axis=0)
        return np.take_along_axis(members.T, order, axis=0)


def row_cost(spec: CostSpec, parameters: Mapping[str, Floats]) -> Cost:
    """The cost of each of some rows, its columns taken from their values (n,) by name."""
    return spec.of_cases({key: torch.from_numpy(parameters[column]) for key, column in spec.columns.items()})


def judging_spec(spec: CostSpec) -> CostSpec:
    """The cost of one series by itself, by which forecasts are selected; of an allocation that of each place."""
    if spec.name != "allocation":
        return spec
    prices = {"underage": spec.parameters["short"], "overage": spec.parameters["long"]}
    return CostSpec("newsvendor", prices, spec.unit, spec.action_unit)


def decide_cases(
    spec: CostSpec, members: Floats, parameters: Mapping[str, Floats], integer: bool, levels: Sequence[float] = ()
) -> Decisions:
    """The best action of each case by itself, a whole number where that is asked for."""
    parts = []
    for rows in _stretches(len(members), 20_000):
        cost = row_cost(spec, {name: values[rows] for name, values in parameters.items()})
        if vector_cost(cost) is not None:
            raise CostError(
                f"the cost {spec.name} decides about several outcomes jointly; a panel takes only allocation, over "
                "its series"
            )
        samples = torch.from_numpy(np.ascontiguousarray(members[rows]))[..., None]
        solved = solve_decisions(cost, [samples], levels)
        parts.append(_in_whole_numbers(cost, solved, samples) if integer else solved)
    return Decisions.joined(parts)


def _in_whole_numbers(cost: Cost, solved: Decisions, samples: torch.Tensor) -> Decisions:
    """The better neighbour of each action: where the cost is convex no other whole number is better."""
    down = torch.floor(torch.from_numpy(solved.action))
    tried = torch.stack([down, down + 1])
    for bound, pull in ((cost.lower, torch.ceil), (cost.upper, torch.floor)):
        edge = pull(torch.as_tensor(bound, dtype=tried.dtype))
        tried = tried.maximum(edge) if pull is torch.ceil else tried.minimum(edge)
    paid = torch.stack([cost(each[..., None], samples.movedim(1, 0)).mean(0) for each in tried])
    best = paid.argmin(0, keepdim=True)
    action, expected = (each.gather(0, best)[0].numpy() for each in (tried, paid))
    return replace(solved, action=action, expected_cost=expected)


def realised(spec: CostSpec, action: Floats, cases: PanelCases) -> Floats:
    """What actions cost at the outcomes of their cases, (n,)."""
    cost = row_cost(spec, cases.parameters)
    outcome = torch.from_numpy(cases.outcome.astype(np.float64))[:, None]
    paid: Floats = cost(torch.from_numpy(np.asarray(action, dtype=np.float64))[:, None], outcome).numpy()
    return paid


class _Learned(NamedTuple):
    """Location and scale that were fitted, and what they are for each case out of fold."""

    location: Part
    spread: Part
    located: Floats
    scaled: Floats | None


def fit_panel(
    panel: Panel, spec: CostSpec, settings: PanelSettings, end: int, say: Callable[[str], None] = lambda _: None
) -> FittedPanel:
    """Select a candidate on the last part of the time before step `end`, and train it on all of it."""
    candidates = select_candidate(panel, spec, settings, end, say)
    return train_panel(panel, spec, settings, end, candidates, say)


def train_panel(
    panel: Panel,
    spec: CostSpec,
    settings: PanelSettings,
    end: int,
    candidates: tuple[PanelCandidate, ...],
    say: Callable[[str], None] = lambda _: None,
) -> FittedPanel:
    """Train the candidate of least cost on the time before step `end`."""
    scale, chosen = panel.scale(), min(candidates, key=lambda each: each.cost)
    cases = gather(panel, scale, panel.first_with_history, end, settings)
    say(f"training on {len(cases):,} cases: {chosen.name}")
    learned = _learn(chosen.model, cases, panel, judging_spec(spec), settings, 3)
    fitted = _forecast(chosen, learned, cases, panel, scale, judging_spec(spec), settings, candidates)
    plain = PanelCandidate("level", "level", 0.0)
    level = _learn("level", cases, panel, judging_spec(spec), settings, 1)
    return replace(fitted, level=_forecast(plain, level, cases, panel, scale, judging_spec(spec), settings))


def select_candidate(
    panel: Panel, spec: CostSpec, settings: PanelSettings, end: int, say: Callable[[str], None] = lambda _: None
) -> tuple[PanelCandidate, ...]:
    """Every candidate with what it costs on the last part of the time before step `end`."""
    scale = panel.scale()
    cases = gather(panel, scale, panel.first_with_history, end, settings)
    if len(cases) < 20 or len(np.unique(cases.step)) < 2 * _FOLDS:
        raise TableError(
            f"there are {len(cases)} cases at {len(np.unique(cases.step))} times with an outcome and the lags before "
            f"it, expected at least 20 at {2 * _FOLDS} times"
        )
    judged_by = judging_spec(spec)
    steps = np.unique(cases.step)
    split = int(steps[round((1 - settings.validation_fraction) * (len(steps) - 1))])
    before, after = cases.rows(cases.step <= split - panel.horizon), cases.rows(cases.step > split)
    if len(after) > _JUDGED:
        after = after.rows(np.random.default_rng(settings.seed).permutation(len(after))[:_JUDGED])
    kinds: tuple[PanelModel, ...] = (settings.model,) if settings.model != "auto" else ("level", "linear", "trees")
    if settings.model == "auto" and not _have_trees():
        kinds = kinds[:-1]
        say("LightGBM is not installed, so there are no trees among the candidates")
    say(f"fitting {', '.join(kinds)} on {len(before):,} cases, validating on {len(after):,}")
    about = replace(panel, at=panel.at[:0], numbers={}, words={})  # all that fits need beside the cases
    judged = settings.where.map(
        _judged_kind, ((kind,) for kind in kinds), before, after, about, scale, judged_by, settings
    )
    tried = [each for made in judged for each in made]
    _, best = min(tried, key=lambda each: each[0].cost)
    return tuple(replace(each, change=time_difference(paid, best, after.step)[:3]) for each, paid in tried)


def _judged_kind(
    before: PanelCases,
    after: PanelCases,
    panel: Panel,
    scale: PanelScale,
    spec: CostSpec,
    settings: PanelSettings,
    kind: PanelModel,
) -> list[tuple[PanelCandidate, Floats]]:
    """The candidates of a kind of model, each with what its decisions cost on the cases after."""
    learned = _learn(kind, before, panel, spec, settings, 1)
    bases: tuple[Literal["level", "location"], ...] = ("level",) if kind == "level" else ("level", "location")
    options = [
        PanelCandidate(kind, base, share)
        for base in bases
        for share in (_SHARES if learned.spread is not None else (0.0,))
        if share < 1 or base == "level"
    ]
    tried = [_judge(option, learned, before, after, panel, scale, spec, settings) for option in options]
    best, _ = min(tried, key=lambda each: each[0].cost)
    shrunk = [replace(best, shrinkage=shrinkage, widening=1.0) for shrinkage in _SHRINKAGES if kind != "level"]
    return tried + [_judge(option, learned, before, after, panel, scale, spec, settings) for option in shrunk]


def gather(panel: Panel, scale: PanelScale, first: int, end: int, settings: PanelSettings) -> PanelCases:
    """The cases with an outcome at steps [first, end), no more than `most_rows`, drawn evenly."""
    drawn, parts, start = drawing(panel, first, end, settings), [], 0
    sizes = [some.stop - some.start for some in panel.batches()]
    made = settings.where.map(drawn_cases, enumerate(panel.parts()), scale, first, end, drawn)
    for size, cases in zip(sizes, made, strict=True):
        parts.append(replace(cases, series=cases.series + start))
        start += size
    return PanelCases.joined(parts)


def drawing(panel: Panel, first: int, end: int, settings: PanelSettings) -> tuple[float, int]:
    """The share of the rows at these steps that makes no more than `most_rows` cases, and the seed to draw it by."""
    there = int((panel.rows_known & (panel.at >= first) & (panel.at < end)).sum()) * len(panel.layout.leads)
    return min(1.0, settings.most_rows / max(there, 1)), settings.seed


def drawn_cases(
    scale: PanelScale, first: int, end: int, drawn: tuple[float, int], place: int, part: Panel
) -> PanelCases:
    """The cases of a part of a panel, the same ones wherever they are made."""
    share, seed = drawn
    return part.cases(scale, first, end, drawn=(share, np.random.default_rng((seed, place))))


def _nudged(spec: CostSpec, cases: PanelCases) -> tuple[Floats, Floats]:
    """What it costs to be a fifth of the level short, and as much over, (n,) each."""
    level = cases.level.astype(np.float64)
    own = replace(cases, outcome=level)
    right = realised(spec, level, own)
    short, over = (realised(spec, level * (1 + nudge), own) - right for nudge in (-_NUDGE, _NUDGE))
    return short, over


def money(spec: CostSpec, cases: PanelCases) -> Floats:
    """What it costs to be a fifth of the level off, either way: how much a case counts, (n,), of mean 1."""
    level = cases.level.astype(np.float64)
    short, over = _nudged(spec, cases)
    weight = short + over
    weight = np.where(np.isfinite(weight) & (weight > 0), weight, np.nan)
    weight = level if np.isnan(weight).all() else np.where(np.isnan(weight), np.nanmin(weight), weight)
    made: Floats = weight / weight.mean()
    return made


def _critical_ratio(spec: CostSpec, cases: PanelCases) -> float:
    """The share of being short in the costs of being off: the level of the quantile that decides, over all cases."""
    short, over = (np.nansum(each) for each in _nudged(spec, cases))
    share = short / (short + over) if short + over > 0 else math.nan
    return float(np.clip(share, *_RATIOS)) if math.isfinite(share) else 0.5


def _learn(
    kind: PanelModel, cases: PanelCases, panel: Panel, spec: CostSpec, settings: PanelSettings, seeds: int
) -> _Learned:
    target = np.clip(cases.outcome / cases.level, *_SCALED_RANGE).astype(np.float64)
    weight = money(spec, cases)
    folds = _folds(cases)
    if kind == "level":
        return _Learned(None, None, np.ones(len(cases)), None)
    ratio = _critical_ratio(spec, cases)
    location, located = _fitted(kind, cases, target, weight, folds, panel, settings, seeds, ratio)
    error = np.abs(target - located)
    small = _SMALL_ERROR * float(np.average(error, weights=weight))
    spread, scaled = _fitted(kind, cases, np.log(error + small), weight, folds, panel, settings, 1)
    return _Learned(location, spread, located, np.exp(scaled))


def _folds(cases: PanelCases) -> list[tuple[Places, Places]]:
    """Rows to learn from, and those that are left out: a stretch of time of some series, another one of others.

    So the errors of a holiday are those of a model that has seen it elsewhere, as it will have when it comes again. Of
    few series whole stretches of time are left out.
    """
    edges = np.quantile(cases.step, np.linspace(0, 1, _FOLDS + 1)[1:-1])
    block = np.searchsorted(edges, cases.step)
    several = len(np.unique(cases.series)) >= _SERIES_TO_PART
    part = (block + (cases.series if several else 0)) % _FOLDS
    rows = np.arange(len(cases))
    return [(rows[part != place], rows[part == place]) for place in range(_FOLDS) if (part == place).any()]


def _fitted(
    kind: PanelModel,
    cases: PanelCases,
    target: Floats,
    weight: Floats,
    folds: Sequence[tuple[Places, Places]],
    panel: Panel,
    settings: PanelSettings,
    seeds: int,
    quantile: float | None = None,
) -> tuple[Part, Floats]:
    """What forecasts the target, and its forecast (n,) of each case by what has not seen its time.

    With a quantile, trees are the mean of those of least squares and those of that level: each errs in its own way.
    """
    out = np.zeros(len(target))
    if kind == "linear":
        levels = tuple(len(panel.levels[name]) for name in panel.layout.words)
        given = cases.features, cases.words
        for train, held in folds:
            part = LinearPart.fitted(given[0][train], given[1][train], levels, target[train], weight[train])
            out[held] = part(given[0][held], given[1][held])
        return LinearPart.fitted(*given, levels, target, weight), out
    import lightgbm

    rows = np.concatenate([cases.features, cases.words], 1, dtype=np.float32)
    leaf = int(np.clip(len(rows) / 500, 5, 100))
    parameters = {
        **_TREES,
        **_SAME_EVERY_TIME,
        "num_leaves": 63 if len(rows) > 200_000 else 31,
        "min_data_in_leaf": leaf,
        "min_data_per_group": leaf,
        "seed": settings.seed,
        "num_threads": settings.threads or 0,
        "max_cat_to_onehot": 4,
    }
    words = list(range(cases.features.shape[1], rows.shape[1]))
    data = lightgbm.Dataset(
        rows, target, weight=weight, categorical_feature=words, params=parameters, free_raw_data=False
    )
    stopping = lightgbm.early_stopping(_PATIENCE, verbose=False)
    objectives: list[dict[str, Any]] = [{"objective": "regression"}]
    if quantile is not None:
        objectives.append({"objective": "quantile", "alpha": quantile})
    texts: list[str] = []
    for objective in objectives:
        asked = parameters | objective
        tried: Any = lightgbm.cv(asked, data, _ROUNDS, folds=folds, callbacks=[stopping], return_cvbooster=True)[
            "cvbooster"
        ]
        for booster, (_, held) in zip(tried.boosters, folds, strict=True):
            out[held] += booster.predict(rows[held], num_iteration=tried.best_iteration) / len(objectives)
        texts += [
            lightgbm.train({**asked, "seed": settings.seed + place}, data, tried.best_iteration).model_to_string()
            for place in range(seeds)
        ]
    return TreePart(TreeLocation(tuple(texts))), out


def _scale(candidate: PanelCandidate, located: Floats, conditional: Floats | None) -> Floats:
    """How far off outcomes may be, in levels, (n,)."""
    base = np.maximum(located, _LEAST_SCALE) if candidate.base == "location" else np.ones(len(located))
    if candidate.share == 0 or conditional is None:
        return base
    scale: Floats = base ** (1 - candidate.share) * conditional**candidate.share
    return scale


def _of(part: Part, cases: PanelCases) -> Floats:
    if part is None:
        return np.ones(len(cases))
    return part(cases.features, cases.words)


def _forecast(
    candidate: PanelCandidate,
    learned: _Learned,
    cases: PanelCases,
    panel: Panel,
    scale: PanelScale,
    spec: CostSpec,
    settings: PanelSettings,
    compared: tuple[PanelCandidate, ...] = (),
) -> FittedPanel:
    """The forecast of a candidate: quantiles of the errors that what was learned makes out of fold."""
    scaled = _scale(candidate, learned.located, learned.scaled)
    error = (cases.outcome / cases.level - learned.located) / scaled
    money_at = money(spec, cases)
    count = panel.count
    shift, breadth = np.empty(0), np.empty(0)
    if learned.location is not None:
        off = _clipped_off(error, money_at * scaled, 0.001)
        square = off**2 / np.mean(off**2)
        sums, sizes = (np.bincount(cases.series, each, count) for each in (square, np.ones(len(square))))
        breadth = np.sqrt((sums + _BREADTH_SHRINKAGE) / (sizes + _BREADTH_SHRINKAGE))
        scaled, error = scaled * breadth[cases.series], error / breadth[cases.series]
    weight = money_at * scaled
    if candidate.shrinkage is not None:
        recent = cases.step >= np.quantile(cases.step, 1 - _RECENT)
        sums = np.bincount(cases.series[recent], _clipped_off(error, weight, 0.01)[recent], count)
        shift = sums / (np.bincount(cases.series[recent], minlength=count) + candidate.shrinkage)
        error = error - shift[cases.series]
    size = learned.located * cases.level
    bins = int(np.clip(len(error) // _BIN_ERRORS, 1, _BINS))
    edges = np.unique(np.quantile(size, np.linspace(0, 1, bins + 1)[1:-1]))
    which = np.searchsorted(edges, size)
    quantiles = np.stack(
        [_quantiles(error[which == place], weight[which == place], settings.members) for place in range(len(edges) + 1)]
    )
    outcome = cases.outcome
    state = PanelState(
        candidate=replace(candidate, change=None),
        candidates=compared,
        scale=scale,
        step=panel.step,
        members=settings.members,
        lower=0.0 if float(outcome.min()) >= 0 else None,
        whole=bool(np.all(outcome == np.rint(outcome)) and np.mean(outcome <= 10) > 0.5),
        integer=settings.integer,
        trained=len(cases),
    )
    keys = panel.key_texts()
    order = np.argsort(keys, kind="stable")
    ranks = _ranks(cases, error, which, quantiles, count)
    centre = quantiles.mean(1, keepdims=True)
    return FittedPanel(
        state=state,
        location=learned.location,
        spread=learned.spread if candidate.share else None,
        quantiles=centre + candidate.widening * (quantiles - centre),
        edges=edges.astype(np.float64),
        keys=keys[order],
        shift=shift[order] if len(shift) else shift,
        breadth=breadth[order] if len(breadth) else breadth,
        ranks=ranks[:, order],
    )


def _clipped_off(error: Floats, weight: Floats, share: float) -> Floats:
    """How far errors lie from their weighted mean; those of a share at either end only as far as the next."""
    off = error - float(np.average(error, weights=weight))
    return np.clip(off, *np.quantile(off, [share, 1 - share]))


def _quantiles(values: Floats, weight: Floats, count: int) -> Floats:
    """The weighted quantiles at (i - 1/2) / M: in one dimension they are the support points."""
    order = np.argsort(values, kind="stable")
    up_to = np.cumsum(weight[order])
    levels = (np.arange(count) + 0.5) / count * up_to[-1]
    chosen: Floats = values[order][np.searchsorted(up_to, levels).clip(max=len(values) - 1)]
    return chosen


def _ranks(cases: PanelCases, error: Floats, which: Places, quantiles: Floats, count: int) -> Floats:
    """The newest error vectors (T, S), each error as its share among those of its bin."""
    shares = np.empty(len(error))
    for place, own in enumerate(quantiles):
        rows = which == place
        shares[rows] = np.searchsorted(own, error[rows]) / len(own)
    lead = cases.lead == cases.lead.min()
    steps = np.unique(cases.step[lead])[-_VECTORS:]
    rows = lead & (cases.step >= steps[0])
    vectors = np.full((len(steps), count), np.nan, np.float32)
    vectors[np.searchsorted(steps, cases.step[rows]), cases.series[rows]] = shares[rows]
    return vectors


def _judge(
    candidate: PanelCandidate,
    learned: _Learned,
    before: PanelCases,
    after: PanelCases,
    panel: Panel,
    scale: PanelScale,
    spec: CostSpec,
    settings: PanelSettings,
) -> tuple[PanelCandidate, Floats]:
    """The candidate with the mean cost of its decisions on cases that it has not seen, and the cost of each."""
    fitted = _forecast(candidate, learned, before, panel, scale, spec, settings)
    members = fitted.sample(after, fitted.places(panel.key_texts())[after.series])
    action = decide_cases(spec, members, after.parameters, settings.integer).action
    paid = realised(spec, action, after)
    return replace(candidate, cost=float(paid.mean()), widening=_widening(members, after)), paid


def _widening(members: Floats, cases: PanelCases) -> float:
    """The standard deviation of errors over that of members: the median over the series."""
    off, spread = ((each / cases.level) ** 2 for each in (cases.outcome - members.mean(1), members.std(1)))
    sums = [np.bincount(cases.series, each) for each in (off, spread)]
    there = sums[1] > 0
    ratio = float(np.sqrt(np.median(sums[0][there] / sums[1][there]))) if there.any() else 1.0
    return float(np.clip(ratio, *_WIDENINGS))


def time_difference(values: Floats, baseline: Floats, step: Places) -> Difference:
    """The mean difference of paired cases with its 95 % interval over blocks of time."""
    moments, which = np.unique(step, return_inverse=True)
    counts = np.bincount(which)
    difference = np.bincount(which, values - baseline) / counts.mean()  # so that their mean is that of the cases
    if len(moments) < 4:
        return Difference(float(difference.mean()), math.nan, math.nan)
    return paired_difference(difference[None], np.zeros((1, len(moments))), block=min(7, max(1, len(moments) // 8)))


def _stretches(count: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _have_trees() -> bool:
    from importlib.util import find_spec

    return find_spec("lightgbm") is not None
