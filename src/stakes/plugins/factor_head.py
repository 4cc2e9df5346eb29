"""A head for forecasters that emit numbers for every hour and series: joint members, of which any number can be drawn.

    y = location + scale * own noise + loadings @ shared noise                                          (the head)

The shared noise is one for all hours and series of a forecast, so that the members are joint draws of all of them.
They are independent of each other and of one distribution, as fair scores need them; the outputs of a network that has
one for each member are not.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from stakes.errors import ShapeError
from stakes.method.argument_checks import require_count, working_precision

__all__ = ["FactorForecast", "FactorHead"]


class FactorForecast(NamedTuple):
    """A forecast of H hours and N series whose errors move together by K factors, all Gaussian.

    Attributes:
        location: What is expected, (B, H, N).
        scale: The spread of what each hour and series has of its own, (B, H, N).
        loadings: How far each is moved by each factor, (B, H, N, K).
    """

    location: Tensor
    scale: Tensor
    loadings: Tensor

    def draw(self, members: int, generator: torch.Generator | None = None) -> Tensor:
        """Members (B, M, H, N), each a joint draw of all hours and series.

        Args:
            members: M, how many to draw.
            generator: What the noise is drawn from; None takes torch's global one.
        """
        forecasts, *_, factors = self.loadings.shape
        noise = partial(torch.randn, dtype=self.location.dtype, device=self.location.device, generator=generator)
        own = noise((forecasts, members, *self.location.shape[1:]))
        shared = noise((forecasts, members, factors))
        together = torch.einsum("bmk,bhnk->bmhn", shared, self.loadings)
        return self.location[:, None] + self.scale[:, None] * own + together

    def in_units(self, shift: Tensor | float, unit: Tensor | float) -> "FactorForecast":
        """The forecast of shift + unit y, where this one is of y.

        Args:
            shift: What is added, a number or a tensor that broadcasts against (B, H, N).
            unit: What is multiplied by, positive, likewise.
        """
        each = unit[..., None] if isinstance(unit, Tensor) else unit
        return FactorForecast(shift + unit * self.location, unit * self.scale, each * self.loadings)

    def spread(self) -> Tensor:
        """The standard deviation of each hour and series, (B, H, N)."""
        return torch.sqrt(self.scale**2 + (self.loadings**2).sum(-1))

    def covariance(self) -> Tensor:
        """The covariance of all hours and series, (B, H N, H N): scale^2 on the diagonal, plus loadings loadings'."""
        loadings = self.loadings.flatten(1, 2)
        return torch.diag_embed(self.scale.flatten(1) ** 2) + loadings @ loadings.mT


@dataclass(frozen=True)
class FactorHead:
    """Numbers of a network as a `FactorForecast`.

    Attributes:
        factors: K, how many kinds of noise hours and series share; with 0 they are independent of each other.
    """

    factors: int = 8

    def __post_init__(self) -> None:
        require_count("factors", self.factors, least=0)

    @property
    def outputs(self) -> int:
        """How many numbers the network must emit for each hour and series."""
        return 2 + self.factors

    @property
    def names(self) -> list[str]:
        """What the numbers of each hour and series are called once `forecast` has made a forecast of them."""
        return ["location", "scale", *(f"loading_{factor + 1}" for factor in range(self.factors))]

    def forecast(self, output: Tensor) -> FactorForecast:
        """The forecast that a network's output stands for.

        Args:
            output: What the network emits, (B, H, N, `outputs`): any real numbers.
        """
        if output.dim() != 4 or output.shape[-1] != self.outputs:
            raise ShapeError(
                f"the output must be (batch, hours, series, {self.outputs}) for a head of {self.factors} factors, "
                f"got {tuple(output.shape)}"
            )
        location, width, loadings = working_precision(output).split([1, 1, self.factors], -1)
        return FactorForecast(location.squeeze(-1), softplus(width.squeeze(-1)), loadings)
