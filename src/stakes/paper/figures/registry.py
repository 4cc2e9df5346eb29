"""Every figure by its label: what it needs and how it is drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from stakes.errors import SettingError, did_you_mean
from stakes.paper.studies import Key, Studies

__all__ = ["Drawn", "FigureSpec", "figure", "find_figure", "known_figures"]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure and its caption, which names the data and says what is to be seen."""

    figure: Figure
    caption: str


@dataclass(frozen=True)
class FigureSpec:
    """A figure of the paper, by its LaTeX label, or one of our own."""

    label: str
    subject: str
    title: str
    needs: tuple[Key, ...]
    draw: Callable[[Studies], Drawn]

    def possible(self, studies: Studies) -> bool:
        """Whether all that it needs was evaluated."""
        return all(key in studies.found for key in self.needs)


_FIGURES: dict[str, FigureSpec] = {}


def figure(label: str, subject: str, title: str, needs: Sequence[Key] = ()) -> Callable[..., Callable[..., Drawn]]:
    """Register the function below as the way to draw a figure."""

    def register(draw: Callable[[Studies], Drawn]) -> Callable[[Studies], Drawn]:
        _FIGURES[label] = FigureSpec(label, subject, title, tuple(needs), draw)
        return draw

    return register


def known_figures() -> dict[str, FigureSpec]:
    """All figures, those of a subject in the order of the paper."""
    from stakes.paper.figures import frost, method, portfolio, synthetic, wind  # noqa: F401  they register

    return dict(_FIGURES)


def find_figure(label: str) -> FigureSpec:
    """The figure of that label."""
    known = known_figures()
    if label not in known:
        raise SettingError(f"there is no figure {label!r}; {did_you_mean(label, tuple(known))}")
    return known[label]
