"""Networks trained on a score, and then on the decision."""

from functools import partial

import pytest
import torch
from small_programs import EFFORT, small_problem

from reproduction.programs.candidates import SCORES, FineTuning, drawn_members, finetuned_candidates, trained_model
from reproduction.programs.problem import Forecast, RunEffort
from stakes.scores.mixture import ScoreMixture


def test_every_weight_has_its_candidate_and_starts_from_the_score() -> None:
    problem = small_problem(test=10)
    tuning = FineTuning(weights=(0.3, 0.8), members=10, batch=32, epochs=1)
    make = partial(finetuned_candidates, problem, 1, EFFORT, name="own", members=12)
    tuned = make(tuning=tuning)
    assert list(tuned) == ["own 0", "own 0.3", "own 0.8"]
    plain = make()
    assert list(plain) == ["own 0"]
    for name, each in tuned.items():
        assert isinstance(each, Forecast)
        assert each.test.shape == (10, 12, 3), name
    assert isinstance(plain["own 0"], Forecast)
    torch.testing.assert_close(plain["own 0"].test, tuned["own 0"].test)
    assert not torch.equal(tuned["own 0.3"].test, tuned["own 0.8"].test)


@pytest.mark.parametrize("score", list(SCORES))
@pytest.mark.parametrize("linear", [False, True])
def test_training_keeps_the_weights_of_the_least_validation_score(score: str, linear: bool) -> None:
    problem = small_problem(test=10)
    rule = SCORES[score]
    values = []
    for epochs in (1, 12):
        model = trained_model(problem, 0, RunEffort(epochs=epochs, patience=epochs), score=score, linear=linear)
        outcome = model.outcome_scaling.standardise(problem.validation.outcome)
        if isinstance(rule, ScoreMixture):
            rule = rule.standardised(model.outcome_scaling.standardise(problem.train.outcome))
        members = drawn_members(model, problem.validation, 200, 0)
        values.append(float(rule(model.outcome_scaling.standardise(members), outcome).mean()))
    assert values[1] <= values[0] + 0.02 * abs(values[0])


def test_a_seed_gives_the_same_forecast() -> None:
    problem = small_problem(test=5)
    first, second, other = (
        drawn_members(trained_model(problem, seed, EFFORT, score="pointwise", linear=False), problem.test, 4, seed)
        for seed in (3, 3, 4)
    )
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert not torch.equal(first, other)
