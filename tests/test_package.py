import ast
import subprocess
import sys
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


def test_import_stakes_does_not_import_torch() -> None:
    assert run_python("import sys, stakes; print('torch' in sys.modules, 'numpy' in sys.modules)") == "False False"


def test_first_use_of_a_name_imports_torch() -> None:
    code = """
import sys, stakes
sys.modules["torch"] = None  # importing it fails, and takes no seconds
try:
    stakes.ShortfallCost
except ImportError as error:
    print(error.name)
"""
    assert run_python(code) == "torch"


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
        own = {name for name in imported if name.partition(".")[0] == "stakes"}
        assert own <= core, module
        assert {name.partition(".")[0] for name in imported - own} <= allowed, module


def imported_modules(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_every_listed_name_lives_where_it_says() -> None:
    for name in stakes.__all__:
        assert getattr(stakes, name).__module__ == f"stakes.{stakes._HOME[name]}"


def test_unknown_attribute_raises() -> None:
    with pytest.raises(AttributeError, match="'Forecast'"):
        _ = stakes.Forecast


def test_dir_lists_the_public_names() -> None:
    assert dir(stakes) == sorted(stakes.__all__)


def test_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
