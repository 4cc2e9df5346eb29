"""What deciding from M members does to the decision score and its gradient, for perfect forecasts.

    python -m benchmarks.bias score
    python -m benchmarks.bias gradient
    python -m benchmarks.bias multilevel

`score` is the bias of the plain and the debiased decision score, whose M members come from the truth itself. `gradient`
lets a forecast s z of outcomes N(0, 1), z = u'x with x standard normal in d dimensions and u one of them, choose its
spread s: the bias of the score at s = 1 and of its derivative by s, which is 0 for infinitely many members and above 0
where a narrower forecast is rewarded, for independent and structured x. The expectation over outcomes is exact.
`multilevel` is the unbiased estimator S(y_1..y_M) + D_N / p_N of Blanchet and Glynn (2015), with
D_n = S(all M 2^n members) - mean of S of both halves and N drawn with chances p_n ~ 2^(-r n): how fast E D_n^2 falls,
on which it depends whether variance and work are finite, and what both come to, for the score and its derivative.
"""

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import stakes
from stakes.models.noise import draw_normal, draw_structured

DRAWS = 200_000
TRUTH = 2_000_000


def wind(count: int, generator: torch.Generator) -> Tensor:
    return (10 + 4 * torch.randn(count, generator=generator, dtype=torch.float64)).clamp(min=0)


def two_modes(count: int, generator: torch.Generator) -> Tensor:
    second = torch.rand(count, generator=generator) < 0.4
    noise = torch.randn(count, generator=generator, dtype=torch.float64)
    return torch.where(second, 2.5 + 0.4 * noise, 0.2 * noise)


CASES = {
    "wind, lambda 5": (wind, stakes.WindDispatchCost(5.0)),
    "wind, lambda 20": (wind, stakes.WindDispatchCost(20.0)),
    "protection": (two_modes, stakes.ProtectionCost(1.0, 0.5)),
}


Row = dict[str, object]


def score() -> list[Row]:
    rows: list[Row] = []
    for name, (draw, cost) in CASES.items():
        generator = torch.Generator().manual_seed(0)
        truth = draw(TRUTH, generator)[:, None]
        best = stakes.solve_action(cost, truth)
        for members in (10, 20, 50, 100):
            samples = draw(DRAWS * members, generator).reshape(DRAWS, members, 1)
            outcome = draw(DRAWS, generator)[:, None]
            reference = cost(best.action.expand(DRAWS, 1), outcome)  # a control variate: same outcomes
            row: Row = {"case": name, "members": members}
            for estimator in ("plain", "debiased"):
                excess = stakes.DecisionScore(cost, estimator)(samples, outcome) - reference
                row[f"{estimator} bias"] = round(excess.mean().item(), 4)
                row[f"{estimator} standard error"] = round((excess.std() / DRAWS**0.5).item(), 4)
            rows.append(row)
            print(row, flush=True)
    return rows


SHORT = 10.0  # what too little costs, 1 what is too much
BOUNDS = -99.0, 99.0
COSTS: dict[str, stakes.Cost] = {
    "imbalance, 10 : 1": stakes.ImbalanceCost(SHORT, 1.0, *BOUNDS),
    "newsvendor, 10 : 1": stakes.NewsvendorCost(SHORT, 1.0, *BOUNDS),
}
SPREADS, AT_ONCE = 4000, 1000  # cases


def density(values: Tensor) -> Tensor:
    return torch.exp(-values.square() / 2) / math.sqrt(2 * math.pi)


