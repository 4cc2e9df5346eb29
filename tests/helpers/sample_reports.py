"""A small report with everything that a report can hold."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure as Drawing

from stakes.reports.page import Column, Figure, Report, Section, ShownCell, Table

SETTINGS = {"task": "wind", "weights": [0.0, 0.3, 0.9], "optimiser": {"name": "Adam", "rate": 0.001}}


def drawn(width: float, image: bool = False) -> str:
    """What matplotlib draws: lines under a clip path, markers and letters by reference, or a raster image."""
    drawing = Drawing(figsize=(width, 3))
    axes = drawing.subplots()
    if image:
        axes.imshow(np.arange(6.0).reshape(2, 3))
    else:
        axes.plot([0, 1, 2], [0.1, 0.4, 0.2], "o-", label="cost")
        axes.legend()
    text = io.StringIO()
    drawing.savefig(text, format="svg")
    return text.getvalue()


@pytest.fixture(scope="session")
def sample_report() -> Report:
    columns = (
        Column("Run"),
        Column("Cost", "EUR", "Mean realised cost."),
        Column("Difference"),
        *(Column(f"A wide column number {number}", "m/s") for number in range(6)),
    )
    values = [
        ("run 10", 10.5, ShownCell.interval(-0.12, -0.2, -0.05)),
        ("run 9", None, ShownCell.interval(0.3, -0.1, 0.7)),
        ("run 2", -2.0, ShownCell.interval(-1.5, -3.0, 0.1)),
        ("run 1", 9.25, ShownCell.interval(0.02, 0.01, 0.03)),
    ]
    table = Table("costs", "Costs of runs", columns, tuple((*row, *(6 * (1.0,))) for row in values), "Three seeds.")
    figures = (
        Figure("lines", "Cost by weight.", "Mean over seeds.", (drawn(6.4),), SETTINGS),
        Figure("wide", "The same, wide.", "Wider than most screens.", (drawn(16),), {}),
        Figure("image", "A map.", "Six cells.", (drawn(5, image=True),), SETTINGS),
    )
    long = "A paragraph that is long enough to be broken into lines. " * 20
    return Report(
        "A sample",
        "of everything",
        ("What it says.",),
        "One seed instead of three.",
        (),
        (Section("results", "Results", (long, long), figures, (table,)), Section("end", "The end", ("Done.",))),
        {"version": "1.0", "commit": "0" * 64},
    )
