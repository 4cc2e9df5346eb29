"""Figures as SVG, with their captions and the settings of every study that was read to draw them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stakes.errors import StakesError
from stakes.evaluation.study import Study
from stakes.paper.figures.all_figures import all_figures, find_figure
from stakes.paper.study_collection import Studies, StudyKey
from stakes.reports.page import Figure
from stakes.reports.style import style, to_svg

__all__ = ["draw_figure", "draw_figures"]


def draw_figures(studies: Studies, subjects: Sequence[str]) -> tuple[dict[str, Figure], list[str]]:
    """Every figure of some subjects, and of the method, whose studies are there: by label, and what was left out.

    Where runs failed there may be nothing to draw: such a figure is left out, and a sentence says why.

    Args:
        studies: What was evaluated.
        subjects: Names from `stakes.paper.plan.SUBJECTS`.
    """
    figures, notes = {}, []
    for figure in all_figures().values():
        if figure.subject in (*subjects, "method") and figure.possible(studies):
            try:
                figures[figure.label] = draw_figure(studies, figure.label)
            except StakesError as error:
                notes.append(f"The figure {figure.label} was left out: {error}.")
    return figures, notes


def draw_figure(studies: Studies, label: str) -> Figure:
    """One figure as SVG, with its caption and the settings of all studies that it shows.

    Args:
        studies: What was evaluated.
        label: The figure's label in the paper, or our own.
    """
    figure = find_figure(label)
    shown = _ReadStudies(studies.by_key)
    with style():
        drawn = figure.draw(Studies(shown))
        svg = to_svg(drawn.figure)
    settings = _settings_of_studies(shown.read) if shown.read else {"drawn from": "the task alone"}
    return Figure(figure.label, figure.title, drawn.caption, svg, settings)


class _ReadStudies(Mapping[StudyKey, Study]):
    """Studies that remember which of them were read, in `read`."""

    def __init__(self, studies: Mapping[StudyKey, Study]) -> None:
        self.studies = studies
        self.read: dict[StudyKey, Study] = {}

    def __getitem__(self, key: StudyKey) -> Study:
        self.read[key] = self.studies[key]
        return self.read[key]

    def __contains__(self, key: object) -> bool:
        return key in self.studies

    def __iter__(self) -> Iterator[StudyKey]:
        return iter(self.studies)

    def __len__(self) -> int:
        return len(self.studies)


def _settings_of_studies(studies: Mapping[StudyKey, Study]) -> dict[str, Any]:
    """What each study is about and the grid of its runs; of further studies only what differs from the first."""
    described = {str(key): _described(study) for key, study in studies.items()}
    (name, first), *others = described.items()
    return {name: first} | {f"{other}, where it differs": _differing(about, first) for other, about in others}


def _described(study: Study) -> dict[str, Any]:
    return {
        **study.about,
        "grid": {
            "decision weights": study.weights,
            "cost parameters": study.parameters,
            "data sets": study.groups,
            "seeds": study.seeds,
        },
    }


def _differing(settings: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are not those of the first."""
    differing: dict[str, Any] = {}
    for name, value in settings.items():
        other = first.get(name)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            if within := _differing(value, other):
                differing[name] = within
        elif name not in first or value != other:
            differing[name] = value
    return differing
