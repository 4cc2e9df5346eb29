"""`stakes demo`: both examples fitted, and what their decisions are worth."""

from pathlib import Path

from stakes.commands.output import say, say_fit, say_json, say_table
from stakes.demo import EXAMPLES, DemoResult, run_example
from stakes.training.execution import Execution

__all__ = ["run_demo"]


def run_demo(out: Path, execution: Execution, epochs: int | None = None, as_json: bool = False) -> None:
    """Fit both examples and say what their decisions are worth."""
    records = {}
    for example in EXAMPLES:
        if not as_json:
            say(f"\n{example.title}\n")
        shown = run_example(example, out, execution, epochs)
        records[example.name] = shown.record()
        if not as_json:
            _say(shown)
    if as_json:
        say_json(records)


def _say(shown: DemoResult) -> None:
    say_table(shown.decisions, "The last decisions")
    say("")
    say_fit(shown.found, as_json=False)
    for sentence in filter(None, (shown.regret, shown.example.attribution)):
        say(sentence)
