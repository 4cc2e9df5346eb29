"""Whether two commits compute the same numbers, bit for bit: `python tests/safety/compare_commits.py BASE [HEAD]`.

Both are checked out and `probes.py` is run under each of them, by the same interpreter. What differs and is not in
exceptions.toml is told, and makes the exit code 1. See README.md.
"""

import argparse
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_SHOWN, _WIDTH = 8, 60  # differences of a probe that are told, and letters of a value
_ABSENT = object()


class ExceptionsError(Exception):
    """An exception without a reason, or of a kind that there is none of."""


@dataclass(frozen=True)
class Exceptions:
    """What may differ: keys that are not looked at, and keys that have another name under the second commit."""

    ignored: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, path: Path) -> "Exceptions":
        """Those of a file, each of which must have a reason."""
        table = tomllib.loads(path.read_text("utf-8"))
        if others := table.keys() - {"ignore", "rename"}:
            raise ExceptionsError(f"{path.name} may have [[ignore]] and [[rename]], got {', '.join(sorted(others))}")
        for kind, keys in (("ignore", {"keys", "reason"}), ("rename", {"base", "head", "reason"})):
            for each in table.get(kind, []):
                if each.keys() != keys or not each["reason"].strip():
                    raise ExceptionsError(f"[[{kind}]] must have {', '.join(sorted(keys))}, got {each}")
        return cls(
            tuple(each["keys"] for each in table.get("ignore", [])),
            tuple((each["base"], each["head"]) for each in table.get("rename", [])),
        )

    def as_in_head(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """What the first commit found, under the names of the second."""
        keys = {key: key for key in found}
        for base, head in self.renamed:
            keys = {old: re.sub(base, head, new) for old, new in keys.items()}
        return {new: found[old] for old, new in keys.items()}

    def ignores(self, key: str) -> bool:
        """Whether a key may be there or not, and hold anything."""
        return any(fnmatchcase(key, pattern) for pattern in self.ignored)


@dataclass
class Differences:
    """What differs, in words by key: numbers, and texts whose numbers are the same."""

    numbers: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def differences(base: Mapping[str, Any], head: Mapping[str, Any], exceptions: Exceptions) -> Differences:
    """What two commits have found differently, but for the exceptions."""
    found, base = Differences(), exceptions.as_in_head(base)
    for key in dict.fromkeys([*base, *head]):
        if exceptions.ignores(key):
            continue
        before, after = base.get(key, _ABSENT), head.get(key, _ABSENT)
        if before is _ABSENT or after is _ABSENT:
            side = "is there no more" if after is _ABSENT else "is new"
            found.numbers[key] = f"{side}: {_shown(before if after is _ABSENT else after)}"
        elif isinstance(before, str) and isinstance(after, str):
            _compare_texts(found, key, before, after)
        elif not _same(before, after):
            found.numbers[key] = _difference(before, after)
    return found


def _compare_texts(found: Differences, key: str, before: str, after: str) -> None:
    """Texts differ in their words, or in the numbers among them."""
    numbers = [_NUMBER.findall(text) for text in (before, after)]
    if before == after:
        return
    if numbers[0] == numbers[1]:
        found.texts[key] = _change(before, after)
    elif _NUMBER.sub("0", before) == _NUMBER.sub("0", after):
        places = [place for place, pair in enumerate(zip(*numbers, strict=True)) if pair[0] != pair[1]]
        first, second = (each[places[0]] for each in numbers)
        found.numbers[key] = f"{len(places)} of {len(numbers[0])} numbers in a text, the first {first} -> {second}"
    else:
        found.numbers[key] = f"words and numbers: {_change(before, after)}"


def _change(before: str, after: str) -> str:
    """Where two texts begin to differ."""
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    start = max(0, alike - 10)
    return f"{_shown(before[start:])} -> {_shown(after[start:])}"


def _same(before: Any, after: Any) -> bool:
    """Whether two values have the same bits."""
    import numpy as np

    if type(before) is not type(after):
        return False
    if isinstance(before, np.ndarray):
        alike = before.dtype == after.dtype and before.shape == after.shape
        return alike and np.ascontiguousarray(before).tobytes() == np.ascontiguousarray(after).tobytes()
    return repr(before) == repr(after)  # of floats the very digits, NaN and the sign of zero included


def _difference(before: Any, after: Any) -> str:
    import numpy as np

    arrays = isinstance(before, np.ndarray) and isinstance(after, np.ndarray) and before.shape == after.shape
    if arrays and before.dtype.kind in "fiub" and after.dtype.kind in "fiub" and before.size:
        apart = np.abs(before.astype(float) - after.astype(float))
        kind = "" if before.dtype == after.dtype else f", {before.dtype} -> {after.dtype}"
        changed = int((before != after).sum())
        return f"{changed} of {before.size} numbers, by up to {np.nanmax(np.append(apart, 0.0)):.3g}{kind}"
    return f"{_shown(before)} -> {_shown(after)}"


def _shown(value: Any) -> str:
    text = " ".join((f"array{value.shape}" if hasattr(value, "shape") else repr(value)).split())
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


@contextmanager
def checked_out(name: str) -> Iterator[Path]:
    """The tree of a commit, or a folder as it is."""
    if Path(name, "src").is_dir():
        yield Path(name).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="compared-") as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", f"{folder}/tree", name], check=True)
        try:
            yield Path(folder, "tree").resolve()
        finally:
            subprocess.run([*git, "remove", "--force", f"{folder}/tree"], check=True)


