"""The settings behind a figure: those of every study that was read to draw it."""

from collections.abc import Iterator, Mapping
from typing import Any

from stakes.evaluation.study import Study
from stakes.paper.studies import Key

__all__ = ["ReadStudies", "settings_of"]


class ReadStudies(Mapping[Key, Study]):
    """Studies that remember which of them were read, in `read`."""

    def __init__(self, found: Mapping[Key, Study]) -> None:
        self.found = found
        self.read: dict[Key, Study] = {}

    def __getitem__(self, key: Key) -> Study:
        self.read[key] = self.found[key]
        return self.read[key]

    def __contains__(self, key: object) -> bool:
        return key in self.found

    def __iter__(self) -> Iterator[Key]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


def settings_of(studies: Mapping[Key, Study]) -> dict[str, Any]:
    """What each study is about and the grid of its runs; of further studies only what differs from the first."""
    described = {str(key): _described(study) for key, study in studies.items()}
    (name, first), *others = described.items()
    return {name: first} | {f"{other}, where it differs": _apart(about, first) for other, about in others}


def _described(study: Study) -> dict[str, Any]:
    return {
        **study.about,
        "grid": {
            "decision weights": study.weights,
            "cost parameters": study.parameters,
            "data sets": study.groups,
            "seeds": study.seeds,
        },
    }


def _apart(found: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are not those of the first."""
    differing: dict[str, Any] = {}
    for name, value in found.items():
        other = first.get(name)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            if within := _apart(value, other):
                differing[name] = within
        elif name not in first or value != other:
            differing[name] = value
    return differing
