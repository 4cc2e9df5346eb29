"""xarray in, xarray of decisions out."""

from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from refusals import refuses

import stakes
from stakes.data.forecasts.quantiles import quantile_members
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.forecasting.array_decisions import decide_array

COST = stakes.ImbalanceCost(4.0, 1.0, 0.0, 1.0)
VALUES = np.random.default_rng(0).random((3, 7, 2, 4))  # time, number, latitude, longitude
GRID = xr.DataArray(
    VALUES,
    {
        "time": np.arange("2020-01-01", "2020-01-04", dtype="datetime64[D]").astype("datetime64[ns]"),
        "latitude": [51, 50],
    },
    ("time", "number", "latitude", "longitude"),
)


@pytest.mark.parametrize("dimension", ["number", "sample", "draw"])
def test_a_decision_for_every_place_of_a_grid(dimension: str) -> None:
    array = GRID.rename(number=dimension)
    found = decide_array(array, COST, member="draw" if dimension == "draw" else None)
    assert found["action"].dims == ("time", "latitude", "longitude")
    assert found["quantile"].dims == ("time", "latitude", "longitude", "level")
    expected = stakes.solve_action(COST, torch.from_numpy(VALUES).movedim(1, -1)[..., None])
    np.testing.assert_allclose(found["action"], expected.action[..., 0])
    np.testing.assert_allclose(found["expected_cost"], expected.expected_cost)
    assert found["certified"].all()
    assert found["certified"].dtype == bool
    np.testing.assert_allclose(
        found["quantile"].sel(level=0.5), np.quantile(VALUES, 0.5, axis=1, method="hazen"), rtol=1e-12
    )
    assert found["latitude"].values.tolist() == [51, 50]
    assert found.attrs["missing_cases"] == 0


def test_several_sites_are_one_decision() -> None:
    found = decide_array(GRID.isel(latitude=0), COST, site="longitude", levels=())
    expected = stakes.optimal_action(COST, torch.from_numpy(VALUES[:, :, 0]))
    np.testing.assert_allclose(found["action"], expected[:, 0])
    assert set(found) == {"action", "expected_cost", "at_lower_bound", "at_upper_bound", "certified"}


def test_quantiles_along_a_dimension() -> None:
    quantiles = np.sort(np.random.default_rng(1).random((5, 3)), 1)
    array = xr.DataArray(quantiles[:, ::-1], {"quantile": [0.9, 0.5, 0.1]}, ("time", "quantile"))
    nine_to_one = stakes.NewsvendorCost(9.0, 1.0, 0.0, 1.0)
    found = decide_array(array, nine_to_one)
    assert found["action"].values.tolist() == quantiles[:, 2].tolist()
    assert found["quantile"].values.tolist() == quantiles.tolist()
    members, weights = map(torch.from_numpy, quantile_members((0.1, 0.5, 0.9), quantiles, "flat"))
    flat = stakes.optimal_action(COST, members[..., None], weights=weights)
    np.testing.assert_allclose(decide_array(array, COST, tails="flat")["action"], flat[:, 0])
    assert (
        decide_array(array, COST, bounds=(0.0, 1.0))["expected_cost"] < decide_array(array, COST)["expected_cost"]
    ).any()


def test_a_case_with_a_missing_value_has_no_decision() -> None:
    found = decide_array(GRID.where((GRID["time"] > GRID["time"][0]) | (GRID["latitude"] > 50)), COST)
    assert found.attrs["missing_cases"] == 4
    assert np.isnan(found["action"].values[0, 1]).all()
    assert not found["certified"].values[0, 1].any()
    assert found["certified"].values.sum() == 20


REFUSED: dict[str, tuple[xr.DataArray, dict[str, Any], type[Exception], str]] = {
    "no members": (GRID.rename(number="draw"), {}, ShapeError, "one dimension of members, such as 'number'"),
    "two": (GRID.rename(longitude="sample"), {}, ShapeError, "got number, sample"),
    "other name": (GRID, {"member": "draw"}, ShapeError, "must have the dimension 'draw'"),
    "no site": (GRID, {"site": "farm"}, ShapeError, "must have the dimension 'farm'"),
    "infinite": (GRID + np.inf, {}, NonFiniteError, "must be finite or missing"),
    "nothing": (GRID * np.nan, {}, ShapeError, "a case without missing values, got 24"),
    "no levels": (GRID.rename(number="quantile"), {}, ShapeError, "must have the levels of its quantiles"),
    "one side": (
        GRID.isel(number=[0, 1]).rename(number="quantile").assign_coords(quantile=[0.7, 0.8]),
        {},
        SettingError,
        "both sides of the median",
    ),
    "sites": (
        GRID.isel(number=[0, 1]).rename(number="quantile").assign_coords(quantile=[0.1, 0.8]),
        {"site": "longitude"},
        ShapeError,
        "decide --dependence",
    ),
}


@pytest.mark.parametrize(("array", "options", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_arrays_that_are_no_forecasts(
    array: xr.DataArray, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    refuses(error, message, decide_array, array, COST, **options)


def test_what_becomes_a_dataset_is_decided_for_like_its_variable() -> None:
    array = xr.DataArray(np.random.default_rng(0).uniform(size=(4, 20)), dims=("time", "number"), name="power")
    expected = decide_array(array, stakes.ShortfallCost(5.0))

    class Fields:
        def to_xarray(self) -> xr.Dataset:
            return array.to_dataset().assign(orography=("time", np.zeros(4)))

    for forecast in (Fields(), Fields().to_xarray()):
        xr.testing.assert_identical(decide_array(forecast, stakes.ShortfallCost(5.0)), expected)


def test_an_action_for_each_site() -> None:
    cost = stakes.AllocationCost(3.0, 1.0, budget=1.5)
    found = decide_array(GRID.isel(longitude=0).assign_coords(latitude=[51, 50]), cost, (0.5,), site="latitude")
    assert found["action"].dims == ("time", "latitude")
    assert found["latitude"].values.tolist() == [51, 50]
    expected = stakes.solve_action(cost, torch.from_numpy(VALUES[..., 0]))
    np.testing.assert_allclose(found["action"], expected.action)
    np.testing.assert_allclose(found["gap"], expected.gap)
    assert found["quantile"].dims == ("time", "latitude", "level")
    battery = decide_array(GRID.isel(longitude=0), stakes.ArbitrageCost(power=1.0, energy=1.0), (), site="latitude")
    assert battery["action"].dims == ("time", "part")
    assert battery["action"].shape == (3, 4)
    two = stakes.Program(
        decide={"cheap": stakes.Quantity(cost=1, upper=1, each=False), "dear": stakes.Quantity(cost=2, each=False)},
        recourse={"missing": stakes.Quantity(cost=9)},
        recourse_constraints={"demand": "cheap + dear + missing >= outcome"},
    )
    assert decide_array(GRID.isel(longitude=0), two, (), site="latitude")["action"].dims == ("time", "part")


def test_quantiles_of_each_site_suffice_where_each_pays_by_itself() -> None:
    levels = xr.DataArray(
        np.array([[[1.0, 10.0], [2.0, 20.0]]]), {"quantile": [0.1, 0.9]}, dims=("time", "quantile", "site")
    )
    found = decide_array(levels, stakes.AllocationCost(9.0, 1.0, budget=100.0), (), site="site", tails="flat")
    assert found["action"].values.tolist() == [[2.0, 20.0]]
