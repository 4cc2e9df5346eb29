"""The accessor `stakes` of xarray's DataArrays, there once this module is imported.

import stakes.integrations.xarray
members.stakes.decide(cost)
"""

from typing import Any

import xarray as xr

from stakes.costs.cost import Cost
from stakes.evaluation.ensembles import evaluate
from stakes.forecasting.array_decisions import decide_array


@xr.register_dataarray_accessor("stakes")
class MembersAccessor:
    """Decisions from an ensemble, and what they were worth."""

    def __init__(self, members: xr.DataArray) -> None:
        self._members = members

    def decide(self, cost: Cost, *args: Any, **named: Any) -> xr.Dataset:
        """The action of least expected cost for every case, as `stakes.decide_array`."""
        return decide_array(self._members, cost, *args, **named)

    def evaluate(self, outcome: xr.DataArray, cost: Cost, *args: Any, **named: Any) -> xr.Dataset:
        """All metrics case by case, as `stakes.evaluate`."""
        return evaluate(self._members, outcome, cost, *args, **named)
