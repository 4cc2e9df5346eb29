"""Model selection in words, and as a table for people."""

import pandas as pd

from stakes.evaluation.selection import FrontierPoint, JudgedCandidate, ModelSelection, candidate_words
from stakes.text import fixed_text, interval_text, shared_decimals

REFITTED = "on all rows before the test cases: judged below"
"""What is said of the selected forecast once it is fitted again."""

CHANGES = "changes against the candidate selected before, 95 % intervals, upper ends with all steps tested together"
"""What the changes in `shown_selection` are."""

_TITLES = {
    "climatology": "climatology",
    "raw": "raw",
    "bias_and_spread": "bias and spread",
    "linear": "linear",
    "network": "network",
    "recent_errors": "recent errors",
    "total_score": "score of the total",
    "dependence": "dependence",
    "decision": "decision",
}
_CORRECTIONS = {
    "raw": "as it came",
    "bias_and_spread": "corrected in bias and spread",
    "linear": "corrected by further numbers of the forecast",
    "recent_errors": "corrected by its errors, newer ones counting more",
    "dependence": "corrected, with outcomes that go together as past errors did",
    "decision": "corrected for the decision",
}


def candidate_title(name: str) -> str:
    """What a candidate is called in a figure or a table."""
    return _TITLES[name]


def forecast_words(selection: ModelSelection, candidate: JudgedCandidate | None = None) -> str:
    """What the forecast of a candidate is, in a sentence."""
    candidate = candidate or selection.selected
    if candidate.name == "recent_errors":
        return f"{candidate_words(str(candidate.below))} corrected by recent errors"
    if candidate.name == "total_score":
        return "the network trained on the score of the total as well"
    if candidate.name == "decision":
        weight = candidate.parameters.get("decision weight")
        return f"the decision-aware forecast{'' if weight is None else f' (weight {weight:g})'}"
    return candidate_words(candidate.name)


def correction_words(selection: ModelSelection) -> str:
    """What became of a forecast that somebody else makes, in a sentence."""
    selected = selection.selected
    words = _CORRECTIONS[selected.name]
    weight = selected.parameters.get("decision weight")
    return f"{words} (weight {weight:g})" if isinstance(weight, float) else words


def has_network(selection: ModelSelection) -> bool:
    """Whether the selected forecast is one that trained with a seed."""
    selected = selection.selected
    return (selected.below if selected.name == "recent_errors" else selected.name) not in ("climatology", "linear")


def candidate_with_parameters(candidate: JudgedCandidate) -> str:
    """What a candidate is called in a table, with what it changes."""
    values = candidate.parameters.items()
    changed = ", ".join(f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in values)
    return f"{candidate_title(candidate.name)} ({changed})" if changed else candidate_title(candidate.name)


def candidate_standing(selection: ModelSelection, candidate: JudgedCandidate) -> str:
    """Whether a candidate was selected, accepted before it, or why not, in a few words."""
    if candidate is selection.selected:
        return "selected"
    return "accepted" if candidate.accepted else candidate.why


def refitted_title(selection: ModelSelection) -> str:
    """What the selected forecast is called in a table once it is fitted again."""
    return f"{candidate_title(selection.selected.name)}, fitted again"


def shown_selection(selection: ModelSelection, unit: str = "", *, refitted: bool = False) -> pd.DataFrame:
    """One line per candidate, for a terminal."""
    tested = {candidate.name: candidate.cost for candidate in selection.tested}
    decimals = cost_decimals(selection)
    costs = f" ({unit})" if unit else ""
    lines = [
        {
            "candidate": candidate_with_parameters(candidate),
            f"validation cost{costs}": candidate.cost,
            f"change{costs}": None
            if (change := candidate.deciding_change) is None
            else interval_text(*change, decimals),
            "score (%)": None
            if candidate.score_change is None
            else fixed_text(candidate.score_change.mean, 1, signed=True),
            f"test cost{costs}": tested.get(candidate.name),
            "result": candidate_standing(selection, candidate),
        }
        for candidate in selection.candidates
    ]
    if refitted and selection.test_cost is not None:
        lines.append(
            {"candidate": refitted_title(selection), f"test cost{costs}": selection.test_cost, "result": REFITTED}
        )
    table = pd.DataFrame(lines)
    return table.loc[:, table.notna().any()]


def cost_decimals(selection: ModelSelection) -> int | None:
    """How many decimals the changes of the cost have, so that the largest cost would have four digits."""
    return shared_decimals(
        [candidate.cost for candidate in selection.candidates if candidate.cost is not None], digits=4
    )


def weight_label(point: FrontierPoint, base: str = "") -> str:
    """A decision weight and those that forecast the same."""
    name = base if base and not point.weight else f"{point.weight:g}"
    also = ", ".join(f"{weight:g}" for weight in point.also)
    return f"{name} (also {also})" if also else name
