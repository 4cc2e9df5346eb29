"""A claim of the paper as a typed object: what it says, how it is measured, and the judgement that follows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stakes.errors import StakesError
from stakes.evaluation.study import Study
from stakes.paper.claims.check import Check
from stakes.paper.study_collection import Studies, StudyKey
from stakes.reports.page import Verdict

__all__ = ["Claim", "ClaimSource", "Judge", "Judgement"]

ClaimSource = tuple[str, str]
"""The task and the model of a study."""

Judge = Callable[..., Iterator[Check]]
"""From one study per source to checks."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, in our words, and how its truth is measured on the studies of its sources.

    Attributes:
        identifier: A letter for the subject and a number: "W1".
        subject: "method", or one of `stakes.paper.plan.SUBJECTS`.
        statement: What the paper says, as a sentence.
        how: How it is measured, in sentences.
        sources: The task and the model of each study that it is judged on.
        judge: Takes one study per source, or nothing where there are no sources, and yields checks; what it cannot
            judge for want of a weight or a parameter it says with a `StudyError`.
        choices: The names of the settings under which it is judged, where these were evaluated.
        partial: Whether it is judged on the sources that there are; others need all of them.
    """

    identifier: str
    subject: str
    statement: str
    how: str
    sources: tuple[ClaimSource, ...]
    judge: Judge
    choices: tuple[str, ...] = ("main",)
    partial: bool = False

    def judgements(self, studies: Studies) -> list["Judgement"]:
        """One for each choice that was evaluated, or an open one where none was."""
        by_choice = {choice: self._studies(studies, choice) for choice in self.choices}
        judged = [self._judged(needed, choice) for choice, needed in by_choice.items() if needed is not None]
        return judged or [Judgement(self, self.choices[0], (), f"this run has no study of {self._missing(studies)}")]

    def _missing(self, studies: Studies) -> str:
        choice = self.choices[0]
        under = "" if choice == "main" else f" under the choice {choice}"
        missing = [source for source in self.sources if StudyKey(*source, choice) not in studies]
        return " and ".join(f"{task} with the {model} model{under}" for task, model in missing)

    def _studies(self, studies: Studies, choice: str) -> list[Study] | None:
        """The studies of the sources under a choice, or None if some that are needed are missing."""
        keys = [StudyKey(task, model, choice) for task, model in self.sources]
        present = [studies[key] for key in keys if key in studies]
        enough = len(present) == len(keys) or (self.partial and len(present) > 0)
        return present if enough else None

    def _judged(self, studies: list[Study], choice: str) -> "Judgement":
        checks: list[Check] = []
        try:
            for check in self.judge(*studies):
                checks.append(check)  # one by one: those before an error are kept
        except StakesError as error:
            return Judgement(self, choice, tuple(checks), str(error))
        return Judgement(self, choice, tuple(checks))


@dataclass(frozen=True)
class Judgement:
    """A claim under one choice: its checks, and the verdict they give together.

    Attributes:
        claim: The claim.
        choice: The name of the settings.
        checks: The measured effects.
        note: What could not be judged, if anything; such a claim can fail, but not hold.
    """

    claim: Claim
    choice: str
    checks: tuple[Check, ...]
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Holds if every check that counts holds, fails if one fails, else open."""
        verdicts = {check.verdict for check in self.checks if check.counts}
        if "fails" in verdicts:
            return "fails"
        return "holds" if verdicts == {"holds"} and not self.note else "open"

    @property
    def decisive(self) -> Check | None:
        """The first check that fails, or that is open, or the first of all that count."""
        counting = [check for check in self.checks if check.counts]
        return min(counting, key=lambda check: ("fails", "open", "holds").index(check.verdict), default=None)
