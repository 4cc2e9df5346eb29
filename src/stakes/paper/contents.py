"""What the report of a reproduction says: claims first, then a section a subject with its figures and tables."""

from collections.abc import Mapping, Sequence

import pandas as pd

from stakes.errors import StakesError
from stakes.paper.claims.claim import Judgement
from stakes.paper.figure_settings import ReadStudies, settings_of
from stakes.paper.figures.registry import find_figure, known_figures
from stakes.paper.plan import CHOICES, MAIN, SUBJECTS
from stakes.paper.studies import Key, Studies
from stakes.paper.tables import metrics_table, portfolio_table, portfolio_weights_table, regions_table
from stakes.reports.page import ClaimRow, Column, Figure, Report, Section, Table
from stakes.reports.style import style, to_svg

__all__ = ["build_report", "draw_figure", "draw_figures"]

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
            "on their sum hangs on it: this is where a decision loss has something to add.",
        ),
    ),
}


def draw_figures(studies: Studies, subjects: Sequence[str]) -> tuple[dict[str, Figure], list[str]]:
    """Every figure of these subjects and of the method whose studies are there, by its label.

    Where runs failed there may be nothing to draw: such a figure is left out, and the second value says why.
    """
    figures, notes = {}, []
    for spec in known_figures().values():
        if spec.subject in (*subjects, "method") and spec.possible(studies):
            try:
                figures[spec.label] = draw_figure(studies, spec.label)
            except StakesError as error:
                notes.append(f"The figure {spec.label} was left out: {error}.")
    return figures, notes


def draw_figure(studies: Studies, label: str) -> Figure:
    """One figure as SVG, with its caption and the settings of all studies that it shows."""
    spec = find_figure(label)
    shown = ReadStudies(studies.found)
    with style():
        drawn = spec.draw(Studies(shown))
        svg = to_svg(drawn.figure)
    settings = settings_of(shown.read) if shown.read else {"drawn from": "the task alone"}
    return Figure(spec.label, spec.title, drawn.caption, svg, settings)


def build_report(
    studies: Studies,
    judgements: Sequence[Judgement],
    figures: Mapping[str, Figure],
    summaries: Mapping[Key, pd.DataFrame],
    portfolios: pd.DataFrame,
    reduced: str | None,
    notes: Sequence[str],
    provenance: Mapping[str, str],
) -> Report:
    """Everything on one page."""
    known = known_figures()
    sections = []
    for subject, (title, text) in _SECTIONS.items():
        drawn = tuple(figure for label, figure in figures.items() if known[label].subject == subject)
        tables = tuple(_tables(subject, studies, summaries, portfolios))
        if drawn or tables:
            sections.append(Section(subject, title, text, drawn, tables))
    if judgements:
        sections.append(
            Section("choices", "What the claims hang on", _ABOUT_CHOICES, (), (_choices_table(judgements),))
        )
    return Report(
        title="Decision-aware training, reproduced",
        subtitle="The claims of “Decision-Aware Training for Sample-Based Generative Models” (Raeth and Ludwig) on "
        "real records, judged by stakes",
        summary=(*_SUMMARY, *notes),
        reduced=reduced,
        claims=tuple(_claim_row(main, judgements) for main in _first_of_each(judgements)),
        sections=tuple(sections),
        provenance=provenance,
    )


_SUMMARY = (
    "A claim holds if every one of its effects has a 95 % interval on the side the paper says, fails if one lies on "
    "the other side, and is open if the data do not tell. An effect that is said not to be there counts as such unless "
    "its interval shows it. No verdict is set by hand.",
    "Intervals are paired: cases are resampled in blocks of neighbouring times, and training seeds with replacement. "
    "Three seeds are few: where the difference between seeds is most of the uncertainty, such an interval covers the "
    "truth in 75 of 100 cases, with two seeds in 50, not in 95.",
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
    subject: str, studies: Studies, summaries: Mapping[Key, pd.DataFrame], portfolios: pd.DataFrame
) -> list[Table]:
    if subject == "portfolio":
        return [portfolio_table(portfolios), portfolio_weights_table(portfolios)] if len(portfolios) else []
    keys = [key for key in studies if key.task == subject and key.choice == MAIN] if subject in SUBJECTS else []
    tables = [metrics_table(key, studies[key], summaries[key]) for key in keys]
    return tables + [regions_table(key, studies[key], summaries[key]) for key in keys if studies[key].regions]
