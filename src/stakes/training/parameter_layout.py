"""The trained parameters of a model as one row of numbers, and where each has its place."""

import copy

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from stakes.errors import SettingError

__all__ = ["ParameterLayout", "parameter_places"]

_WIDTH = 64  # rows are padded to a multiple of this, so that vectorised kernels treat every row alike


class ParameterLayout:
    """Where each trained parameter of a model stands in a row of P numbers.

    Args:
        model: Its parameters that require a gradient are the trained ones; there may be none.
    """

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
    """The modules that hold each parameter, and under which name; tied ones are held by several.

    Args:
        model: The model.
    """
    names = {parameter: name for name, parameter in model.named_parameters()}
    places: dict[str, list[tuple[nn.Module, str]]] = {name: [] for name in names.values()}
    for module in model.modules():
        for leaf, parameter in module._parameters.items():
            if parameter is not None:
                places[names[parameter]].append((module, leaf))
    return places
