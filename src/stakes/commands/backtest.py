"""`stakes backtest`: fitted again and again as time goes on, and judged each time on what came next."""

from typing import Annotated

from cyclopts import App

from stakes.commands import flags as flag
from stakes.commands.fit_flags import FitFlags

__all__ = ["app"]

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
    flags: FitFlags,
    out: flag.NewFolder,
    origins: Annotated[int, flag.whole("parts of the last --test-fraction of the cases")] = 4,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.commands.output import print_fit
    from stakes.fitting.backtest import run_backtest
    from stakes.training.execution import Execution

    result = run_backtest(flags.request(str(data)), out, origins, Execution(device, workers, quiet))
    print_fit(result, json)
