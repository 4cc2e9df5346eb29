import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from artifacts.forecasters import FEATURES, assert_same, fitted, small, with_cost
from golden.make_bundle import SPEC, table
from refusals import refuses

from stakes import ImplicitModel, NewsvendorCost, ProtectionCost, ShortfallCost, WindDispatchCost, cost_function
from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.artifacts.folder import is_saved
from stakes.cost_spec.spec import CostSpec
from stakes.errors import BundleError, SettingError, StakesError
from stakes.files import read_json


@pytest.mark.parametrize(
    "cost",
    [
        ShortfallCost(3.0),
        WindDispatchCost(5),
        ProtectionCost(2.0, 0.5, "below"),
        NewsvendorCost(4.0, 1.0, 0.0, 9.0),
        SPEC.build(),
    ],
    ids=lambda cost: type(cost).__name__,
)
def test_a_cost_of_the_library_needs_no_words(cost: Any, tmp_path: Path) -> None:
    save_bundle(tmp_path, with_cost(cost))
    bundle = load_bundle(tmp_path)
    assert bundle.forecaster.cost == cost
    assert bundle.cost_spec is not None
    assert bundle.cost_spec.build() == cost


def test_words_must_be_those_of_the_cost(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cost_spec"):
        save_bundle(tmp_path, fitted("implicit"), cost_spec=CostSpec.parse("shortfall:penalty=3"))
    assert not is_saved(tmp_path)


def test_a_cost_without_words_must_be_given_again(tmp_path: Path) -> None:
    cost = cost_function(lambda action, outcome: (action - outcome) ** 2, 0.0, 9.0)
    save_bundle(tmp_path, with_cost(cost))
    refuses(BundleError, r"bundle\.json: the cost is the user's own .*; pass it as cost=", load_bundle, tmp_path)
    bundle = load_bundle(tmp_path, cost=cost)
    assert_same(bundle.forecaster, with_cost(cost))
    assert bundle.cost_spec is None


def test_a_cost_of_the_users_file_must_be_given_again(tmp_path: Path) -> None:
    file, folder = tmp_path / "costs.py", tmp_path / "bundle"
    file.write_text("def squared(action, outcome):\n    return (action - outcome) ** 2\n")
    spec = CostSpec.parse(f"{file}:squared:lower=0,upper=9")
    forecaster = with_cost(spec.build())
    save_bundle(folder, forecaster)
    kept = read_json(folder / "bundle.json")["cost"]
    assert (kept["name"], kept["sha256"]) == ("costs.py:squared", hashlib.sha256(file.read_bytes()).hexdigest())
    refuses(BundleError, r"bundle\.json: the cost 'costs\.py:squared' is a user's own", load_bundle, folder)
    bundle = load_bundle(folder, cost=spec)
    assert_same(bundle.forecaster, forecaster)
    assert (bundle.cost_spec, bundle.notes) == (spec, ())
    assert load_bundle(folder, cost=spec.build()).cost_spec == spec
    by_object = load_bundle(folder, cost=cost_function(lambda action, outcome: (action - outcome) ** 2, 0.0, 9.0))
    assert by_object.cost_spec is not None
    assert by_object.cost_spec.name == "costs.py:squared"

    file.write_text(file.read_text() + "# changed\n")
    changed = load_bundle(folder, cost=CostSpec.parse(str(spec)))
    assert changed.notes == ("the file of the cost 'costs.py:squared' has changed since the forecaster was fitted",)
    other = load_bundle(folder, cost=CostSpec.parse(f"{file}:squared:lower=0,upper=5"))
    (note,) = other.notes
    assert "was fitted for the cost 'costs.py:squared:lower=0,upper=9'; it now decides for" in note


def test_another_cost_may_be_given(saved: Path) -> None:
    spec = CostSpec.parse("imbalance:short=1,long=4,upper=9,unit=EUR,action_unit=MW")
    bundle = load_bundle(saved, cost=spec)
    assert bundle.cost_spec == spec
    assert "it now decides for imbalance:short=1" in bundle.notes[0]
    features = table(9)[FEATURES]
    assert (bundle.forecaster.decide(features) < fitted("implicit").decide(features)).all()
    by_object = load_bundle(saved, cost=ShortfallCost(3.0))
    assert by_object.forecaster.cost == ShortfallCost(3.0)
    assert str(by_object.cost_spec) == "shortfall:penalty=3"


@pytest.mark.parametrize(
    "cost", [SPEC.build(), CostSpec.parse("imbalance:short=4,long=1,upper=9")], ids=["object", "words"]
)
def test_the_same_cost_given_again_is_no_other(cost: Any, saved: Path) -> None:
    bundle = load_bundle(saved, cost=cost)
    assert (bundle.notes, bundle.cost_spec) == ((), replace(SPEC, parameters=dict(SPEC.parameters)))


def test_a_model_of_the_users_must_be_given_again(tmp_path: Path) -> None:
    save_bundle(tmp_path, fitted("own model"))
    assert read_json(tmp_path / "state.json")["model"] == "own"
    refuses(BundleError, r"state\.json: the model .* pass its factory as model=", load_bundle, tmp_path)
    refuses(BundleError, "model", load_bundle, tmp_path, model=lambda features, outcomes: features)
    with pytest.raises(StakesError, match=r"weights\.safetensors"):
        load_bundle(tmp_path, model=lambda features, outcomes: ImplicitModel(features, outcomes, hidden=4))


def test_a_model_of_the_library_must_not_be_given(saved: Path) -> None:
    refuses(BundleError, r"training\.json: .* implicit .* model=", load_bundle, saved, model=small)
