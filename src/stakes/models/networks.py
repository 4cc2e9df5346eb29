"""The small networks behind the models."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from stakes.argument_checks import require_counts

_ROWS = 1024  # of a part


class Linear(nn.Linear):
    """A linear map of many rows; see `linear_in_parts`."""

    def forward(self, inputs: Tensor) -> Tensor:
        return linear_in_parts(inputs, self.weight, self.bias)


def linear_in_parts(inputs: Tensor, weight: Tensor, bias: Tensor | None = None, parts: int | None = None) -> Tensor:
    """`torch.nn.functional.linear`, on a GPU with its rows in equal parts of a thousand or more.

    The gradient of a weight is a sum over all rows, one long sum per replica; the parts are summed side by side, which
    takes a fifth to a quarter off a training step (benchmarks/README.md).
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
    """The largest number of equal parts with at least `_ROWS` rows each."""
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

    def start_at_zero(self) -> None:
        """Let all outputs be 0 until the last layer is trained."""
        for parameter in self.layers[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        return self.layers(inputs)


class FiLMNetwork(nn.Module):
    """A perceptron whose every hidden layer is modulated by its condition: relu((1 + gamma) h + beta).

    gamma and beta of all layers are one linear map of [condition, noise] (feature-wise linear modulation). The
    condition is one per case and the noise one per member, so the case's part is computed once for all its members.
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


def sinusoidal_embedding(time: Tensor, width: int) -> Tensor:
    """Sine and cosine of a time at frequencies from 1 to 1000, (..., width)."""
    frequencies = torch.exp(torch.linspace(0.0, math.log(1000.0), width // 2, device=time.device, dtype=time.dtype))
    angles = time[..., None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], -1)
