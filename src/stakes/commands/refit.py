"""`stakes refit`: the same layout, cost and settings, fitted to new data."""

from cyclopts import App

from stakes.commands import flags as flag

__all__ = ["app"]

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
    cost: flag.CostWords = None,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.commands.output import print_fit
    from stakes.fitting.refit import run_refit
    from stakes.training.execution import Execution

    print_fit(run_refit(folder, data, out, cost, Execution(device, workers, quiet)), json)
