"""Every public class and function documents every argument and field, and no public name exists twice."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import stakes

PACKAGE = Path(stakes.__file__).parent
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))
ENTRY_POINTS = {"main", "app"}  # what `python -m` and the console script call, and what cyclopts loads a command by
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text("utf-8"))


def listed(tree: ast.Module) -> set[str]:
    """The names in `__all__`."""
    names: set[str] = set()
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id == "__all__" and isinstance(value, ast.List):
            names |= {str(each.value) for each in value.elts if isinstance(each, ast.Constant)}
    return names


def public(tree: ast.Module) -> Iterator[Function | ast.ClassDef]:
    names = listed(tree)
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and node.name in names:
            yield node


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
        if not isinstance(each, Function):
            continue
        if each.name == "__init__":
            yield from (f"{node.name}({name})" for name in sorted(parameters(each) - known))
        elif with_methods and (not each.name.startswith("_") or each.name == "__call__"):
            inner = documented(ast.get_docstring(each) or "") | known
            yield from (f"{node.name}.{each.name}({name})" for name in sorted(parameters(each) - inner))


def test_every_argument_and_field_is_documented() -> None:
    missing = [
        f"{module}: {name}"
        for module in MODULES
        for node in public(tree_of(module))
        for name in undocumented(node, with_methods=node.name in stakes.__all__)
    ]
    assert not missing, "\n".join(missing)


def defined(tree: ast.Module) -> set[str]:
    """What a module itself makes, be it a class, a function, a constant or the name of a type."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    targets = [
        target for node in assigned for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    made = {node.name for node in tree.body if isinstance(node, Function | ast.ClassDef)}
    return made | {target.id for target in targets if isinstance(target, ast.Name)}


def test_no_public_name_exists_twice() -> None:
    """But in `plugins/`, whose classes do in another tool what those of the same name do here."""
    homes = defaultdict(list)
    for module in MODULES:
        if module.startswith("plugins/"):
            continue
        tree = tree_of(module)
        for name in listed(tree) & defined(tree):
            homes[name].append(module)
    twice = {name: where for name, where in homes.items() if len(where) > 1 and name not in ENTRY_POINTS}
    assert not twice
