"""Forecasts that know what is at stake: train sample-based models with a proper score and with a decision's cost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see; a test holds it equal to _HOME
    from stakes.actions import ActionSolution as ActionSolution
    from stakes.actions import optimal_action as optimal_action
    from stakes.actions import solve_action as solve_action
    from stakes.cost_check import CostCheck as CostCheck
    from stakes.cost_check import check_cost as check_cost
    from stakes.costs import Cost as Cost
    from stakes.costs import ImbalanceCost as ImbalanceCost
    from stakes.costs import NewsvendorCost as NewsvendorCost
    from stakes.costs import PowerCurve as PowerCurve
    from stakes.costs import ProtectionCost as ProtectionCost
    from stakes.costs import ShortfallCost as ShortfallCost
    from stakes.costs import WindDispatchCost as WindDispatchCost
    from stakes.costs import cost_function as cost_function
    from stakes.errors import StakesError as StakesError
    from stakes.forecaster import DecisionAwareForecaster as DecisionAwareForecaster
    from stakes.loss import DecisionAwareLoss as DecisionAwareLoss
    from stakes.models.diffusion import DiffusionModel as DiffusionModel
    from stakes.models.implicit import ImplicitModel as ImplicitModel
    from stakes.models.sample_model import SampleModel as SampleModel
    from stakes.models.sample_model import TrainingDraw as TrainingDraw
    from stakes.objective import DecisionAwareObjective as DecisionAwareObjective
    from stakes.objective import ObjectiveTerms as ObjectiveTerms
    from stakes.scores import DecisionScore as DecisionScore
    from stakes.scores import EnergyScore as EnergyScore
    from stakes.scores import ScoringRule as ScoringRule
    from stakes.scores import ThresholdWeightedCRPS as ThresholdWeightedCRPS
    from stakes.scores import VariogramScore as VariogramScore
    from stakes.scores import energy_score as energy_score
    from stakes.solvers import NewtonBisection as NewtonBisection
    from stakes.solvers import ProjectedGradient as ProjectedGradient
    from stakes.solvers import Solver as Solver

__version__ = "0.1.0"

_HOME = {
    "ActionSolution": "actions",
    "Cost": "costs",
    "CostCheck": "cost_check",
    "DecisionAwareForecaster": "forecaster",
    "DecisionAwareLoss": "loss",
    "DecisionAwareObjective": "objective",
    "DecisionScore": "scores",
    "DiffusionModel": "models.diffusion",
    "EnergyScore": "scores",
    "ImbalanceCost": "costs",
    "ImplicitModel": "models.implicit",
    "NewsvendorCost": "costs",
    "NewtonBisection": "solvers",
    "ObjectiveTerms": "objective",
    "PowerCurve": "costs",
    "ProjectedGradient": "solvers",
    "ProtectionCost": "costs",
    "SampleModel": "models.sample_model",
    "ScoringRule": "scores",
    "ShortfallCost": "costs",
    "Solver": "solvers",
    "StakesError": "errors",
    "ThresholdWeightedCRPS": "scores",
    "TrainingDraw": "models.sample_model",
    "VariogramScore": "scores",
    "WindDispatchCost": "costs",
    "check_cost": "cost_check",
    "cost_function": "costs",
    "energy_score": "scores",
    "optimal_action": "actions",
    "solve_action": "actions",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that `import stakes` does not import torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'stakes' has no attribute {name!r}")
    value = getattr(import_module(f"stakes.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
