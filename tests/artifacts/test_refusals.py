import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from artifacts.damage import Bomb, column, document, edit, flipped, forged, link, moved, pickled, sparse, tensors
from artifacts.forecasters import PARTS

from stakes.artifacts.fits import load_bundle
from stakes.artifacts.folder import read_manifest
from stakes.errors import StakesError


def deep_and_many(folder: Path) -> None:
    forged("model.layers", 500, "state.json")(folder)
    forged("models", 1000, "state.json")(folder)


FIRST = "model.0.network.layers.0.weight"
OWN_COST = {"name": "costs.py:f", "parameters": {}, "unit": "", "action_unit": ""}
DIFFUSION = {"name": "diffusion", "steps": 10**12}
BUNDLE: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "bundle.json").unlink(), "there is no bundle.json"),
    "empty": (edit("bundle.json", lambda content: b""), "is damaged"),
    "cut": (edit("bundle.json", lambda content: content[:200]), "is damaged"),
    "a bit flipped": (edit("bundle.json", flipped(0.6)), "is damaged"),
    "a pickle": (pickled("bundle.json"), "is damaged"),
    "a list": (edit("bundle.json", document(b"[]")), "must hold a table"),
    "NaN": (edit("bundle.json", document(b'{"format":NaN}')), "no JSON that stakes writes"),
    "deep": (edit("bundle.json", document(b"[" * 10**5 + b"]" * 10**5)), "no JSON that stakes writes"),
    "too large": (moved("bundle.json", sparse), "bytes, at most"),
    "a pipe": (moved("bundle.json", os.mkfifo), "must be a regular file"),
    "a link": (moved("bundle.json", link), "must be a regular file"),
    "a newer format": (forged("format", 4), "was made by a newer version of stakes: it has format 4, this one reads 3"),
    "a far newer format": (forged("format", 10**400), "was made by a newer version"),
    "format 0": (forged("format", 0), "format must be 3, got 0"),
    "format true": (forged("format", True), "format must be 3, got True"),
    "no format": (forged("format", ...), "format must be 3, got None"),
    "a field too many": (forged("secret", 1), "there is no setting 'secret'"),
    "a field with an escape": (forged("\x1b[2J\n", 1), "there is no setting"),
    "a field missing": (forged("created", ...), "created must be given"),
    "versions": (forged("versions", {"stakes": 1}), "versions.stakes must be text"),
    "no versions": (forged("versions", ...), "versions must be given"),
    "another kind": (forged("kind", "model"), "kind must be one of"),
    "the other kind": (forged("kind", "recalibration"), "files must name selection.json"),
    "a number for a time": (forged("created", 1), "created must be text"),
    "a file above": (forged("files", {"../x": "0" * 64}), "plain relative paths"),
    "an absolute file": (forged("files", {"/etc/passwd": "0" * 64}), "plain relative paths"),
    "a hidden file": (forged("files", {".profile": "0" * 64}), "plain relative paths"),
    "no files": (forged("files", {}), "files must name state.json"),
    "a short hash": (forged("files", dict.fromkeys(PARTS, "0")), "must be 64 hexadecimal digits"),
    "another cost": (forged("cost.name", "free"), "there is no cost 'free'"),
    "a cost below zero": (forged("cost.parameters.short", -1.0), "short must be positive"),
    "a cost of lists": (forged("cost.parameters.short", [1]), "short of the cost imbalance must be a number"),
    "a unit that clears the screen": (forged("cost.unit", "\x1b[2J"), "cost must be printable"),
    "a cost as text": (forged("cost", "imbalance"), "cost must be a table"),
    "an own cost without its hash": (forged("cost", OWN_COST), r"cost\.sha256 must be 64"),
    "an own cost": (forged("cost", OWN_COST | {"sha256": "0" * 64}), "give the file again"),
    "another layout": (forged("layout.features", ["sun"]), r"layout\.feature_names must be"),
    "a layout of another calendar": (forged("layout.calendar", ["moon"]), "calendar must be .*, got 'moon'"),
    "about a list": (forged("about", []), "about must be a table"),
    "no rows": (forged("about.data.rows", 0), r"about\.data\.rows must be"),
}
STATE: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "state.json").unlink(), "cannot be read"),
    "exchanged with another": (lambda folder: forged("files", exchanged(folder))(folder), "is damaged: its SHA-256 is"),
    "a bit flipped": (edit("state.json", flipped(0.5)), "is damaged: its SHA-256 is"),
    "a link": (moved("state.json", link), "must be a regular file"),
    "a pickle": (pickled("state.json"), "is damaged"),
    "too large": (moved("state.json", sparse), "bytes, at most"),
    "wide": (forged("model.hidden", 10**9, "state.json"), "model.hidden must be at most"),
    "long": (forged("model", DIFFUSION, "state.json"), "model.steps must be at most"),
    "another model": (forged("model", "flow", "state.json"), "model must be one of"),
    "an own model": (forged("model", "own", "state.json"), "pass its factory as model="),
    "a model true": (forged("model.hidden", True, "state.json"), r"model\.hidden must be a whole number"),
    "a device without numbers": (forged("device", "meta", "state.json"), "device must be"),
    "another device": (forged("device", "/dev/sda", "state.json"), "device must be"),
    "no models": (forged("models", 0, "state.json"), "models must be"),
    "many models": (forged("models", 10**9, "state.json"), "models must be at most"),
    "baselines below zero": (forged("baselines", -1, "state.json"), "baselines must be"),
    "unknown": (forged("command", "rm", "state.json"), "there is no setting 'command'"),
    "members missing": (forged("forecast.members", ..., "state.json"), "forecast.members must be given"),
    "many members": (forged("forecast.members", 10**12, "state.json"), "members must be at most"),
    "a negative seed": (forged("forecast.noise_seed", -1, "state.json"), "noise_seed must be"),
    "a weight above 1": (forged("forecast.decision_weight", 2, "state.json"), r"decision_weight must lie in \[0, 1\]"),
    "no targets": (forged("forecast.target_names", [], "state.json"), "target_names must be"),
    "other targets": (forged("forecast.target_names", ["demand"], "state.json"), "'demand'"),
    "fewer names": (forged("forecast.feature_names", ["wind"], "state.json"), "feature_names must be 3 names, got 1"),
    "other names": (forged("forecast.feature_names", ["a", "b", "c"], "state.json"), "'a'"),
    "numbers for names": (
        forged("forecast.feature_names", [1, 2, 3], "state.json"),
        r"feature_names\[0\] must be text",
    ),
    "an infinite action": (forged("forecast.climatology_action", 10**400, "state.json"), "climatology_action"),
}
TRAINING: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "training.json").unlink(), "cannot be read"),
    "a bit flipped": (edit("training.json", flipped(0.5)), "is damaged: its SHA-256 is"),
    "a link": (moved("training.json", link), "must be a regular file"),
    "a pickle": (pickled("training.json"), "is damaged"),
    "too large": (moved("training.json", sparse), "bytes, at most"),
    "a part too many": (forged("more", {}, "training.json"), "parameters, found and models must be given"),
    "no models": (forged("models", [1], "training.json"), "models must be tables"),
    "wide": (forged("parameters.model.hidden", 10**9, "training.json"), "model.hidden must be at most"),
    "another model": (forged("parameters.model", "flow", "training.json"), "model must be one of"),
    "an own model": (forged("parameters.model", "own", "training.json"), "pass its factory as model="),
    "many models": (forged("parameters.ensemble", 10**9, "training.json"), "ensemble must be at most"),
    "a field too many": (forged("parameters.command", "rm", "training.json"), "there is no setting"),
    "a field missing": (forged("parameters.members", ..., "training.json"), "members must be given"),
    "training": (forged("parameters.training.epochs", -1, "training.json"), r"training\.epochs must be"),
    "another frontier": (forged("found.frontier", {"points": 3}, "training.json"), r"frontier\.chosen"),
    "no cases": (forged("found.validation_cases", 0, "training.json"), "validation_cases must be"),
}
WEIGHTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "weights.safetensors").unlink(), "cannot be read"),
    "cut": (edit("weights.safetensors", lambda content: content[:-5]), "is damaged: its SHA-256 is"),
    "a bit flipped": (edit("weights.safetensors", flipped(0.9)), "is damaged: its SHA-256 is"),
    "a link": (moved("weights.safetensors", link), "must be a regular file"),
    "too large": (moved("weights.safetensors", sparse), "bytes, at most"),
    "a pickle": (pickled("weights.safetensors"), "the header of tensor names has"),
    "another type": (tensors(lambda named: named | {FIRST: named[FIRST].double()}), f"'{FIRST}' must be"),
    "another shape": (tensors(lambda named: named | {FIRST: named[FIRST][:-1]}), f"'{FIRST}' must be"),
    "one too few": (tensors(lambda named: {k: v for k, v in named.items() if k != FIRST}), f"'{FIRST}' must be"),
    "one too many": (tensors(lambda named: named | {"baseline.0.x": torch.zeros(1)}), "'baseline.0.x' must be absent"),
    "NaN": (tensors(lambda named: named | {FIRST: named[FIRST] * math.nan}), f"{FIRST} must be finite"),
    "infinity": (tensors(lambda named: named | {FIRST: named[FIRST] + math.inf}), f"{FIRST} must be finite"),
    "of wider models": (forged("model.hidden", 5, "state.json"), "has wrong tensors"),
    "of deeper models": (forged("model.layers", 500, "state.json"), "has wrong tensors"),
    "of too many models": (deep_and_many, "no file holds 1000 models of"),
    "of more models": (forged("models", 2, "state.json"), "'model.1.feature_scaling.mean' must be"),
}
INPUTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "inputs.parquet").unlink(), "cannot be read"),
    "a bit flipped": (edit("inputs.parquet", flipped(0.5)), "is damaged: its SHA-256 is"),
    "a pickle": (pickled("inputs.parquet"), "is not a valid parquet file"),
    "other features": (column("name", "sun"), "name must hold the features of the fit"),
    "NaN": (column("mean", math.nan), "facts must be finite"),
    "no scale": (column("scale", 0.0), "facts must be finite, and scales positive"),
    "texts": (column("upper", "high"), "upper"),
    "correlations of no rows": (column("with 1", 7.0), "correlations must be"),
}
FILES = {
    "bundle.json": BUNDLE,
    "state.json": STATE,
    "training.json": TRAINING,
    "weights.safetensors": WEIGHTS,
    "inputs.parquet": INPUTS,
}


def exchanged(folder: Path) -> dict[str, str]:
    files = read_manifest(folder).files
    return files | {"training.json": files["state.json"], "state.json": files["training.json"]}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in FILES.items() for case in cases])
def test_hostile_and_damaged_files_are_refused(name: str, case: str, folder: Path) -> None:
    damage, message = FILES[name][case]
    damage(folder)
    with pytest.raises(StakesError, match=message) as raised:
        load_bundle(folder).forecaster  # noqa: B018
    text = str(raised.value)
    assert name in text
    assert text.isprintable()  # on one line, too
    assert len(text) < 800
    assert not (folder / "marker").exists()


def test_a_pickle_of_the_bomb_would_make_the_marker(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path))).close()
    assert (tmp_path / "marker").exists()
