"""The section of a report about many decision makers: what one forecast is worth to each of them."""

from stakes.cost_text.written_cost import CostSpec
from stakes.method.parameter_range import RangedParameter
from stakes.number_text import number_text
from stakes.reports.fit_tables import interval_cell
from stakes.reports.judged_fit import JudgedFit
from stakes.reports.page import Cell, Column, Section, Table

__all__ = ["decision_makers_section", "spread_sentence"]


def spread_sentence(spec: CostSpec | None) -> tuple[str, ...]:
    """How cases were judged where the cost has a range; nothing where it has none.

    Args:
        spec: The cost as it was written; None for one given in Python.
    """
    if spec is None or spec.ranged is None:
        return ()
    return (
        f"One forecast serves all decision makers with {_from_to(spec.ranged)}: each case, in validation and in the "
        "test, is judged for one of them, spread evenly over the range and the same for every way to decide; "
        "climatology takes the one action that was best for that decision maker, read between those of 33.",
    )


def decision_makers_section(fit: JudgedFit, ranged: RangedParameter) -> Section:
    """What all test cases cost at some values of the parameter.

    Args:
        fit: The fit that is reported.
        ranged: The parameter.
    """
    beside = any(each.change is not None for each in fit.by_parameter)
    rows: list[tuple[Cell, ...]] = []
    for each in fit.by_parameter:
        row: tuple[Cell, ...] = (each.value, each.cost, each.climatology_cost)
        rows.append((*row, each.weight_0_cost, interval_cell(each.difference)) if beside else row)
    columns = [
        Column(ranged.name, help="of a decision maker"),
        Column("cost", fit.unit, "number", "mean realised cost per test case"),
        Column("climatology", fit.unit, "number", "that of the one action that was best for this decision maker"),
    ]
    if beside:
        columns.append(Column("weight 0", fit.unit, "number", "that of the forecast trained on its score alone"))
        columns.append(Column("\N{GREEK CAPITAL LETTER DELTA} cost", fit.unit, "number", "less that of weight 0"))
    note = "Every row is over all test cases. Intervals are paired 95 % ones, bold where they leave out zero."
    table = Table("decision-makers", "What each decision maker pays", tuple(columns), tuple(rows), note)
    return Section("decision-makers", "What is it worth to each decision maker?", (), (), (table,))


def _from_to(ranged: RangedParameter) -> str:
    return f"{ranged.name} from {number_text(ranged.range.low, 6)} to {number_text(ranged.range.high, 6)}"
