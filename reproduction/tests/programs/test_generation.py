"""The schedule of the literature, on made-up loads."""

from pathlib import Path

import numpy as np
import pytest
import torch
from small_programs import made_loads

from reproduction.programs.generation import GENERATION_PLANS, binding_ramp, generation_problem
from reproduction.programs.point_networks import POINT_NETWORKS
from stakes.actions.solve import optimal_action
from stakes.data.case_table import CaseTable


def test_a_ramp_that_binds() -> None:
    loads = torch.zeros(3, 24)
    loads[0, 5], loads[1, 5], loads[2, 5] = 1.0, 2.0, 6.0  # largest changes 1, 2 and 6
    assert binding_ramp(CaseTable(torch.zeros(3, 1), loads)) == 1.0


def test_both_problems_share_their_cases(tmp_path: Path) -> None:
    made_loads(tmp_path, days=60)
    free, bound = (generation_problem(str(tmp_path), binding) for binding in (False, True))
    limits = [vars(each.cost)["ramp"] for each in (free, bound)]
    assert limits[0] == 0.4
    assert limits[1] == pytest.approx(0.005, rel=1e-3)  # loads climb by a hundredth an hour
    assert free.test is bound.test
    assert "half of the hours" in bound.text
    action = optimal_action(bound.cost, bound.test.outcome[:, None])
    share = bound.measures["ramp_binds"](action, bound.test.outcome)
    expected = (np.abs(np.diff(action.numpy())) > 0.00499).mean(1)
    np.testing.assert_allclose(share, expected)
    assert not bool(free.measures["ramp_binds"](action, free.test.outcome).any())


def test_the_plans_compare_what_the_literature_has() -> None:
    free, bound = GENERATION_PLANS
    assert {candidate for method in free.methods for candidate in method.candidates} >= set(POINT_NETWORKS)
    assert free.method("decision").candidates == ("energy 0", "energy 0.1", "energy 0.5", "energy 0.9")
    assert bound.method("through").candidates == ("through 0.5",)
