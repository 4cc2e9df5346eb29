"""A figure names the settings of all that it shows."""

from dataclasses import replace
from functools import cache

import pytest
from invented_studies import invented_studies

from reproduction.report import draw_figure
from reproduction.study_collection import Studies

pytestmark = pytest.mark.usefixtures("unarranged_figures")

DIFFERS = ", where it differs"


@cache
def made() -> Studies:
    """The studies of two weights and one cost parameter."""
    few = {"decision_weight": [0, -1], "parameter": [-1]}
    studies = invented_studies().items()
    return Studies({key: replace(study, forecasts=study.forecasts.isel(few)) for key, study in studies})


@pytest.mark.parametrize(
    ("label", "choices"),
    [
        ("portfolio_frontier", {"main", "crps_of_total", "variogram"}),
        ("portfolio_spread", {"main"}),
        ("portfolio_calibration", {"main"}),
    ],
)
def test_every_study_that_is_shown_and_no_other(label: str, choices: set[str]) -> None:
    found = draw_figure(made(), label).settings
    expected = {str(key) for key in made() if key.task != "wind" and key.choice in choices and key.sites in (None, 60)}
    assert len(expected) > 4
    assert {name.removesuffix(DIFFERS) for name in found} == expected
