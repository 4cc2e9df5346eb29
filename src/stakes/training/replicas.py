"""Many models as one: a stack of replicas that differ in seed, decision weight, cost parameters and data."""

import copy
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property, partial
from typing import Any, cast, get_type_hints

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import pad

from stakes.actions.climatology import climatology_action
from stakes.actions.scalar_solvers import ProjectedGradient
from stakes.argument_checks import require_count, require_decision_weight, unwatched
from stakes.costs.cost import Cost, Parameter, ParameterColumn, vector_cost, with_parameter
from stakes.costs.parameter_range import ParameterRange
from stakes.costs.scalar_costs import PriceParameter, scalar_cost
from stakes.data.case_table import CaseTable
from stakes.errors import SettingError, ShapeError
from stakes.models.diffusion import DiffusionModel
from stakes.models.sample_model import SampleModel, TrainingDraw, TrainingNoise
from stakes.scores.decision_score import DecisionScore
from stakes.scores.objective import DecisionAwareObjective
from stakes.scores.scoring_rules import (
    Estimator,
    ScoreMixture,
    ScoringRule,
    ThresholdWeightedCRPS,
    TotalCRPS,
    VariogramScore,
    named_score,
    score_weights,
)
from stakes.training.settings import TrainingSettings


def structure(model: nn.Module) -> list[tuple[str, type[nn.Module], list[tuple[str, Any]]]]:
    """What models must have in common to train in one stack: name, type and plain values of every module."""
    plain = (bool, int, float, str, tuple, type(None))
    return [
        (name, type(module), sorted((key, value) for key, value in vars(module).items() if isinstance(value, plain)))
        for name, module in model.named_modules()
    ]


class StackedCases:
    """The distinct data sets of a stack, (sets, N, F) and (sets, N, D), and which one each replica has, (R,)."""

    def __init__(self, cases: Sequence[CaseTable], dtype: torch.dtype, device: torch.device) -> None:
        distinct = list({id(each): each for each in cases}.values())
        shapes = {(tuple(each.features.shape), tuple(each.outcome.shape)) for each in distinct}
        if len(shapes) > 1:
            raise ShapeError(f"the data sets of a stack must have one shape, got {sorted(shapes)}")
        self.count = len(distinct[0])
        self.features = _stacked([each.features for each in distinct]).to(device, dtype)
        self.outcome = _stacked([each.outcome for each in distinct]).to(device, dtype)
        places = {id(each): place for place, each in enumerate(distinct)}
        self.index = torch.tensor([places[id(each)] for each in cases], device=device)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Features (R, B, F) and outcome (R, B, D) of rows (R, B)."""
        return self.features[self.index[:, None], rows], self.outcome[self.index[:, None], rows]


def _stacked(values: Sequence[Tensor]) -> Tensor:
    """A new first axis; a single data set is not copied."""
    return values[0][None] if len(values) == 1 else torch.stack(list(values))


def cost_structure(cost: Cost) -> tuple[object, ...]:
    """What costs must have in common to train in one stack: all but their parameters, ranges among what is common."""
    if not is_dataclass(cost):
        return (cost,)
    names = _parameter_names(cost)
    return type(cost), *(getattr(cost, each.name) for each in fields(cost) if each.name not in names)


def stacked_cost(costs: Sequence[Cost], device: torch.device, dtype: torch.dtype) -> Cost:
    """One cost whose parameters are tensors (R, 1), or (R, 1, A or 1) of a program; a range stays one."""
    first = costs[0]
    if any(cost_structure(cost) != cost_structure(first) for cost in costs):
        raise SettingError("the costs of a stack must be of one kind and differ in their parameters only")
    if not is_dataclass(first):
        return first
    many_parts = vector_cost(first) is not None
    columns: dict[str, Tensor] = {}
    for name in _parameter_names(first):
        values = [torch.as_tensor(getattr(cost, name), dtype=dtype, device=device) for cost in costs]
        for value in values:
            if value.numel() != 1 and not (many_parts and value.dim() == 1):
                raise SettingError(f"{name} of a replica's cost must be one number, got shape {tuple(value.shape)}")
        width = max(value.numel() for value in values)
        column = torch.stack([value.reshape(-1).expand(width) for value in values])
        columns[name] = column[:, None] if many_parts else column
    return cast(Cost, replace(cast(Any, first), **columns))


def _parameter_names(cost: object) -> tuple[str, ...]:
    hints = get_type_hints(type(cost))
    names = (each.name for each in fields(cast(Any, cost)) if hints[each.name] in (Parameter, PriceParameter))
    return tuple(name for name in names if not isinstance(getattr(cost, name), ParameterRange))


_WIDTH = 64  # rows are padded to a multiple of this, so that vectorised kernels treat every row alike


class ParameterLayout:
    """Where each trained parameter of a model stands in a row of P numbers."""

    def __init__(self, model: nn.Module) -> None:
        trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self.shapes = {name: value.shape for name, value in trained.items()}
        self.sizes = [value.numel() for value in trained.values()]
        state = trained or {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
        dtypes = {value.dtype for value in state.values()}
        if len(dtypes) > 1:
            raise SettingError(f"the trained parameters must be of one type, got {sorted(map(str, dtypes))}")
        self.dtype = dtypes.pop() if dtypes else torch.get_default_dtype()
        self.padding = -sum(self.sizes) % _WIDTH

    def row(self, model: nn.Module) -> Tensor:
        """The trained parameters of a model, (P,), zeros at the end."""
        own = dict(model.named_parameters())
        start = torch.empty(0, dtype=self.dtype, device=next(iter(own.values())).device if own else None)
        return pad(torch.cat([start, *(own[name].detach().reshape(-1) for name in self.shapes)]), (0, self.padding))

    def weights(self, model: nn.Module, row: Tensor) -> dict[str, Tensor]:
        """The state_dict of a model with these trained parameters, on the CPU."""
        filled = copy.deepcopy(model).cpu()
        with torch.no_grad():
            for name, value in self.named(row).items():
                filled.get_parameter(name).copy_(value)
        return {name: value.detach().clone() for name, value in filled.state_dict().items()}

    def named(self, rows: Tensor) -> dict[str, Tensor]:
        """Rows (..., P) as parameters (..., *shape) by name."""
        *pieces, _ = rows.split([*self.sizes, self.padding], -1)  # one split: its gradient is one concatenation
        return {
            name: piece.unflatten(-1, shape) if shape else piece[..., 0]
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParameterLayout) and (self.shapes, self.dtype) == (other.shapes, other.dtype)

    __hash__ = None  # type: ignore[assignment]


def parameter_places(model: nn.Module) -> dict[str, list[tuple[nn.Module, str]]]:
    """The modules that hold each parameter, and under which name; tied ones are held by several."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    places: dict[str, list[tuple[nn.Module, str]]] = {name: [] for name in names.values()}
    for module in model.modules():
        for leaf, parameter in module._parameters.items():
            if parameter is not None:
                places[names[parameter]].append((module, leaf))
    return places


