"""None"""

from os.path import isfile
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag
from stakes.errors import SettingError

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
_NO_FLAGS = flag.LayoutFlags()


@app.default
def recalibrate(
    past: Annotated[
        Path,
        Parameter(
            help="table of what happened, CSV, parquet or NetCDF; of the forecasts, too, unless --forecast is a file"
        ),
    ],
    /,
    *,
    forecast: Annotated[
        str,
        Parameter(
            help="the forecasts: columns of PAST, names or ranges such as m1:m50, of members, quantiles, or one a "
            "target; or a file of their own, as for `decide --members`"
        ),
    ],
    outcome: Annotated[str, Parameter(help="column of what happened, or several, one a target")],
    cost: Annotated[str, Parameter(help=flag.COST_HELP)],
    out: flag.NewFolder,
    files: flag.LayoutFlags = _NO_FLAGS,
    decision_weights: Annotated[
        str, Parameter(help="weights of the decision that are tried, between 0 and 1; none tries none")
    ] = "0.2,0.5,0.8",
    tolerance: Annotated[
        float | None,
        Parameter(help="per cent by which a decision weight may make the score worse; none is no limit"),
    ] = None,
    test_fraction: Annotated[
        float, Parameter(help="share of the cases, the last ones, that choose nothing and tell what it is worth")
    ] = 0.25,
    gap: Annotated[
        int, flag.whole("cases before a forecast whose outcomes were not known yet; 0 where leads tell")
    ] = 0,
    block: flag.Block = None,
    force: Annotated[
        bool, Parameter(help="replace a recalibration that is there already", negative="", show_default=False)
    ] = False,
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.cli.output import print_fit
    from stakes.data.outcome_bounds import written_pair
    from stakes.forecasting.parameters import RecalibratorSettings
    from stakes.workflows.recalibrate import RecalibrateRequest, run_recalibrate

    file = _file(forecast, files.columns)
    settings = RecalibratorSettings(
        outcome_bounds=written_pair(files.outcome_bounds),
        decision_weights=() if decision_weights == "none" else flag.numbers_of("decision_weights", decision_weights),
        tolerance=tolerance,
        test_fraction=test_fraction,
        gap=gap,
        block="auto" if block is None else block,
    )
    layout = files.layout(outcome, None if file else forecast)
    request = RecalibrateRequest(past, cost, layout, file, settings, files.csv)
    print_fit(run_recalibrate(request, out, force=force, quiet=quiet), json)


def _file(forecast: str, columns: str | None) -> Path | None:
    """The file that --forecast names; None where it names columns."""
    from stakes.data.tables.files import TABLES, is_dataset

    path = Path(forecast)
    if isfile(path) or is_dataset(path) or forecast.lower().endswith(TABLES):
        return path
    if columns is not None:
        raise SettingError(f"--columns are those of a file of forecasts, and there is no file {forecast!r}")
    return None
