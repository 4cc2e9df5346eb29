"""A figure of the paper: what it shows, which studies it needs and how it is drawn."""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from stakes.evaluation.study import Study
from stakes.paper.study_collection import Studies, StudyKey

__all__ = ["Drawn", "PaperFigure"]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure and its caption.

    Attributes:
        figure: The drawing.
        caption: Sentences that name the data and say what to look for.
    """

    figure: Figure
    caption: str


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper, or one of our own.

    Attributes:
        label: Its LaTeX label in the paper, which is also the name of its file.
        subject: "method", or one of `stakes.paper.plan.SUBJECTS`.
        title: What stands above it in the report.
        draw: From the studies of a reproduction to the figure; called within `stakes.reports.style.style`.
        needs: The studies without which it cannot be drawn; it may show others beside them.
    """

    label: str
    subject: str
    title: str
    draw: Callable[[Studies], Drawn]
    needs: tuple[StudyKey, ...] = ()

    @classmethod
    def of_study(cls, label: str, title: str, key: StudyKey, draw: Callable[[Study], Drawn]) -> "PaperFigure":
        """A figure of one study."""
        return cls(label, key.task, title, lambda studies: draw(studies[key]), (key,))

    def possible(self, studies: Studies) -> bool:
        """Whether all that it needs was evaluated."""
        return all(key in studies for key in self.needs)
