"""Model selection in words, and as a table for people."""

import pandas as pd

from stakes.evaluation.selection import FrontierPoint, Ladder, Rung, rung_words
from stakes.text import fixed_text, interval_text, shared_decimals

REFITTED = "on all rows before the test cases: judged below"
"""What is said of the forecast that was taken once it is fitted again."""

CHANGES = "changes against the rung held, 95 % intervals, upper ends with all steps tested together"
"""What the changes in `shown_ladder` are."""

_TITLES = {
    "climatology": "climatology",
    "raw": "raw",
    "bias_and_spread": "bias and spread",
    "linear": "linear",
    "network": "network",
    "fresh_errors": "fresh errors",
    "total_score": "score of the total",
    "dependence": "dependence",
    "decision": "decision",
}
_CORRECTIONS = {
    "raw": "as it came",
    "bias_and_spread": "corrected in bias and spread",
    "linear": "corrected by further numbers of the forecast",
    "fresh_errors": "corrected by its errors, newer ones counting more",
    "dependence": "corrected, with outcomes that go together as past errors did",
    "decision": "corrected for the decision",
}


def rung_title(name: str) -> str:
    """What a rung is called in a figure or a table."""
    return _TITLES[name]


def forecast_words(ladder: Ladder, rung: Rung | None = None) -> str:
    """What the forecast of a rung is, in a sentence."""
    rung = rung or ladder.taken
    if rung.name == "fresh_errors":
        return f"{rung_words(str(rung.below))} corrected by fresh errors"
    if rung.name == "total_score":
        return "the network trained on the score of the total as well"
    if rung.name == "decision":
        weight = rung.parameters.get("decision weight")
        return f"the decision-aware forecast{'' if weight is None else f' (weight {weight:g})'}"
    return rung_words(rung.name)


def correction_words(ladder: Ladder) -> str:
    """What became of a forecast that somebody else makes, in a sentence."""
    taken = ladder.taken
    words = _CORRECTIONS[taken.name]
    weight = taken.parameters.get("decision weight")
    return f"{words} (weight {weight:g})" if isinstance(weight, float) else words


def has_network(ladder: Ladder) -> bool:
    """Whether the forecast that was taken is one that trained with a seed."""
    taken = ladder.taken
    return (taken.below if taken.name == "fresh_errors" else taken.name) not in ("climatology", "linear")


def rung_with_parameters(rung: Rung) -> str:
    """What a rung is called in a table, with that in which it differs from the one below."""
    values = rung.parameters.items()
    changed = ", ".join(f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in values)
    return f"{rung_title(rung.name)} ({changed})" if changed else rung_title(rung.name)


def rung_standing(ladder: Ladder, rung: Rung) -> str:
    """Whether a rung was taken, climbed on the way, or why not, in a few words."""
    if rung is ladder.taken:
        return "taken"
    return "climbed" if rung.climbed else rung.why


def refitted_title(ladder: Ladder) -> str:
    """What the forecast that was taken is called in a table once it is fitted again."""
    return f"{rung_title(ladder.taken.name)}, fitted again"


def shown_ladder(ladder: Ladder, unit: str = "", *, refitted: bool = False) -> pd.DataFrame:
    """One line per rung, from below, for a terminal."""
    tested = {rung.name: rung.cost for rung in ladder.tested}
    decimals = cost_decimals(ladder)
    costs = f" ({unit})" if unit else ""
    lines = [
        {
            "rung": rung_with_parameters(rung),
            f"validation cost{costs}": rung.cost,
            f"change{costs}": None if (change := rung.deciding_change) is None else interval_text(*change, decimals),
            "score (%)": None if rung.score_change is None else fixed_text(rung.score_change.mean, 1, signed=True),
            f"test cost{costs}": tested.get(rung.name),
            "result": rung_standing(ladder, rung),
        }
        for rung in ladder.rungs
    ]
    if refitted and ladder.test_cost is not None:
        lines.append({"rung": refitted_title(ladder), f"test cost{costs}": ladder.test_cost, "result": REFITTED})
    table = pd.DataFrame(lines)
    return table.loc[:, table.notna().any()]


def cost_decimals(ladder: Ladder) -> int | None:
    """How many decimals the changes of the cost have, so that the largest cost would have four digits."""
    return shared_decimals([rung.cost for rung in ladder.rungs if rung.cost is not None], digits=4)


def weight_label(point: FrontierPoint, base: str = "") -> str:
    """A decision weight and those that forecast the same."""
    name = base if base and not point.weight else f"{point.weight:g}"
    also = ", ".join(f"{weight:g}" for weight in point.also)
    return f"{name} (also {also})" if also else name
