"""The linear model: ridge regression whose noise is its own out-of-fold errors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from stakes.argument_checks import check_finite, require_count, require_counts
from stakes.errors import ShapeError
from stakes.models.sample_model import ScaledModel, Scaling
from stakes.models.support_points import herding_order

_BLOCKS = 10
_PENALTIES = torch.logspace(-6, 2, 17, dtype=torch.float64)  # of a row, for features of variance 1
_LARGEST_SHARE = 4  # the gap is at most a quarter of the rows
_FULL_COVARIANCE = 64  # outcomes; beyond, factors and a diagonal
_FACTORS = 32
_LEAST_VARIANCE = 1e-6  # of outcomes of variance 1: nobody is surer of anything


@dataclass(frozen=True, eq=False)
class LinearStart:
    """A linear forecast and what it gets wrong, in the units of what it was fitted to, in float64."""

    weight: Tensor  # w of y = W x + b, (D, F)
    bias: Tensor  # b, (D,)
    penalty: float  # the penalty of |W|^2 that was best out of fold; the sum of squared errors has weight 1
    residuals: Tensor


def fit_linear_start(features: Tensor, outcome: Tensor, gap: int = 0) -> LinearStart:
    """Ridge regression, its penalty and its residuals by cross-validation in blocks of time."""
    if features.dim() != 2 or outcome.dim() != 2 or len(features) != len(outcome) or not len(outcome):
        raise ShapeError(
            "a linear start needs features (N, F) and outcomes (N, D), got "
            f"{tuple(features.shape)} and {tuple(outcome.shape)}"
        )
    require_count("gap", gap, least=0)
    check_finite(features, "features of the linear start", True)
    check_finite(outcome, "outcomes of the linear start", True)
    inputs, target = features.double(), outcome.double()
    basis = torch.linalg.qr(inputs.mT).Q if len(inputs) < inputs.shape[1] else None  # of all rows: W lies in it
    inputs = inputs if basis is None else inputs @ basis
    whole = _Moments.of(inputs, target)
    blocks = list(time_blocks(len(inputs), gap))
    held_out = [_Ridge.of(whole.without(inputs[left_out], target[left_out])) for _, left_out in blocks]

    def residuals(share: Tensor) -> Tensor:
        forecasts = [ridge(inputs[block], share) for (block, _), ridge in zip(blocks, held_out, strict=True)]
        return target - torch.cat(forecasts)

    errors = torch.stack([residuals(share).square().mean() for share in _PENALTIES.to(inputs.device)])
    best = _PENALTIES[int(errors.argmin())].to(inputs.device)
    weight, bias = _Ridge.of(whole).coefficients(best)
    weight = weight if basis is None else weight @ basis.mT
    return LinearStart(weight, bias, float(best) * len(inputs), residuals(best))


def climatology_start(features: Tensor, outcome: Tensor) -> LinearStart:
    """The start of a forecast without features: the mean outcome."""
    target = outcome.double()
    bias = target.mean(0)
    return LinearStart(target.new_zeros(target.shape[1], features.shape[1]), bias, float("inf"), target - bias)


def time_blocks(rows: int, gap: int = 0, blocks: int = _BLOCKS) -> Iterator[tuple[slice, slice]]:
    """Contiguous blocks of rows, each with the rows that its fit leaves out.

    >>> list(time_blocks(2))
    [(slice(0, 1, None), slice(0, 1, None)), (slice(1, 2, None), slice(1, 2, None))]
    """
    gap = min(gap, rows // _LARGEST_SHARE)
    count = min(blocks, rows)
    for place in range(count):
        first, end = place * rows // count, (place + 1) * rows // count
        yield slice(first, end), slice(max(0, first - gap), min(rows, end + gap))


def factor_count(outcomes: int) -> int:
    """The number of covariance factors for so many outcomes; `residual_factors` adds a diagonal if they are fewer."""
    return outcomes if outcomes <= _FULL_COVARIANCE else _FACTORS


def residual_factors(residuals: Tensor) -> tuple[Tensor, Tensor | None]:
    """L (K, D) and a diagonal (D,) or None, so that z L + z' diagonal has the covariance of the residuals.

    Up to 64 outcomes L is the Cholesky factor of the second moments and there is no diagonal; beyond, L has the 32
    leading factors and the diagonal the rest of each outcome's variance.
    """
    count = factor_count(residuals.shape[1])
    moments = residuals.double().mT @ residuals.double() / len(residuals)
    floor = _LEAST_VARIANCE * torch.ones_like(moments[0])
    if count == len(moments):
        return torch.linalg.cholesky(moments + floor.diag()).mT, None
    values, vectors = torch.linalg.eigh(moments)
    factors = (vectors[:, -count:] * values[-count:].clamp(min=0).sqrt()).mT
    return factors, (moments.diag() - factors.square().sum(0)).clamp(min=_LEAST_VARIANCE).sqrt()


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums over rows of [1, x] and [1, x, y], (1 + F, 1 + F + D): all that ridge regression needs."""

    sums: Tensor
    features: int

    @classmethod
    def of(cls, inputs: Tensor, target: Tensor) -> "_Moments":
        known = torch.cat([torch.ones_like(inputs[:, :1]), inputs], 1)
        return cls(known.mT @ torch.cat([known, target], 1), inputs.shape[1])

    def without(self, inputs: Tensor, target: Tensor) -> "_Moments":
        return _Moments(self.sums - self.of(inputs, target).sums, self.features)


