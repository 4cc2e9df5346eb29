"""`stakes report`: the report of a fit, written again."""

from pathlib import Path

from stakes.bundle.manifest import errors_name, read_manifest
from stakes.cost_text.cost_on_record import cost_again
from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.cost_text.written_cost import CostSpec
from stakes.errors import SettingError
from stakes.reports.fit_report import REPORT, write_fit_report
from stakes.training.model_folder import MANIFEST

__all__ = ["write_report"]


def write_report(folder: Path, cost: str | None, out: Path | None) -> Path:
    """Write FOLDER/report.html, or, where asked, another file in its place; returns where it is.

    The report tells what was measured with the cost of the fit, so that no other cost may be given.
    """
    if out is not None and out.resolve() == (folder / REPORT).resolve():
        raise SettingError(f"{str(out)!r} is the report of the folder itself, which is written without --out")
    manifest = read_manifest(folder)
    if manifest.cost is None:
        raise SettingError(f"{folder} was not made by `stakes fit`: it does not say what its cost is")
    with errors_name(folder / MANIFEST):
        kept = CostSpec.from_record(manifest.cost)
    found = cost_again(kept, cost).build()
    with naming_own_cost(found):
        return write_fit_report(folder, found, out)
