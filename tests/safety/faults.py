"""Seeded faults: does a test fail where the code is wrong? `python tests/safety/faults.py`, see README.md.

A fault is found by its code, whatever file that lies in and however it is wrapped, so that it outlives a move.
"""

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).parent / "faults"
CODE = ("src", "reproduction")  # where faults are sown; the second one may not be there
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "dist", "build")
_PATIENCE = 300.0  # seconds for the tests of a fault; a search without an end is caught, too
_FAILED, _INTERRUPTED = 1, 2  # exit codes of pytest: tests have failed, or could not be imported


class FaultError(Exception):
    """A fault that cannot be sown, or has no tests."""


@dataclass(frozen=True)
class Fault:
    """One fault: the code it is found by, what takes its place, and the tests that are to fail."""

    name: str
    package: str
    what: str
    find: str
    replace: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """A tree of code and tests, with every file of code without its white space."""

    root: Path
    code: dict[Path, str]

    @classmethod
    def read(cls, root: Path) -> "Tree":
        paths = [path for folder in CODE for path in sorted((root / folder).rglob("*.py"))]
        kept = [path for path in paths if "tests" not in path.relative_to(root).parts]
        return cls(root, {path: _squeezed(path.read_text("utf-8")) for path in kept})

    def place(self, fault: Fault) -> Path:
        """The one file that holds the code of a fault."""
        wanted = _squeezed(fault.find)
        found = [path for path, text in self.code.items() for _ in range(text.count(wanted))]
        if len(found) != 1:
            files = ", ".join(str(path.relative_to(self.root)) for path in found) or "no file"
            raise FaultError(f"{fault.name}: its code must be there once, found in {files}")
        return found[0]

    def sown(self, fault: Fault) -> tuple[Path, str]:
        """The file of a fault, and its text with the fault in it."""
        path = self.place(fault)
        changed = replaced(path.read_text("utf-8"), fault.find, fault.replace)
        try:
            compile(changed, str(path), "exec")
        except SyntaxError as error:
            raise FaultError(f"{fault.name}: {path.name} is no Python any more: {error}") from error
        return path, changed

    def tests(self, fault: Fault) -> list[str]:
        """The tests of a fault for pytest: a file is found by its folder and name, its name, or the test in it."""
        return [each for words in fault.tests for each in self._located(fault.name, words)]

    def _located(self, name: str, words: str) -> Iterator[str]:
        wanted, sign, test = words.partition("::")
        folders = [self.root / folder for folder in ("tests", "reproduction")]
        every = [path for folder in folders for path in sorted(folder.rglob("test_*.py"))]
        alike = [path for path in every if path.name == Path(wanted).name] or (every if test else [])
        files = [path for path in alike if path.as_posix().endswith(f"/{wanted}")] or alike
        if test:
            definition = re.compile(rf"^ *def {re.escape(test.partition('[')[0].rpartition('::')[2])}\(", re.MULTILINE)
            files = [path for path in files if definition.search(path.read_text("utf-8"))]
        if not files:
            raise FaultError(f"{name}: there is no test {words}")
        yield from (f"{path.relative_to(self.root)}{sign}{test}" for path in files)


def read_faults(folder: Path = FAULTS) -> list[Fault]:
    """All faults, one file for each package."""
    faults = []
    for path in sorted(folder.glob("*.toml")):
        table = tomllib.loads(path.read_text("utf-8"))
        for each in table["fault"]:
            faults.append(Fault(package=table["package"], **{**each, "tests": tuple(each["tests"])}))
    names = [fault.name for fault in faults]
    if twice := {name for name in names if names.count(name) > 1}:
        raise FaultError(f"faults must have names of their own, got {sorted(twice)} twice")
    return faults


def replaced(text: str, find: str, replace: str) -> str:
    """The text with other code in place of the one it holds, which may be wrapped and indented otherwise."""
    places = [place for place, letter in enumerate(text) if not letter.isspace()]
    start = _squeezed(text).index(_squeezed(find))
    first, last = places[start], places[start + len(_squeezed(find)) - 1] + 1
    line = text[text.rfind("\n", 0, first) + 1 : first]
    indent = line[: len(line) - len(line.lstrip())]
    return text[:first] + dedent(replace).strip().replace("\n", f"\n{indent}") + text[last:]


