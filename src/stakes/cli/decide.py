"""None"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag
from stakes.cli.ensemble_flags import NO_ENSEMBLE, ONLY_OF_MEMBERS, EnsembleFlags
from stakes.errors import SettingError

if TYPE_CHECKING:
    from stakes.workflows.decide import DecidedCases


app = App(
    name="decide",
    help_epilogue=flag.examples(
        "stakes decide load new.csv --out actions.csv",
        "stakes decide load new.csv --last",
        "stakes decide wind customers.csv --cost-parameter penalty=their_penalty",
        "stakes decide --members ensemble.csv --cost shortfall:penalty=5",
        "stakes decide --members big.nc --reduce 50 --cost imbalance:short=10,long=1,upper=150",
    ),
)

_GRIDS = (".nc", ".nc4")
_NO_COST = "--members needs --cost, as in --cost imbalance:short=10,long=1,upper=150"


@app.default
def decide(
    folder: flag.SomeFolder = None,
    newdata: flag.SomeTable = None,
    /,
    *,
    files: EnsembleFlags = NO_ENSEMBLE,
    cost: flag.CostWords = None,
    cost_parameter: flag.CostParameter = None,
    target: Annotated[str | None, Parameter(help="values of the members in a long table with several columns")] = None,
    quantiles: Annotated[str, Parameter(help="levels between 0 and 1, separated by commas")] = "0.1,0.5,0.9",
    reduce: Annotated[
        int | None,
        Parameter(
            help="decide from so many weighted members in place of all, and say what that costs", show_default=False
        ),
    ] = None,
    scenarios: Annotated[
        Path | None,
        Parameter(
            help="with --reduce: write these members to this file, .csv or .parquet, as scenarios with probability"
        ),
    ] = None,
    last: Annotated[
        bool, Parameter(help="decide for the newest time only, or the last row", negative="", show_default=False)
    ] = False,
    out: Annotated[
        Path | None,
        Parameter(help="write to this file, .csv or .parquet; or .nc, of members in a NetCDF file"),
    ] = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.cli.output import (
        TABLE_FILES,
        print_json,
        print_notes,
        print_or_write_table,
        print_text,
        require_writable,
    )

    to_grid = out is not None and out.name.lower().endswith(_GRIDS)
    require_writable(out, force, (*TABLE_FILES, *_GRIDS), inputs=(newdata, files.members))
    require_writable(scenarios, force, inputs=(newdata, files.members, out))
    if (reduce is not None and files.members is None) or (scenarios is not None and reduce is None):
        raise SettingError("--reduce needs --members, and --scenarios needs --reduce")
    levels = flag.numbers_of("quantiles", quantiles)
    for level in levels:
        if not 0 < level < 1:
            raise SettingError(f"quantiles must lie between 0 and 1, got {level:g}")
    if out is not None and to_grid:
        others = last or target is not None or folder is not None or cost_parameter is not None or reduce is not None
        print_notes(_write_grid(files, cost, levels, out, others), quiet)
        print_json({"out": str(out)}) if json else print_text(str(out))
        return
    reduction = (reduce, scenarios)
    result = _decided(folder, newdata, files, cost, levels, flag.names(target), last, cost_parameter, reduction)
    print_notes(result.notes, quiet)
    print_or_write_table(result.table, result.record(), out, json)
    result.require_an_answer()


def _write_grid(
    files: EnsembleFlags, cost: str | None, levels: Sequence[float], out: Path, others: bool
) -> tuple[str, ...]:
    """The decisions of a gridded file, as one; sentences for the user are returned."""
    from stakes.cost_spec.spec import CostSpec
    from stakes.data.forecasts.quantiles import written_pair
    from stakes.data.tables.files import is_dataset
    from stakes.data.tables.gridded_files import write_netcdf
    from stakes.workflows.decide import decide_grid

    if files.members is None or not is_dataset(files.members) or others or files.sites not in ("together", "each"):
        raise SettingError(
            f"decisions are written to a NetCDF file, {str(out)!r}, where --members is one, for all its cases "
            "and members; any other to .csv or .parquet"
        )
    if cost is None:
        raise SettingError(_NO_COST)
    decided, notes = decide_grid(
        files.members,
        CostSpec.parse(cost),
        levels,
        variable=files.variable,
        dimension=files.member_dimension,
        points=files.grid_points,
        unit=files.unit,
        site=files.site,
        together=files.sites == "together",
        tails=files.tails,
        bounds=written_pair(files.outcome_bounds),
    )
    write_netcdf(decided, out)
    return notes


def _decided(
    folder: Path | None,
    data: Path | None,
    files: EnsembleFlags,
    cost: str | None,
    levels: Sequence[float],
    targets: tuple[str, ...],
    last: bool,
    cost_parameter: str | None,
    reduction: tuple[int | None, Path | None],
) -> "DecidedCases":
    """With a fitted forecaster or over an ensemble, by what is given."""
    if files.members is None:
        if folder is None or data is None:
            raise SettingError("decide needs FOLDER and NEWDATA, or --members and --cost")
        if targets or files.describes_members:
            raise SettingError(ONLY_OF_MEMBERS)
        from stakes.workflows.folders import decide_with  # not needed where there are members already

        return decide_with(folder, data, cost, levels, last, cost_parameter=cost_parameter, **files.csv_options)
    if folder is not None:
        raise SettingError(f"decide takes --members or a folder, not both; got {str(folder)!r} besides --members")
    if cost is None:
        raise SettingError(_NO_COST)
    flag.refuse_cost_parameter(cost_parameter)
    from stakes.cost_spec.spec import CostSpec
    from stakes.workflows.decide import decide_members

    spec = CostSpec.parse(cost)
    count, scenarios = reduction
    ensemble = files.read_these(targets, spec.build())
    return decide_members(ensemble, spec, levels, last, reduce=count, scenarios=scenarios)
