"""`stakes resume`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag
from stakes.errors import SettingError

app = App(name="resume")


@app.default
def resume(
    folder: Annotated[Path, Parameter(help="folder of a fit or a backtest")],
    /,
    *,
    cost: Annotated[str | None, Parameter(help="your own cost of a fit or a backtest, given again")] = None,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.cli.output import print_fit
    from stakes.training.execution import Execution

    execution = Execution(device, workers, quiet)
    if (folder / "fit.json").is_file():
        from stakes.workflows.fit import resume_fit

        print_fit(resume_fit(folder, execution, cost), as_json=False)
    elif (folder / "backtest.json").is_file():
        from stakes.workflows.backtest import resume_backtest

        result = resume_backtest(folder, execution, cost)
        print_fit(result, as_json=False)
    else:
        raise SettingError(f"{folder} is neither the folder of a fit nor that of a backtest")
