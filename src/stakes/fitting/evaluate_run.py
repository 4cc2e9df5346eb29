"""What a run of `stakes train` was worth on the test cases of its task, as `stakes evaluate` tells it."""

from pathlib import Path

from stakes.bundle.cost_of_bundle import words_for
from stakes.data.case_labels import in_utc
from stakes.evaluation.judged_run import judge_run
from stakes.fitting.evaluate import Evaluation
from stakes.training.run_folder import RunFolder

__all__ = ["evaluate_run"]


def evaluate_run(folder: Path, block: int | None = None) -> Evaluation:
    """A trained run on the test cases of its task, for the cost of its task.

    Args:
        folder: The folder of a run that has come to its end.
        block: How many neighbouring cases depend on each other; None tells by their times or their number.
    """
    judged = judge_run(RunFolder(folder), block)
    table, cases = judged.cases.summary(judged.block), in_utc(judged.cases.table())
    task, cost = judged.run.task, words_for(judged.run.task.cost)
    subject = f"task {task.name}, cost {task.cost if cost is None else cost}, weight {judged.run.decision_weight:g}"
    return Evaluation(table, cases, cost, judged.block, judged.notes, subject)
