"""The report of a reproduction: claims first, then one section per subject with its figures and tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from reproduction.claims.claim import Judgement
from reproduction.claims_part import ClaimRow, claims_part
from reproduction.figures.all_figures import all_figures, find_figure
from reproduction.plan import CHOICES, MAIN, SUBJECTS
from reproduction.study import Study
from reproduction.study_collection import Studies, StudyKey
from reproduction.tables_of_results import (
    metrics_table,
    portfolio_table,
    portfolio_weights_table,
    regions_table,
    scores_table,
)
from stakes.errors import StakesError
from stakes.plots import style, to_svg
from stakes.reports.page import Column, Figure, Report, Section, Table


def draw_figures(studies: Studies, subjects: Sequence[str]) -> tuple[dict[str, Figure], list[str]]:
    """Every figure of some subjects, and of the method, whose studies are there: by label, and what was left out.

    Where runs failed there may be nothing to draw: such a figure is left out, and a sentence says why.
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
    """One figure as SVG, with its caption and the settings of all studies that it shows."""
    figure = find_figure(label)
    shown = _ReadStudies(studies.by_key)
    with style():
        drawn = figure.draw(Studies(shown))
        svg = to_svg(drawn.figure)
    settings = _settings_of_studies(shown.read) if shown.read else {"drawn from": "the task alone"}
    return Figure(figure.label, figure.title, drawn.caption, (svg,), settings)


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


_SECTIONS = {
    "method": ("The method", ()),
    "synthetic": (
        "The synthetic task",
        ("Two modes whose weight swings with x, and a hazard behind a threshold between them: the truth is known.",),
    ),
    "wind": (
        "Wind power dispatch",
        (
            "Commit the power of a wind farm six hours ahead; what is missing is penalised.",
            "Regions by the observed speed are the paper's. Scores of cases that are chosen by their outcome reward "
            "forecasts that exaggerate (the forecaster's dilemma): the same is shown for cases chosen by the forecast.",
        ),
    ),
    "frost": (
        "Frost protection",
        (
            "Protect against tomorrow's frost, at a cost where there is none. The paper does not print its cost; ours "
            "is a reconstruction with the properties it states.",
        ),
    ),
    "portfolio": (
        "Portfolios: a decision on the sum of many sites",
        (
            "Beyond the paper. The energy score hardly sees the dependence between sites, and the cost of a decision "
            "on their sum depends on it: this is where a decision loss has something to add.",
        ),
    ),
}


def build_report(
    studies: Studies,
    judgements: Sequence[Judgement],
    figures: Mapping[str, Figure],
    summaries: Mapping[StudyKey, pd.DataFrame],
    portfolios: pd.DataFrame,
    scores: pd.DataFrame,
    reduced: str | None,
    notes: Sequence[str],
    provenance: Mapping[str, str],
) -> Report:
    """Everything on one page."""
    known = all_figures()
    sections = []
    for subject, (title, text) in _SECTIONS.items():
        drawn = tuple(figure for label, figure in figures.items() if known[label].subject == subject)
        tables = tuple(_tables(subject, studies, summaries, portfolios, scores))
        if drawn or tables:
            sections.append(Section(subject, title, text, drawn, tables))
    if judgements:
        sections.append(
            Section("choices", "What the claims depend on", _ABOUT_CHOICES, (), (_choices_table(judgements),))
        )
    return Report(
        title="Decision-aware training, reproduced",
        subtitle="The claims of “Decision-Aware Training for Sample-Based Generative Models” (Raeth and Ludwig) on "
        "real records, judged by stakes",
        summary=(*_SUMMARY, *notes),
        reduced=reduced,
        own=(claims_part([_claim_row(main, judgements) for main in _first_of_each(judgements)]),) if judgements else (),
        sections=tuple(sections),
        provenance=provenance,
    )


_SUMMARY = (
    "A claim holds if every one of its effects has a 95 % interval on the side the paper says, fails if one lies on "
    "the other side, and is open if the data do not tell. An effect that is said not to be there counts as such unless "
    "its interval shows it. No verdict is set by hand.",
    "Intervals are paired, over cases, whose neighbours in time depend on each other, and over training seeds. "
    "Few seeds make them wide. Where the difference between seeds is most of the uncertainty, such an interval of "
    "three seeds covers the truth in 94 of 100 cases, and one of two in 91, not in 95.",
)
_ABOUT_CHOICES = (
    "The paper leaves some choices open, and some results depend on them: how the denoiser's output and the decision "
    "term are weighted, the noise schedule, the estimators of both scores, the number of members in training.",
)


def _first_of_each(judgements: Sequence[Judgement]) -> list[Judgement]:
    return list({judgement.claim.identifier: judgement for judgement in reversed(judgements)}.values())[::-1]


def _claim_row(main: Judgement, judgements: Sequence[Judgement]) -> ClaimRow:
    others = [each for each in judgements if each.claim is main.claim and each.choice != main.choice]
    elsewhere = "; ".join(f"{CHOICES[each.choice][0]}: {each.verdict}" for each in others)
    note = ". ".join(part for part in (main.note, f"Under other choices: {elsewhere}" if elsewhere else "") if part)
    claim = main.claim
    effects = tuple(str(check) for check in sorted(main.checks, key=lambda check: check is not main.decisive))
    choice = "" if main.choice == MAIN else CHOICES[main.choice][0]
    return ClaimRow(claim.identifier, claim.statement, claim.how, main.verdict, effects, choice, note)


def _choices_table(judgements: Sequence[Judgement]) -> Table:
    columns = (Column("claim"), Column("choice"), Column("verdict"), Column("effects"))
    rows = tuple(
        (
            judgement.claim.identifier,
            CHOICES[judgement.choice][0],
            judgement.verdict,
            "; ".join([*(str(check) for check in judgement.checks), *([judgement.note] if judgement.note else [])]),
        )
        for judgement in judgements
    )
    return Table("claims-by-choice", "Every claim under every choice", columns, rows)


def _tables(
    subject: str,
    studies: Studies,
    summaries: Mapping[StudyKey, pd.DataFrame],
    portfolios: pd.DataFrame,
    scores: pd.DataFrame,
) -> list[Table]:
    if subject == "portfolio":
        tables = [portfolio_table(portfolios), portfolio_weights_table(portfolios)] if len(portfolios) else []
        return [*tables, *([scores_table(scores)] if len(scores) else [])]
    keys = [key for key in summaries if key.task == subject and key.choice == MAIN] if subject in SUBJECTS else []
    tables = [metrics_table(key, studies[key], summaries[key]) for key in keys]
    return tables + [regions_table(key, studies[key], summaries[key]) for key in keys if studies[key].regions]
