"""Every figure by its label."""

from reproduction.figures.frost import FROST_FIGURES
from reproduction.figures.method import METHOD_FIGURES
from reproduction.figures.paper_figure import PaperFigure
from reproduction.figures.portfolio import BASE_SCORE_FIGURES, PORTFOLIO_FIGURES
from reproduction.figures.synthetic import SYNTHETIC_FIGURES
from reproduction.figures.wind import WIND_FIGURES
from stakes.errors import SettingError, did_you_mean


def all_figures() -> dict[str, PaperFigure]:
    """All figures by label, those of a subject in the order of the paper."""
    portfolios = (*PORTFOLIO_FIGURES, *BASE_SCORE_FIGURES)
    figures = (*FROST_FIGURES, *METHOD_FIGURES, *portfolios, *SYNTHETIC_FIGURES, *WIND_FIGURES)
    return {figure.label: figure for figure in figures}


def find_figure(label: str) -> PaperFigure:
    """The figure of that label."""
    figures = all_figures()
    if label not in figures:
        raise SettingError(f"there is no figure {label!r}; {did_you_mean(label, tuple(figures))}")
    return figures[label]
