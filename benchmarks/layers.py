"""The decision layer, forward and backward, against the paper's: 50 steps of projected gradient with autograd.

    python -m benchmarks.layers [--device cpu] [--no-compile]

The paper-style layer is written as a user would write it today, in plain torch: 50 gradient steps on the mean cost,
then the implicit gradient from second derivatives by autograd.
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

import stakes
from benchmarks.timing import interleave

SIZES = ((256, 10), (1600, 50), (8192, 500))
CostFunction = Callable[[Tensor, Tensor], Tensor]


def shortfall(action: Tensor, produced: Tensor) -> Tensor:
    return -action + 5.0 * torch.relu(action - produced) ** 2


def protection(action: Tensor, outcome: Tensor) -> Tensor:
    severity = torch.sigmoid(10.0 * (outcome - 1.0))
    return severity * (1 - action) ** 2 + 0.5 * (1 - severity) * action


class PaperLayer(torch.autograd.Function):
    """a* of members (B, M) by projected gradient descent on [0, 1]; gradient by the implicit function theorem."""

    @staticmethod
    def forward(ctx, members: Tensor, cost: CostFunction, steps: int, step_size: float) -> Tensor:  # type: ignore[no-untyped-def]
        action = torch.full_like(members[:, 0], 0.5)
        with torch.enable_grad():
            for _ in range(steps):
                action = action.detach().requires_grad_()
                (slope,) = torch.autograd.grad(cost(action[:, None], members.detach()).mean(1).sum(), action)
                action = (action - step_size * slope).clamp(0, 1)
        action = action.detach()
        ctx.save_for_backward(members, action)
        ctx.cost = cost
        return action.clone()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[no-untyped-def]
        members, action = (saved.detach().requires_grad_() for saved in ctx.saved_tensors)
        with torch.enable_grad():
            expected = ctx.cost(action[:, None], members).mean(1)
            (slope,) = torch.autograd.grad(expected.sum(), action, create_graph=True)
            curvature, cross = torch.autograd.grad(slope.sum(), (action, members))
        interior = (action > 0) & (action < 1)
        pull = torch.where(interior, -grad_output / torch.where(interior, curvature, 1.0), 0.0)
        return pull[:, None] * cross, None, None, None


def forward_backward(layer: Callable[[Tensor], Tensor], members: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(layer(members).sum(), members)


def paper_layer(cost: CostFunction, steps: int = 50, step_size: float = 0.1) -> Callable[[Tensor], Tensor]:
    return lambda members: PaperLayer.apply(members[..., 0], cost, steps, step_size)


def run(device: str = "cpu", compiled: bool = True) -> list[dict[str, object]]:
    torch.manual_seed(0)
    rows = []
    for cases, count in SIZES:
        for name, function, closed_form, scale in (
            ("shortfall", shortfall, stakes.ShortfallCost(5.0), 1.0),
            ("protection", protection, stakes.ProtectionCost(1.0, 0.5), 2.0),
        ):
            members = (scale * torch.rand(cases, count, 1, device=device)).requires_grad_()
            plain = stakes.cost_function(function, 0.0, 1.0)

            def generic(y: Tensor, cost: stakes.Cost = plain) -> Tensor:
                return stakes.optimal_action(cost, y)

            def closed(y: Tensor, cost: stakes.Cost = closed_form) -> Tensor:
                return stakes.optimal_action(cost, y)

            layers = {"closed form": closed, "NewtonBisection": generic}
            if compiled:
                layers["NewtonBisection compiled"] = torch.compile(generic)
            rival = {"projected gradient": forward_backward(paper_layer(function), members)}
            for label, layer in layers.items():
                rounds = 5 if count == 500 else 15
                timing = interleave(forward_backward(layer, members), rival, rounds)
                rows.append({"cost": name, "cases": cases, "members": count, "layer": label} | timing.row())
                print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args()
    run(arguments.device, not arguments.no_compile)
