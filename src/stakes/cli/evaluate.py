"""`stakes evaluate`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag
from stakes.errors import SettingError

app = App(
    name="evaluate",
    help_epilogue=flag.examples(
        "stakes evaluate load later.csv --cases cases.csv",
        "stakes evaluate --members ensemble.csv --outcomes observed.csv \\",
        "  --cost shortfall:penalty=5",
    ),
)


@app.default
def evaluate(
    folder: flag.SomeFolder = None,
    data: flag.SomeTable = None,
    /,
    *,
    files: flag.EnsembleFlags = flag.NO_ENSEMBLE,
    outcomes: Annotated[Path | None, Parameter(group=flag.FORECASTS, help="file with the outcomes")] = None,
    cost: flag.CostWords = None,
    target: Annotated[
        str | None,
        Parameter(group=flag.FORECASTS, help="columns of the outcomes, and value columns of a long table of members"),
    ] = None,
    baseline_action: flag.BaselineAction = None,
    block: flag.Block = None,
    cases: flag.CasesFile = None,
    engine: flag.EngineKind = "serial",
    workers: flag.EngineWorkers = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.argument_checks import require_count
    from stakes.cli.output import print_json, print_notes, print_table, print_text, require_writable
    from stakes.data.tables.files import without_noise, write_table

    require_writable(cases, force, inputs=(data, files.members, outcomes))
    if block is not None:
        require_count("block", block)
    needed = "evaluate needs FOLDER and DATA, or --members, --outcomes and --cost"
    known = files.of_folder(folder, data, needed, target)
    if known is not None:
        from stakes.training.execution import Engine
        from stakes.workflows.evaluate import evaluate_with

        where = Engine(engine, workers)
        result = evaluate_with(*known, outcomes, cost, block, baseline_action, engine=where, **files.csv)
    else:
        if outcomes is None or cost is None:
            raise SettingError(f"--members needs {'--outcomes' if outcomes is None else '--cost'} too")
        from stakes.cost_spec.spec import CostSpec
        from stakes.workflows.evaluate import evaluate_members

        spec = CostSpec.parse(cost)
        given = files.read(target, spec.level_prices.build(), outcomes, baseline_action, prices=spec.columns)
        result = evaluate_members(given, spec, block)
    print_notes(result.notes, quiet)
    if cases is not None:
        write_table(without_noise(result.cases), cases)
    if json:
        print_json(result.record() | {"metrics": without_noise(result.table), "cases_file": cases})
    else:
        print_table(result.table, result.title)
        if result.alarms:
            print_text("\n".join(["", *result.alarms]))
