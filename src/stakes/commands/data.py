"""`stakes data`: the records inside the package, and the tasks."""

from pathlib import Path
from typing import Any

import pandas as pd

from stakes.data.records import load_record, record_names
from stakes.data.tables import write_table
from stakes.tasks import task_types

__all__ = ["describe", "export", "list_all"]


def list_all() -> dict[str, Any]:
    """Records and tasks with what is known of each."""
    return {"records": [_record(name) for name in record_names()], "tasks": _tasks()}


def describe(found: dict[str, Any]) -> str:
    """The same for people."""
    lines = ["Records, for `stakes data export NAME --out FILE.csv`:"]
    for record in found["records"]:
        columns = ", ".join(f"{column['name']} ({column['unit']})" for column in record["columns"])
        lines += [
            "",
            f"{record['name']}: {record['title']}",
            f"  {record['rows']:,} rows, {record['first']} to {record['last']} UTC, every {record['step_hours']:g} h",
            f"  {columns}",
            f"  {record['attribution']}",
        ]
    lines += ["", "Tasks, for `stakes train` and `stakes reproduce`:", ""]
    lines += [f"{task['name']}: {task['title']}" for task in found["tasks"]]
    return "\n".join(lines)


def export(name: str, out: Path) -> dict[str, Any]:
    """Write a record as a table with a column of times, UTC, before its own."""
    record = load_record(name)
    table = pd.DataFrame(record.values, columns=pd.Index(record.columns))
    table.insert(0, "time", record.times)
    write_table(table, out)
    return {"out": str(out), **_record(name)}


def _record(name: str) -> dict[str, Any]:
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


def _tasks() -> list[dict[str, str]]:
    return [
        {"name": name, "title": (task.__doc__ or "").strip().partition("\n")[0].rstrip(".")}
        for name, task in task_types().items()
    ]
