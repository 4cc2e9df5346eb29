"""The checks at the doors of the library: each names the argument, what came and what is expected."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from stakes.errors import CostError, SettingError
from stakes.method.argument_checks import require_decision_weight


@pytest.mark.parametrize("weight", [0, 1, 0.0, 0.3, 1.0, Fraction(1, 3), np.float32(0.5), torch.tensor([0.0, 1.0])])
def test_weights_from_zero_to_one_pass(weight: Any) -> None:
    require_decision_weight(weight)


@pytest.mark.parametrize(
    "weight",
    [-0.1, 1.1, math.nan, math.inf, True, None, "auto", [0.5], torch.tensor([0.5, 1.5]), torch.tensor(math.nan)],
)
def test_other_weights_are_refused(weight: Any) -> None:
    with pytest.raises(SettingError, match=r"^decision_weight must lie in \[0, 1\], got "):
        require_decision_weight(weight)


def test_a_refused_weight_can_have_another_name_expectation_and_error() -> None:
    with pytest.raises(CostError, match=r'^share must be "auto" or lie in \[0, 1\], got 2$'):
        require_decision_weight(2, "share", 'be "auto" or lie in [0, 1]', CostError)
