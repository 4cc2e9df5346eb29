"""`stakes resume`: a run, a sweep, a fit or a backtest that was interrupted goes on."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.commands import flags as flag
from stakes.errors import SettingError

__all__ = ["app"]

app = App(name="resume")


@app.default
def resume(
    folder: Annotated[Path, Parameter(help="folder of a run, a sweep, a fit or a backtest")],
    /,
    *,
    cost: Annotated[str | None, Parameter(help="your own cost of a fit or a backtest, given again")] = None,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    checkpoint_seconds: flag.Seconds = 30.0,
) -> None:
    from stakes.commands.output import print_fit, print_text
    from stakes.training.execution import Execution
    from stakes.training.train_and_resume import resume_folder

    execution = Execution(device, workers, quiet, checkpoint_seconds)
    if (folder / "fit.json").is_file():
        from stakes.fitting.fit import resume_fit

        print_fit(resume_fit(folder, execution, cost), as_json=False)
    elif (folder / "backtest.json").is_file():
        from stakes.fitting.backtest import resume_backtest

        result = resume_backtest(folder, execution, cost)
        print_fit(result, as_json=False)
    elif cost is not None:
        raise SettingError(f"cost is for a fit or a backtest, and {folder} holds neither")
    else:
        print_text(str(resume_folder(folder, execution)))
