"""None"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag
from stakes.cli.ensemble_flags import NO_ENSEMBLE, ONLY_OF_MEMBERS, EnsembleFlags
from stakes.errors import SettingError, TableError

if TYPE_CHECKING:
    from stakes.workflows.evaluate import Evaluation


app = App(
    name="evaluate",
    help_epilogue=flag.examples(
        "stakes evaluate load later.csv --cases cases.csv",
        "stakes evaluate --members ensemble.csv --outcomes observed.csv \\",
        "  --cost shortfall:penalty=5",
    ),
)


@app.default
def evaluate(
    folder: flag.SomeFolder = None,
    data: flag.SomeTable = None,
    /,
    *,
    files: EnsembleFlags = NO_ENSEMBLE,
    outcomes: Annotated[Path | None, Parameter(help="outcomes of the members' cases, CSV or parquet")] = None,
    cost: flag.CostWords = None,
    cost_parameter: flag.CostParameter = None,
    target: Annotated[
        str | None, Parameter(help="columns of the outcomes, and of the members in a long table with several")
    ] = None,
    baseline_action: flag.BaselineAction = None,
    block: flag.Block = None,
    cases: flag.CasesFile = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.argument_checks import require_count
    from stakes.cli.output import print_json, print_notes, print_table, print_text, require_writable
    from stakes.data.tables.files import without_noise, write_table

    require_writable(cases, force, inputs=(data, files.members, outcomes))
    if block is not None:
        require_count("block", block)
    targets = flag.names(target)
    if files.members is None:
        if folder is None:
            raise SettingError("evaluate needs FOLDER and DATA, or --members, --outcomes and --cost")
        if targets or files.describes_members:
            raise SettingError(ONLY_OF_MEMBERS)
        if data is None:
            raise SettingError("evaluate needs FOLDER and DATA, or --members, --outcomes and --cost")
        from stakes.workflows.folders import evaluate_with

        csv = files.csv_options
        result = evaluate_with(
            folder, data, outcomes, cost, block, baseline_action, cost_parameter=cost_parameter, **csv
        )
    else:
        if folder is not None:
            raise SettingError(f"evaluate takes --members or a folder, not both; got {str(folder)!r} besides --members")
        if outcomes is None or cost is None:
            raise SettingError(f"--members needs {'--outcomes' if outcomes is None else '--cost'} too")
        flag.refuse_cost_parameter(cost_parameter)
        result = _of_members(files, outcomes, cost, targets, block, baseline_action)
    print_notes(result.notes, quiet)
    if cases is not None:
        write_table(without_noise(result.cases), cases)
    if json:
        print_json(result.record() | {"metrics": without_noise(result.table), "cases_file": cases})
    else:
        print_table(result.table, result.title)
        if result.alarms:
            print_text("\n".join(["", *result.alarms]))


def _of_members(
    files: EnsembleFlags,
    outcomes: Path,
    cost: str,
    targets: tuple[str, ...],
    block: int | None,
    baseline_action: str | None,
) -> "Evaluation":
    from stakes.cost_spec.spec import CostSpec
    from stakes.data.forecasts.members import matched_actions, outcome_doubts, read_actions, read_outcomes
    from stakes.workflows.evaluate import evaluate_members

    spec = CostSpec.parse(cost)
    ensemble = files.read(targets, spec.build())
    if ensemble.members.shape[1] < 2:
        raise TableError(f"{str(files.members)!r} has one member a case; the scores and the spread need at least two")
    found = {"time": files.time, "site": files.site, "variable": files.variable, **files.csv_options}
    seen = read_outcomes(outcomes, ensemble, targets=targets, **found)
    if seen.table.isna().any(axis=1).all():
        raise TableError(f"{str(outcomes)!r} has no outcome of the members' cases that is not missing")
    action = None
    if baseline_action is not None:  # columns of the outcomes, found as these are
        named = flag.names(baseline_action)
        taken = read_actions(outcomes, ensemble, named, **found)
        parts = matched_actions(spec.build(), ensemble.targets, tuple(map(str, taken.columns)))
        action = taken[list(parts)].to_numpy()
        action = action[:, 0] if len(parts) == 1 else action
    doubts = outcome_doubts(outcomes, ensemble, seen)
    ensemble = replace(ensemble, notes=(*ensemble.notes, *seen.notes, *doubts))
    return evaluate_members(ensemble, seen.table, spec, block, action)
