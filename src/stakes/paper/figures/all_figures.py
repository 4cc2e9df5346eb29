"""Every figure by its label."""

from stakes.errors import SettingError, did_you_mean
from stakes.paper.figures.base_scores import BASE_SCORE_FIGURES
from stakes.paper.figures.frost import FROST_FIGURES
from stakes.paper.figures.method import METHOD_FIGURES
from stakes.paper.figures.paper_figure import PaperFigure
from stakes.paper.figures.portfolio import PORTFOLIO_FIGURES
from stakes.paper.figures.synthetic import SYNTHETIC_FIGURES
from stakes.paper.figures.wind import WIND_FIGURES

__all__ = ["all_figures", "find_figure"]


def all_figures() -> dict[str, PaperFigure]:
    """All figures by label, those of a subject in the order of the paper."""
    portfolios = (*PORTFOLIO_FIGURES, *BASE_SCORE_FIGURES)
    figures = (*FROST_FIGURES, *METHOD_FIGURES, *portfolios, *SYNTHETIC_FIGURES, *WIND_FIGURES)
    return {figure.label: figure for figure in figures}


def find_figure(label: str) -> PaperFigure:
    """The figure of that label.

    Args:
        label: Its label in the paper, or our own; an unknown one is refused with the nearest that there is.
    """
    figures = all_figures()
    if label not in figures:
        raise SettingError(f"there is no figure {label!r}; {did_you_mean(label, tuple(figures))}")
    return figures[label]
