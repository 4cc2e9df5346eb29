"""What a forecaster would be trained with, without any training."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refuses

import stakes
from stakes.data.case_table import CaseTable
from stakes.errors import SettingError
from stakes.forecasting.plan import plan_fit
from stakes.training.settings import ImplicitSettings, TrainingSettings

COST = stakes.ShortfallCost(5.0)
TRAINING = TrainingSettings(epochs=3, score="pointwise")


def settings_of(**given: Any) -> TrainingSettings:
    forecaster = stakes.DecisionAwareForecaster(COST, **given)
    features, outcome = torch.rand(40, 2), torch.rand(40, 1)
    return plan_fit(forecaster.parameters, CaseTable(features, outcome)).training.settings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "energy"),
        ({"scoring_rule": "total"}, "total"),
        ({"scoring_rule": "energy=1,total=0.5", "epochs": 4}, "energy=1,total=0.5"),
        ({"training": TRAINING}, "pointwise"),
        ({"training": TRAINING, "scoring_rule": "energy"}, "energy"),
    ],
)
def test_the_score_is_that_of_the_forecaster_or_of_its_training(given: dict[str, Any], expected: str) -> None:
    assert settings_of(**given).score == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"decision_member_count": np.int64(20)}, 20),
        ({"training": TRAINING}, None),
        ({"training": replace(TRAINING, decision_member_count=30)}, 30),
        ({"training": TRAINING, "decision_member_count": 32}, 32),
        ({"training": replace(TRAINING, decision_member_count=30), "decision_member_count": 40}, 40),
    ],
)
def test_how_many_members_decide(given: dict[str, Any], expected: int | None) -> None:
    assert settings_of(**given).decision_member_count == expected


def test_settings_that_cannot_be() -> None:
    assert (settings_of(epochs=7).epochs, settings_of(epochs=7, training=TRAINING).epochs) == (7, 7)
    refuses(SettingError, "^score", settings_of, scoring_rule="crps")
    for count in (9, 0, 2.5, "many", True):
        refuses(SettingError, "^decision_member_count", settings_of, decision_member_count=count)


@pytest.mark.parametrize("rule", ["pointwise", "total", "energy=1,total=0.5"])
def test_a_forecaster_of_every_score(rule: str) -> None:
    features, outcome = np.random.default_rng(0).uniform(size=(2, 60, 2))
    quick = TrainingSettings(epochs=1, batch=16, members=4, validation_members=4)
    usual: dict[str, Any] = {"model": ImplicitSettings(noise=2, hidden=8, layers=1), "base": "none", "training": quick}
    usual |= {"decision_weight": 0, "random_state": 0, "ensemble": 1}
    models = [
        stakes.DecisionAwareForecaster(COST, **usual, **given).fit(features, outcome).forecast_.models[0]
        for given in ({}, {"scoring_rule": rule})
    ]
    first, second = ([*model.parameters()] for model in models)
    assert not any(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_a_cost_without_a_total_is_refused_in_one_sentence() -> None:
    features, outcome = np.random.default_rng(0).uniform(size=(2, 60, 2))
    totals = stakes.DecisionAwareForecaster(stakes.ProtectionCost(0.5, 0.5), scoring_rule="total", epochs=1)
    refuses(SettingError, "ProtectionCost has none", totals.fit, features, outcome)