_POINTS = 17  # of the range, between which weights are straight lines
_OUTCOMES = 1 << 12  # at most twice as many, evenly spread over the training cases


@dataclass(frozen=True, eq=False)
class ParameterScales:
    """The weight of a case's decision term by its parameter."""

    column: ParameterColumn  # where each case has its parameter
    weights: Tensor  # one over what climatology pays at points of the range, of each replica, (R, points)

    @classmethod
    def of(cls, column: ParameterColumn, costs: Sequence[Cost], train: StackedCases) -> "ParameterScales":
        """The weights of R replicas."""
        pairs = list(zip(costs, train.index.tolist(), strict=True))
        known = {(id(cost), place): (cost, place) for cost, place in pairs}  # most replicas have the same
        weights = {key: _weights(column, cost, train.outcome[place]) for key, (cost, place) in known.items()}
        return cls(column, torch.stack([weights[id(cost), place] for cost, place in pairs]))

    def __call__(self, features: Tensor) -> Tensor:
        """What the decision term of each case is multiplied by, (R, B)."""
        assert self.column.parameter is not None
        share = self.column.parameter.range.share(self.column.values(features)).clamp(0, 1)
        place = share * (self.weights.shape[1] - 1)
        below = place.floor().clamp(max=self.weights.shape[1] - 2)
        index = below.long()
        return torch.lerp(self.weights.gather(1, index), self.weights.gather(1, index + 1), place - below)


