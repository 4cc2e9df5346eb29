"""The words of the commands for a table, a cost and a decision; nothing heavy is imported until one is called."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from stakes.commands import arguments as flag
from stakes.commands.arguments import examples, whole

__all__ = ["decisions"]

decisions = App()
_GROUP = Group("From a table and a cost to decisions", sort_key=1)
data_app = App(name="data", group=_GROUP, help="Real records: those inside the package, and ERA5.")
decisions.command(data_app)

Table = Annotated[Path, Parameter(help="table, CSV, parquet, NetCDF or Zarr, one row a case or a time")]
SomeTable = Annotated[Path | None, Parameter(help="table, CSV, parquet, NetCDF or Zarr, one row a case or a time")]
Folder = Annotated[Path, Parameter(help="folder of a fit")]
SomeFolder = Annotated[Path | None, Parameter(help="folder of a fit")]


@decisions.command(
    group=_GROUP,
    help="Fit a forecaster to a table and a cost, and choose how much the decision weighs. A second start goes on "
    "where the first was interrupted.",
    help_epilogue=examples(
        "stakes fit load.csv --target load --time time --lags 0,24 --lead 24 \\",
        "  --cost imbalance:short=10,long=1,upper=150,unit=EUR --out load",
        "stakes fit crops.parquet --target frost --cost costs.py:my_cost --out crops",
    ),
)
def fit(
    data: Table,
    /,
    *,
    flags: flag.FitFlags,
    out: Annotated[Path, Parameter(help="folder to make")],
    no_headroom: Annotated[
        bool, Parameter(help="do not ask first whether there is anything to gain", negative="")
    ] = False,
    headroom_only: Annotated[
        bool, Parameter(help="ask only that, in about a minute", negative="", show_default=False)
    ] = False,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.commands.output import say_fit
    from stakes.fitting.fit import run_fit

    headroom = {"headroom": not no_headroom, "headroom_only": headroom_only}
    say_fit(run_fit(flags.request(str(data)), out, device=device, workers=workers, quiet=quiet, **headroom), json)


@decisions.command(
    group=_GROUP,
    help="The action for every row: with a fitted forecaster and new data, or with an ensemble that you already have.",
    help_epilogue=examples(
        "stakes decide load new.csv --out actions.csv",
        "stakes decide --members ensemble.csv --cost shortfall:penalty=5",
    ),
)
def decide(
    folder: SomeFolder = None,
    newdata: SomeTable = None,
    /,
    *,
    files: flag.Files = flag.NO_MEMBERS,
    cost: flag.Cost = None,
    target: Annotated[str | None, Parameter(help="values of the members in a long table with several columns")] = None,
    quantiles: flag.Quantiles = "0.1,0.5,0.9",
    out: flag.Out = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.commands.decide import decide as run
    from stakes.commands.output import notes, require_free, say_result

    require_free(out, force, inputs=(newdata, files.members))
    levels = flag.numbers_of("quantiles", quantiles)
    found = run(folder, newdata, files, cost, levels, flag.names(target))
    notes(found.notes, quiet)
    say_result(found.table, found.record(), out, json)


@decisions.command(
    group=_GROUP,
    help="What a fitted forecaster, or an ensemble that you already have, was worth where the outcomes are known.",
    help_epilogue=examples(
        "stakes evaluate load later.csv --cases cases.csv",
        "stakes evaluate --members ensemble.csv --outcomes observed.csv \\",
        "  --cost shortfall:penalty=5",
    ),
)
def evaluate(
    folder: SomeFolder = None,
    data: SomeTable = None,
    /,
    *,
    files: flag.Files = flag.NO_MEMBERS,
    outcomes: Annotated[Path | None, Parameter(help="outcomes of the members' cases, CSV or parquet")] = None,
    cost: flag.Cost = None,
    target: Annotated[
        str | None, Parameter(help="columns of the outcomes, and of the members in a long table with several")
    ] = None,
    baseline_action: flag.BaselineAction = None,
    block: flag.Block = None,
    cases: flag.Cases = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.commands.evaluate import evaluate as run
    from stakes.commands.output import notes, require_free, say_json, say_table
    from stakes.data.tables import write_table

    require_free(cases, force, inputs=(data, files.members, outcomes))
    found = run(folder, data, files, outcomes, cost, flag.names(target), baseline_action=baseline_action, block=block)
    notes(found.notes, quiet)
    if cases is not None:
        write_table(found.cases, cases)
    if json:
        say_json(found.record() | {"cases_file": cases})
    else:
        say_table(found.table, found.title)


@decisions.command(
    group=_GROUP,
    help="Write the report of a fit again: one HTML file that needs no network.",
    help_epilogue=examples("stakes report load", "stakes report crops --cost costs.py:my_cost --out crops.html"),
)
def report(
    folder: Folder,
    /,
    *,
    cost: flag.Cost = None,
    out: Annotated[Path | None, Parameter(help="write to this file, .html, not into the folder")] = None,
    force: flag.Force = False,
    json: flag.Json = False,
) -> None:
    from stakes.commands.output import require_free, say, say_json
    from stakes.commands.report import write_report

    require_free(out, force, (".html",))
    path = write_report(folder, cost, out)
    say_json({"report": path}) if json else say(str(path))


@decisions.command(
    group=_GROUP,
    name="check-cost",
    help="Whether a cost is fit for training, and where it will act: over the members of an ensemble, the outcomes of "
    "a table, or, without either, draws where it makes a difference.",
    help_epilogue=examples(
        "stakes check-cost --cost protection:threshold=0,false_alarm_ratio=0.2",
        "stakes check-cost load.csv --target load --cost costs.py:my_cost",
    ),
)
def check_cost(
    data: SomeTable = None,
    /,
    *,
    cost: Annotated[str, Parameter(help=flag.COST_HELP)],
    target: Annotated[
        str | None, Parameter(help="columns of the outcomes in the table, or of the members in a long one")
    ] = None,
    files: flag.Files = flag.NO_MEMBERS,
    plot: flag.Plot = None,
    force: flag.Force = False,
    json: flag.Json = False,
) -> None:
    from stakes.commands.check_cost import check_cost as run
    from stakes.commands.output import require_free, say, say_json

    require_free(plot, force, (".svg",))
    found = run(cost, data, flag.names(target), files)
    if plot is not None:
        found.draw(plot)
    say_json(found.record() | {"plot": plot}) if json else say(str(found))


@data_app.command(
    name="list",
    help="Name, content, period, units and attribution of every record, and the tasks.",
    help_epilogue=examples("stakes data list", "stakes data list --json"),
)
def data_list(*, json: flag.Json = False) -> None:
    from stakes.commands.data import describe, list_all
    from stakes.commands.output import say, say_json

    found = list_all()
    say_json(found) if json else say(describe(found))


@data_app.command(
    name="export",
    help="Write a record as a table with a column of times, UTC.",
    help_epilogue=examples("stakes data export wind_north_sea --out wind.csv"),
)
def data_export(
    name: Annotated[str, Parameter(help="of the record, as `stakes data list` has it")],
    /,
    *,
    out: Annotated[Path, Parameter(help="file to write, .csv or .parquet")],
    force: flag.Force = False,
    json: flag.Json = False,
) -> None:
    from stakes.commands.data import export
    from stakes.commands.output import require_free, say, say_json

    require_free(out, force)
    found = export(name, out)
    say_json(found) if json else say(str(out))


@data_app.command(
    name="era5",
    help="Fetch ERA5 at a point, or a patch of points around it, as one NetCDF file for `fit` and `reproduce`. A "
    "second start goes on where the first was interrupted.",
    help_epilogue=examples(
        "stakes data era5 --source cds --variables u10,v10 --at 56.75 5 --years 2005-2021 \\",
        "  --step 6 --out wind.nc",
    ),
)
def data_era5(
    *,
    source: Annotated[
        Literal["cds", "arco"],
        Parameter(help="cds: the Climate Data Store, with your key; arco: a public Zarr store, far more to transfer"),
    ],
    variables: Annotated[str, Parameter(help="names, short or long, separated by commas")],
    at: Annotated[tuple[float, float], Parameter(help="latitude and longitude in degrees", negative="")],
    years: Annotated[str, Parameter(help="whole years, such as 2005-2021")],
    out: Annotated[Path, Parameter(help="file to write, .nc")],
    patch: Annotated[int, whole("points on each side of the patch, odd")] = 1,
    step: Annotated[int, whole("hours between times")] = 1,
    store: Annotated[str | None, Parameter(help="another Zarr store for arco")] = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.commands.output import notes, require_free, say, say_json
    from stakes.data.era5 import Era5Request, fetch_era5, find_source
    from stakes.data.era5.request import variable_names, years_of
    from stakes.status_lines import StatusLines

    require_free(out, force, (".nc",))
    request = Era5Request(variable_names(variables), at, years_of(years), patch, step)
    found = fetch_era5(request, find_source(source, store), out, StatusLines(quiet))
    notes(found.notes, quiet)
    say_json(found.record()) if json else say(str(out))


@decisions.command(
    group=_GROUP,
    help="Fit and judge as time goes on: at each origin on all cases before it, judged on those up to the next. A "
    "second start goes on where the first was interrupted.",
    help_epilogue=examples(
        "stakes backtest load.csv --target load --time time --lags 0,24 --lead 24 \\",
        "  --cost imbalance:short=10,long=1,upper=150 --origins 4 --out backtest",
    ),
)
def backtest(
    data: Table,
    /,
    *,
    flags: flag.FitFlags,
    out: Annotated[Path, Parameter(help="folder to make")],
    origins: Annotated[int, whole("parts of the last --test-fraction of the cases")] = 4,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.commands.output import say_fit
    from stakes.fitting.backtest import run_backtest
    from stakes.training.execution import Execution

    found = run_backtest(flags.request(str(data)), out, origins, Execution(device, workers, quiet))
    say_fit(found, json, found.shown)


@decisions.command(
    group=_GROUP,
    help="Fit the same again, layout, cost and settings, to new data.",
    help_epilogue=examples(
        "stakes refit load longer.csv --out load-2024", "stakes refit load longer.csv --fine-tune --out load-2024"
    ),
)
def refit(
    folder: Folder,
    data: Table,
    /,
    *,
    out: Annotated[Path, Parameter(help="folder to make")],
    cost: flag.Cost = None,
    fine_tune: Annotated[
        bool, Parameter(help="start from the weights of the old fit", negative="", show_default=False)
    ] = False,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.commands.output import say_fit
    from stakes.fitting.refit import run_refit
    from stakes.training.execution import Execution

    say_fit(run_refit(folder, data, out, cost, Execution(device, workers, quiet), fine_tune), json)


@decisions.command(
    group=_GROUP,
    help="Serve a fit, or two to compare, over HTTP, with a page to look at its decisions; needs the extra `serve`.",
    help_epilogue=examples(
        "stakes serve load", "stakes serve load load-2024 --port 9000", "STAKES_TOKEN=... stakes serve load --host ::"
    ),
)
def serve(
    folder: Folder,
    other: Annotated[Path | None, Parameter(help="a second one, to compare with")] = None,
    /,
    *,
    host: Annotated[str, Parameter(help="address; one that others can reach needs a token")] = "127.0.0.1",
    port: Annotated[int, whole("0 takes a free one")] = 8000,
    token: Annotated[
        str | None, Parameter(help="what every request must bring, Authorization: Bearer", env_var="STAKES_TOKEN")
    ] = None,
    cost: flag.Cost = None,
    max_rows: Annotated[int, whole("of one request")] = 10_000,
    max_members: Annotated[int, whole("of a forecast")] = 2000,
    max_body_mb: Annotated[float, Parameter(help="size of a request")] = 16.0,
    timeout: Annotated[float, Parameter(help="seconds after which a request is given up")] = 30.0,
) -> None:
    from stakes.commands.serve import serve as run

    limits = {"max_rows": max_rows, "max_members": max_members, "max_body_mb": max_body_mb, "timeout": timeout}
    run([folder] if other is None else [folder, other], cost, host=host, port=port, token=token, **limits)


@decisions.command(
    group=_GROUP,
    help="Two decisions on the sum of many sites, from a table to a report: French electricity, and simulated wind "
    "sites of which the truth is known. Three to four minutes on two cores.",
    help_epilogue=examples("stakes demo", "stakes demo --epochs 2 --out quick-demo"),
)
def demo(
    *,
    out: Annotated[Path, Parameter(help="folder to make")] = Path("stakes-demo"),
    epochs: Annotated[int | None, whole("train so many epochs only, to see that it works")] = None,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.commands.demo import run_demo
    from stakes.training.execution import Execution

    run_demo(out, Execution(device, workers, quiet), epochs, json)
