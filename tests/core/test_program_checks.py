"""Numbers of programs that mean nothing."""

import pytest
import torch
from torch import Tensor

from stakes import ScenarioProgram
from stakes.errors import CostError, NonFiniteError, StakesError

EYE = torch.eye(2)
RIGHT = {"T": EYE, "W": torch.ones(2), "h_y": EYE, "q": torch.ones(2), "G": EYE, "g": torch.ones(2)}


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"g": torch.tensor([1.0, torch.nan])}, NonFiniteError, "g must not be NaN or minus infinity"),
        ({"upper": torch.tensor([1.0, -torch.inf])}, NonFiniteError, "upper must not be NaN or minus infinity"),
        ({"lower": torch.tensor([1.0, torch.inf])}, NonFiniteError, "lower must not be NaN or infinity"),
        ({"W": torch.tensor([1.0, 0.0])}, CostError, "W must be positive"),
        ({"P": torch.tensor([[1.0, 2.0], [0.0, 1.0]])}, CostError, "P must be symmetric"),
        ({"P": torch.tensor([[1.0, 2.0], [2.0, 1.0]])}, CostError, "P must be positive semidefinite"),
        ({"Q": torch.tensor([1.0, -1.0])}, CostError, "Q must be positive semidefinite"),
    ],
)
def test_refused(wrong: dict[str, Tensor], error: type[StakesError], said: str) -> None:
    with pytest.raises(error, match=said):
        ScenarioProgram(**RIGHT | wrong)


def test_what_is_no_limit_and_what_is_just_convex_is_allowed() -> None:
    free = {"lower": torch.tensor([0.0, -torch.inf]), "upper": torch.tensor([1.0, torch.inf])}
    assert ScenarioProgram(**RIGHT | free, P=torch.ones(2, 2), Q=torch.zeros(2, 2)).parts == 2
