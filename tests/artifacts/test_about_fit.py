"""What a bundle says of its fit is refused by name where it is not what `stakes fit` writes."""

from typing import Any

import pytest
from refusals import refuses

from stakes.artifacts.fits import AboutFit
from stakes.artifacts.folder import FittedSpan
from stakes.errors import SettingError

GOOD: dict[str, Any] = {
    "metrics": {"cost": {"value": 1.5, "low": None}},
    "outcomes": [[1.0], [2]],
    "reason": "Weight 0.",
    "fitted": {"cases": 3, "first": "2020-01-01T00:00:00", "last": "2020-01-03T00:00:00"},
    "settings": {"model": {"hidden": 8}},
    "provenance": {"python": "3.11"},
    "of somebody else": [1, {}],
}
BAD = {
    "metrics": [3, {"cost": "a"}, {"cost": {"value": "a"}}],
    "outcomes": [3, [1.0], [["a"]], [[None]]],
    "reason": [3, None],
    "fitted": [3, {"cases": "a"}, {"cases": 1, "first": "x", "last": "y"}, {"cases": 1, "last": "2020-01-01"}],
    "settings": [3, [], None],
    "provenance": [3, {"python": 3}],
    "quality": [3, {"rows": 1}],
    "data": [3, {"file": "a", "rows": 1, "sha256": "0"}],
}


def test_what_is_there_is_read_and_the_rest_has_defaults() -> None:
    about = AboutFit.read(GOOD)
    assert about.outcomes == ((1.0,), (2.0,))
    assert about.fitted == FittedSpan(3, "2020-01-01T00:00:00", "2020-01-03T00:00:00")
    assert about.settings == {"model": {"hidden": 8}}
    assert (about.data, about.quality) == (None, None)
    assert AboutFit.read({}) == AboutFit()


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values], ids=str
)
def test_what_does_not_fit_is_refused_by_name(name: str, value: object) -> None:
    refuses(SettingError, rf"about\.{name}", AboutFit.read, GOOD | {name: value})
