"""Which of a cost's numbers goes to which outcome, where each outcome has one of its own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from stakes.cost_text.library_costs import ParameterValue
from stakes.label_order import shortened
from stakes.number_text import number_text

if TYPE_CHECKING:  # torch comes with the first cost, not with --help
    from stakes.method.program_words import Program

__all__ = ["outcome_number_notes"]


def outcome_number_notes(
    parameters: Mapping[str, ParameterValue], program: "Program | None", outcomes: Sequence[str]
) -> list[str]:
    """A line for each number that outcomes have different ones of, such as "price: h0 30, h1 35".

    >>> outcome_number_notes({"short": (50.0, 60.0), "long": 1.0}, None, ["h0", "h1"])
    ['short: h0 50, h1 60']

    Args:
        parameters: The parameters that the cost was written with.
        program: The program of one's own that it is; None for any other cost.
        outcomes: The names of the outcomes, in their order.
    """
    amounts = [*parameters.items(), *([] if program is None else _of_quantities(program))]
    return [
        f"{name}: {shortened([f'{each} {number_text(value)}' for each, value in zip(outcomes, values, strict=True)])}"
        for name, values in amounts
        if isinstance(values, tuple) and len(values) == len(outcomes) and len(set(values)) > 1
    ]


def _of_quantities(program: "Program") -> Iterator[tuple[str, object]]:
    """The amounts of its quantities by name, such as "cost of plan"."""
    for quantity, what in {**program.decide, **program.recourse}.items():
        for amount, value in what.amounts.items():
            yield f"{amount} of {quantity}", value
