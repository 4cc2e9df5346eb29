"""The small networks behind both models."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from stakes.errors import ShapeError
from stakes.method.argument_checks import check_finite, require_count

__all__ = [
    "FiLMNetwork",
    "Linear",
    "Perceptron",
    "Scaling",
    "cases_at_once",
    "draw_normal",
    "draw_shared",
    "linear_in_parts",
    "require_counts",
    "sinusoidal_embedding",
]

_ENOUGH_TO_BALANCE = 4  # members for each dimension of the noise


_ROWS = 1024  # of a part
_CACHE = 1 << 23  # bytes that the caches of a CPU hold
_BATCH = 1 << 30  # bytes that fill an accelerator


class Linear(nn.Linear):
    """A linear map of many rows; see `linear_in_parts`."""

    def forward(self, inputs: Tensor) -> Tensor:
        return linear_in_parts(inputs, self.weight, self.bias)


def linear_in_parts(inputs: Tensor, weight: Tensor, bias: Tensor | None = None, parts: int | None = None) -> Tensor:
    """`torch.nn.functional.linear`, on a GPU with its rows in equal parts of a thousand or more.

    The gradient of a weight is a sum over all rows, one long sum a replica; the parts are summed side by side, which
    takes a fifth to a quarter off a training step (docs/benchmarks.md).
    """
    rows = inputs.shape[:-1].numel()
    if parts is None:
        parts = _parts(rows) if inputs.is_cuda else 1
    if parts == 1:
        return linear(inputs, weight, bias)
    split = inputs.reshape(parts, rows // parts, inputs.shape[-1])
    product = torch.bmm(split, weight.t().expand(parts, *weight.t().shape)).reshape(*inputs.shape[:-1], -1)
    return product if bias is None else product + bias


def _parts(rows: int) -> int:
    most = max(1, rows // _ROWS)
    return next(parts for parts in range(most, 0, -1) if rows % parts == 0)


class Perceptron(nn.Module):
    """A multilayer perceptron with ReLU between its layers."""

    def __init__(self, inputs: int, outputs: int, hidden: int = 50, layers: int = 5) -> None:
        super().__init__()
        require_counts(inputs=inputs, outputs=outputs, hidden=hidden, layers=layers)
        widths = [inputs, *[hidden] * layers]
        steps: list[nn.Module] = []
        for before, after in pairwise(widths):
            steps += [Linear(before, after), nn.ReLU()]
        self.layers = nn.Sequential(*steps, Linear(hidden, outputs))
        self.widest = max(inputs, hidden, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        return self.layers(inputs)


class FiLMNetwork(nn.Module):
    """A perceptron whose every hidden layer is modulated by its condition: relu((1 + gamma) h + beta).

    gamma and beta of all layers are one linear map of [condition, noise] (feature-wise linear modulation). The
    condition is one a case and the noise one a member, so the case's part is computed once for all its members.
    """

    def __init__(
        self, inputs: int, outputs: int, condition: int, noise: int, hidden: int = 50, layers: int = 5
    ) -> None:
        super().__init__()
        require_counts(inputs=inputs, outputs=outputs, condition=condition, noise=noise, hidden=hidden, layers=layers)
        self.widths = [condition, noise]
        self.hidden = nn.ModuleList(Linear(before, after) for before, after in pairwise([inputs, *[hidden] * layers]))
        self.modulation = nn.Linear(condition + noise, 2 * hidden * layers)
        self.output = Linear(hidden, outputs)
        self.widest = max(2 * hidden, inputs + outputs, noise)

    def forward(self, inputs: Tensor, condition: Tensor, noise: Tensor) -> Tensor:
        """(..., M, inputs), (..., condition) and (..., M, noise) to (..., M, outputs)."""
        of_condition, of_noise = self.modulation.weight.split(self.widths, 1)
        of_case = linear(condition, of_condition, self.modulation.bias)[..., None, :].chunk(len(self.hidden), -1)
        state = inputs
        # Layer by layer, so that what lies between stays in the cache of a CPU.
        for layer, case, weight in zip(self.hidden, of_case, of_noise.chunk(len(self.hidden)), strict=True):
            gamma, beta = case.chunk(2, -1)
            of_members, of_cases = linear_in_parts(noise, weight), torch.cat([1 + gamma, beta], -1)
            # In place on a CPU; a product in parts is a view, whose gradient would be copied once more.
            modulation = of_members + of_cases if noise.is_cuda else of_members.add_(of_cases)
            gamma, beta = modulation.chunk(2, -1)
            state = torch.addcmul(beta, gamma, layer(state)).relu_()
        return self.output(state)


class Scaling(nn.Module):
    """Mean and scale of one kind of quantity, kept as buffers: physical units outside, standardised inside."""

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        require_counts(width=width)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    @torch.no_grad()
    def fit(self, values: Tensor) -> None:
        """Take mean and standard deviation over the rows of values (N, width); a constant column keeps scale 1."""
        if values.dim() != 2 or values.shape[1] != len(self.mean) or not len(values):
            raise ShapeError(f"scaling needs values of shape (N, {len(self.mean)}), got {tuple(values.shape)}")
        check_finite(values, "values for scaling", True)
        mean, deviation = values.double().mean(0), values.double().std(0, correction=0)
        constant = deviation <= 8 * torch.finfo(values.dtype).eps * mean.abs()
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(constant, 1.0, deviation))

    def standardise(self, values: Tensor) -> Tensor:
        if values.shape[-1:] != self.mean.shape[-1:]:
            raise ShapeError(f"expected {self.mean.shape[-1]} columns, (..., columns), got shape {tuple(values.shape)}")
        return (values - self.mean) / self.scale

    def restore(self, values: Tensor) -> Tensor:
        return values * self.scale + self.mean


def cases_at_once(width: int, members: int, like: Tensor, memory_budget: int | None) -> int:
    """How many cases fit the budget in bytes if every member needs three times `width` numbers on its way.

    Without a budget: 8 MiB on a CPU, where chunks that leave its caches take twice as long, and 1 GiB elsewhere.
    """
    if memory_budget is None:
        memory_budget = _CACHE if like.device.type == "cpu" else _BATCH
    return max(1, memory_budget // (3 * width * members * like.element_size()))


def draw_normal(like: Tensor, *shape: int, generator: torch.Generator | None) -> Tensor:
    """Standard normal numbers of the type and on the device of another tensor."""
    return torch.randn(shape, generator=generator, device=like.device, dtype=like.dtype)


def draw_shared(like: Tensor, members: int, width: int, generator: torch.Generator | None) -> Tensor:
    """Normal noise (1, M, K) for all cases alike, made to have mean 0 and covariance 1 where M is at least 4 K.

    What a draw has too much or too little would else be in every forecast, and in the same direction. Fewer members
    are left as they are: to force them would change more than it mends.
    """
    drawn = draw_normal(like, 1, members, width, generator=generator)
    if members < _ENOUGH_TO_BALANCE * width:
        return drawn
    centred = (drawn - drawn.mean(1, keepdim=True)).double()
    factor = torch.linalg.cholesky(centred.mT @ centred / members)
    return torch.linalg.solve_triangular(factor, centred.mT, upper=False).mT.to(like.dtype)


def sinusoidal_embedding(time: Tensor, width: int) -> Tensor:
    """Sin and cos of a time in [0, 1] at `width` / 2 frequencies from 1 to 1000, (...) to (..., width)."""
    frequencies = torch.exp(torch.linspace(0.0, math.log(1000.0), width // 2, device=time.device, dtype=time.dtype))
    angles = time[..., None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], -1)


def require_counts(**counts: int) -> None:
    """Raise unless every named number is at least 1."""
    for name, count in counts.items():
        require_count(name, count)
