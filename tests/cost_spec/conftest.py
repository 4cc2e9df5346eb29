"""A user's file with costs of every kind."""

from pathlib import Path

import pytest

OWN = """
from dataclasses import dataclass
import stakes

def profit(action, outcome):
    return (action - outcome) ** 2

def priced(action, outcome, price, kind="linear"):
    return price * (action - outcome) ** 2

ready = stakes.NewsvendorCost(4.0, 1.0, 0.0, 50.0)
hidden = stakes.cost_function(lambda a, y: (a - y) ** 2, 0.0, 5.0)

def factory(penalty, upper=9.0):
    return stakes.ImbalanceCost(penalty, 1.0, 0.0, upper)

@dataclass(frozen=True)
class Tracking:
    weight: float
    lower: float = 0.0
    upper: float = 3.0

    def __call__(self, action, outcome):
        return self.weight * (action - outcome).squeeze(-1) ** 2

def nothing():
    return 5

def wrong(penalty):
    raise KeyError("no such\\nplace")

number = 5

def with_math(action, outcome):
    import math
    return math.exp(action)
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "costs.py").write_text(OWN, encoding="utf-8")
    return str(tmp_path / "costs.py")
