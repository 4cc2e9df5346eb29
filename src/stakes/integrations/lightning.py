"""Decisions while a model trains in Lightning: what they cost, whether the forecast knows it, and a figure of them."""

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from stakes.argument_checks import require_count
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost, require_cost
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.metrics import DecisionTerms, decision_terms
from stakes.files import write_atomically
from stakes.integrations import require_package

require_package("torchmetrics", least="1.4", extra="lightning")

from torchmetrics import Metric  # noqa: E402
from torchmetrics.utilities import dim_zero_cat  # noqa: E402

_SUMS = (*DecisionTerms._fields, "count")
_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")  # one library, under two names


def _callback_class() -> type:
    """Lightning's `Callback`, under the name that is imported already or installed; a plain class without Lightning."""
    for name in sorted(_LIGHTNING, key=lambda name: name not in sys.modules):
        try:
            return import_module(name).Callback
        except ImportError:
            continue
    return object


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pytorch_lightning import Callback, LightningModule, Trainer
else:
    Callback = _callback_class()


class _OfDecisions(Metric):
    """What the metrics share: members and outcomes of a batch to the terms of its cases."""

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    def __init__(self, cost: Cost | str, member_dim: int, **options: Any) -> None:
        super().__init__(**options)
        self.cost = CostSpec.parse(cost).build() if isinstance(cost, str) else cost
        require_cost(self.cost)
        self.member_dim = member_dim
        self.set_dtype(torch.float64)  # of what a process without a batch sends, too

    def _terms(self, samples: Tensor, outcome: Tensor, mask: Tensor | None) -> DecisionTerms:
        _require_members(samples, outcome, self.member_dim)
        samples = samples.movedim(self.member_dim, -2)
        if mask is None:
            return decision_terms(self.cost, samples, outcome)
        if mask.dtype != torch.bool or mask.shape != outcome.shape[:-1]:
            raise ShapeError(
                f"mask must hold booleans of the shape of the cases {tuple(outcome.shape[:-1])}, got {mask.dtype} "
                f"{tuple(mask.shape)}"
            )
        return decision_terms(self.cost, samples[mask], outcome[mask])


