"""`stakes demo`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.cli import flags as flag

app = App(name="demo", help_epilogue=flag.examples("stakes demo", "stakes demo --epochs 2 --out quick-demo"))


@app.default
def demo(
    *,
    out: Annotated[Path, Parameter(group=flag.OUTPUT, help="folder to create")] = Path("stakes-demo"),
    epochs: Annotated[int | None, flag.whole("train this many epochs only, for a quick trial", flag.MODEL)] = None,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    json: flag.Json = False,
) -> None:
    from stakes.cli.output import print_fit, print_json, print_table, print_text
    from stakes.training.execution import Execution
    from stakes.workflows.demo import EXAMPLES, run_example

    execution = Execution(device, workers, quiet)
    records = {}
    for example in EXAMPLES:
        if not json:
            print_text(f"\n{example.title}\n")
        result = run_example(example, out, execution, epochs)
        records[example.name] = result.record()
        if not json:
            print_table(result.decisions, "The last decisions")
            print_text("")
            print_fit(result.fit, as_json=False)
            print_text(example.attribution)
    if json:
        print_json(records)
