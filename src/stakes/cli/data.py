"""`stakes data`."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from stakes import __version__
from stakes.cli import flags as flag
from stakes.cli.flags import examples

app = App(name="data", version=__version__)
_MOST_COLUMNS = 24  # listed for people


@app.command(
    name="list",
    help="List the records with content, period, units and attribution.",
    help_epilogue=examples("stakes data list", "stakes data list --json"),
)
def list_all(*, json: flag.Json = False) -> None:
    from stakes.cli.output import print_json, print_text
    from stakes.data.records import record_names

    known = {"records": [_record(name) for name in record_names()]}
    print_json(known) if json else print_text(_described(known))


@app.command(
    help="Write a record as a table with a column of times in UTC.",
    help_epilogue=examples("stakes data export wind_north_sea --out wind.csv"),
)
def export(
    name: Annotated[str, Parameter(help="name of the record, from stakes data list")],
    /,
    *,
    out: Annotated[Path, Parameter(group=flag.OUTPUT, help="write to this .csv or .parquet file")],
    force: flag.Force = False,
    json: flag.Json = False,
) -> None:
    import pandas as pd

    from stakes.cli.output import print_json, print_text, require_writable
    from stakes.data.records import load_record
    from stakes.data.tables.files import write_table

    require_writable(out, force)
    record = load_record(name)
    table = pd.DataFrame(record.values, columns=pd.Index(record.columns))
    table.insert(0, "time", record.times)
    write_table(table, out)
    print_json({"out": str(out), **_record(name)}) if json else print_text(str(out))


def _described(known: dict[str, Any]) -> str:
    """Records for people."""
    lines = ["Records, for `stakes data export NAME --out FILE.csv`:"]
    for record in known["records"]:
        lines += [
            "",
            f"{record['name']}: {record['title']}",
            f"  {record['rows']:,} rows, {record['first']} to {record['last']} UTC, every {record['step_hours']:g} h",
            f"  {_named(record['columns'])}",
            f"  {record['attribution']}",
        ]
    return "\n".join(lines)


def _named(columns: list[dict[str, str]]) -> str:
    """The columns with their units; of very many the first ones."""
    shown = columns if len(columns) <= _MOST_COLUMNS else columns[: _MOST_COLUMNS // 2]
    names = [f"{column['name']} ({column['unit']})" for column in shown]
    return ", ".join(names) + (f" and {len(columns) - len(shown)} more" if len(shown) < len(columns) else "")


def _record(name: str) -> dict[str, Any]:
    from stakes.data.records import load_record

    record = load_record(name)
    step = (record.times[1] - record.times[0]).astype("timedelta64[s]").astype(int)
    units = zip(record.columns, record.units, strict=True)
    return {
        "name": name,
        "title": record.title,
        "rows": len(record.times),
        "first": str(record.times[0]),
        "last": str(record.times[-1]),
        "step_hours": float(step / 3600),
        "columns": [{"name": column, "unit": unit} for column, unit in units],
        "attribution": record.attribution,
        "source": record.source,
    }
