"""The weight chosen on validation data."""

import numpy as np
import pytest
import xarray as xr

from reproduction.tables_of_results import chosen_weight
from stakes.errors import StudyError
from stakes.evaluation.study import AXES, Study


def study(cost: list[float], energy_score: list[float]) -> Study:
    """Weights 0, 0.3, 0.6, 0.9 of two seeds that differ, with these means on validation data."""
    axes = {"parameter": [5.0], "group": [0.0], "decision_weight": [0.0, 0.3, 0.6, 0.9], "seed": [0, 1], "case": [0]}
    shape = tuple(len(values) for values in axes.values())
    variables = {"cost": (AXES, np.zeros(shape))}
    for name, means in (("cost", cost), ("energy_score", energy_score)):
        by_seed = np.array(means)[:, None] + np.array([-0.5, 0.5])
        variables[f"validation_{name}"] = (AXES[:4], by_seed[None, None])
    return Study(xr.Dataset(variables, axes), xr.Dataset(), {})


def test_takes_the_lowest_cost_among_the_weights_that_hardly_worsen_the_score() -> None:
    made = study(cost=[1.0, 0.9, 0.8, 0.7], energy_score=[10.0, 10.05, 10.09, 10.2])
    assert chosen_weight(made, 5.0) == 0.6
    assert chosen_weight(made, 5.0, tolerance=2.5) == 0.9
    assert chosen_weight(made, 5.0, tolerance=0.7) == 0.3


def test_stays_at_weight_zero_where_nothing_else_is_better_or_allowed() -> None:
    assert chosen_weight(study([1.0, 1.1, 1.2, 1.3], [10.0, 9.9, 9.8, 9.7])) == 0.0
    assert chosen_weight(study([1.0, 0.5, 0.5, 0.5], [10.0, 11.0, 12.0, 13.0])) == 0.0
    assert chosen_weight(study([1.0, 0.5, 0.5, 0.5], [10.0, 11.0, 12.0, 13.0]), tolerance=-1.0) == 0.0


def test_a_study_without_validation_data_is_refused() -> None:
    made = study([1.0] * 4, [1.0] * 4)
    bare = Study(made.forecasts.drop_vars("validation_cost"), made.cases, made.about)
    with pytest.raises(StudyError, match="without validation data"):
        chosen_weight(bare)


def test_a_study_without_weight_0_is_refused() -> None:
    made = study([1.0] * 4, [1.0] * 4)
    without = Study(made.forecasts.sel(decision_weight=[0.3, 0.9]), made.cases, made.about)
    with pytest.raises(StudyError, match=r"against weight 0, this study has the weights \[0.3, 0.9\]"):
        chosen_weight(without)


def test_a_weight_of_which_every_run_failed_is_not_chosen() -> None:
    made = study(cost=[1.0, 0.9, 0.8, 0.7], energy_score=[10.0, 10.05, 10.09, 10.2])
    for weight, chosen in ((0.6, 0.3), (0.0, 0.0)):
        kept = made.forecasts.where(made.forecasts["decision_weight"] != weight)
        assert chosen_weight(Study(kept, made.cases, made.about)) == chosen
