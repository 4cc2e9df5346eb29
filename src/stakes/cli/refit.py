"""`stakes refit`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag

app = App(
    name="refit",
    help_epilogue=flag.examples("stakes refit load longer.csv --out load-2024"),
)


@app.default
def refit(
    folder: flag.Folder,
    data: flag.TableFile,
    /,
    *,
    out: flag.NewFolder,
    forecast: Annotated[
        Path | None,
        Parameter(group=flag.FORECASTS, help="file of newer forecasts, if the recalibration had such a file"),
    ] = None,
    cost: flag.CostWords = None,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.cli.output import print_fit
    from stakes.training.execution import Execution
    from stakes.workflows.fit import refit_with

    print_fit(refit_with(folder, data, forecast, out, cost, Execution(device, workers, quiet)), json)
