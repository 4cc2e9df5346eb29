"""The studies of a reproduction by task, model and choice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stakes.errors import StudyError
from stakes.evaluation.study import Study

__all__ = ["Key", "Studies"]


@dataclass(frozen=True, order=True)
class Key:
    """Which study: "wind", "implicit", "main"; for the simulated portfolio also how many sites."""

    task: str
    model: str
    choice: str = "main"
    sites: int | None = None

    def __str__(self) -> str:
        return "-".join([self.task, *([str(self.sites)] if self.sites else []), self.model, self.choice])


@dataclass(frozen=True)
class Studies(Mapping[Key, Study]):
    """What has been evaluated; a figure or a claim asks for what it needs."""

    found: Mapping[Key, Study] = field(default_factory=dict)

    def __getitem__(self, key: Key) -> Study:
        if key not in self.found:
            raise StudyError(f"this reproduction has no study {key}")
        return self.found[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def find(self, task: str, model: str, choice: str = "main", sites: int | None = None) -> Study:
        """The study of a task and model."""
        return self[Key(task, model, choice, sites)]
