"""`stakes backtest`."""

from typing import Annotated

from cyclopts import App

from stakes.cli import flags as flag

app = App(
    name="backtest",
    help_epilogue=flag.examples(
        "stakes backtest load.csv --target load --time time --lags 0,24 --lead 24 \\",
        "  --cost imbalance:short=10,long=1,upper=150 --origins 4 --out backtest",
    ),
)


@app.default
def backtest(
    data: flag.TableFile,
    /,
    *,
    flags: flag.FitFlags,
    out: flag.NewFolder,
    origins: Annotated[int, flag.whole("number of parts into which the test cases are split", flag.SELECTION)] = 4,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    engine: flag.EngineKind = "serial",
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.cli.output import print_fit

    panel = flags.panel_request(data, engine=engine, workers=workers)
    if panel is not None:
        from stakes.workflows.panels import run_panel_backtest

        print_fit(run_panel_backtest(panel, out, origins, quiet), json)
        return
    from stakes.training.execution import Execution
    from stakes.workflows.backtest import run_backtest

    result = run_backtest(flags.request(data), out, origins, Execution(device, workers, quiet))
    print_fit(result, json)
