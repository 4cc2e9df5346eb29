"""Every problem has its own name."""

from reproduction.programs.reproduce import all_plans


def test_names_are_unique() -> None:
    names = [plan.name for plan in all_plans()]
    assert len(set(names)) == len(names)
    assert {"generation", "generation_ramp", "bakery", "battery", "markets_risk", "wind_battery"} <= set(names)
    for plan in all_plans():
        assert not plan.method(plan.reference).ours
