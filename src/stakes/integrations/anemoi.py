"""The decision in ECMWF's anemoi-training (extra `anemoi`): a validation metric, and two losses."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from stakes.argument_checks import require_one_of
from stakes.cost_spec.spec import CostSpec
from stakes.errors import SettingError, ShapeError, did_you_mean
from stakes.evaluation.metrics import DecisionTerms, decision_terms
from stakes.integrations import require_package
from stakes.integrations.field_view import field_view, seen_variables
from stakes.scores.decision_score import DecisionScore
from stakes.scores.scoring_rules import EnergyScore

require_package("anemoi.training", least="0.17", extra="anemoi")

from anemoi.models.distributed.graph import reduce_tensor  # noqa: E402
from anemoi.training.losses.base import BaseLoss, LossFactoryContextKey  # noqa: E402
from anemoi.training.utils.index_space import IndexSpace  # noqa: E402

_QUANTITIES = (*DecisionTerms._fields, "gap")


class _OfField(BaseLoss):  # type: ignore[misc] # anemoi is not there when types are checked
    """A mean over cases, of what a decision sees of a field."""

    factory_context_keys = frozenset({LossFactoryContextKey.DATA_INDICES})
    needs_graph_data = True
    needs_data_node_name = True

    def __init__(
        self,
        *,
        means: Sequence[float] | None,
        scales: Sequence[float] | None,
        variable: str | None = None,
        components: Sequence[str] | None = None,
        ignore_nans: bool = False,
        data_indices: Any = None,
        graph_data: Any = None,
        data_node_name: str = "data",
        **view: Any,
    ) -> None:
        super().__init__(ignore_nans=ignore_nans)
        self.supports_sharding = True  # `FieldView` sums over the processes that share the grid
        self.variables = seen_variables(variable, components)
        if means is None or scales is None:
            raise SettingError(
                f"{type(self).__name__} needs means and scales of {' and '.join(self.variables)}, the dataset's: "
                "training tensors are normalised, and the cost is in physical units"
            )
        self.places = _places(self.variables, data_indices, type(self).__name__)
        nodes = None if graph_data is None else graph_data[data_node_name]
        _refuse_unknown(view, type(self).__name__)
        self.view = field_view(**view, means=means, scales=scales, variables=self.variables, nodes=nodes)

    def add_scaler(self, dimension: Any, scaler: Tensor, *, name: str | None = None) -> None:
        """Refuse it: scalers are for the points and variables of a field, and this is one number of it."""
        raise SettingError(f"{type(self).__name__} takes no scalers, got {name!r}; write scalers: [] in its settings")

    def forward(
        self,
        pred: Tensor,
        target: Tensor,
        squash: bool = True,
        *,
        scaler_indices: tuple[Any, ...] | None = None,
        grid_shard_slice: slice | None = None,
        group: Any = None,
        pred_layout: str | None = None,
        target_layout: str | None = None,
        **_: Any,
    ) -> Tensor:
        """The mean over all cases, one number; without `squash` that number for each variable it looks at, else 0."""
        _require_members(pred, target)
        places = self._places_in(pred_layout, "pred_layout")
        if not self._is_asked_for(scaler_indices, places):
            return torch.full((), torch.nan, device=pred.device)
        seen = partial(self.view, part=grid_shard_slice, add=partial(reduce_tensor, mgroup=group))
        members = seen(pred[..., places])  # (batch, time, ensemble, D)
        outcome = seen(target[..., self._places_in(target_layout, "target_layout")])[:, :, 0]
        with torch.autocast(pred.device.type, enabled=False):
            value = self._mean(members, outcome)
        return value if squash else _for_each(value, places, pred.shape[-1])

    @abstractmethod
    def case_values(self, members: Tensor, outcome: Tensor) -> Tensor:
        """One number a case, of members (..., M, D) and outcome (..., D) in physical units."""

    def _mean(self, members: Tensor, outcome: Tensor) -> Tensor:
        if not self.ignore_nans:
            return self.case_values(members, outcome).mean()
        known = torch.isfinite(outcome).all(-1) & torch.isfinite(members).all(-1).all(-1)
        if not known.any():
            return torch.zeros((), device=members.device)
        return self.case_values(members[known], outcome[known]).mean()

    def _is_asked_for(self, scaler_indices: tuple[Any, ...] | None, places: list[int]) -> bool:
        if scaler_indices is None:
            return True
        raise SettingError(
            f"{type(self).__name__} is a training loss of normalised values; as a validation metric take "
            "stakes.integrations.anemoi.DecisionMetric, which sees physical units"
        )

    def _places_in(self, layout: str | None, name: str) -> list[int]:
        if layout is None or layout not in self.places:
            known = ", ".join(self.places)
            raise SettingError(f"{name} must say which variables the last axis has, one of {known}, got {layout!r}")
        return self.places[layout]


class DecisionMetric(_OfField):
    """What decisions cost at validation, or another number of them, in physical units; nothing is trained with it.

    Anemoi asks a validation metric for many groups of variables; the number stands where the group has all that the
    decision looks at, such as `all`, and is NaN elsewhere.
    """

    def __init__(self, cost: str, quantity: str = "cost", **field: Any) -> None:
        names = seen_variables(field.get("variable"), field.get("components"))
        super().__init__(means=[0.0] * len(names), scales=[1.0] * len(names), **field)
        require_one_of("quantity", quantity, _QUANTITIES)
        self.cost = CostSpec.parse(cost).build()
        self.quantity = quantity

    def case_values(self, members: Tensor, outcome: Tensor) -> Tensor:
        """The quantity of each case, (...)."""
        terms = decision_terms(self.cost, members, outcome)
        if self.quantity == "gap":
            return terms.expected_cost - terms.cost
        values: Tensor = getattr(terms, self.quantity)
        return values

    def _is_asked_for(self, scaler_indices: tuple[Any, ...] | None, places: list[int]) -> bool:
        if scaler_indices is None:
            return True
        return set(places) <= set(torch.as_tensor(scaler_indices[-1]).reshape(-1).tolist())

    @property
    def name(self) -> str:
        """What it is logged as."""
        return f"decision_{self.quantity}"


class DecisionLoss(_OfField):
    """The cost of the decision that the members recommend, for the `losses` of anemoi's `CombinedLoss`."""

    def __init__(
        self,
        cost: str,
        means: Sequence[float] | None = None,
        scales: Sequence[float] | None = None,
        estimator: str = "plain",
        **field: Any,
    ) -> None:
        super().__init__(means=means, scales=scales, **field)
        self.score = DecisionScore(CostSpec.parse(cost).build(), estimator)  # type: ignore[arg-type] # it checks

    def case_values(self, members: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each case, (...), with the gradient of its best action."""
        return self.score(members, outcome)


class AggregateCRPS(_OfField):
    """The CRPS of the mean over an area, which a CRPS of every point by itself does not see."""

    def __init__(
        self,
        means: Sequence[float] | None = None,
        scales: Sequence[float] | None = None,
        alpha: float = 0.95,
        **field: Any,
    ) -> None:
        super().__init__(means=means, scales=scales, **field)
        self.score = EnergyScore("almost_fair", alpha)

    def case_values(self, members: Tensor, outcome: Tensor) -> Tensor:
        """The score of each case, (...)."""
        return self.score(members.mean(-1, keepdim=True), outcome.mean(-1, keepdim=True))


def _places(variables: Sequence[str], data_indices: Any, name: str) -> dict[str, list[int]]:
    """Where the variables stand in tensors of each layout."""
    if data_indices is None:
        raise SettingError(f"{name} needs data_indices: make it by anemoi.training.losses.get_loss_function")
    tables = {
        IndexSpace.MODEL_OUTPUT: data_indices.model.output.name_to_position,
        IndexSpace.DATA_OUTPUT: data_indices.data.output.name_to_position,
        IndexSpace.DATA_FULL: data_indices.data_full_name_to_position,
    }
    known = list(tables[IndexSpace.MODEL_OUTPUT])
    for variable in variables:
        if variable not in known:
            raise SettingError(f"the model has no output {variable!r}; {did_you_mean(variable, known)}")
    return {str(layout): [table[variable] for variable in variables] for layout, table in tables.items()}


def _refuse_unknown(view: dict[str, Any], name: str) -> None:
    known = ("points", "area", "weights")
    for word in view:
        if word not in known:
            raise SettingError(f"{name} has no setting {word!r}; {did_you_mean(word, known)}")


def _require_members(pred: Tensor, target: Tensor) -> None:
    fits = pred.dim() == target.dim() == 5 and pred.shape[:2] == target.shape[:2]
    if not fits or pred.shape[2] < 2 or target.shape[2] != 1 or pred.shape[3] != target.shape[3]:
        raise ShapeError(
            "predictions must be (batch, time, ensemble, grid, variable) with two members or more, and targets so with "
            f"one, got {tuple(pred.shape)} and {tuple(target.shape)}"
        )


def _for_each(value: Tensor, places: list[int], variables: int) -> Tensor:
    """The number for each variable that is looked at, and 0 for the others, (variables,)."""
    looked_at = torch.zeros(variables, dtype=value.dtype, device=value.device)
    looked_at[places] = 1.0
    return looked_at * value
