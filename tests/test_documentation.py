"""Every name exported from `stakes` documents every argument and field."""

import ast
import inspect
import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest

import stakes
from stakes.plots import __all__ as PLOTS  # noqa: N812

PACKAGE = Path(stakes.__file__).parent
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def tree_of(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text("utf-8"))


def documented(text: str) -> set[str]:
    """The names that stand before a colon in the sections `Args:` and `Attributes:`."""
    sections = re.findall(r"^ *(?:Args|Attributes):\n((?:(?: .*)?\n)*)", f"{text}\n", re.MULTILINE)
    return {name.lstrip("*") for section in sections for name in re.findall(r"^ +(\*{0,2}\w+):", section, re.MULTILINE)}


def parameters(function: Function) -> set[str]:
    """The arguments that a caller gives; a flag of a command is documented by the help it carries."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    flags = {each.arg for each in every if each.annotation is not None and is_flag(each.annotation)}
    return {each.arg for each in every if not each.arg.startswith("_")} - flags - {"self", "cls"}


def is_flag(annotation: ast.expr) -> bool:
    text = ast.unparse(annotation)
    return text.startswith("flag.") or ("Parameter(" in text) or ("whole(" in text)


def fields_of(node: ast.ClassDef) -> set[str]:
    """The fields of a dataclass, a NamedTuple or a TypedDict; those of a command's flags carry their help."""
    made = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
    made |= bool({"NamedTuple", "TypedDict"} & {ast.unparse(base) for base in node.bases})
    if not made:
        return set()
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    return {
        each.target.id
        for each in fields
        if isinstance(each.target, ast.Name)
        and not each.target.id.startswith("_")
        and "ClassVar" not in ast.unparse(each.annotation)
        and not is_flag(each.annotation)
    }


def inherited(name: str) -> set[str]:
    """What a class has of a base of ours, where it is said what it takes."""
    kind = getattr(stakes, name)
    bases = kind.__mro__[1:] if isinstance(kind, type) else ()
    return {each for base in bases if base.__module__.startswith("stakes.") for each in vars(base)}


def undocumented(node: Function | ast.ClassDef, with_methods: bool) -> Iterator[str]:
    text = ast.get_docstring(node) or ""
    if not text:
        yield node.name
    known = documented(text)
    if isinstance(node, Function):
        yield from (f"{node.name}({name})" for name in sorted(parameters(node) - known))
        return
    yield from (f"{node.name}.{name}" for name in sorted(fields_of(node) - known))
    for each in node.body:
        if not isinstance(each, Function) or each.name in inherited(node.name):
            continue
        if each.name == "__init__":
            yield from (f"{node.name}({name})" for name in sorted(parameters(each) - known))
        elif with_methods and (not each.name.startswith("_") or each.name == "__call__"):
            inner = documented(ast.get_docstring(each) or "") | known
            yield from (f"{node.name}.{each.name}({name})" for name in sorted(parameters(each) - inner))


def test_every_argument_and_field_of_a_public_name_is_documented() -> None:
    exported = set(stakes.__all__)
    found: set[str] = set()
    missing = []
    for module in MODULES:
        for node in tree_of(module).body:
            if isinstance(node, Function | ast.ClassDef) and node.name in exported and is_home(module, node.name):
                found.add(node.name)
                missing += [f"{module}: {name}" for name in undocumented(node, with_methods=True)]
    assert not missing, "\n".join(missing)
    assert found == exported


@pytest.mark.parametrize("name", ["DecisionAwareForecaster", "Recalibrator", *(f"plots.{each}" for each in PLOTS)])
def test_every_parameter_of_estimators_and_plots_is_documented(name: str) -> None:
    kind = attrgetter(name)(stakes)
    assert set(inspect.signature(kind).parameters) <= documented(inspect.getdoc(kind) or "")


def is_home(module: str, name: str) -> bool:
    """Whether `stakes` imports the name from this module."""
    return stakes._HOME[name] == module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
