"""Draw the decision of the README: `python -m benchmarks.plot_decision` writes docs/figures/decision.svg."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import stakes
from stakes.plots import plot_decision, style, to_svg

FILE = Path(__file__).parent.parent / "docs" / "figures" / "decision.svg"


def draw() -> Figure:
    """The expected cost of every number of loaves, the best one, and the forecast of the demand below."""
    demand = np.random.default_rng(0).gamma(9.0, 5.0, size=500)
    cost = stakes.NewsvendorCost(underage=4.0, overage=1.0, lower=0.0, upper=100.0)
    with style():
        figure = Figure(figsize=(6.4, 3.0))
        plot_decision(cost, demand, unit="EUR", action_unit="loaves", ax=figure.subplots()).set_yticks(
            range(0, 141, 20)
        )
    return figure


if __name__ == "__main__":
    FILE.write_text(to_svg(draw()), "utf-8")
