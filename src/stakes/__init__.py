"""Forecasts that know what is at stake: train sample-based models with a proper score and with a decision's cost."""

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # every public name and the module that it lives in
    from stakes.actions.check_cost import CostCheck as CostCheck
    from stakes.actions.check_cost import ProgramCheck as ProgramCheck
    from stakes.actions.check_cost import check_cost as check_cost
    from stakes.actions.check_cost import check_program as check_program
    from stakes.actions.cvar import CVaRCost as CVaRCost
    from stakes.actions.scalar_solvers import NewtonBisection as NewtonBisection
    from stakes.actions.scalar_solvers import ProjectedGradient as ProjectedGradient
    from stakes.actions.scalar_solvers import Solver as Solver
    from stakes.actions.solve import optimal_action as optimal_action
    from stakes.actions.solve import solve_action as solve_action
    from stakes.artifacts.fits import load_bundle as load_bundle
    from stakes.artifacts.fits import save_bundle as save_bundle
    from stakes.artifacts.panels import load_panel as load_panel
    from stakes.artifacts.panels import save_panel as save_panel
    from stakes.costs.cost import ActionSolution as ActionSolution
    from stakes.costs.cost import Cost as Cost
    from stakes.costs.parameter_range import ParameterRange as ParameterRange
    from stakes.costs.scalar_costs import CostLossCost as CostLossCost
    from stakes.costs.scalar_costs import ImbalanceCost as ImbalanceCost
    from stakes.costs.scalar_costs import NewsvendorCost as NewsvendorCost
    from stakes.costs.scalar_costs import PowerCurve as PowerCurve
    from stakes.costs.scalar_costs import ProtectionCost as ProtectionCost
    from stakes.costs.scalar_costs import ShortfallCost as ShortfallCost
    from stakes.costs.scalar_costs import WindDispatchCost as WindDispatchCost
    from stakes.data.forecasts.quantiles import quantile_members as quantile_members
    from stakes.data.records import load_record as load_record
    from stakes.data.tables.layout import TableLayout as TableLayout
    from stakes.errors import StakesError as StakesError
    from stakes.evaluation.drift import watch_errors as watch_errors
    from stakes.evaluation.ensembles import compare as compare
    from stakes.evaluation.ensembles import evaluate as evaluate
    from stakes.evaluation.ensembles import evaluate_table as evaluate_table
    from stakes.evaluation.implied_cost import ImpliedCost as ImpliedCost
    from stakes.evaluation.implied_cost import implied_cost as implied_cost
    from stakes.evaluation.intervals import paired_difference as paired_difference
    from stakes.evaluation.regret import RegretAttribution as RegretAttribution
    from stakes.evaluation.regret import attribute_regret as attribute_regret
    from stakes.evaluation.selection import frontier as frontier
    from stakes.evaluation.value import ValueCurve as ValueCurve
    from stakes.evaluation.value import value_curve as value_curve
    from stakes.forecasting.array_decisions import decide_array as decide_array
    from stakes.forecasting.array_decisions import decide_table as decide_table
    from stakes.forecasting.corrections import Correction as Correction
    from stakes.forecasting.corrections import corrected_in_time as corrected_in_time
    from stakes.forecasting.corrections import rolling_forecasts as rolling_forecasts
    from stakes.forecasting.forecaster import DecisionAwareForecaster as DecisionAwareForecaster
    from stakes.forecasting.panel_forecaster import PanelForecaster as PanelForecaster
    from stakes.forecasting.panels import PanelSettings as PanelSettings
    from stakes.forecasting.recalibrator import Recalibrator as Recalibrator
    from stakes.forecasting.regressor import CostScorer as CostScorer
    from stakes.forecasting.regressor import DecisionRegressor as DecisionRegressor
    from stakes.forecasting.regressor import cost_scorer as cost_scorer
    from stakes.models.diffusion import DiffusionModel as DiffusionModel
    from stakes.models.implicit import ImplicitModel as ImplicitModel
    from stakes.models.linear import LinearModel as LinearModel
    from stakes.models.sample_model import SampleModel as SampleModel
    from stakes.models.sample_model import TrainingDraw as TrainingDraw
    from stakes.programs.convex_actions import cost_function as cost_function
    from stakes.programs.interior_point import InteriorPoint as InteriorPoint
    from stakes.programs.modelling import Program as Program
    from stakes.programs.modelling import Quantity as Quantity
    from stakes.programs.scenario_program import LimitPrices as LimitPrices
    from stakes.programs.scenario_program import ScenarioProgram as ScenarioProgram
    from stakes.programs.scenario_program import limit_prices as limit_prices
    from stakes.programs.schedules import AllocationCost as AllocationCost
    from stakes.programs.schedules import ScheduleCost as ScheduleCost
    from stakes.programs.storage import ArbitrageCost as ArbitrageCost
    from stakes.programs.storage import StorageCost as StorageCost
    from stakes.scores.decision_score import DecisionScore as DecisionScore
    from stakes.scores.member_reduction import ReducedMembers as ReducedMembers
    from stakes.scores.member_reduction import reduce_members as reduce_members
    from stakes.scores.objective import DecisionAwareLoss as DecisionAwareLoss
    from stakes.scores.objective import DecisionAwareObjective as DecisionAwareObjective
    from stakes.scores.objective import ObjectiveTerms as ObjectiveTerms
    from stakes.scores.scoring_rules import EnergyScore as EnergyScore
    from stakes.scores.scoring_rules import PointwiseCRPS as PointwiseCRPS
    from stakes.scores.scoring_rules import ScoreMixture as ScoreMixture
    from stakes.scores.scoring_rules import ScoringRule as ScoringRule
    from stakes.scores.scoring_rules import ThresholdWeightedCRPS as ThresholdWeightedCRPS
    from stakes.scores.scoring_rules import TotalCRPS as TotalCRPS
    from stakes.scores.scoring_rules import VariogramScore as VariogramScore
    from stakes.scores.scoring_rules import energy_score as energy_score
    from stakes.training.settings import DiffusionSettings as DiffusionSettings
    from stakes.training.settings import ImplicitSettings as ImplicitSettings
    from stakes.training.settings import LinearSettings as LinearSettings
    from stakes.training.settings import TrainingSettings as TrainingSettings

__version__ = "0.1.0"

_LINE = re.compile(r"^    from stakes\.(\S+) import (\w+) as \2$", re.MULTILINE)
_SOURCE = __spec__.loader.get_source(__name__)  # type: ignore[union-attr]
_modules, _names = zip(*_LINE.findall(_SOURCE), strict=True)
_HOME = dict(zip(_names, _modules, strict=True))  # what the lines above say, said once

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that `import stakes` does not import torch."""
    if name == "plots":
        return import_module("stakes.plots")
    if name not in _HOME:
        raise AttributeError(f"module 'stakes' has no attribute {name!r}")
    value = getattr(import_module(f"stakes.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
