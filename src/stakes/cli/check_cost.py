"""`stakes check-cost`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag
from stakes.errors import SettingError

if TYPE_CHECKING:
    from stakes.workflows.cost_checks import CheckedCost


app = App(
    name="check-cost",
    help_epilogue=flag.examples(
        "stakes check-cost --cost protection:threshold=0,false_alarm_ratio=0.2",
        "stakes check-cost load.csv --target load --cost costs.py:my_cost",
        "stakes check-cost days.csv --target h00,h01,h02 --cost schedule:short=50,long=0.5,ramp=0.4",
    ),
)


@app.default
def check_cost(
    data: flag.SomeTable = None,
    /,
    *,
    cost: Annotated[str, Parameter(group=flag.COST, help=flag.COST_HELP)],
    target: Annotated[
        str | None,
        Parameter(group=flag.TABLE, help="columns of the outcomes, or value columns of a long table of members"),
    ] = None,
    files: flag.EnsembleFlags = flag.NO_ENSEMBLE,
    plot: Annotated[Path | None, Parameter(group=flag.OUTPUT, help="draw the cost to this .svg file")] = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.cli.output import print_json, print_notes, print_text, require_writable

    require_writable(plot, force, (".svg",))
    checked, notes = _checked(cost, data, target, files)
    print_notes(notes, quiet)
    if plot is not None:
        checked.draw(plot)
    print_json(checked.record() | {"plot": plot}) if json else print_text(str(checked))


def _checked(
    cost: str, data: Path | None, target: str | None, files: flag.EnsembleFlags
) -> "tuple[CheckedCost, tuple[str, ...]]":
    """The cost over a file's members, a table's outcomes, or draws where it makes a difference; notes on the file."""
    from stakes.cost_spec.spec import CostSpec
    from stakes.data.forecasts.columns import with_ranges
    from stakes.data.tables.columns import column_numbers
    from stakes.data.tables.files import read_table
    from stakes.workflows.cost_checks import check_over_draws, check_over_members, check_over_outcomes

    if files.members is not None and data is not None:
        raise SettingError("check-cost takes --members or a table, not both")
    if data is not None and not target:
        raise SettingError("check-cost needs --target, the columns of the outcomes in the table")
    if data is None and files.members is None and target:
        raise SettingError("--target needs the table whose columns it names")
    spec = CostSpec.parse(cost)
    built = spec.build()
    if files.members is not None:
        given = files.read(target, built)
        checked = check_over_members(spec, built, given.equal_members, given.targets, files.members.name)
        return checked, given.notes
    if data is not None:
        table = read_table(data, **files.csv)
        targets = tuple(with_ranges(flag.names(target), [str(column) for column in table.columns], "the table"))
        return check_over_outcomes(spec, built, column_numbers(table, targets, "targets"), targets, data.name), ()
    return check_over_draws(spec, built), ()