def expected(name: str, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """E c(a, Y) for Y from N(0, 1), its slope and its curvature."""
    below = torch.special.ndtr(action)
    over = action * below + density(action)  # E relu(a - Y)
    short = over - action
    if name.startswith("newsvendor"):
        return SHORT * short + over, (SHORT + 1) * below - SHORT, (SHORT + 1) * density(action)
    squares = (action.square() + 1) * below + action * density(action)  # E relu(a - Y)^2
    cost = SHORT * (action.square() + 1 - squares) + squares
    return cost, 2 * (over - SHORT * short), 2 * (below + SHORT * (1 - below))


def best_action(name: str) -> Tensor:
    low, high = torch.tensor(-5.0, dtype=torch.float64), torch.tensor(5.0, dtype=torch.float64)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(name, middle)[1] < 0 else (low, middle)
    return low


def gradient() -> list[Row]:
    torch.set_num_threads(1)
    rows: list[Row] = []
    like = torch.zeros(1, dtype=torch.float64)
    for name, cost in COSTS.items():
        best = best_action(name)
        least, _, curvature = expected(name, best)
        outcome = torch.randn(TRUTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        variance = slope(name, best, outcome).var()
        for members in (5, 10, 20, 100):
            predicted = variance / (2 * curvature * members)
            for width in (1, 5, 20):
                row: Row = {"cost": name, "members": members, "noise inputs": width}
                row["V / (2 H M)"] = round(float(predicted), 4)
                for label, draw in {"independent": draw_normal, "structured": draw_structured}.items():
                    generator = torch.Generator().manual_seed(1)
                    parts = []
                    for _ in range(SPREADS // AT_ONCE):
                        noise = draw(like, AT_ONCE, members, width, generator=generator)
                        parts.append(stakes.optimal_action(cost, noise[..., :1])[:, 0])
                    action = torch.cat(parts)
                    value, by_action, _ = expected(name, action)
                    derivative = by_action * action  # the best action of s z is s times that of z
                    row[f"score, {label}"] = round(float(value.mean() - least), 4)
                    row[f"derivative, {label}"] = round(float(derivative.mean()), 4)
                    row[f"its standard error, {label}"] = round(float(derivative.std() / SPREADS**0.5), 4)
                rows.append(row)
                print(row, flush=True)
    return rows


def slope(name: str, action: Tensor, outcome: Tensor) -> Tensor:
    """The slope of the cost in the action at an outcome."""
    if name.startswith("newsvendor"):
        return torch.where(outcome > action, -SHORT, 1.0)
    return 2 * ((action - outcome).relu() - SHORT * (outcome - action).relu())


FEWEST, LEVELS = 10, 8


def multilevel() -> list[Row]:
    torch.set_num_threads(1)
    rows: list[Row] = []
    for name, cost in COSTS.items():
        for what in ("score", "derivative"):
            squares, means, plain = moments(name, cost, what)
            levels = torch.arange(1, LEVELS + 1, dtype=torch.float64)
            falls = -float(torch.linalg.lstsq(torch.stack([levels, levels**0], 1), squares.log2()[:, None]).solution[0])
            row: Row = {"cost": name, "of": what, "E D_n^2 falls as 2^(-b n), b": round(falls, 2)}
            row["bias at M = 10"] = round(float(plain.mean()), 4)
            row["after 8 levels"] = round(float(plain.mean() + means.sum()), 4)
            row["standard error"] = round(float(plain.std() / SPREADS**0.5), 4)
            rate = (1 + falls) / 2  # the best of p_n ~ 2^(-r n), where r lies between 1 and b
            if falls > 1:
                chances = (1 - 2**-rate) * 2 ** (-rate * (levels - 1))
                tail = squares[-1] / chances[-1] / (2 ** (falls - rate) - 1)
                row["variance over that of M = 10"] = round(
                    float(1 + ((squares / chances).sum() + tail) / plain.var()), 1
                )
                row["members, on average"] = round(FEWEST * (1 + 2 * (1 - 2**-rate) / (1 - 2 ** (1 - rate))), 1)
            else:
                row["variance over that of M = 10"] = "infinite, or the work is"
            rows.append(row)
            print(row, flush=True)
    return rows


def moments(name: str, cost: stakes.Cost, what: str) -> tuple[Tensor, Tensor, Tensor]:
    """E D_n^2 and E D_n for n from 1, and the plain estimate at M = 10 less its limit, case by case."""
    generator, best = torch.Generator().manual_seed(2), best_action(name)
    squares, means = torch.zeros(2, LEVELS, dtype=torch.float64)
    plain = []
    for _ in range(SPREADS // AT_ONCE):
        outcome = torch.randn(AT_ONCE, generator=generator, dtype=torch.float64)
        members = torch.randn(AT_ONCE, FEWEST << LEVELS, 1, generator=generator, dtype=torch.float64)

        def value(some: Tensor, outcome: Tensor = outcome) -> Tensor:
            action = stakes.optimal_action(cost, some)
            if what == "score":
                return cost(action, outcome[:, None]) - cost(best.expand(AT_ONCE, 1), outcome[:, None])
            return slope(name, action[:, 0], outcome) * action[:, 0] - slope(name, best, outcome) * best

        plain.append(value(members[:, :FEWEST]))
        for level in range(1, LEVELS + 1):
            count = FEWEST << level
            halves = value(members[:, : count // 2]) + value(members[:, count // 2 : count])
            difference = value(members[:, :count]) - halves / 2
            squares[level - 1] += difference.square().sum() / SPREADS
            means[level - 1] += difference.sum() / SPREADS
    return squares, means, torch.cat(plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    commands: dict[str, Callable[[], list[Row]]] = {"score": score, "gradient": gradient, "multilevel": multilevel}
    parser.add_argument("what", choices=commands)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = commands[options.what]()
    if options.json:
        options.json.write_text(json.dumps({options.what: rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
