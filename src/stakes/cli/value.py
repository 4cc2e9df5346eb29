"""`stakes value`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag
from stakes.errors import SettingError

_SHOWN = 10  # rows of the curve on a terminal

app = App(
    name="value",
    help_epilogue=flag.examples(
        "stakes value --members new.csv --against old.csv --outcomes observed.csv \\",
        "  --cost shortfall:penalty=1..50,unit=EUR --report value.html",
        "stakes value --members rain.csv --outcomes observed.csv \\",
        "  --cost cost_loss:threshold=10,protection=0.05..0.95:linear",
        "stakes value wind later.csv --cost shortfall:penalty=1..50",
    ),
)


@app.default
def value(
    folder: flag.SomeFolder = None,
    data: flag.SomeTable = None,
    /,
    *,
    cost: Annotated[
        str,
        Parameter(group=flag.COST, help="cost with a range for a parameter, such as shortfall:penalty=1..50,unit=EUR"),
    ],
    files: flag.EnsembleFlags = flag.NO_ENSEMBLE,
    against: Annotated[
        Path | None,
        Parameter(group=flag.FORECASTS, help="second forecast to compare with, in the same form as --members"),
    ] = None,
    outcomes: Annotated[Path | None, Parameter(group=flag.FORECASTS, help="file with the outcomes")] = None,
    target: Annotated[
        str | None,
        Parameter(group=flag.FORECASTS, help="columns of the outcomes, and value columns of a long table of members"),
    ] = None,
    values: Annotated[int, flag.whole("number of parameter values in the range", flag.COST)] = 50,
    block: flag.Block = None,
    report: Annotated[
        Path | None, Parameter(group=flag.OUTPUT, help="write figure and table to this .html file")
    ] = None,
    out: Annotated[Path | None, Parameter(group=flag.OUTPUT, help="write the curve to this .csv or .parquet")] = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.argument_checks import require_count
    from stakes.cli.output import print_json, print_notes, print_table, print_text, require_writable
    from stakes.cost_spec.spec import CostSpec
    from stakes.data.tables.files import without_noise, write_table
    from stakes.workflows.value import names_of, value_of_fit, value_of_members

    given = (data, files.members, against, outcomes)
    require_writable(out, force, inputs=(*given, report))
    require_writable(report, force, (".html",), inputs=given)
    if block is not None:
        require_count("block", block)
    spec = CostSpec.parse(cost)
    needed = "value needs --members and --outcomes, or FOLDER of a fit and DATA"
    known = files.of_folder(folder, data, needed, target or against or outcomes)
    if known is not None:
        found = value_of_fit(*known, spec, values, block, **files.csv)
    elif outcomes is None or files.members is None:
        raise SettingError("--members needs --outcomes too")
    else:
        paths = [files.members, *([] if against is None else [against])]
        read = [files.read(target, spec.build(), outcomes, points=True, members=path) for path in paths]
        found = value_of_members(dict(zip(names_of(paths), read, strict=True)), spec, values, block)
    print_notes(found.notes, quiet)
    table = found.curve.to_frame()
    if out is not None:
        write_table(without_noise(table), out)
    if report is not None:
        from stakes.reports.page import write_report
        from stakes.reports.value import value_report

        write_report(value_report(found.curve, found.cost, found.notes, found.regret()), report)
    if json:
        print_json(found.record() | {"rows": without_noise(table), "out": out, "report": report})
    else:
        shown = sorted({round(place * (len(table) - 1) / (_SHOWN - 1)) for place in range(_SHOWN)})
        print_table(without_noise(table.iloc[shown]))
        print_text("\n".join(["", found.curve.sentence, *(str(each) for each in (out, report) if each)]))
