"""Draw what each rung above the linear forecast was worth in the demo.

make demo                                    leaves stakes-demo
python -m benchmarks.plot_ladder stakes-demo        writes docs/figures/ladder.svg
"""

import argparse
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stakes.artifacts.fits import load_bundle
from stakes.evaluation.selection import Ladder
from stakes.reports.drawing import COLOURS, style, to_svg
from stakes.reports.selection_text import rung_title

FILE = Path(__file__).parent.parent / "docs" / "figures" / "ladder.svg"
TITLES = {
    "bakery": "a bakery's demand",
    "irish_wind": "wind at 12 Irish stations",
    "french_schedule": "a day of French load",
}
RUNGS = ("network", "fresh_errors", "total_score", "decision")


def draw(ladders: dict[str, Ladder]) -> Figure:
    """A panel a ladder: the change of cost that each rung brought, with its interval, in % of what linear costs."""
    with style():
        figure = Figure(figsize=(7.2, 2.0))
        panels = figure.subplots(1, len(ladders), sharex=True, sharey=True)
        for axes, (name, ladder) in zip(panels, ladders.items(), strict=True):
            _draw_rungs(axes, ladder)
            axes.set_title(f"{TITLES[name]}: {rung_title(ladder.taken.name)} taken")
        panels[0].set_yticks(range(len(RUNGS)), [rung_title(name) for name in RUNGS])
        panels[0].set_ylim(len(RUNGS) - 0.5, -0.5)  # from above, as the report has them
        figure.supxlabel(
            "change of cost against the rung held, in % of what the linear forecast costs, 95 % intervals", size=8
        )
    return figure


def _draw_rungs(axes: Axes, ladder: Ladder) -> None:
    (linear,) = (abs(rung.cost) for rung in ladder.rungs if rung.name == "linear")
    axes.axvline(0, color="black", linewidth=0.8)
    for rung in ladder.rungs:
        if rung.name in RUNGS:
            change = rung.cost_change
            mean, low, high = (100 * value / linear for value in change)
            colour = COLOURS["orange"] if rung.climbed else COLOURS["grey"]
            look = {"color": colour, "marker": "o", "markerfacecolor": colour if rung.climbed else "white"}
            axes.errorbar(mean, RUNGS.index(rung.name), xerr=[[mean - low], [high - mean]], elinewidth=1.0, **look)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", type=Path, help="the folder of the demo")
    folder = parser.parse_args().demo
    found = {name: load_bundle(folder / name).forecaster.ladder_ for name in TITLES}
    ladders = {name: ladder for name, ladder in found.items() if ladder is not None}
    FILE.write_text(to_svg(draw(ladders)))
