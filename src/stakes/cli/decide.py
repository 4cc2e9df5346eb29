"""`stakes decide`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag
from stakes.errors import SettingError

if TYPE_CHECKING:
    from stakes.cost_spec.spec import CostSpec


app = App(
    name="decide",
    help_epilogue=flag.examples(
        "stakes decide load new.csv --out actions.csv",
        "stakes decide load new.csv --last",
        "stakes decide wind customers.csv --cost shortfall:penalty=@their_penalty",
        "stakes decide --members ensemble.csv --cost shortfall:penalty=5",
        "stakes decide --members quantiles.csv --dependence past.csv \\",
        "  --cost newsvendor:underage=9,overage=1,upper=99",
        "stakes decide --members big.nc --reduce 50 --cost imbalance:short=10,long=1,upper=150",
    ),
)


@app.default
def decide(
    folder: flag.SomeFolder = None,
    newdata: flag.SomeTable = None,
    /,
    *,
    files: flag.EnsembleFlags = flag.NO_ENSEMBLE,
    cost: flag.CostWords = None,
    target: Annotated[
        str | None,
        Parameter(
            group=flag.FORECASTS,
            help="value columns of a long table; with --dependence, the columns of past outcomes",
        ),
    ] = None,
    quantiles: Annotated[
        str, Parameter(group=flag.OUTPUT, help="levels of the reported quantiles, between 0 and 1")
    ] = "0.1,0.5,0.9",
    reduce: Annotated[
        int | None,
        Parameter(
            group=flag.FORECASTS,
            help="decide from this many weighted members instead of all, and report the loss",
            show_default=False,
        ),
    ] = None,
    dependence: Annotated[
        Path | None,
        Parameter(
            group=flag.FORECASTS,
            help="table of past outcomes, best with past quantiles, that joins quantiles of several outcomes into "
            "scenarios",
        ),
    ] = None,
    scenarios: Annotated[
        Path | None,
        Parameter(
            group=flag.OUTPUT, help="with --reduce: write the members and their probabilities to this .csv or .parquet"
        ),
    ] = None,
    last: Annotated[
        bool,
        Parameter(
            group=flag.OUTPUT, help="decide for the newest time, or the last row, only", negative="", show_default=False
        ),
    ] = False,
    out: Annotated[Path | None, Parameter(group=flag.OUTPUT, help="write to this .csv or .parquet file")] = None,
    engine: flag.EngineKind = "serial",
    workers: flag.EngineWorkers = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.cli.output import (
        print_json,
        print_notes,
        print_or_write_table,
        print_text,
        require_writable,
    )

    folder_out = files.members is None and out is not None and not out.suffix  # of parquet files, of many series
    require_writable(None if folder_out else out, force, inputs=(newdata, files.members))
    require_writable(scenarios, force, inputs=(newdata, files.members, out))
    if dependence is not None and files.members is None:
        raise SettingError("--dependence needs --members, of quantiles")
    if (reduce is not None and files.members is None) or (scenarios is not None and reduce is None):
        raise SettingError("--reduce needs --members, and --scenarios needs --reduce")
    levels = flag.numbers_of("quantiles", quantiles)
    for level in levels:
        if not 0 < level < 1:
            raise SettingError(f"quantiles must lie between 0 and 1, got {level:g}")
    known = files.of_folder(folder, newdata, "decide needs FOLDER and NEWDATA, or --members and --cost", target)
    if known is not None:
        from stakes.training.execution import Engine
        from stakes.workflows.decide import DecidedCases, decide_with  # not needed where there are members already

        where = Engine(engine, workers)
        result = decide_with(*known, cost, levels, last, out=out, engine=where, **files.csv)
        if not isinstance(result, DecidedCases):  # of a panel, which wrote its file itself
            print_notes(result.notes, quiet)
            print_json(result.record() | {"out": str(out)}) if json else print_text(str(out))
            return
    else:
        from stakes.workflows.decide import decide_members

        spec = _cost(cost)
        given = files.read(
            None if dependence else target,
            spec.level_prices.build(),
            joint=dependence is not None,
            prices=spec.columns,
        )
        if dependence is not None:
            from stakes.workflows.dependence import put_together

            given = put_together(given, dependence, files.format, flag.names(target), **files.csv)
        result = decide_members(given, spec, levels, last, reduce=reduce, scenarios=scenarios)
    print_notes(result.notes, quiet)
    print_or_write_table(result.table, result.record(), out, json)
    result.require_an_answer()


def _cost(words: str | None) -> "CostSpec":
    from stakes.cost_spec.spec import CostSpec

    if words is None:
        raise SettingError("--members needs --cost, as in --cost imbalance:short=10,long=1,upper=150")
    return CostSpec.parse(words)
