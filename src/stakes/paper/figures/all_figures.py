"""Every figure by its label."""

from stakes.errors import SettingError, did_you_mean
from stakes.paper.figures import frost, method, portfolio, synthetic, wind
from stakes.paper.figures.paper_figure import PaperFigure

__all__ = ["all_figures", "find_figure"]


def all_figures() -> dict[str, PaperFigure]:
    """All figures by label, those of a subject in the order of the paper."""
    modules = (frost, method, portfolio, synthetic, wind)
    return {figure.label: figure for module in modules for figure in module.FIGURES}


def find_figure(label: str) -> PaperFigure:
    """The figure of that label.

    Args:
        label: Its label in the paper, or our own; an unknown one is refused with the nearest that there is.
    """
    figures = all_figures()
    if label not in figures:
        raise SettingError(f"there is no figure {label!r}; {did_you_mean(label, tuple(figures))}")
    return figures[label]
