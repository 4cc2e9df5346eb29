"""The studies of a reproduction by task, model and choice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reproduction.study import Study


@dataclass(frozen=True, order=True)
class StudyKey:
    """Which study of a reproduction; as text, "wind-implicit-main" or "simulated_portfolio-60-implicit-main"."""

    task: str  # the name of the task, such as "wind"
    model: str  # "implicit", "diffusion", or "policy" for the direct policy without a forecast
    choice: str = "main"  # the name of the settings, a key of `reproduction.plan.CHOICES`
    sites: int | None = None  # how many sites the simulated portfolio has; None for every other task

    def __str__(self) -> str:
        return "-".join([self.task, *([str(self.sites)] if self.sites else []), self.model, self.choice])


@dataclass(frozen=True)
class Studies(Mapping[StudyKey, "Study"]):
    """The studies that were evaluated, of which a figure or a claim takes those it needs.

    Asking for one that is not there raises a `StudyError` that names it.
    """

    by_key: "Mapping[StudyKey, Study]" = field(default_factory=dict)  # the studies

    def __getitem__(self, key: StudyKey) -> "Study":
        if key not in self.by_key:
            from reproduction.study import StudyError  # with xarray, which a machine that only trains need not have

            raise StudyError(f"this reproduction has no study {key}")
        return self.by_key[key]

    def __contains__(self, key: object) -> bool:
        return key in self.by_key

    def __iter__(self) -> Iterator[StudyKey]:
        return iter(self.by_key)

    def __len__(self) -> int:
        return len(self.by_key)

    def find(self, task: str, model: str, choice: str = "main", sites: int | None = None) -> "Study":
        """The study whose key has these four parts."""
        return self[StudyKey(task, model, choice, sites)]
