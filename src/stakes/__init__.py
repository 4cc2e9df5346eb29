"""Forecasts that know what is at stake: train sample-based models with a proper score and with a decision's cost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see; a test holds it equal to _HOME
    from stakes.errors import StakesError as StakesError
    from stakes.evaluation.corrections import Correction as Correction
    from stakes.forecaster.estimator import DecisionAwareForecaster as DecisionAwareForecaster
    from stakes.method.actions import ActionSolution as ActionSolution
    from stakes.method.actions import optimal_action as optimal_action
    from stakes.method.actions import solve_action as solve_action
    from stakes.method.check_cost import CostCheck as CostCheck
    from stakes.method.check_cost import check_cost as check_cost
    from stakes.method.check_program import ProgramCheck as ProgramCheck
    from stakes.method.check_program import check_program as check_program
    from stakes.method.costs import Cost as Cost
    from stakes.method.decision_score import DecisionScore as DecisionScore
    from stakes.method.function_costs import cost_function as cost_function
    from stakes.method.interior_point import InteriorPoint as InteriorPoint
    from stakes.method.limit_prices import LimitPrices as LimitPrices
    from stakes.method.limit_prices import limit_prices as limit_prices
    from stakes.method.loss import DecisionAwareLoss as DecisionAwareLoss
    from stakes.method.models.diffusion import DiffusionModel as DiffusionModel
    from stakes.method.models.implicit import ImplicitModel as ImplicitModel
    from stakes.method.models.linear import LinearModel as LinearModel
    from stakes.method.models.sample_model import SampleModel as SampleModel
    from stakes.method.models.sample_model import TrainingDraw as TrainingDraw
    from stakes.method.named_costs import ImbalanceCost as ImbalanceCost
    from stakes.method.named_costs import NewsvendorCost as NewsvendorCost
    from stakes.method.named_costs import ProtectionCost as ProtectionCost
    from stakes.method.named_costs import ShortfallCost as ShortfallCost
    from stakes.method.named_costs import WindDispatchCost as WindDispatchCost
    from stakes.method.objective import DecisionAwareObjective as DecisionAwareObjective
    from stakes.method.objective import ObjectiveTerms as ObjectiveTerms
    from stakes.method.parameter_range import ParameterRange as ParameterRange
    from stakes.method.power_curve import PowerCurve as PowerCurve
    from stakes.method.program_quantities import Quantity as Quantity
    from stakes.method.program_words import Program as Program
    from stakes.method.programs import ScenarioProgram as ScenarioProgram
    from stakes.method.risk import CVaRCost as CVaRCost
    from stakes.method.schedules import AllocationCost as AllocationCost
    from stakes.method.schedules import ScheduleCost as ScheduleCost
    from stakes.method.score_mixture import ScoreMixture as ScoreMixture
    from stakes.method.scores import EnergyScore as EnergyScore
    from stakes.method.scores import PointwiseCRPS as PointwiseCRPS
    from stakes.method.scores import ScoringRule as ScoringRule
    from stakes.method.scores import ThresholdWeightedCRPS as ThresholdWeightedCRPS
    from stakes.method.scores import TotalCRPS as TotalCRPS
    from stakes.method.scores import VariogramScore as VariogramScore
    from stakes.method.scores import energy_score as energy_score
    from stakes.method.solvers import NewtonBisection as NewtonBisection
    from stakes.method.solvers import ProjectedGradient as ProjectedGradient
    from stakes.method.solvers import Solver as Solver
    from stakes.method.storage import ArbitrageCost as ArbitrageCost
    from stakes.method.storage import StorageCost as StorageCost
    from stakes.recalibrator.estimator import Recalibrator as Recalibrator

__version__ = "0.1.0"

_HOME = {
    "ActionSolution": "method.actions",
    "AllocationCost": "method.schedules",
    "ArbitrageCost": "method.storage",
    "CVaRCost": "method.risk",
    "Correction": "evaluation.corrections",
    "Cost": "method.costs",
    "CostCheck": "method.check_cost",
    "DecisionAwareForecaster": "forecaster.estimator",
    "DecisionAwareLoss": "method.loss",
    "DecisionAwareObjective": "method.objective",
    "DecisionScore": "method.decision_score",
    "DiffusionModel": "method.models.diffusion",
    "EnergyScore": "method.scores",
    "ImbalanceCost": "method.named_costs",
    "ImplicitModel": "method.models.implicit",
    "InteriorPoint": "method.interior_point",
    "LimitPrices": "method.limit_prices",
    "LinearModel": "method.models.linear",
    "NewsvendorCost": "method.named_costs",
    "NewtonBisection": "method.solvers",
    "ObjectiveTerms": "method.objective",
    "ParameterRange": "method.parameter_range",
    "PointwiseCRPS": "method.scores",
    "PowerCurve": "method.power_curve",
    "Program": "method.program_words",
    "ProgramCheck": "method.check_program",
    "ProjectedGradient": "method.solvers",
    "ProtectionCost": "method.named_costs",
    "Quantity": "method.program_quantities",
    "Recalibrator": "recalibrator.estimator",
    "SampleModel": "method.models.sample_model",
    "ScenarioProgram": "method.programs",
    "ScheduleCost": "method.schedules",
    "ScoreMixture": "method.score_mixture",
    "ScoringRule": "method.scores",
    "ShortfallCost": "method.named_costs",
    "Solver": "method.solvers",
    "StakesError": "errors",
    "StorageCost": "method.storage",
    "ThresholdWeightedCRPS": "method.scores",
    "TotalCRPS": "method.scores",
    "TrainingDraw": "method.models.sample_model",
    "VariogramScore": "method.scores",
    "WindDispatchCost": "method.named_costs",
    "check_cost": "method.check_cost",
    "check_program": "method.check_program",
    "cost_function": "method.function_costs",
    "energy_score": "method.scores",
    "limit_prices": "method.limit_prices",
    "optimal_action": "method.actions",
    "solve_action": "method.actions",
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
