"""How figures look: the numbers on their axes."""

import re

import pytest
from matplotlib.figure import Figure

from stakes.plots import style
from stakes.reports.drawing import to_svg


@pytest.mark.parametrize(
    ("span", "shown", "never"),
    [
        ((-0.3, 0.3), {"−0.2", "0.0", "0.2"}, {"−0.0"}),
        ((0.0, 2e6), {"0", "1,000,000", "2,000,000"}, {"1e6"}),
        ((1_000_000.0, 1_000_001.0), {"1,000,000.2"}, {"+1e6"}),
        ((0.0, 2e-5), {"0.0000000", "0.0000100", "0.0000200"}, {"1e−5"}),
    ],
)
def test_axes_have_plain_numbers(span: tuple[float, float], shown: set[str], never: set[str]) -> None:
    with style():
        figure = Figure(figsize=(6, 4))
        figure.subplots().plot([0, 1], span)
    texts = set(re.findall(r"<text[^>]*>([^<]*)</text>", to_svg(figure)))
    assert shown <= texts
    assert not never & texts


def test_names_on_axes_stay() -> None:
    with style():
        figure = Figure()
        figure.subplots().barh(["today", "foresight"], [1.0, 2.0])
    assert {"today", "foresight"} <= set(re.findall(r"<text[^>]*>([^<]*)</text>", to_svg(figure)))
