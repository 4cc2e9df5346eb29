"""24-hour schedules with a ramp limit, forward and backward: against other solvers, in training, and as they grow.

    python -m benchmarks.schedules [--device cuda] [--rivals] [--json benchmarks/results/schedules_cpu.json]
    python -m benchmarks.plot_schedules             draws what was measured

The ramp binds in half of the cases, and the batch has 256 cases of 50 members where nothing else is said. Rivals
(`--rivals`: cvxpylayers, and moreau and qpth where they are installed) are compiled before they are timed; they solve
two cases in one call, and their time a case stands for the batch; `InteriorPoint`, which is ours, solves all.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

import stakes
from benchmarks import schedule_rivals
from benchmarks.timing import interleave, processor, seconds
from benchmarks.training_step import crps, decision_aware, training_step

HOURS, MEMBERS, CASES = 24, 50, 256
SHORT, LONG, QUADRATIC, RAMP = PRICES_AND_RAMP = 50.0, 0.5, 1.0, 0.4
FEW = 2  # cases that a rival solves
OWN_SOLVER = "InteriorPoint"
WARM_STEPS = 40  # of training, before steps are timed
BY_MEMBERS, BY_HOURS = (10, 20, 50, 100, 200, 500, 1000), (1, 2, 6, 12, 24, 50, 100, 200)
BY_CASES = {"cpu": (256, 1024, 4096), "cuda": (256, 1024, 4096, 16384, 65536)}
Call = Callable[[], object]


def ensembles(cases: int, members: int, hours: int, device: str = "cpu") -> Tensor:
    """Loads of a day; every other case has ramps that are too steep."""
    generator = torch.Generator().manual_seed(0)
    level = 3 + 0.5 * torch.sin(torch.arange(hours) / 4.0)
    steep = torch.where(torch.arange(cases) % 2 == 0, 0.02, 0.6)[:, None, None]
    noise = torch.randn(cases, members, hours, generator=generator).cumsum(-1)
    return (level + steep * noise).double().to(device)


def schedule_cost(device: str = "cpu") -> stakes.ScheduleCost:
    """The cost, its parameters where the members are, so that nothing is copied there."""
    return stakes.ScheduleCost(
        *(torch.tensor([value], dtype=torch.float64, device=device) for value in PRICES_AND_RAMP)
    )


def both_ways(layer: Callable[[Tensor], Tensor], members: Tensor) -> Call:
    leaf = members.clone().requires_grad_()
    return lambda: torch.autograd.grad(layer(leaf).sum(), leaf)


def ours(cost: stakes.ScheduleCost, members: Tensor, solver: stakes.InteriorPoint | None = None) -> Call:
    return both_ways(lambda leaf: stakes.optimal_action(cost, leaf, solver), members)


def bound_share(members: Tensor) -> float:
    """The share of cases in which the ramp binds."""
    free = stakes.optimal_action(stakes.ScheduleCost(SHORT, LONG, QUADRATIC), members)
    return float((free.diff(dim=-1).abs().amax(-1) > RAMP).double().mean()) if members.shape[-1] > 1 else 0.0


def against_rivals(rounds: int = 5) -> list[dict[str, object]]:
    """The time of a schedule, and how far rivals are from the exact one; then the same of qpth, where it can."""
    rows = []
    for hours, members, cases in ((HOURS, MEMBERS, CASES), (12, 20, CASES)):
        layers = (
            schedule_rivals.rivals((SHORT, LONG, QUADRATIC), RAMP, members, hours)
            if hours == HOURS
            else {"qpth": schedule_rivals.qpth((SHORT, LONG, QUADRATIC), RAMP, members, hours)}
            if find_spec("qpth")
            else {}
        )
        samples, cost = ensembles(cases, members, hours), schedule_cost()
        exact = stakes.optimal_action(cost, samples[:FEW])
        calls = {name: both_ways(layer, samples[:FEW]) for name, layer in layers.items()}
        counts = dict.fromkeys(layers, FEW)
        if hours == HOURS:
            calls[OWN_SOLVER], counts[OWN_SOLVER] = ours(cost, samples, stakes.InteriorPoint()), cases
            layers[OWN_SOLVER] = lambda leaf, cost=cost: stakes.optimal_action(cost, leaf, stakes.InteriorPoint())
        timing = interleave(ours(cost, samples), calls, rounds, least_seconds=0.5)
        for name, layer in layers.items():
            rows.append(
                {
                    "rival": name,
                    "hours": hours,
                    "members": members,
                    "ms a schedule": timing.milliseconds[name] / counts[name],
                    "ours": timing.milliseconds["ours"] / cases,
                    "times ours": timing.ratios[name] * cases / counts[name],
                    "off by": float((layer(samples[:FEW]) - exact).detach().abs().max()),
                }
            )
            print(rows[-1], flush=True)
    return rows


def in_training(device: str, members: int = 20) -> dict[str, object]:
    """A training step with the decision against one on the energy score alone, by the share of cases that ramps bind.

    The forecasts of an untrained network break the ramp in every case; where it is to bind in none, or in half of them,
    the others have one that is far away. All have made some steps before they are timed.
    """
    model = {"outcome": ensembles(CASES, 1, HOURS, device)[:, 0].float(), "members": members, "device": device}
    plain = training_step(loss=crps, **model)
    rivals = {}
    for name, bound in (("none", 0), ("half", CASES // 2), ("all", CASES)):
        ramp = torch.full((CASES, 1), 1e3, dtype=torch.float64, device=device)
        ramp[:bound] = RAMP
        rivals[name] = training_step(loss=decision_aware(replace(schedule_cost(device), ramp=ramp)), **model)
    for step in (plain, *rivals.values()):
        for _ in range(WARM_STEPS):
            step()
    timing = interleave(plain, rivals, rounds=25, least_seconds=0.2)
    return {
        "members": members,
        "energy score alone ms": timing.milliseconds["ours"],
        "times as long, ramp binds in": timing.ratios,
    }


def growth(device: str, cases: int) -> dict[str, list[dict[str, object]]]:
    """Milliseconds a case, exact and by the interior-point method, by members and by hours."""
    sizes = {"by members": [(count, HOURS) for count in BY_MEMBERS], "by hours": [(MEMBERS, t) for t in BY_HOURS]}
    result: dict[str, list[dict[str, object]]] = {}
    for name, pairs in sizes.items():
        result[name] = []
        for members, hours in pairs:
            samples, cost = ensembles(cases, members, hours, device), schedule_cost(device)
            few = samples[: max(2, cases // 16)]
            result[name].append(
                {
                    "members": members,
                    "hours": hours,
                    "ramp binds in": bound_share(samples),
                    "exact ms": median_ms(ours(cost, samples)) / cases,
                    "interior point ms": median_ms(ours(cost, few, interior_point(device)), 1) / len(few),
                }
            )
            print(result[name][-1], flush=True)
    return result


def by_cases(device: str) -> list[dict[str, object]]:
    """Schedules with gradient a second, by the size of the batch: exact, replayed as one graph, and as a program."""
    rows = []
    for cases in BY_CASES[device]:
        samples, cost = ensembles(cases, MEMBERS, HOURS, device), schedule_cost(device)
        row: dict[str, object] = {"cases": cases, "exact": rate(ours(cost, samples), cases)}
        if device != "cpu":
            row["exact, captured"] = captured_rate(ours(cost, samples), cases)
        if cases <= (256 if device == "cpu" else 16384):
            row["interior point"] = rate(ours(cost, samples, interior_point(device)), cases)
        rows.append(row)
        print(row, flush=True)
    return rows


def interior_point(device: str) -> stakes.InteriorPoint:
    """All cases at once where there is memory."""
    return stakes.InteriorPoint() if device == "cpu" else stakes.InteriorPoint(memory=1 << 36)


def captured_rate(call: Call, cases: int) -> int | str:
    """The rate of the call as a CUDA graph, or why there is none."""
    try:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            call()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                call()
        return rate(graph.replay, cases)
    except RuntimeError as reason:
        return str(reason)


def median_ms(call: Call, rounds: int = 5) -> float:
    call()
    return 1e3 * statistics.median(seconds(call, 1) for _ in range(rounds))


def rate(call: Call, cases: int) -> int:
    return round(cases / median_ms(call) * 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rivals", action="store_true", help="time other solvers as well")
    parser.add_argument("--json", type=Path, help="where the figures are written")
    given = parser.parse_args()
    on_cpu = given.device == "cpu"
    machine = processor() if on_cpu else torch.cuda.get_device_name()
    result: dict[str, object] = {
        "machine": f"{machine}, {torch.get_num_threads()} threads, torch {torch.__version__}",
        "ramp binds in": bound_share(ensembles(CASES, MEMBERS, HOURS)),
    }
    parts: dict[str, Callable[[], object]] = {
        "schedules a second": lambda: by_cases(given.device),
        "training step": lambda: in_training(given.device),
        "growth": lambda: growth(given.device, 64 if on_cpu else 4096),
    }
    if given.rivals:
        parts["rivals"] = against_rivals
    for name, measure in parts.items():
        result[name] = measure()
        if given.json:
            given.json.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
