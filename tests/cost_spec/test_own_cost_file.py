import copy
import pickle
from pathlib import Path

import pandas as pd
import pytest
import torch
from refusals import refuses

import stakes
from stakes.cost_spec.files import OwnCost, file_hash
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import states_convexity, total_of, user_cost_errors
from stakes.errors import CostError, SettingError
from stakes.forecasting.decisions import decision_table


def test_own_costs_of_every_kind(own: str) -> None:
    action, outcome = torch.tensor([[1.0]]), torch.tensor([[3.0]])
    expected = {
        "profit:lower=0,upper=10": (0, 10, 4),
        "priced:price=3,lower=-1,upper=1": (-1, 1, 12),
        "priced:price=3,kind=square,lower=-1,upper=1": (-1, 1, 12),
        "ready": (0, 50, 8),
        "hidden": (0, 5, 4),
        "factory:penalty=2": (0, 9, 8),
        "factory:penalty=2,upper=4": (0, 4, 8),
        "Tracking:weight=0.5": (0, 3, 2),
    }
    for reference, (lower, upper, value) in expected.items():
        spec = CostSpec.parse(f"{own}:{reference}")
        assert spec.is_own
        cost = spec.build()
        assert (cost.lower, cost.upper, cost(action, outcome).item()) == (lower, upper, value)
        for copied in (pickle.loads(pickle.dumps(cost)), copy.deepcopy(cost)):
            assert copied(action, outcome).item() == value


def test_an_own_cost_is_convex_where_its_author_says_so(own: str) -> None:
    said = {"profit:lower=0,upper=10,convex=yes": True, "profit:lower=0,upper=10,convex=no": False}
    for reference, convex in {**said, "profit:lower=0,upper=10": False, "ready": True, "hidden": False}.items():
        assert states_convexity(CostSpec.parse(f"{own}:{reference}").build()) == convex


def test_an_own_cost_keeps_what_it_knows(own: str) -> None:
    ready, profit = (CostSpec.parse(f"{own}:{name}").build() for name in ("ready", "profit:lower=0,upper=10"))
    assert total_of(ready) is not None
    assert total_of(profit) is None
    assert not hasattr(profit, "best_action")
    members = torch.tensor([[1.0], [2.0], [6.0]])
    assert stakes.optimal_action(ready, members).item() == 6
    assert stakes.optimal_action(profit, members).item() == pytest.approx(3)


def test_a_file_that_changed_is_not_executed(own: str) -> None:
    spec = CostSpec.parse(f"{own}:ready")
    Path(own).write_text("raise SystemExit", encoding="utf-8")
    refuses(CostError, "has changed", spec.build)


def test_the_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_bytes(b"")
    assert file_hash(tmp_path / "empty.py") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_an_own_cost_is_shown_as_it_is_written(own: str) -> None:
    text = f"{own}:priced:price=3,lower=0,upper=1,unit=EUR"
    assert repr(CostSpec.parse(text).build()) == f"OwnCost({text!r})"


def test_a_cost_that_exits_does_not_end_the_program(tmp_path: Path) -> None:
    (tmp_path / "costs.py").write_text("def leave(action, outcome):\n    raise SystemExit(3)\n", encoding="utf-8")
    cost = CostSpec.parse(f"{tmp_path}/costs.py:leave:lower=0,upper=1").build()
    refuses(CostError, "'leave'", cost, torch.zeros(1, 1), torch.zeros(1, 1))


def test_what_an_own_cost_raises_is_one_sentence_with_its_name(own: str) -> None:
    cost = CostSpec.parse(f"{own}:ready").build()
    assert isinstance(cost, OwnCost)
    with pytest.raises(CostError, match="'a'"), user_cost_errors(cost):
        raise KeyError("a")


def test_other_errors_stay_what_they_are(own: str) -> None:
    with pytest.raises(SettingError, match="as it is"), user_cost_errors(CostSpec.parse(f"{own}:ready").build()):
        raise SettingError("as it is")
    with pytest.raises(KeyError), user_cost_errors(stakes.ShortfallCost(5.0)):
        raise KeyError("a")


def test_a_users_own_decision_with_many_parts(tmp_path: Path) -> None:
    """As exact as the cost itself, averse to risk or not; another would take it for a decision about one number."""
    source = (
        "import stakes\n\n"
        "def plan(ramp):\n    return stakes.ScheduleCost(5.0, 1.0, ramp=ramp)\n\n"
        "def averse():\n    return stakes.CVaRCost(stakes.ScheduleCost(5.0, 1.0, ramp=0.5), level=0.2)\n"
    )
    (tmp_path / "own.py").write_text(source)
    members = torch.randn(2, 12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 5
    plain = stakes.ScheduleCost(5.0, 1.0, ramp=0.5)
    for text, same in (("plan:ramp=0.5", plain), ("averse", stakes.CVaRCost(plain, level=0.2))):
        spec = CostSpec.parse(f"{tmp_path / 'own.py'}:{text}")
        own = spec.build()
        torch.testing.assert_close(stakes.optimal_action(own, members), stakes.optimal_action(same, members))
        table = decision_table(own, members, pd.RangeIndex(2, name="row"), (), outcomes=["a", "b", "c"])
        assert list(table)[1:4] == ["action_a", "action_b", "action_c"]
        assert table["certified"].all()
        assert spec.doubts(members.reshape(-1, 3).numpy(), ["h0", "h1", "h2"]) == []
        (order,) = spec.doubts(members.reshape(-1, 3).numpy(), ["a", "b", "c"])
        assert order.endswith("order of outcomes, which is taken as given: a, b, c")


def test_a_function_of_many_parts(tmp_path: Path) -> None:
    content = "def f(action, outcome, price=1.0):\n    return price * ((action - outcome) ** 2).sum(-1)\n"
    (tmp_path / "costs.py").write_text(content, encoding="utf-8")
    cost = CostSpec.parse(f"{tmp_path}/costs.py:f:price=2,lower=-2,upper=3,parts=2").build()
    members = torch.tensor([[[0.0, 5.0], [1.0, 7.0]]])
    solution = stakes.solve_action(cost, members)
    torch.testing.assert_close(solution.action, torch.tensor([[0.5, 3.0]]), atol=1e-4, rtol=0)
