import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import stakes

PACKAGE = Path(stakes.__file__).parent
CORE = ("costs", "programs", "actions", "models", "scores")
CORE_MODULES = sorted(f"{path.parent.name}.{path.stem}" for name in CORE for path in (PACKAGE / name).glob("[a-z]*.py"))


def run_python(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


def test_stakes_imports_torch_when_a_name_is_first_used() -> None:
    code = """
import sys, stakes
print({"torch", "numpy"} & set(sys.modules))
sys.modules["torch"] = None  # importing it fails, and takes no seconds
try:
    stakes.ShortfallCost
except ImportError as error:
    print(error.name)
"""
    assert run_python(code).split() == ["set()", "torch"]


def test_each_step_of_a_fresh_interpreter_loads_what_it_needs_alone(tmp_path: Path) -> None:
    """The core: torch and numpy; scores and actions: no compiler; tasks: no xarray; deciding: nothing of fitting."""
    (tmp_path / "members.csv").write_text("m0,m1\n1,2\n")
    words = ["decide", "--members", str(tmp_path / "members.csv"), "--cost", "newsvendor:underage=1,overage=1,upper=9"]
    heavy = ("sklearn", "scipy", "matplotlib", "xarray", "stakes.forecasting.forecaster", "stakes.artifacts.fits")
    code = f"""
import stakes, sys, torch, numpy
known = {{name.partition('.')[0] for name in sys.modules}} | sys.stdlib_module_names | {{'stakes'}}
for module in {CORE_MODULES!r}:
    __import__('stakes.' + module)
print(sorted({{name.partition('.')[0] for name in sys.modules}} - known))
for outcomes in (1, 3):
    members = torch.rand(9, 500, outcomes, requires_grad=True)
    stakes.energy_score(members, torch.rand(9, outcomes)).sum().backward()
    stakes.optimal_action(stakes.ShortfallCost(5.0), members)
print('torch._dynamo' in sys.modules)
import reproduction.tasks
reproduction.tasks.task_types()
print({{'xarray', 'pandas', 'h5py'}} & set(sys.modules))
import stakes.cli
print(stakes.cli.main({[*words, "--quiet"]}), [name for name in {heavy} if name in sys.modules])
"""
    lines = run_python(code).splitlines()
    assert (lines[:3], lines[-1]) == (["[]", "False", "set()"], "0 []")


def test_the_core_imports_torch_numpy_and_itself_only() -> None:
    allowed = sys.stdlib_module_names | {"torch", "numpy"}
    core = {f"stakes.{name}" for name in (*CORE_MODULES, "errors", "text", "frames", "argument_checks")}
    for module in CORE_MODULES:
        imported = imported_modules(PACKAGE / f"{module.replace('.', '/')}.py")
        own = {name for name in imported if name.startswith("stakes.")}
        assert own <= core, module
        assert {name.partition(".")[0] for name in imported - own} <= allowed, module


def imported_modules(path: Path) -> set[str]:
    """Every module that a file imports, also inside functions and for type checkers only."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    named = {f"stakes.{alias.name}" for node in froms for alias in node.names if node.module == "stakes"}
    return plain | named | {node.module for node in froms if node.module}


@cache
def graph() -> dict[str, set[str]]:
    """Which packages of ours each imports; `stakes` itself, which imports lazily, is left out."""
    packages: dict[str, set[str]] = {}
    known = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own != "__init__":
            used = {name.split(".")[1] for name in imported_modules(path) if name.startswith("stakes.")}
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
    for place, name in enumerate(ORDER):
        assert not graph()[name] & set(ORDER[place + 1 :]), f"{name} imports what comes after it"
    for last in ("cli", "service", "integrations"):
        assert {name for name, used in graph().items() if last in used} <= {"cli"}


def test_every_listed_name_lives_where_it_says() -> None:
    for name in stakes.__all__:
        assert getattr(stakes, name).__module__ == f"stakes.{stakes._HOME[name]}"


def test_a_name_that_is_not_there_is_named_and_those_that_are_there_are_listed() -> None:
    with pytest.raises(AttributeError, match="'Forecast'"):
        _ = stakes.Forecast
    assert dir(stakes) == sorted(stakes.__all__)
    assert (PACKAGE / "py.typed").exists()
