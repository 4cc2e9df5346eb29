"""`stakes monitor`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag

app = App(
    name="monitor",
    help_epilogue=flag.examples(
        "stakes monitor wind longer.csv",
        "stakes monitor frost observed.csv --forecast members.nc --alpha 0.01 --json",
    ),
)


@app.default
def monitor(
    folder: flag.Folder,
    new: Annotated[Path, Parameter(help="file with newer outcomes, and with the forecasts unless --forecast is given")],
    /,
    *,
    forecast: Annotated[
        Path | None,
        Parameter(group=flag.FORECASTS, help="file of newer forecasts, if the recalibration had such a file"),
    ] = None,
    alpha: Annotated[
        float,
        Parameter(group=flag.SELECTION, help="largest probability of a false alarm, over all runs ever"),
    ] = 0.05,
    cost: flag.CostWords = None,
    separator: flag.Separator = None,
    encoding: flag.Encoding = None,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.cli import ALARM
    from stakes.cli.output import print_json, print_notes, print_text
    from stakes.workflows.monitor import monitor_folder

    seen = monitor_folder(folder, new, forecast, alpha=alpha, cost=cost, separator=separator, encoding=encoding)
    print_notes(seen.notes, quiet)
    print_json(seen.record()) if json else print_text(seen.sentence)
    if seen.watch.left:
        raise SystemExit(ALARM)
