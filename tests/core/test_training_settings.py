import json
import math
from dataclasses import fields
from typing import Any

import pytest
from refusals import refuses

from stakes.errors import SettingError
from stakes.settings import from_plain, to_plain
from stakes.training.settings import DiffusionSettings, ImplicitSettings, LinearSettings, TrainingSettings

NO_COUNTS = (0, -3, 2.0, "3", None, True, math.nan)
COUNTS: dict[type, tuple[str, ...]] = {
    TrainingSettings: ("epochs", "batch", "members", "validate_every", "validation_members", "patience"),
    ImplicitSettings: ("noise", "hidden", "layers"),
    DiffusionSettings: ("noise", "hidden", "layers", "steps"),
    LinearSettings: ("residuals",),
}
EVERY_SETTING_CHANGED = (
    TrainingSettings(
        epochs=3,
        pretraining_epochs=2,
        batch=7,
        members=4,
        learning_rate=0.5,
        validate_every=5,
        validation_members=6,
        patience=11,
        gradient_clip=2.5,
        weight_decay=0.25,
        schedule="cosine",
        score_estimator="biased",
        decision_estimator="debiased",
        companion="variogram",
        score="energy=1,total=0.5",
        decision_member_count=8,
        validation_draws=3,
        keep="last",
        solver="projected_gradient",
        solver_steps=7,
    ),
    ImplicitSettings(noise=1, hidden=2, layers=3, linear=True, gap=4, structured=True),
    LinearSettings(residuals=1, gap=2, constant=True),
    DiffusionSettings(
        noise=1,
        hidden=2,
        layers=3,
        steps=4,
        endpoints="raw",
        prediction="target",
        decision_weighting="snr",
        structured=True,
        chain_steps=2,
        chain_gradient=1,
    ),
)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in COUNTS.items() for name in names])
def test_counts_are_whole_and_positive(kind: type, name: str) -> None:
    for value in NO_COUNTS:
        refuses(SettingError, f"^{name} must be a whole number of at least 1, got", kind, **{name: value})


@pytest.mark.parametrize("value", [-1, 0.5, True, None])
def test_pretraining_may_have_no_epochs_but_not_fewer(value: object) -> None:
    assert TrainingSettings(pretraining_epochs=0).pretraining_epochs == 0
    refuses(SettingError, "^pretraining_epochs", TrainingSettings, pretraining_epochs=value)


@pytest.mark.parametrize("name", ["learning_rate", "gradient_clip"])
@pytest.mark.parametrize("value", [0, 0.0, -1e-3, math.inf, math.nan])
def test_rates_are_positive_and_finite(name: str, value: float) -> None:
    refuses(SettingError, f"^{name} must be positive and finite, got", TrainingSettings, **{name: value})


def test_weight_decay_is_not_negative() -> None:
    assert TrainingSettings(weight_decay=0).weight_decay == 0
    refuses(SettingError, "^weight_decay", TrainingSettings, weight_decay=-0.1)


@pytest.mark.parametrize("name", ["learning_rate", "gradient_clip", "weight_decay"])
@pytest.mark.parametrize("value", ["1", True, [1.0]])
def test_numbers_are_numbers(name: str, value: Any) -> None:
    refuses(SettingError, f"^{name} must be a number", TrainingSettings, **{name: value})


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("schedule", "constant, cosine"),
        ("score_estimator", "fair, biased"),
        ("decision_estimator", "plain, debiased"),
        ("companion", "decision, crps_of_total, variogram, tail_crps"),
    ],
)
@pytest.mark.parametrize("value", ["", "Fair", "almost_fair", None])
def test_training_choices(name: str, choices: str, value: Any) -> None:
    refuses(SettingError, f"^{name} must be one of {choices}, got {value!r}$", TrainingSettings, **{name: value})


@pytest.mark.parametrize("name", ["members", "validation_members"])
@pytest.mark.parametrize("count", [2, 3, 5, 51])
def test_the_debiased_estimator_needs_even_members(name: str, count: int) -> None:
    with pytest.raises(SettingError, match=f"^{name} must be even and at least 4 for the debiased estimator, got"):
        TrainingSettings(**{name: count}, decision_estimator="debiased")
    assert getattr(TrainingSettings(**{name: count}), name) == count
    assert getattr(TrainingSettings(**{name: 4}, decision_estimator="debiased"), name) == 4


def test_the_decision_has_at_least_the_members_of_the_score() -> None:
    assert TrainingSettings(members=10, decision_member_count=10).decision_member_count == 10
    for count in (9, 0, 12.0, True, "12"):
        refuses(SettingError, "^decision_member_count", TrainingSettings, members=10, decision_member_count=count)
    with pytest.raises(SettingError, match=r"^decision_member_count"):
        TrainingSettings(members=10, decision_member_count=11, decision_estimator="debiased")


@pytest.mark.parametrize("name", ["members", "validation_members"])
def test_the_fair_estimator_needs_two_members(name: str) -> None:
    refuses(SettingError, f"^{name} must be at least 2 for the fair estimator, got 1$", TrainingSettings, **{name: 1})
    assert getattr(TrainingSettings(**{name: 1}, score_estimator="biased"), name) == 1


@pytest.mark.parametrize(("endpoints", "least"), [("scaled", 21), ("raw", 2)])
def test_the_schedule_needs_enough_steps(endpoints: Any, least: int) -> None:
    with pytest.raises(SettingError, match=f"at least {least} steps, got {least - 1}$"):
        DiffusionSettings(steps=least - 1, endpoints=endpoints)
    settings = DiffusionSettings(steps=least, endpoints=endpoints, hidden=2, layers=1)
    assert settings.build(1, 1).schedule.steps == least


@pytest.mark.parametrize("name", ["endpoints", "prediction", "decision_weighting"])
def test_diffusion_choices(name: str) -> None:
    refuses(SettingError, f"^{name} must be one of", lambda: DiffusionSettings(**{name: "other"}).build(1, 1))
    with pytest.raises(SettingError, match=f"^model.{name} must be one of .*, got 'other'"):
        from_plain(DiffusionSettings, {name: "other"}, "model")


@pytest.mark.parametrize("settings", EVERY_SETTING_CHANGED, ids=lambda settings: type(settings).__name__)
def test_json_round_trip(settings: Any) -> None:
    kind = type(settings)
    unchanged = [each.name for each in fields(settings) if getattr(settings, each.name) == each.default]
    assert not unchanged, "the round trip would not see them"
    for value in (settings, kind()):
        assert from_plain(kind, json.loads(json.dumps(to_plain(value)))) == value


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 0}, "^training.epochs"),
        ({"epochs": 2.5}, "^training.epochs"),
        ({"members": 3, "decision_estimator": "debiased"}, "^training.members"),
        ({"learning_rate": "fast"}, "^training.learning_rate"),
        ({"schedule": "linear"}, "^training.schedule"),
        ({"epoch": 3}, "'training.epoch'"),
    ],
)
def test_errors_from_a_file_name_the_place(values: dict[str, Any], message: str) -> None:
    refuses(SettingError, message, from_plain, TrainingSettings, values, "training")


@pytest.mark.parametrize("settings", [ImplicitSettings(3, 4, 2), DiffusionSettings(3, 4, 2, 30)], ids=lambda s: s.name)
def test_settings_build_the_model_they_describe(settings: Any) -> None:
    model = settings.build(2, 5)
    assert model.noise == 3
    widths = {tuple(value.shape) for value in model.parameters()}
    assert (4, 4) in widths  # two hidden layers
    assert (5, 4) in widths
    draw = model.draw_noise(6, 7)
    assert draw["members"].shape == (6, 7, 3)
