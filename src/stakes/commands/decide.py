"""`stakes decide`: new data and a fitted forecaster, or an ensemble and a cost, to the action of every case."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from stakes.commands import flags as flag
from stakes.commands.ensemble_flags import NO_ENSEMBLE, EnsembleFlags
from stakes.errors import SettingError

if TYPE_CHECKING:
    from stakes.fitting.decide import DecidedCases

__all__ = ["app"]

app = App(
    name="decide",
    help_epilogue=flag.examples(
        "stakes decide load new.csv --out actions.csv",
        "stakes decide load new.csv --last",
        "stakes decide --members ensemble.csv --cost shortfall:penalty=5",
    ),
)


@app.default
def decide(
    folder: flag.SomeFolder = None,
    newdata: flag.SomeTable = None,
    /,
    *,
    files: EnsembleFlags = NO_ENSEMBLE,
    cost: flag.CostWords = None,
    target: Annotated[str | None, Parameter(help="values of the members in a long table with several columns")] = None,
    quantiles: Annotated[str, Parameter(help="levels between 0 and 1, separated by commas")] = "0.1,0.5,0.9",
    last: Annotated[
        bool, Parameter(help="decide for the newest time only, or the last row", negative="", show_default=False)
    ] = False,
    out: Annotated[Path | None, Parameter(help="write the table to this file, .csv or .parquet")] = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.commands.output import print_notes, print_or_write_table, require_writable

    require_writable(out, force, inputs=(newdata, files.members))
    levels = flag.numbers_of("quantiles", quantiles)
    for level in levels:
        if not 0 < level < 1:
            raise SettingError(f"quantiles must lie between 0 and 1, got {level:g}")
    result = _decided(folder, newdata, files, cost, levels, flag.names(target), last)
    print_notes(result.notes, quiet)
    print_or_write_table(result.table, result.record(), out, json)


def _decided(
    folder: Path | None,
    data: Path | None,
    files: EnsembleFlags,
    cost: str | None,
    levels: Sequence[float],
    targets: tuple[str, ...],
    last: bool,
) -> "DecidedCases":
    """With a fitted forecaster or over an ensemble, by what is given."""
    if files.members is None:
        if folder is None or data is None:
            raise SettingError("decide needs FOLDER and NEWDATA, or --members and --cost")
        if targets or files.describes_members:
            raise SettingError(
                "--target, --columns, --read-as, --sites, --time and --variable belong to --members; the folder knows "
                "its own columns"
            )
        from stakes.fitting.any_folder import decide_with  # not needed where there are members already

        return decide_with(folder, data, cost, levels, last, **files.csv_options)
    if folder is not None:
        raise SettingError(f"decide takes --members or a folder, not both; got {str(folder)!r} besides --members")
    if cost is None:
        raise SettingError("--members needs --cost, as in --cost imbalance:short=10,long=1,upper=150")
    from stakes.cost_text.written_cost import CostSpec
    from stakes.fitting.decide import decide_members

    spec = CostSpec.parse(cost)
    return decide_members(files.read_these(targets, spec.build()), spec, levels, last)