@torch.no_grad()
def _weights(column: ParameterColumn, cost: Cost, outcome: Tensor) -> Tensor:
    """One over the mean absolute cost of the best constant action at each point, (points,); about 1 in the middle."""
    assert column.parameter is not None
    seen, name = outcome[:: max(1, len(outcome) // _OUTCOMES)], column.parameter.name
    values, actions = column.parameter.range.points(_POINTS), climatology_action(cost, seen, _POINTS, thorough=False)
    paid = [
        with_parameter(cost, name, value)(action.expand(len(seen), -1), seen).abs().mean()
        for value, action in zip(values, actions, strict=True)
    ]
    scale = torch.stack(paid).to(outcome.dtype)
    scale = scale.clamp(min=1e-6 * scale.max())
    return scale[_POINTS // 2] / scale


_CASES_OF_CLIMATOLOGY = 1 << 12  # at most twice as many, evenly spread over the training cases
_MEMBERS_AT_ONCE = 1 << 14  # of a replica, where many cases are evaluated: the same in every stack
_VALIDATION_DRAWS, _MOST_LEVELS = 4096, 16  # of all cases of a diffusion model, and of each at most
_WITH_OWN_STATE = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase)


@dataclass(frozen=True, eq=False)
class Replica:
    """One model to train, with everything in which it may differ from its companions."""

    model: nn.Module = field(repr=False)
    train: CaseTable  # the cases it is trained on
    validation: CaseTable  # the cases that say which epoch is the best, and when to stop
    cost: Cost  # what decisions cost
    decision_weight: float  # the share of the decision term, from 0 to 1
    seed: int  # what batches and noise depend on; replicas of one seed see the same
    name: str = "model"  # what it is called in messages
    epochs: int | None = None
    conditioned: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module) or not isinstance(self.model, SampleModel):
            raise SettingError(f"model must be a torch module with the methods of SampleModel, got {type(self.model)}")
        require_decision_weight(self.decision_weight)
        if self.epochs is not None:
            require_count("epochs", self.epochs, least=0)
        for name, module in self.model.named_modules():
            if module.training and isinstance(module, _WITH_OWN_STATE):
                raise SettingError(
                    f"{self.name}: {name} ({type(module).__name__}) draws its own noise or changes as it is used; the "
                    "noise of a SampleModel is an argument: leave it out, or call model.eval()"
                )


class _Draw(nn.Module):
    """A model whose forward pass is its training draw, as `functional_call` wants it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Tensor, outcome: Tensor, noise: TrainingNoise) -> TrainingDraw:
        draw = cast(SampleModel, self.model).training_draw(features, outcome, noise)
        if draw.decision_term_weight is None:  # which neither `vmap` nor an axis of replicas can carry
            draw = draw._replace(decision_term_weight=torch.ones_like(draw.decision_outcome[..., 0]))
        if draw.member_log_likelihood is None:
            draw = draw._replace(member_log_likelihood=draw.decision_outcome[..., :0])
        return draw


class ReplicaStack:
    """R replicas on one device: how they draw and what they minimise; parameters (R, P) are passed in."""

    def __init__(
        self,
        replicas: Sequence[Replica],
        settings: TrainingSettings,
        device: torch.device,
        together: bool | None = None,
    ) -> None:
        self.replicas = tuple(replicas)
        self.settings = settings
        self.device = device
        self.together = device.type != "cpu" if together is None else together
        self.layout = ParameterLayout(replicas[0].model)
        self.template = _Draw(copy.deepcopy(replicas[0].model)).to(device)
        self.fixed = _fixed_state(self.replicas, self.layout, device)
        self.train = StackedCases([replica.train for replica in replicas], self.layout.dtype, device)
        self.validation = StackedCases([replica.validation for replica in replicas], self.layout.dtype, device)
        self.column = _shared_column(self.replicas)
        self.batch = min(settings.batch, self.train.count)
        self.steps = self.train.count // self.batch  # in an epoch
        self.seeds = sorted({replica.seed for replica in replicas})
        self.seed_index = torch.tensor([self.seeds.index(replica.seed) for replica in replicas], device=device)
        self._generator = torch.Generator(device)
        self._draw = vmap(self._draw_one)
        self._places = parameter_places(self.template.model)

    def __len__(self) -> int:
        return len(self.replicas)

    def select(self, kept: Sequence[int]) -> "ReplicaStack":
        """The stack of some of the replicas; all of them are this one."""
        if list(kept) == list(range(len(self))):
            return self
        chosen = ReplicaStack([self.replicas[index] for index in kept], self.settings, self.device, self.together)
        if self.score_scales is not None:
            chosen.score_scales = self.score_scales[list(kept)]
        return chosen

    def parts(self) -> list[tuple[slice, "ReplicaStack"]]:
        """What is computed at once, with its rows: all replicas, or each one where they take turns."""
        return [(slice(None), self)] if self.together else self._turns

    @cached_property
    def _turns(self) -> list[tuple[slice, "ReplicaStack"]]:
        return [(slice(row, row + 1), self.select([row])) for row in range(len(self))]

    def initial_parameters(self) -> Tensor:
        """The parameters (R, P) the models came with."""
        return torch.stack([self.layout.row(replica.model) for replica in self.replicas]).to(self.device)

    def objective(self, scales: Tensor | None) -> DecisionAwareObjective:
        """The mixture with each replica's decision weight and scales (R, 2), or the score alone without scales."""
        score, companion = self._score(), self._companion()
        if scales is None:
            return DecisionAwareObjective(score, companion, 0.0)
        weights = [replica.decision_weight for replica in self.replicas]
        weight = torch.tensor(weights, dtype=self.layout.dtype, device=self.device)[:, None]
        return DecisionAwareObjective(score, companion, weight, scales[:, :1], scales[:, 1:])

    @cached_property
    def cost(self) -> Cost:
        """The costs of all replicas as one."""
        return stacked_cost([replica.cost for replica in self.replicas], self.device, self.layout.dtype)

    @cached_property
    def parameter_scales(self) -> ParameterScales | None:
        """What each case's decision term is multiplied by, where the cost has a range; None where it has none."""
        if not self.column.width or self.settings.companion != "decision":
            return None
        return ParameterScales.of(self.column, [replica.cost for replica in self.replicas], self.train)

    @cached_property
    def score_scales(self) -> Tensor | None:
        """What each part of a mixed score is divided by, (R, parts): its mean for climatology; None for one rule."""
        score = self._named_score()
        if not isinstance(score, ScoreMixture):
            return None
        if len(self) > 1 and not self.together:  # row by row, as all else
            rows = [ReplicaStack([each], self.settings, self.device, False).score_scales for each in self.replicas]
            return torch.cat([row for row in rows if row is not None])
        every = max(1, self.train.count // _CASES_OF_CLIMATOLOGY)
        features, outcome = (
            values[:, ::every][self.train.index] for values in (self.train.features, self.train.outcome)
        )
        noise = self.noise(outcome.shape[1], self.settings.members, "climatology", validation=True)
        own_noise = {name: values[self.seed_index] for name, values in noise.items()}
        with torch.no_grad():
            return score.climatology_scales(self.draw(self.initial_parameters(), features, outcome, own_noise))

    def _score(self) -> ScoringRule:
        score, scales = self._named_score(), self.score_scales
        if scales is None:
            return score
        return replace(cast(ScoreMixture, score), scales=scales.split(1, -1))

    def _named_score(self) -> ScoringRule:
        weights = score_weights(self.settings.score)
        if weights.keys() == {"total"} and isinstance(self.template.model, DiffusionModel):
            raise SettingError(
                "score total alone cannot train a diffusion model, whose chain needs the distribution of all outcomes; "
                "mix it, as in energy=1,total=1"
            )
        return named_score(weights, self.cost, self.score_estimator)

    @property
    def structured(self) -> bool:
        """Whether the members of a training step are structured: two independent sets that take turns."""
        return bool(getattr(self.template.model, "structured", False))

    @property
    def validation_draws(self) -> int:
        """How many times each validation case is drawn."""
        if self.settings.validation_draws is not None:
            return self.settings.validation_draws
        model = self.template.model
        if not isinstance(getattr(model, "model", model), DiffusionModel):  # which a `ResidualModel` may have inside
            return 1
        return min(_MOST_LEVELS, -(-_VALIDATION_DRAWS // self.validation.count))

    @property
    def fair_estimator(self) -> Estimator:
        """The estimator of the energy score that is unbiased for the members there are."""
        return "across" if self.structured else "fair"

    @property
    def score_estimator(self) -> Estimator:
        """The estimator that the score is trained with."""
        return self.fair_estimator if self.settings.score_estimator == "fair" else "biased"

    def _companion(self) -> ScoringRule:
        """What the score is mixed with."""
        if self.settings.companion == "decision":
            if self.structured and self.settings.decision_estimator == "debiased":
                raise SettingError("decision_estimator must be plain where members are structured")
            steps = self.settings.solver_steps
            solver = ProjectedGradient(steps) if self.settings.solver == "projected_gradient" else None
            return DecisionScore(self.cost, self.settings.decision_estimator, solver)
        if self.settings.companion == "crps_of_total":
            return TotalCRPS(self.cost, self.score_estimator)
        if self.settings.companion == "tail_crps":
            known = [scalar_cost(replica.cost) for replica in self.replicas]
            tail, *others = {None if cost is None else cost.tail for cost in known}
            if others or tail is None:
                raise SettingError("companion tail_crps needs costs with one threshold, beyond which they are highest")
            return ThresholdWeightedCRPS(*tail, estimator=self.score_estimator)
        sites = self.train.outcome.shape[-1]
        if sites < 2:
            raise SettingError(f"companion variogram needs at least two sites, the cases have {sites}")
        return VariogramScore()

    @property
    def weighs_decisions(self) -> bool:
        """Whether the decision counts in the loss of a replica."""
        return any(replica.decision_weight for replica in self.replicas)

    def extra_members(self, members: int) -> int:
        """How many members a case gets beyond those that the score sees: some, where a replica decides with more."""
        return max(0, (self.settings.decision_member_count or 0) - members) if self.weighs_decisions else 0

    def draw(
        self, parameters: Tensor, features: Tensor, outcome: Tensor, noise: TrainingNoise, members: int | None = None
    ) -> TrainingDraw:
        """What each replica shows the objective: features (R, B, F), outcome (R, B, D), noise (R, B, ...).

        With `members`, the score sees so many, and the decision `extra_members` more, where the noise is for more.
        """
        draw = self._draw_some(parameters, self.column.seen(features), outcome, noise, members)
        if self.parameter_scales is None or draw.decision_term_weight is None:
            return draw
        return draw._replace(decision_term_weight=draw.decision_term_weight * self.parameter_scales(features))

    def _draw_some(
        self, parameters: Tensor, features: Tensor, outcome: Tensor, noise: TrainingNoise, members: int | None
    ) -> TrainingDraw:
        if members is None or self.settings.decision_member_count is None:
            return self._draw_all(parameters, features, outcome, noise)
        fewer, kept = dict(noise), members + self.extra_members(members)
        for name, axis in self._member_axes.items():
            fewer[name] = fewer[name].narrow(axis, 0, min(kept, fewer[name].shape[axis]))
        draw = self._draw_all(parameters, features, outcome, fewer)
        return draw._replace(score_members=draw.score_members[..., :members, :])

    def charged(self, objective: DecisionAwareObjective, features: Tensor) -> DecisionAwareObjective:
        """The objective with the cost that each of these cases pays, by features (R, B, F); call it `unwatched`."""
        if not self.column.width or not isinstance(objective.decision, DecisionScore):
            return objective
        cost = self.column.cost(self.cost, features)
        return replace(objective, decision=replace(objective.decision, cost=cost))

    def _draw_all(self, parameters: Tensor, features: Tensor, outcome: Tensor, noise: TrainingNoise) -> TrainingDraw:
        with unwatched():
            if self.together:
                return self._draw(self.layout.named(parameters), self.fixed, features, outcome, dict(noise))
            alone = {name: values.squeeze(0) for name, values in noise.items()}
            self._put_parameters(parameters.squeeze(0))
            draw = self.template(features.squeeze(0), outcome.squeeze(0), alone)
            return TrainingDraw(*(values[None] for values in draw))

    def _put_parameters(self, row: Tensor) -> None:
        """Give the template its parameters, for a replica alone; `functional_call` would take several times as long."""
        for name, value in self.layout.named(row).items():
            for module, leaf in self._places[name]:
                module._parameters[leaf] = value  # type: ignore[assignment]

    def _draw_one(self, trained: Any, fixed: Any, features: Tensor, outcome: Tensor, noise: Any) -> TrainingDraw:
        state = {f"model.{name}": value for name, value in (trained | fixed).items()}
        return functional_call(self.template, state, (features, outcome, noise))

    def shuffles(self, phase: str, epoch: int) -> Tensor:
        """The order of the training cases in this epoch for each seed, (seeds, N)."""
        return torch.stack(
            [
                torch.randperm(self.train.count, generator=self._seeded(seed, phase, epoch), device=self.device)
                for seed in self.seeds
            ]
        )

    def cost_parameters(self, cases: int, *moment: object) -> Tensor:
        """The parameter of each case where it is a range, a pure function of seed and moment: (seeds, cases, width)."""
        shape = (len(self.seeds), cases, self.column.width)
        shares = torch.empty(shape, device=self.device, dtype=self.layout.dtype)
        for place, seed in enumerate(self.seeds):
            shares[place].uniform_(generator=self._seeded(seed, *moment, "cost parameter"))
        return self.column.at(shares)

    def noise(
        self, cases: int, members: int, *moment: object, more: int = 0, validation: bool = False, draws: int = 1
    ) -> dict[str, Tensor]:
        """Noise as a pure function of seed and moment (phase, epoch, step), one set per seed: (seeds, cases, ...).

        The noise of `more` members comes after that of the others, which is the same without them.
        """
        model = cast(Any, self.template.model)
        if validation and hasattr(model, "validation_noise"):
            noise = self._stacked_noise(partial(model.validation_noise, draws=draws), cases, members, *moment)
        else:
            noise = self._stacked_noise(model.draw_noise, cases * draws, members, *moment)
        if more:
            added = self._stacked_noise(model.draw_noise, cases * draws, more, *moment, "more members")
            for name, axis in self._member_axes.items():
                noise[name] = torch.cat([noise[name], added[name]], axis)
        return noise

    def _stacked_noise(self, draw: Any, cases: int, members: int, *moment: object) -> dict[str, Tensor]:
        drawn = [draw(cases, members, self._seeded(seed, *moment)) for seed in self.seeds]
        return {name: torch.stack([noise[name] for noise in drawn]) for name in drawn[0]}

    @cached_property
    def _member_axes(self) -> dict[str, int]:
        """The axis of the members in every noise (seeds, cases, ...) that has one: it alone has their number."""
        draw = cast(Any, self.template.model).draw_noise
        two, three = (self._stacked_noise(draw, 1, count, "axes") for count in (2, 3))
        sizes = {name: list(zip(values.shape, three[name].shape, strict=True)) for name, values in two.items()}
        axes = {name: pairs.index((2, 3)) for name, pairs in sizes.items() if (2, 3) in pairs}
        if not axes:
            raise SettingError("decision_member_count needs a model whose noise has an axis of members; this has none")
        return axes

    def draws(
        self,
        parameters: Tensor,
        cases: StackedCases,
        members: int,
        phase: str,
        limit: int | None = None,
        *,
        deciding: bool = False,
        draws: int = 1,
    ) -> Iterator[tuple[TrainingDraw, Tensor]]:
        """Draws for all cases, or the first `limit`, part by part, with their features (R, B, F): the same every time.

        Every case may be drawn several times. The score sees so many members, the decision more where there is one.
        """
        more = self.extra_members(members) if deciding else 0
        count = min(cases.count, limit or cases.count)
        size = max(1, _MEMBERS_AT_ONCE // (members + more))
        noise = self.noise(count, members, phase, more=more, validation=True, draws=draws)
        for start in range(0, count * draws, size):
            part = slice(start, min(start + size, count * draws))
            rows = torch.arange(part.start, part.stop, device=self.device) // draws
            own_noise = {name: values[:, part][self.seed_index] for name, values in noise.items()}
            features, outcome = (values[:, rows][cases.index] for values in (cases.features, cases.outcome))
            yield self.draw(parameters, features, outcome, own_noise, members), features

    def _seeded(self, seed: int, *moment: object) -> torch.Generator:
        digest = hashlib.sha256(repr((seed, *moment)).encode()).digest()
        return self._generator.manual_seed(int.from_bytes(digest[:7], "big"))


def _shared_column(replicas: Sequence[Replica]) -> ParameterColumn:
    columns = {ParameterColumn.of(replica.cost, replica.conditioned) for replica in replicas}
    if len(columns) > 1:
        raise SettingError("the replicas of a stack must have one range of their cost, and see it alike")
    return columns.pop()


def _fixed_state(replicas: Sequence[Replica], layout: ParameterLayout, device: torch.device) -> dict[str, Tensor]:
    """Buffers and frozen parameters of all models, (R, ...) by name."""
    states: list[dict[str, Tensor]] = []
    for replica in replicas:
        state = {**dict(replica.model.named_parameters()), **dict(replica.model.named_buffers())}
        shapes = {name: value.shape for name, value in state.items()}
        first_shapes = {name: value.shape for name, value in (states[0] if states else state).items()}
        if (layout, structure(replicas[0].model), first_shapes) != (
            ParameterLayout(replica.model),
            structure(replica.model),
            shapes,
        ):
            raise ShapeError(f"the models of a stack must have one architecture; {replica.name} has another")
        for name, value in state.items():
            if not bool(torch.isfinite(value).all()):
                raise SettingError(f"the weights of {replica.name} must be finite to begin with, {name} is not")
        states.append(state)
    names = [name for name in states[0] if name not in layout.shapes]
    return {name: torch.stack([state[name].detach() for state in states]).to(device) for name in names}
