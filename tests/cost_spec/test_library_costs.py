from refusals import refuses

import stakes
from stakes.cost_spec.spec import _KINDS, CostSpec, cost_names, library_cost, with_defaults
from stakes.errors import CostError


def test_every_cost_has_a_line_and_its_example_is_a_cost() -> None:
    assert list(cost_names()) == list(_KINDS)
    for kind in _KINDS.values():
        CostSpec.parse(kind.example).build()


def test_a_cost_from_its_parameters() -> None:
    parameters = {"penalty": 5.0, "shear": 0.0}
    assert library_cost("wind_dispatch", parameters) == stakes.WindDispatchCost(5.0, stakes.PowerCurve(shear=0.0))
    refuses(CostError, "'wind'", library_cost, "wind", parameters)


def test_defaults_come_last_and_replace_nothing() -> None:
    assert list(with_defaults("imbalance", {"upper": 9.0})) == ["upper", "lower"]
    assert with_defaults("imbalance", {"lower": -1.0}) == {"lower": -1.0}
    assert with_defaults("costs.py:own", {}) == {}