@dataclass(frozen=True, eq=False)
class _Ridge:
    """Ridge regression for every penalty by one decomposition: centred X'X = V diag(values) V', X'Y = V projected."""

    rows: Tensor  # ()
    input_mean: Tensor  # (F,)
    target_mean: Tensor  # (D,)
    vectors: Tensor  # (F, F)
    values: Tensor  # (F,)
    projected: Tensor  # (F, D)

    @classmethod
    def of(cls, moments: _Moments) -> "_Ridge":
        rows = moments.sums[0, 0].clamp(min=1)  # without any the forecast is zero, the mean
        means = moments.sums[0, 1:] / rows
        centred = moments.sums[1:, 1:] - rows * torch.outer(means[: moments.features], means)
        gram, products = centred.split([moments.features, len(means) - moments.features], 1)
        values, vectors = torch.linalg.eigh(gram)
        input_mean, target_mean = means.split([moments.features, products.shape[1]])
        return cls(rows, input_mean, target_mean, vectors, values.clamp(min=0), vectors.mT @ products)

    def coefficients(self, share: Tensor) -> tuple[Tensor, Tensor]:
        """W (D, F) and b (D,) for a penalty of so much a row."""
        weight = (self.vectors @ (self.projected / (self.values + share * self.rows)[:, None])).mT
        return weight, self.target_mean - weight @ self.input_mean

    def __call__(self, inputs: Tensor, share: Tensor) -> Tensor:
        """The forecast (N, D) of rows (N, F)."""
        weight, bias = self.coefficients(share)
        return inputs @ weight.mT + bias


class LinearModel(ScaledModel):
    """y_m = W x + b + e_m: ridge regression plus whole out-of-fold residual vectors e_m.

    `fit_scaling` fits all of it in closed form; nothing is trained. Whole vectors keep the dependence between outcomes.
    With shared noise they are not drawn at random: the most representative ones are taken.

    Args:
        features: F, the number of features.
        outcomes: D, the number of outcomes.
        residuals: How many residual vectors to keep, the most representative ones; with fewer rows some are repeated.
        gap: How many rows on either side of a held-out block the cross-validation leaves out too, such as the lead
            time.
        constant: Whether to ignore the features and forecast climatology: members are drawn from all outcomes.

    >>> import torch, stakes
    >>> features = torch.rand(50, 3)
    >>> model = stakes.LinearModel(features=3, outcomes=1)
    >>> model.fit_scaling(features, features.sum(1, keepdim=True))
    >>> model.sample(features[:4], members=7).shape
    torch.Size([4, 7, 1])
    """

    weight: Tensor
    bias: Tensor
    residuals: Tensor
    order: Tensor

    def __init__(
        self, features: int, outcomes: int, residuals: int = 2000, gap: int = 0, constant: bool = False
    ) -> None:
        super().__init__()
        require_counts(features=features, outcomes=outcomes, residuals=residuals)
        require_count("gap", gap, least=0)
        self.gap, self.constant = gap, constant
        self.feature_scaling = Scaling(features)
        self.outcome_scaling = Scaling(outcomes)
        self.register_buffer("weight", torch.zeros(outcomes, features))
        self.register_buffer("bias", torch.zeros(outcomes))
        self.register_buffer("residuals", torch.zeros(residuals, outcomes))
        self.register_buffer("order", torch.tensor(range(residuals)))  # `torch.arange` would import sympy on meta

    def forward(self, features: Tensor, chosen: Tensor) -> Tensor:
        """Standardised members (..., M, D).

        Args:
            features: Features (..., F) in physical units.
            chosen: Which residual vector each member has, (..., M).
        """
        location = linear(self.feature_scaling.standardise(features), self.weight, self.bias)
        return location[..., None, :] + self.residuals[chosen]

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Fit means, scales, coefficients and residuals to rows in time order."""
        super().fit_scaling(features, outcome)
        inputs, target = self.feature_scaling.standardise(features), self.outcome_scaling.standardise(outcome)
        start = climatology_start(inputs, target) if self.constant else fit_linear_start(inputs, target, self.gap)
        self.weight.copy_(start.weight)
        self.bias.copy_(start.bias)
        kept, places = herding_order(start.residuals, len(self.residuals)).sort(stable=True)
        self.residuals.copy_(start.residuals[kept])  # in the order of time, whatever decided a tie
        self.order.copy_(places.argsort())

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        """The noise of one training step: "members" (cases, M), which residual vector each member has."""
        count, device = len(self.residuals), self.residuals.device
        return {"members": torch.randint(count, (cases, members), generator=generator, device=device)}

    @torch.no_grad()
    def sample(
        self,
        features: Tensor,
        members: int,
        generator: torch.Generator | None = None,
        *,
        share_noise: bool = False,
    ) -> Tensor:
        """Members (N, M, D) in physical units, as `SampleModel.sample`.

        Shared residual vectors are the most representative ones, always the same; none repeats before all have come.
        """
        require_counts(members=members)
        if share_noise:
            chosen = self._chosen(members).expand(len(features), -1)
        else:
            chosen = self.draw_noise(len(features), members, generator)["members"]
        return self.outcome_scaling.restore(self(features, chosen))

    def _chosen(self, members: int) -> Tensor:
        """The most representative residual vectors, (M,): the first in order, or quantiles for one outcome."""
        count, places = len(self.order), torch.arange(members, device=self.order.device)
        one = self.residuals.shape[1] == 1
        return self.order[(2 * places + 1) * count // (2 * members) if one else places % count]
