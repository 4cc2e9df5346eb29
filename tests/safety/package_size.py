"""How large the package is, against a commit: `python tests/safety/package_size.py [COMMIT] [--importers]`.

Files and lines in the wheel, lines of tests, words of documentation, and modules that exactly one other module
imports; `--importers` names those. The commit is the last tag, or the first commit where there is none.
"""

import argparse
import ast
import io
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "src/stakes/"
MAY_STAND_ALONE = (f"{SOURCE}cli/", f"{SOURCE}integrations/")  # one file a command, one a package
Tree = Mapping[str, bytes]


def read_tree(commit: str | None = None) -> Tree:
    """The tracked files by path: of a commit, or as they are in the working tree."""
    if commit is None:
        listed = git("ls-files", "-z").decode().split("\0")
        return {name: (ROOT / name).read_bytes() for name in listed if name and (ROOT / name).is_file()}
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as packed:
        return {each.name: packed.extractfile(each).read() for each in packed if each.isfile()}  # type: ignore[union-attr]


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


def sizes(tree: Tree) -> dict[str, int]:
    """What is told of a tree, by what it is called."""
    wheel = under(tree, SOURCE)
    modules = {name: data for name, data in wheel.items() if name.endswith(".py")}
    docs = {name: data for name, data in tree.items() if name.endswith(".md")}
    ours = {name: data for name, data in docs.items() if not name.startswith("reproduction/")}
    return {
        "modules in the wheel": len(modules),
        "their lines": lines(modules),
        "files in the wheel": len(wheel),
        "their KB": round(sum(map(len, wheel.values())) / 1024),
        "modules with exactly one importer": len(single_importers(tree)),
        "lines of tests": lines(under(tree, "tests/", ".py")),
        "lines of the reproduction's tests": lines(under(tree, "reproduction/tests/", ".py")),
        "words of docs/": words(under(docs, "docs/")),
        "words of all our pages": words(ours),
    }


def under(tree: Tree, folder: str, ending: str = "") -> Tree:
    return {name: data for name, data in tree.items() if name.startswith(folder) and name.endswith(ending)}


def lines(tree: Tree) -> int:
    return sum(data.count(b"\n") for data in tree.values())


def words(tree: Tree) -> int:
    return sum(len(data.split()) for data in tree.values())


def single_importers(tree: Tree) -> dict[str, str]:
    """Modules that one other module of the package imports, each with that one; `stakes` itself does not count."""
    modules = {module_of(name): name for name in under(tree, SOURCE, ".py")}
    importers: dict[str, set[str]] = {module: set() for module in modules}
    for module, name in modules.items():
        if module != "stakes":
            for used in set(imported(tree[name], frozenset(modules))) - {module}:
                importers[used].add(module)
    counted = {module: users for module, users in importers.items() if not modules[module].startswith(MAY_STAND_ALONE)}
    return {module: min(users) for module, users in sorted(counted.items()) if len(users) == 1}


def module_of(name: str) -> str:
    return name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(code: bytes, modules: frozenset[str]) -> Iterator[str]:
    """Every module of ours that a file imports, also inside functions and for type checkers only."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            yield from named or {node.module} & modules


def base_commit() -> str:
    """The last tag; the first commit where nothing is tagged."""
    tags = git("tag", "--sort=-creatordate").decode().split()
    return tags[0] if tags else git("rev-list", "--max-parents=0", "HEAD").decode().split()[-1]


def table(before: Mapping[str, int], after: Mapping[str, int], base: str) -> str:
    heads = ["", base[:12], "now"]
    rows = [heads, *([name, f"{before[name]:,}", f"{after[name]:,}"] for name in after)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{name:<{widths[0]}}  {first:>{widths[1]}}  {second:>{widths[2]}}" for name, first, second in rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", help="to compare with")
    parser.add_argument("--importers", action="store_true", help="name modules with exactly one importer")
    chosen = parser.parse_args()
    base, tree = chosen.commit or base_commit(), read_tree()
    print(table(sizes(read_tree(base)), sizes(tree), base))  # noqa: T201
    if chosen.importers:
        single = single_importers(tree)
        print("\n".join(f"{module} <- {user}" for module, user in single.items()))  # noqa: T201
        packages = Counter(module.split(".")[1] for module in single)
        print(", ".join(f"{name} {count}" for name, count in packages.most_common()))  # noqa: T201


if __name__ == "__main__":
    main()