def check(tree: Tree, faults: Sequence[Fault]) -> list[str]:
    """A sentence for every fault that cannot be sown or has no tests."""
    sentences = []
    for fault in faults:
        try:
            tree.sown(fault)
            tree.tests(fault)
        except FaultError as error:
            sentences.append(str(error))
    return sentences


def tried(tree: Tree, fault: Fault) -> tuple[bool, str]:
    """Whether the tests of a fault fail, and the first one that does."""
    path, changed = tree.sown(fault)
    before = path.read_bytes()
    try:
        _write(path, changed.encode())
        code, output = _run_tests(tree.root, tree.tests(fault))
    finally:
        _write(path, before)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    told = {0: "MISSED", _FAILED: "caught", _INTERRUPTED: "caught as it is imported", None: "caught by its time"}
    return code in (_FAILED, _INTERRUPTED, None), " by ".join(
        filter(None, (told.get(code, f"NOT RUN, exit code {code}"), failed and failed[1]))
    )


def _write(path: Path, content: bytes) -> None:
    """Write a file with a time of its own, by which Python knows that what it has compiled is another."""
    path.write_bytes(content)
    _write.clock += 10  # type: ignore[attr-defined]
    os.utime(path, (_write.clock, _write.clock))  # type: ignore[attr-defined]


_write.clock = time.time()  # type: ignore[attr-defined]


def _run_tests(root: Path, tests: Sequence[str], patience: float = _PATIENCE) -> tuple[int | None, str]:
    """The exit code of pytest, None where it took too long, and what it wrote."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    pytest = subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = pytest.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        pytest.kill()
        return None, pytest.communicate()[0].decode(errors="replace")
    return pytest.returncode, output.decode(errors="replace")


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _require_sound(tree: Tree, faults: Sequence[Fault]) -> None:
    """Raise unless the tests of these faults pass where there is none."""
    tests = sorted({test for fault in faults for test in tree.tests(fault)})
    code, output = _run_tests(tree.root, tests, _PATIENCE * len(tests))
    if code != 0:
        raise FaultError(f"the tests of these faults do not pass without any fault:\n{output}")


def _run_all(faults: Sequence[Fault], jobs: int, trusted: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="faults-") as place:
        copies: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        for job in range(jobs):
            shutil.copytree(ROOT, Path(place, str(job)), ignore=_NOT_COPIED, symlinks=True)
            copies.put(Tree.read(Path(place, str(job))))
        if not trusted:
            tree = copies.get()
            _require_sound(tree, faults)
            copies.put(tree)

        def is_caught(fault: Fault) -> bool:
            tree, started = copies.get(), time.perf_counter()
            try:
                caught, told = tried(tree, fault)
            finally:
                copies.put(tree)
            seconds = time.perf_counter() - started
            sys.stdout.write(f"{fault.package:14}{fault.name:30}{seconds:6.1f} s  {told}\n")
            sys.stdout.flush()
            return caught

        with ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(is_caught, faults))
    missed = [fault.name for fault, caught in zip(faults, results, strict=True) if not caught]
    sys.stdout.write(f"{len(faults) - len(missed)} of {len(faults)} faults are caught\n")
    sys.stdout.write("".join(f"not caught: {name}\n" for name in missed))
    return 1 if missed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Sow the faults one by one and run their tests; the exit code is 1 where one is not caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of faults, or of packages")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree that are tested at once")
    parser.add_argument("--check", action="store_true", help="only look whether every fault can be sown and has tests")
    parser.add_argument("--trusted", action="store_true", help="do not first run the tests without any fault")
    given = parser.parse_args(arguments)
    faults = [fault for fault in read_faults() if not given.only or {fault.name, fault.package} & set(given.only)]
    if not faults:
        parser.error(f"there is no fault {', '.join(given.only)}")
    if sentences := check(Tree.read(ROOT), faults):
        sys.stderr.write("".join(f"{sentence}\n" for sentence in sentences))
        return 2
    try:
        return 0 if given.check else _run_all(faults, given.jobs, given.trusted)
    except FaultError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
