"""Adam as `torch.optim.AdamW` has it, without the class, which imports the compiler of torch: that takes seconds."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adamw import adamw

__all__ = ["Adam"]


class Adam:
    """Adam with decoupled weight decay, and torch's numbers for everything that is not given here.

    Args:
        parameters: What is optimised, of any shapes; `step` changes them in place.
        learning_rate: The first one; `set_learning_rate` changes it.
        weight_decay: The share of the parameters, times the learning rate, that each step takes away.
        captured: Whether steps may be captured as a CUDA graph: step and rate then are on the device, the kernel fused.

    Attributes:
        first_moments: Running means of the gradients, one tensor for each of the parameters.
        second_moments: Running means of their squares.
        steps: How many steps there were, (), once for each of the parameters.
    """

    def __init__(
        self, parameters: Sequence[Tensor], learning_rate: float, weight_decay: float = 0.0, captured: bool = False
    ) -> None:
        self.parameters = list(parameters)
        self.first_moments = [torch.zeros_like(each) for each in self.parameters]
        self.second_moments = [torch.zeros_like(each) for each in self.parameters]
        device = self.parameters[0].device if captured else None
        self.steps = [torch.zeros((), dtype=torch.float32, device=device) for _ in self.parameters]
        self._rate = torch.tensor(learning_rate, device=device) if captured else learning_rate
        self._weight_decay = weight_decay
        self._captured = captured

    def set_learning_rate(self, learning_rate: float) -> None:
        """Take steps at another rate from now on, captured or not."""
        if isinstance(self._rate, Tensor):
            self._rate.fill_(learning_rate)
        else:
            self._rate = learning_rate

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Change the parameters by one step along these gradients, one for each of them."""
        adamw(
            self.parameters,
            list(gradients),
            self.first_moments,
            self.second_moments,
            [],
            self.steps,
            fused=self._captured
            or None,  # None, as on a CPU: there the last numbers of a tensor would round differently
            capturable=self._captured,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._rate,
            weight_decay=self._weight_decay,
            eps=1e-8,
            maximize=False,
        )
