"""Imports go one way between the packages."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import stakes

PACKAGE = Path(stakes.__file__).parent


def package_of(module: str) -> str:
    """`stakes.data.tables.files` is in the package `data`; `stakes` itself, which imports lazily, is in none."""
    return module.partition(".")[2].partition(".")[0]


def imported(path: Path) -> set[str]:
    """Every module of ours that a file imports, also inside functions and for type checkers only."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    named = {f"{node.module}.{alias.name}" for node in froms for alias in node.names if node.module == "stakes"}
    return plain | named | {node.module for node in froms if node.module}


@cache
def graph() -> dict[str, set[str]]:
    packages: dict[str, set[str]] = {}
    known = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        used = {package_of(name) for name in imported(path) if name.startswith("stakes.")}
        packages.setdefault(own, set()).update((used & known) - {own})
    return packages


def test_imports_between_packages_go_one_way() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(f"packages import each other in a circle: {' <- '.join(error.args[1])}")


ORDER = (
    *("costs", "programs", "actions", "models", "scores", "cost_spec", "data", "training", "evaluation"),
    *("forecasting", "plots", "artifacts", "reports", "workflows", "service", "cli", "integrations"),
)


def test_the_order_of_the_packages() -> None:
    packages = graph()
    for place, name in enumerate(ORDER):
        assert not packages[name] & set(ORDER[place + 1 :]), f"{name} imports what comes after it"


@pytest.mark.parametrize("last", ["cli", "service", "integrations"])
def test_nothing_below_imports_the_last_packages(last: str) -> None:
    users = {name for name, used in graph().items() if last in used}
    assert users <= {"cli"}
