"""`stakes report`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag
from stakes.errors import SettingError

app = App(
    name="report",
    help_epilogue=flag.examples(
        "stakes report load",
        "stakes report shops --series 12/bread --out bread.html",
        "stakes report crops --cost costs.py:my_cost --out crops.html",
    ),
)


@app.default
def report(
    folder: flag.Folder,
    /,
    *,
    cost: flag.CostWords = None,
    out: Annotated[
        Path | None, Parameter(group=flag.OUTPUT, help="write to this .html file instead of the folder")
    ] = None,
    series: Annotated[
        str | None, Parameter(group=flag.SERIES, help="write the page of this series, such as 12/bread, to --out")
    ] = None,
    force: flag.Force = False,
    json: flag.Json = False,
) -> None:
    from stakes.cli.output import print_json, print_text, require_writable

    require_writable(out, force, (".html",))
    from stakes.reports.report import REPORT, report_of

    if out is not None and out.resolve() == (folder / REPORT).resolve():
        raise SettingError(f"{str(out)!r} is the report of the folder itself, which is written without --out")
    path = report_of(folder, cost, out, series)  # of what was measured with the cost of the fit, and no other
    print_json({"report": path}) if json else print_text(str(path))
