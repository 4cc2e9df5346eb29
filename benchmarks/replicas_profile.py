"""Where the time of a stacked training step goes, and how far it is from the machine's limits.

    python -m benchmarks.replicas_profile [--device cuda] [--json FILE]

Counted on one eager step: floating-point operations of the matrix products, bytes that all operators read and write
(what a cache would save is counted too), and kernels. Divided by the time of the captured step they give rates, which
are set beside what a large matrix product and a large copy reach on the same device.
"""

import argparse
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.replicas import MODELS, seconds_a_call, stack_stepper

_VIEWS = ("view", "reshape", "expand", "permute", "transpose", "select", "slice", "split", "squeeze", "t.", "detach")
KINDS = {
    "matrix products": ("gemm", "gemv", "splitK"),
    "reductions and scans": ("reduce", "scan", "Sort", "sort"),
    "optimiser": ("multi_tensor",),
}


class ByteCounter(TorchDispatchMode):
    """Adds up the bytes of the tensors that operators take and return."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, operator: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        result = operator(*arguments, **(keywords or {}))
        if not any(word in str(operator) for word in _VIEWS):
            leaves = tree_leaves((arguments, keywords, result))
            self.bytes += sum(each.numel() * each.element_size() for each in leaves if isinstance(each, Tensor))
        return result


def kind_of(kernel: str) -> str:
    return next(
        (kind for kind, words in KINDS.items() if any(word in kernel for word in words)), "elementwise and copies"
    )


def limits(device: str) -> dict[str, float]:
    """What a large product and a large copy reach."""
    size = 8192 if device == "cuda" else 1024
    square = torch.randn(size, size, device=device)
    product = seconds_a_call(lambda: torch.mm(square, square), 10, device)
    source = torch.empty(2**30 if device == "cuda" else 2**26, device=device)
    target = torch.empty_like(source)
    copy = seconds_a_call(lambda: target.copy_(source), 10, device)
    return {"TFLOP/s": 2 * size**3 / product / 1e12, "TB/s": 2 * source.numel() * 4 / copy / 1e12}


def run(device: str, replicas: int, members: int) -> list[dict[str, object]]:
    best = limits(device)
    rows = []
    for kind in MODELS:
        stepper = stack_stepper(kind, replicas, members, device, steps=8)
        stepper.epoch("training", 1, 1e-3)
        taken = seconds_a_call(partial(stepper.epoch, "training", 2, 1e-3), 3, device) / 8
        with FlopCounterMode(display=False) as flops, ByteCounter() as traffic:
            stepper._step()
        shares, kernels, busy = Counter[str](), 0, 0.0
        if device == "cuda":
            with profile(activities=[ProfilerActivity.CUDA]) as profiled:
                stepper.epoch("training", 3, 1e-3)
                torch.cuda.synchronize()
            for event in profiled.key_averages():
                shares[kind_of(event.key)] += event.self_device_time_total / 8e3  # ms a step
                kernels += event.count
            busy = sum(shares.values())
        row: dict[str, object] = {"model": kind, "R": replicas, "M": members, "ms a step": round(1e3 * taken, 3)}
        row |= {f"{name}, ms": round(value, 3) for name, value in shares.most_common()}
        row |= {
            "kernels a step": round(kernels / 8),
            "device busy, ms": round(busy, 3),
            "TFLOP/s": round(flops.get_total_flops() / taken / 1e12, 2),
            "of a large product": round(flops.get_total_flops() / taken / 1e12 / best["TFLOP/s"], 3),
            "TB/s": round(traffic.bytes / taken / 1e12, 2),
            "of a large copy": round(traffic.bytes / taken / 1e12 / best["TB/s"], 3),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    counts = (54, 162) if arguments.device == "cuda" else (2,)
    results = [row for count in counts for row in run(arguments.device, count, 10)]
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