def probed(name: str, probes: Path, wanted: Sequence[str]) -> dict[str, Any]:
    """What a script of probes finds under a commit, or in a folder."""
    sys.stderr.write(f"{name}\n")
    with checked_out(name) as tree, tempfile.TemporaryDirectory(prefix="probed-") as folder:
        work, results = Path(folder, "work").resolve(), Path(folder, "results")
        work.mkdir()
        paths = os.pathsep.join([str(tree / "src"), str(tree)])
        own = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "COLUMNS": "120", "NO_COLOR": "1"}
        own |= {"MPLBACKEND": "agg", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, str(probes), str(tree), str(results), *wanted]
        subprocess.run(command, cwd=work, env={**os.environ, **own}, check=True)
        return dict(pickle.loads(results.read_bytes()))


def told(kind: str, found: Mapping[str, str]) -> str:
    """Differences in words, the first ones of each probe."""
    counts, lines = Counter(key.partition("/")[0] for key in found), []
    for name, count in counts.items():
        own = [f"    {key}: {words}" for key, words in found.items() if key.partition("/")[0] == name]
        lines += [f"  {name}: {count} {kind} differ", *own[:_SHOWN], *(["    ..."] if count > _SHOWN else [])]
    return "".join(f"{line}\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two commits; the exit code is 1 where numbers differ that may not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="a commit, or a folder with a tree")
    parser.add_argument("head", nargs="?", default="HEAD", help="likewise")
    parser.add_argument("--only", nargs="+", default=[], metavar="PROBE", help="functions of probes.py, in its order")
    parser.add_argument("--text", action="store_true", help="texts must be the same, too")
    parser.add_argument("--exceptions", type=Path, default=HERE / "exceptions.toml")
    given = parser.parse_args(arguments)
    exceptions = Exceptions.read(given.exceptions)
    with tempfile.TemporaryDirectory(prefix="probes-") as folder:  # the same for both, whatever happens to the file
        probes = Path(shutil.copy(HERE / "probes.py", folder))
        base, head = (probed(name, probes, given.only) for name in (given.base, given.head))
    found = differences(base, head, exceptions)
    failed = [key for key in (*base, *head) if key.endswith("/failed")]
    sys.stdout.write(told("numbers", found.numbers) + told("texts", found.texts))
    sys.stdout.write("".join(f"the probe {key.removesuffix('/failed')} fails\n" for key in dict.fromkeys(failed)))
    sys.stdout.write(f"{len(base)} values, {len(found.numbers)} numbers and {len(found.texts)} texts differ\n")
    return 1 if found.numbers or failed or (given.text and found.texts) else 0


if __name__ == "__main__":
    sys.exit(main())
