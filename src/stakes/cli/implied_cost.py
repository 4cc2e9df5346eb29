"""`stakes implied-cost`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag

app = App(
    name="implied-cost",
    help_epilogue=flag.examples(
        "stakes implied-cost past.csv --action bought --outcome load --cost imbalance",
        "stakes implied-cost past.csv --forecast m1:m50 --action stocked --outcome sold \\",
        "  --cost newsvendor:overage=1,underage=0.5..50",
    ),
)


@app.default
def implied_cost(
    past: Annotated[Path, Parameter(help="CSV or parquet file with past actions and outcomes")],
    /,
    *,
    action: Annotated[str, Parameter(group=flag.TABLE, help="column of the action that was taken")],
    outcome: Annotated[
        str, Parameter(group=flag.TABLE, help="column of the outcome, or several columns that the cost adds up")
    ],
    cost: Annotated[
        str,
        Parameter(
            group=flag.COST,
            help="cost with a range for one parameter, such as newsvendor:underage=0.1..50,overage=1,upper=500, or the "
            "name of a scalar cost, such as newsvendor",
        ),
    ],
    forecast: Annotated[
        str | None,
        Parameter(
            group=flag.TABLE,
            help="columns of the forecast at the time, such as m1:m50, whose best actions are compared",
        ),
    ] = None,
    time: Annotated[
        str | None, Parameter(group=flag.TABLE, help="column with times, ISO 8601; default: detected")
    ] = None,
    block: flag.Block = None,
    separator: flag.Separator = None,
    encoding: flag.Encoding = None,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.argument_checks import require_count
    from stakes.cli.output import print_json, print_notes, print_text
    from stakes.workflows.implied_cost import implied_by_table

    if block is not None:
        require_count("block", block)
    found = implied_by_table(
        *(past, action, flag.names(outcome), cost, flag.names(forecast), time, block),
        separator=separator,
        encoding=encoding,
    )
    print_notes(found.notes, quiet)
    print_json(found.record()) if json else print_text(found.implied.sentence)
