"""`stakes recalibrate`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag

app = App(
    name="recalibrate",
    help_epilogue=flag.examples(
        "stakes recalibrate past.csv --forecast m1:m50 --outcome power --lead 24 \\",
        "  --cost shortfall:penalty=5 --out wind",
        "stakes recalibrate observed.csv --forecast members.nc --outcome temperature \\",
        "  --cost protection:threshold=0,false_alarm_ratio=0.1,hazard=below --out frost",
        "stakes decide wind new.csv",
    ),
)


@app.default
def recalibrate(
    past: Annotated[
        Path,
        Parameter(
            help="CSV, parquet or NetCDF file with past outcomes, and with past forecasts unless --forecast is a file"
        ),
    ],
    /,
    *,
    flags: flag.RecalibrateFlags,
    out: flag.NewFolder,
    force: Annotated[
        bool,
        Parameter(group=flag.OUTPUT, help="replace an existing recalibration", negative="", show_default=False),
    ] = False,
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.cli.output import print_fit
    from stakes.workflows.recalibrate import run_recalibrate

    print_fit(run_recalibrate(flags.request(past), out, force=force, quiet=quiet), json)