class DecisionMetric(_OfDecisions):
    """What the decisions of a forecast cost and were expected to cost, and how wrong and how sure it was.

    `compute` gives means over all cases of all processes: `cost`, `expected_cost`, `gap` (expected less realised;
    negative for a forecast that thinks its decisions cheaper than they are), `squared_error` and `variance` of what the
    cost looks at, and `spread_skill`, 1 where the spread fits the error. They are those of `stakes.evaluation`.
    """

    sums: Tensor
    members: Tensor

    def __init__(self, cost: Cost | str, member_dim: int = -2, **options: Any) -> None:
        super().__init__(cost, member_dim, **options)
        self.add_state("sums", torch.zeros(len(_SUMS), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("members", torch.zeros((), dtype=torch.long), dist_reduce_fx="max")

    def update(self, samples: Tensor, outcome: Tensor, mask: Tensor | None = None) -> None:
        """Add the cases of a batch."""
        terms = self._terms(samples, outcome, mask)
        members = samples.shape[self.member_dim]
        if int(self.members) not in (0, members):
            raise ShapeError(f"samples must have {int(self.members)} members, as those before, got {members}")
        self.members.fill_(members)
        numbers = [*terms, torch.ones_like(terms.cost)]
        self.sums += torch.stack([values.double().sum() for values in numbers])

    def compute(self) -> dict[str, Tensor]:
        """The means over all cases so far, by name."""
        means = dict(zip(_SUMS, self.sums / self.sums[-1], strict=True))
        of_mean = 1 + 1 / self.members  # the mean of M members errs by that factor more than their variance says
        return {
            "cost": means["cost"],
            "expected_cost": means["expected_cost"],
            "gap": means["expected_cost"] - means["cost"],
            "squared_error": means["squared_error"],
            "variance": means["variance"],
            "spread_skill": (of_mean * means["variance"] / means["squared_error"]).sqrt(),
        }


class ReliabilityBins(NamedTuple):
    """Predicted and realised cost within bins of the predicted cost that hold equally many cases, (B,) each."""

    predicted: Tensor  # the mean cost that the forecast expects of its actions
    realised: Tensor  # the mean cost of the same actions at the outcomes
    cases: Tensor  # how many cases a bin holds


class CostReliability(_OfDecisions):
    """Whether decisions cost what the forecast expects, at all levels of what it expects.

    It keeps two numbers of every case, and is computed over the cases of all processes.
    """

    predicted: list[Tensor]
    realised: list[Tensor]

    def __init__(self, cost: Cost | str, bins: int = 10, member_dim: int = -2, **options: Any) -> None:
        super().__init__(cost, member_dim, **options)
        require_count("bins", bins)
        self.bins = bins
        for name in ("predicted", "realised"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, samples: Tensor, outcome: Tensor, mask: Tensor | None = None) -> None:
        """Add the cases of a batch."""
        terms = self._terms(samples, outcome, mask)
        self.predicted.append(terms.expected_cost.double().reshape(-1))
        self.realised.append(terms.cost.double().reshape(-1))

    def compute(self) -> ReliabilityBins:
        """The bins of all cases so far."""
        nothing = [torch.zeros(0, dtype=torch.float64, device=self.device)]  # where no batch came
        predicted, realised = (
            dim_zero_cat(values if len(values) else nothing) for values in (self.predicted, self.realised)
        )
        order = predicted.argsort(stable=True)
        bins = min(self.bins, len(order))
        place = torch.arange(len(order), device=order.device) * bins // max(1, len(order))
        cases = torch.bincount(place, minlength=bins)
        sums = (torch.zeros_like(predicted[:bins]).index_add(0, place, side[order]) for side in (predicted, realised))
        means = [total / cases for total in sums]
        return ReliabilityBins(means[0], means[1], cases)

    def plot(self, val: ReliabilityBins | None = None, ax: "Axes | None" = None) -> "tuple[Figure, Axes]":
        """The realised cost against the predicted one, a point for each bin; on the dotted line the forecast is right.

        There are no intervals: how far neighbouring cases depend on each other is not known here. `stakes evaluate`
        has them.
        """
        from matplotlib.figure import Figure as NewFigure

        from stakes.plots import COLOURS, diagonal, style

        given = self.compute() if val is None else val
        bins = ReliabilityBins(*(values.reshape(-1).cpu() for values in given))  # torchmetrics makes one bin a number
        with style():
            axes = NewFigure(figsize=(3.4, 3.2)).add_subplot() if ax is None else ax
            axes.plot(bins.predicted, bins.realised, marker="o", color=COLOURS["blue"])
            axes.set(xlabel="predicted cost", ylabel="realised cost")
            axes.set_title(f"{int(bins.cases.sum()):,} cases in {len(bins.cases)} bins")
            diagonal(axes)
        figure = axes.get_figure()
        assert isinstance(figure, NewFigure)
        return figure, axes


class DecisionCallback(Callback):
    """Logs what decisions cost at every validation, and draws the reliability of the predicted cost.

    The numbers of `DecisionMetric` are logged as `val_cost`, `val_expected_cost` and so on, over all processes, so that
    `ModelCheckpoint(monitor="val_cost")` keeps the model whose decisions are cheapest. `validation_step` must return
    {"samples": members (..., M, D), "outcome": outcomes (..., D)} in physical units, and may add "mask".
    """

    def __init__(
        self,
        cost: Cost | str,
        bins: int = 10,
        member_dim: int = -2,
        prefix: str = "val_",
        folder: str | Path | None = None,
        dataloader: int = 0,
    ) -> None:
        if Callback is object:
            require_package("pytorch_lightning", least="2.4", extra="lightning")
        super().__init__()
        self.metric = DecisionMetric(cost, member_dim)
        self.reliability = CostReliability(cost, bins, member_dim)
        self.prefix = prefix
        self.folder = None if folder is None else Path(folder)
        self.dataloader = dataloader

    def on_validation_epoch_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Start anew, on the device of the model."""
        for metric in (self.metric, self.reliability):
            metric.reset()
            metric.to(pl_module.device)

    def on_validation_batch_end(
        self,
        trainer: "Trainer",
        pl_module: "LightningModule",
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add the cases of a batch."""
        if dataloader_idx != self.dataloader:
            return
        if not isinstance(outputs, Mapping) or not {"samples", "outcome"} <= set(outputs):
            raise SettingError(
                'validation_step must return {"samples": members, "outcome": outcomes} for DecisionCallback, got '
                f"{sorted(map(str, outputs)) if isinstance(outputs, Mapping) else type(outputs).__name__}"
            )
        for metric in (self.metric, self.reliability):
            metric.update(outputs["samples"], outputs["outcome"], outputs.get("mask"))

    def on_validation_epoch_end(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Log the numbers and show the figure."""
        numbers = {f"{self.prefix}{name}": value.float() for name, value in self.metric.compute().items()}
        bins = self.reliability.compute()
        if not len(bins.cases) and not trainer.sanity_checking:
            raise SettingError(f"DecisionCallback got no validation case from data loader {self.dataloader}")
        pl_module.log_dict(numbers, sync_dist=True)  # equal in all processes already
        if not trainer.is_global_zero or trainer.sanity_checking:
            return
        figure, _ = self.reliability.plot(bins)
        for logger in trainer.loggers:
            board: Any = getattr(logger, "experiment", None)
            if hasattr(board, "add_figure"):
                board.add_figure(f"{self.prefix}reliability", figure, trainer.global_step)
        if self.folder is not None:
            from stakes.plots import to_svg

            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.folder / f"reliability_{trainer.global_step}.svg", to_svg(figure).encode())


def _require_members(samples: Tensor, outcome: Tensor, member_dim: int) -> None:
    if -samples.dim() <= member_dim < samples.dim():
        shape = list(samples.shape)
        del shape[member_dim]
        if tuple(shape) == tuple(outcome.shape):
            return
    raise ShapeError(
        f"samples must have the shape of outcome {tuple(outcome.shape)} and one more axis, that of the members, at "
        f"member_dim {member_dim}, got {tuple(samples.shape)}"
    )
