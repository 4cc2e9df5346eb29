"""What packagers and authors read says what pyproject.toml says."""

import tomllib
from pathlib import Path
from typing import Any

import yaml

import stakes

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OF_CONDA = {"matplotlib": "matplotlib-base", "torch": "pytorch"}


def read(name: str) -> dict[str, Any]:
    words = yaml.safe_load((ROOT / name).read_text())
    assert isinstance(words, dict)
    return words


def test_the_conda_recipe_needs_what_the_wheel_needs() -> None:
    recipe = read("packaging/recipe.yaml")
    assert recipe["package"] == {"name": PROJECT["name"], "version": stakes.__version__}
    needs = [need.partition(">=") for need in PROJECT["dependencies"]]
    python = f"python {PROJECT['requires-python']}"
    assert recipe["requirements"]["run"] == [
        python,
        *(f"{OF_CONDA.get(name, name)} >={least}" for name, _, least in needs),
    ]
    (build,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert recipe["requirements"]["host"] == [python, "pip", build.replace(">=", " >=")]
    commands = [f"{name} = {home}" for name, home in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands
    assert recipe["about"]["license_file"] == PROJECT["license-files"]
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert all((ROOT / name).exists() for name in PROJECT["license-files"])


def test_the_citation_is_of_this_version() -> None:
    citation = read("CITATION.cff")
    assert (citation["version"], citation["license"]) == (stakes.__version__, PROJECT["license"])
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
