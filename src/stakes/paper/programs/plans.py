"""All problems that are compared, by their plans."""

from stakes.paper.programs.methods import Plan

__all__ = ["all_plans"]


def all_plans() -> tuple[Plan, ...]:
    """The plans in the order of the report."""
    from stakes.paper.programs.bakery import BAKERY_PLANS  # each imports its readers, which only this needs
    from stakes.paper.programs.battery import BATTERY_PLANS
    from stakes.paper.programs.generation import GENERATION_PLANS
    from stakes.paper.programs.market_battery import MARKET_PLANS
    from stakes.paper.programs.wind_battery import WIND_PLANS

    return (*GENERATION_PLANS, *BATTERY_PLANS, *MARKET_PLANS, *WIND_PLANS, *BAKERY_PLANS)
