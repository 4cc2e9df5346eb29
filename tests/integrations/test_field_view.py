"""What a decision sees of a field: points, areas, wind speeds and units, on one process or several."""

import math

import pytest
import torch
from refusals import refuses
from torch import Tensor

from stakes.errors import SettingError, ShapeError
from stakes.integrations.field_view import field_view, seen_variables

GRID = 12
PARTS = (slice(0, 5), slice(5, 6), slice(6, GRID))
UNITS = {"means": [1.0, -2.0], "scales": [4.0, 5.0], "variables": ["10u", "10v"]}


def field(variables: int = 2) -> Tensor:
    return torch.randn(3, 2, 4, GRID, variables, generator=torch.Generator().manual_seed(0))


def nodes() -> dict[str, Tensor]:
    """Four longitudes on three latitudes, across the date line, with an attribute."""
    latitude, longitude = torch.tensor([60.0, 50.0, 40.0]), torch.tensor([170.0, 178.0, -178.0, -170.0])
    degrees = torch.stack(torch.meshgrid(latitude, longitude, indexing="ij"), -1).reshape(-1, 2)
    radians = degrees * math.pi / 180
    return {"x": radians, "area_weight": torch.cos(radians[:, :1])}


def test_wind_speed_at_points_in_physical_units() -> None:
    values = field()
    seen = field_view(points=[7, 0, 3], **UNITS)(values)
    u, v = 4 * values[..., 0] + 1, 5 * values[..., 1] - 2
    torch.testing.assert_close(seen, torch.hypot(u, v)[..., [7, 0, 3]])


def test_a_weighted_mean_of_one_variable() -> None:
    values = field(1)
    view = field_view(points=[2, 4], weights=[3, 1], means=[280.0], scales=[10.0], variables=["2t"])
    expected = 280 + 10 * (0.75 * values[..., 2, 0] + 0.25 * values[..., 4, 0])
    torch.testing.assert_close(view(values), expected[..., None])


@pytest.mark.parametrize(
    ("area", "points"),
    [
        ([60, 175, 50, -175], [1, 2, 5, 6]),
        ([90, 0, 55, 360], [0, 1, 2, 3]),
        ([45, 168, 30, 179], [8, 9]),
        ([50, 190, 50, 195], [7]),
    ],
)
def test_an_area_has_the_points_inside_and_on_its_edges(area: list[float], points: list[int]) -> None:
    assert field_view(area=area, nodes=nodes(), **UNITS).points.tolist() == points


def test_weights_may_be_an_attribute_of_the_nodes() -> None:
    view = field_view(area=[60, 170, 40, 170], weights="area_weight", nodes=nodes(), **UNITS)
    expected = torch.tensor([60.0, 50.0, 40.0]).mul(math.pi / 180).cos()
    torch.testing.assert_close(view.weights, expected / expected.sum())


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0]])
def test_parts_of_a_grid_add_up_to_the_whole(weights: list[float] | None) -> None:
    values = field().requires_grad_()
    view = field_view(points=[11, 0, 3], weights=weights, **UNITS)
    whole = view(values)
    parts = sum(view(values[..., part, :], part) for part in PARTS)
    torch.testing.assert_close(parts, whole)
    gradients = [torch.autograd.grad(seen.square().sum(), values)[0] for seen in (whole, parts)]
    torch.testing.assert_close(*gradients)


def test_half_precision_and_autocast_are_left_outside() -> None:
    values = field()
    view = field_view(points=[1, 2], weights=[1, 1], **UNITS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        seen = view(values)
    assert seen.dtype == torch.float32
    torch.testing.assert_close(seen, view(values), rtol=0, atol=0)
    torch.testing.assert_close(view(values.half()), view(values.half().float()), rtol=0, atol=0)


def test_no_wind_has_no_gradient_and_no_nan() -> None:
    calm = torch.zeros(1, GRID, 2, requires_grad=True)
    view = field_view(points=[0], means=[0, 0], scales=[1, 1], variables=["u", "v"])
    (gradient,) = torch.autograd.grad(view(calm).sum(), calm)
    assert torch.equal(gradient, torch.zeros_like(calm))


def test_variables_by_name() -> None:
    assert seen_variables("2t", None) == ["2t"]
    assert seen_variables(None, ["10u", "10v"]) == ["10u", "10v"]
    for variable, components in ((None, None), ("2t", ["10u", "10v"])):
        refuses(SettingError, "variable", seen_variables, variable, components)
    for wrong in (["10u"], ["10u", "10u"], "uv"):
        refuses(SettingError, "components", seen_variables, None, wrong)


WRONG: list[tuple[str, dict[str, object]]] = [
    ("points: ", {}),
    ("points: ", {"points": [1], "area": [1, 0, 0, 1]}),
    *(("points", {"points": points, "nodes": nodes()}) for points in ([1, 1], [0.5], [], [12])),
    *(("area", {"area": area, "nodes": nodes()}) for area in ([40, 0, 50, 1], [3, 0, 2, 1])),
    ("area", {"area": [60, 0, 50, 1]}),
    *(("weights", {"points": [1, 2], "weights": weights}) for weights in ([1, 2, 3], [1, -1])),
    ("'area_weight'", {"points": [1], "weights": "area_weigth", "nodes": nodes()}),
    ("10u, 10v", {"points": [1], "means": [1.0]}),
    *(("scales", {"points": [1], "scales": scales}) for scales in ([1.0, 0.0], 3.0)),
]


@pytest.mark.parametrize(("told", "settings"), WRONG)
def test_wrong_settings_are_told_in_one_sentence(told: str, settings: dict[str, object]) -> None:
    refuses(SettingError, told, field_view, **{**UNITS, **settings})


def test_points_beyond_the_grid_are_told() -> None:
    refuses(ShapeError, "points", field_view(points=[12], **UNITS), field())
