"""`stakes reproduce`: the paper, on real records."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.commands import flags as flag

__all__ = ["app"]

app = App(name="reproduce")


@app.default
def reproduce(
    subject: Annotated[str, Parameter(help="synthetic, wind, frost, portfolio, all of these, or programs")] = "all",
    /,
    *,
    quick: Annotated[
        bool, Parameter(help="a reduced run, under 20 minutes on two cores", negative="", show_default=False)
    ] = False,
    model: Annotated[str | None, Parameter(help="implicit or diffusion; both by default")] = None,
    record: Annotated[
        str | None, Parameter(help="another record or a file, NetCDF, Zarr, CSV or parquet, for wind or frost")
    ] = None,
    figure: Annotated[str | None, Parameter(help="draw this figure only, by its label in the paper")] = None,
    tables: Annotated[
        str | None, Parameter(help="folder of the tables, of portfolios and programs, that are not shipped")
    ] = None,
    out: Annotated[Path | None, Parameter(help="folder of the reproduction; reproduction/SUBJECT by default")] = None,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.paper.reproduce import Reproduction
    from stakes.paper.reproduce import reproduce as run
    from stakes.training.execution import Execution

    wanted = Reproduction(subject, quick, model, record, figure, tables)
    sys.stdout.write(f"{run(wanted, out or wanted.folder, Execution(device, workers, quiet))}\n")
