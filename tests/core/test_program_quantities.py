import numpy as np
import pytest
import torch

from stakes.errors import CostError
from stakes.programs.modelling import Quantity, amount_words, plain_amount


def test_amounts_are_plain_numbers() -> None:
    assert Quantity(cost=[1, 2], upper=np.array([3, 4])) == Quantity(cost=(1.0, 2.0), upper=(3.0, 4.0))
    assert plain_amount("cost", torch.tensor(2.5)) == 2.5
    assert plain_amount("cost", np.float32(2)) == 2.0
    assert plain_amount("cost", " 2 * price ") == "2 * price"
    assert Quantity(cost=3).amounts == {"cost": 3.0, "lower": 0.0, "upper": None, "square": 0.0}


@pytest.mark.parametrize("value", [None, True, [], [1, "2"], [[1.0]], "", " ", float("nan"), [1, float("inf")], {}])
def test_what_is_no_amount_is_refused(value: object) -> None:
    with pytest.raises(CostError, match="cost must be a finite number, one for each outcome, or a text, got"):
        Quantity(cost=value)  # type: ignore[arg-type]


def test_each_is_yes_or_no() -> None:
    with pytest.raises(CostError, match="each must be True or False, got 'no'"):
        Quantity(each="no")  # type: ignore[arg-type]


def test_words() -> None:
    assert str(Quantity(lower=None)) == "one for each outcome"
    assert str(Quantity(lower=None, upper=3)) == "one for each outcome, at most 3"
    assert (
        str(Quantity(cost="outcome", square=0.5, each=False))
        == "a single one, at least 0, at outcome, its square at 0.5"
    )
    assert amount_words((0.1, 2.0)) == "0.1/2"
