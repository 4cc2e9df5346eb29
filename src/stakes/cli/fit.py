"""`stakes fit`."""

from dataclasses import replace
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag

app = App(
    name="fit",
    help_epilogue=flag.examples(
        "stakes fit load.csv --target load --time time --lags 0,24 --lead 24 \\",
        "  --cost imbalance:short=10,long=1,upper=150,unit=EUR --out load",
        "stakes fit sales.parquet --series store,product --target demand --time date --lags 0d,6d,13d \\",
        "  --windows 7d,28d --lead 1d --out shops \\",
        "  --cost newsvendor:underage=@margin,overage=@waste,unit=EUR",
        "stakes fit crops.parquet --target frost --cost costs.py:my_cost --out crops",
    ),
)


@app.default
def fit(
    data: flag.TableFile,
    /,
    *,
    flags: flag.FitFlags,
    out: flag.NewFolder,
    hold_test: Annotated[
        bool,
        Parameter(
            group=flag.SELECTION,
            help="keep the test cases out of the saved forecast",
            negative="",
            show_default=False,
        ),
    ] = False,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    engine: flag.EngineKind = "serial",
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.cli.output import print_fit

    panel = flags.panel_request(data, hold_test, engine, workers)
    if panel is not None:
        from stakes.workflows.panels import run_panel_fit

        print_fit(run_panel_fit(panel, out, quiet), json)
        return
    from stakes.training.execution import Execution
    from stakes.workflows.fit import run_fit

    request, execution = replace(flags.request(data), hold_test=hold_test), Execution(device, workers, quiet)
    print_fit(run_fit(request, out, execution), json)
