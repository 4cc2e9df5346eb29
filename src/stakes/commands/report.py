"""`stakes report`: the report of a fit, written again."""

from pathlib import Path

from stakes.cost_specs import CostSpec
from stakes.reporting.fit_report import write_fit_report
from stakes.training.checkpoints import write_atomically

__all__ = ["write_report"]


def write_report(folder: Path, cost: str | None, out: Path | None) -> Path:
    """Write FOLDER/report.html and, where asked, a copy of it; returns where it is."""
    report = write_fit_report(folder, cost=None if cost is None else CostSpec.parse(cost).build())
    if out is None:
        return report
    write_atomically(out, report.read_bytes())
    return out
