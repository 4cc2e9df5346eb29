"""Draw what each candidate above the linear forecast was worth in the demo.

make demo                                    leaves stakes-demo
python -m benchmarks.plot_selection stakes-demo        writes docs/figures/selection.svg
"""

import argparse
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stakes.artifacts.fits import load_bundle
from stakes.evaluation.selection import ModelSelection, candidate_title
from stakes.plots import COLOURS, style, to_svg

FILE = Path(__file__).parent.parent / "docs" / "figures" / "selection.svg"
TITLES = {
    "bakery": "bakery demand",
    "irish_wind": "Irish wind",
    "french_schedule": "French load",
}
CANDIDATES = ("network", "recent_errors", "total_score", "decision")


def draw(selections: dict[str, ModelSelection]) -> Figure:
    """A panel a record: the change of cost that each candidate brought, in % of what the linear forecast costs."""
    with style():
        figure = Figure(figsize=(7.2, 2.0))
        panels = figure.subplots(1, len(selections), sharex=True, sharey=True)
        for axes, (name, selection) in zip(panels, selections.items(), strict=True):
            _draw_candidates(axes, selection)
            axes.set_title(f"{TITLES[name]}: {candidate_title(selection.selected.name)} selected")
        panels[0].set_yticks(range(len(CANDIDATES)), [candidate_title(name) for name in CANDIDATES])
        panels[0].set_ylim(len(CANDIDATES) - 0.5, -0.5)  # from above, as the report has them
        figure.supxlabel(
            "change of cost against the one selected before, in % of what the linear forecast costs, 95 % intervals",
            size=8,
        )
    return figure


def _draw_candidates(axes: Axes, selection: ModelSelection) -> None:
    (linear,) = (abs(candidate.cost) for candidate in selection.candidates if candidate.name == "linear")
    axes.axvline(0, color="black", linewidth=0.8)
    for candidate in selection.candidates:
        if candidate.name in CANDIDATES:
            change = candidate.cost_change
            mean, low, high = (100 * value / linear for value in change)
            colour = COLOURS["orange"] if candidate.accepted else COLOURS["grey"]
            look = {"color": colour, "marker": "o", "markerfacecolor": colour if candidate.accepted else "white"}
            axes.errorbar(
                mean, CANDIDATES.index(candidate.name), xerr=[[mean - low], [high - mean]], elinewidth=1.0, **look
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", type=Path, help="the folder of the demo")
    folder = parser.parse_args().demo
    found = {name: load_bundle(folder / name).forecaster.selection_ for name in TITLES}
    selections = {name: selection for name, selection in found.items() if selection is not None}
    FILE.write_text(to_svg(draw(selections)))
