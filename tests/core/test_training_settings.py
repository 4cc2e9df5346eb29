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


NUMBERS = (0, 0.0, -1e-3, math.inf, math.nan, "1", True, [1.0])
CHOICES = ("", "Fair", "almost_fair", None)
DEBIASED = {"decision_estimator": "debiased"}
REFUSED: list[tuple[type, str, tuple[Any, ...], dict[str, Any]]] = [
    *((kind, name, NO_COUNTS, {}) for kind, names in COUNTS.items() for name in names),
    (TrainingSettings, "pretraining_epochs", (-1, 0.5, True, None), {}),
    *((TrainingSettings, name, NUMBERS, {}) for name in ("learning_rate", "gradient_clip")),
    (TrainingSettings, "weight_decay", (-0.1, *NUMBERS[3:]), {}),
    *((TrainingSettings, name, CHOICES, {}) for name in ("schedule", "score_estimator", "companion")),
    (TrainingSettings, "decision_estimator", CHOICES, {}),
    *((TrainingSettings, name, (2, 3, 5, 51), DEBIASED) for name in ("members", "validation_members")),
    *((TrainingSettings, name, (1,), {}) for name in ("members", "validation_members")),  # for the fair estimator
    (TrainingSettings, "decision_member_count", (9, 0, 12.0, True, "12"), {"members": 10}),
    (TrainingSettings, "decision_member_count", (11,), {"members": 10, **DEBIASED}),
    (DiffusionSettings, "steps", (20,), {"endpoints": "scaled"}),
    (DiffusionSettings, "steps", (1,), {"endpoints": "raw"}),
]


@pytest.mark.parametrize(("kind", "name", "values", "others"), REFUSED)
def test_bad_settings_are_named(kind: type, name: str, values: tuple[Any, ...], others: dict[str, Any]) -> None:
    for value in values:
        refuses(SettingError, rf"\b{name}\b", kind, **{name: value, **others})


def test_settings_at_their_limits() -> None:
    assert TrainingSettings(pretraining_epochs=0, weight_decay=0).pretraining_epochs == 0
    assert TrainingSettings(members=10, decision_member_count=10).decision_member_count == 10
    for name in ("members", "validation_members"):
        for least, estimators in ((4, DEBIASED), (3, {}), (1, {"score_estimator": "biased"})):
            assert getattr(TrainingSettings(**{name: least}, **estimators), name) == least
    for endpoints, least in (("scaled", 21), ("raw", 2)):
        settings = DiffusionSettings(steps=least, endpoints=endpoints, hidden=2, layers=1)  # type: ignore[arg-type]
        assert settings.build(1, 1).schedule.steps == least


@pytest.mark.parametrize("name", ["endpoints", "prediction", "decision_weighting"])
def test_diffusion_choices(name: str) -> None:
    refuses(SettingError, f"^{name} ", lambda: DiffusionSettings(**{name: "other"}).build(1, 1))
    refuses(SettingError, f"^model.{name} .*'other'", from_plain, DiffusionSettings, {name: "other"}, "model")


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
