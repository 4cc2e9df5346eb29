"""Metric and losses in anemoi-training itself: made by its factory, in its `CombinedLoss`, on a grid in parts."""

import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor, multiprocessing, nn
from torch import distributed as processes

import stakes
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.evaluation.metrics import decision_terms

pytestmark = [pytest.mark.plugins, pytest.mark.filterwarnings("ignore")]

PLUGIN = "stakes.integrations.anemoi"
VARIABLES = ("2t", "10u", "lsm", "10v")  # of which lsm is given and not forecast
MEANS, SCALES = {"2t": 280.0, "10u": 1.0, "10v": -0.5}, {"2t": 10.0, "10u": 4.0, "10v": 5.0}
GRID, MEMBERS = 6, 8
WIND = {"components": ["10u", "10v"], "means": [1.0, -0.5], "scales": [4.0, 5.0]}
AREA = {"points": [1, 2, 4], "weights": [1.0, 1.0, 2.0]}
COST = "imbalance:short=10,long=1,upper=40"
LAYOUTS = {"pred_layout": "model_output", "target_layout": "data_full"}
CRPS = {"_target_": "anemoi.training.losses.CRPS", "scalers": ["node_weights"], "alpha": 0.95}


def made(name: str, *, with_graph: bool = False, **settings: Any) -> Any:
    """A loss as anemoi's factory makes it of a configuration."""
    return factory({"_target_": f"{PLUGIN}.{name}", "scalers": [], **settings}, with_graph)


def factory(settings: dict[str, Any], with_graph: bool = False, names: tuple[str, ...] = VARIABLES) -> Any:
    from anemoi.models.data_indices.collection import IndexCollection
    from anemoi.training.losses import get_loss_function
    from omegaconf import OmegaConf
    from torch_geometric.data import HeteroData

    indices = IndexCollection(
        OmegaConf.create({"forcing": ["lsm"], "diagnostic": [], "target": []}),
        {name: place for place, name in enumerate(names)},
    )
    graph = HeteroData()
    graph["data"].x = torch.deg2rad(torch.tensor([[lat, lon] for lat in (55.0, 54.0) for lon in (6.0, 7.0, 8.0)]))
    graph["data"].area_weight = torch.linspace(1, 2, GRID)[:, None]
    node_weights = {"node_weights": (3, torch.full((GRID,), 1 / GRID))}
    given = {"graph_data": graph, "data_node_name": "data"} if with_graph else {}
    return get_loss_function(OmegaConf.create(settings), node_weights, indices, **given)


def test_the_settings_of_the_page_are_taken() -> None:
    """Every loss and metric of ours on docs/guides/anemoi.md, on the grid of this test."""
    import yaml

    page = (Path(__file__).parents[2] / "docs" / "guides" / "anemoi.md").read_text()
    (metrics, losses) = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    metric = metrics["training"]["validation_metrics"]["datasets"]["data"]["decision_cost"]
    assert factory({**metric, "area": [56, 5, 54, 7.5]}, True, ("100u", "100v", "lsm")).view.points.tolist() == [
        0,
        1,
        3,
        4,
    ]
    combined = losses["training_loss"]["datasets"]["data"]
    for loss in combined["losses"]:
        loss["scalers"] = [name for name in loss["scalers"] if name == "node_weights"]
    combined["losses"][1]["points"] = [0, 1]
    assert len(list(factory(combined, True, ("100u", "100v", "lsm")).iter_leaf_losses())) == 2


def batch() -> tuple[Tensor, Tensor]:
    """Normalised predictions of three variables and targets of four."""
    generator = torch.Generator().manual_seed(0)
    pred = torch.randn(5, 2, MEMBERS, GRID, 3, generator=generator)
    return pred, torch.randn(5, 2, 1, GRID, 4, generator=generator)


def wind(values: Tensor, u: int, v: int) -> Tensor:
    return torch.hypot(4 * values[..., u] + 1, 5 * values[..., v] - 0.5)


def area_wind(pred: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The mean wind of the area by hand: members (batch, time, M, 1) and outcome (batch, time, 1)."""
    shares = torch.tensor([0.25, 0.25, 0.5])
    members, outcome = (speed[..., [1, 2, 4]] @ shares for speed in (wind(pred, 1, 2), wind(target, 1, 3)))
    return members[..., None], outcome


def cost() -> stakes.Cost:
    return stakes.ImbalanceCost(short=10.0, long=1.0, lower=0.0, upper=40.0)


def physical(values: Tensor, names: tuple[str, ...]) -> Tensor:
    scale = torch.tensor([SCALES.get(name, 1.0) for name in names])
    return values * scale + torch.tensor([MEANS.get(name, 0.0) for name in names])


@pytest.mark.parametrize("quantity", ["cost", "expected_cost", "squared_error", "variance", "gap"])
def test_the_metric_is_the_evaluation_of_the_area(quantity: str) -> None:
    pred, target = batch()
    metric = made("DecisionMetric", cost=COST, quantity=quantity, components=["10u", "10v"], **AREA)
    terms = decision_terms(cost(), *area_wind(pred, target))
    expected = terms.expected_cost - terms.cost if quantity == "gap" else getattr(terms, quantity)
    both = physical(pred, ("2t", "10u", "10v")), physical(target, VARIABLES)
    torch.testing.assert_close(metric(*both, **LAYOUTS), expected.mean())
    torch.testing.assert_close(metric(*both, **LAYOUTS, scaler_indices=(..., torch.arange(3))), expected.mean())
    assert metric(*both, **LAYOUTS, scaler_indices=(..., torch.tensor([0, 1]))).isnan()  # 10v is not among them
    assert metric.name == f"decision_{quantity}"


def test_a_decision_about_points_sees_each_of_them() -> None:
    pred, target = batch()
    loss = made("DecisionLoss", cost="wind_dispatch:penalty=5", points=[5, 0], **WIND)
    members, outcome = wind(pred, 1, 2)[..., [5, 0]], wind(target, 1, 3)[:, :, 0][..., [5, 0]]
    expected = stakes.DecisionScore(stakes.WindDispatchCost(5.0))(members, outcome).mean()
    torch.testing.assert_close(loss(pred, target, **LAYOUTS), expected)


def test_one_variable_in_an_area_of_the_graph() -> None:
    pred, target = batch()
    field = {"variable": "2t", "area": [55, 6.5, 54.5, 9], "weights": "area_weight"}
    loss = made("AggregateCRPS", with_graph=True, **field, means=[280.0], scales=[10.0], alpha=1.0)
    shares = torch.linspace(1, 2, GRID)[[1, 2]]
    members, outcome = ((280 + 10 * values[..., [1, 2], 0]) @ (shares / shares.sum()) for values in (pred, target))
    expected = stakes.energy_score(members[..., None], outcome, "fair").mean()
    torch.testing.assert_close(loss(pred, target, **LAYOUTS), expected)


def combined(weights: tuple[float, float, float] = (1.0, 0.1, 0.2)) -> Any:
    parts = [
        CRPS,
        {"_target_": f"{PLUGIN}.DecisionLoss", "cost": COST, "scalers": [], **WIND, **AREA},
        {"_target_": f"{PLUGIN}.AggregateCRPS", "scalers": [], **WIND, **AREA},
    ]
    settings = {"_target_": "anemoi.training.losses.combined.CombinedLoss", "losses": parts}
    return factory({**settings, "loss_weights": list(weights)})


def test_the_combined_loss_is_the_sum_of_its_parts() -> None:
    pred, target = batch()
    members, outcome = area_wind(pred, target)
    alone = stakes.PointwiseCRPS("almost_fair", 0.95)
    known = target[:, :, 0][..., [0, 1, 3]]
    # anemoi sums over the output times, and over the points as the weights of the nodes have it
    pointwise = 2 * alone(pred.flatten(-2), known.flatten(-2)).mean()
    decision = stakes.DecisionScore(cost())(members, outcome).mean()
    aggregate = stakes.energy_score(members, outcome, "almost_fair", 0.95).mean()
    expected = pointwise + 0.1 * decision + 0.2 * aggregate
    torch.testing.assert_close(combined()(pred, target, **LAYOUTS), expected)


def test_what_anemoi_looks_for_in_a_loss_is_there() -> None:
    """Before it trains, it tells the scaling of variables, and asks for units, scalers and sharding."""
    from anemoi.training.losses.utils import check_loss_tree_variable_units, print_variable_scaling
    from anemoi.training.utils.enums import TensorDim

    loss = combined()
    scaling = print_variable_scaling(loss, loss.losses[0].data_indices)
    assert scaling["DecisionLoss"]["10u"] == 1.0
    check_loss_tree_variable_units(loss, None)
    loss.update_scaler("node_weights", torch.full((GRID,), 2 / GRID), override=True)
    assert not loss.losses[1].has_scaler_for_dim(TensorDim.VARIABLE)
    assert all(leaf.supports_sharding for leaf in loss.iter_leaf_losses())


def test_training_steps_with_the_combined_loss_lower_it() -> None:
    """A model of the field that adds noise at every point, by itself: what a score of the points does not mind."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.noise = nn.Linear(4, 3), nn.Linear(2, 3)

        def forward(self, inputs: Tensor, noise: Tensor) -> Tensor:
            return self.mean(inputs) + self.noise(noise)

    torch.manual_seed(0)
    model, loss = Model(), combined()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        inputs = torch.randn(16, 1, 1, GRID, 4)
        target = 0.5 * inputs + 0.3 * torch.randn(16, 1, 1, 1, 4)  # errors that all points share
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model(inputs, torch.randn(16, 1, MEMBERS, GRID, 2))
            value = loss(pred, target, **LAYOUTS)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(float(value))
    assert value.dtype == torch.float32
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])


def test_without_squash_the_number_stands_at_its_variables() -> None:
    pred, target = batch()
    loss = made("DecisionLoss", cost=COST, **WIND, **AREA)
    value = loss(pred, target, **LAYOUTS)
    torch.testing.assert_close(loss(pred, target, squash=False, **LAYOUTS), torch.stack([0 * value, value, value]))


def test_cases_with_missing_values_can_be_left_out() -> None:
    pred, target = batch()
    gone = target.clone()
    gone[3, 1, 0, 2, 3] = torch.nan
    refuses(NonFiniteError, "outcome", made("DecisionLoss", cost=COST, **WIND, **AREA), pred, gone, **LAYOUTS)
    loss = made("DecisionLoss", cost=COST, **WIND, **AREA, ignore_nans=True)
    each = stakes.DecisionScore(cost())(*area_wind(pred, target))
    torch.testing.assert_close(loss(pred, gone, **LAYOUTS), (each.sum() - each[3, 1]) / 9)
    assert loss(pred, torch.full_like(target, torch.nan), **LAYOUTS) == 0.0


def test_a_checkpoint_of_another_loss_fits() -> None:
    assert set(combined().state_dict()) == set(factory(CRPS).state_dict()) == set()


def be_one_of_two(rank: int, folder: Path) -> None:
    if "lo" in {name for _, name in socket.if_nameindex()}:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    processes.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    pred, target = batch()
    part = (slice(0, 2), slice(2, GRID))[rank]
    here = pred[..., part, :].clone().requires_grad_()
    loss = combined()
    value = loss(here, target[..., part, :], grid_shard_slice=part, group=processes.group.WORLD, **LAYOUTS)
    value.backward()
    torch.save((value.detach(), here.grad), folder / f"process {rank}")
    processes.destroy_process_group()


def test_two_processes_that_share_the_grid_have_loss_and_gradient_of_one(tmp_path: Path) -> None:
    pred, target = batch()
    pred.requires_grad_()
    value = combined()(pred, target, **LAYOUTS)
    value.backward()
    multiprocessing.spawn(be_one_of_two, (tmp_path,), nprocs=2)
    values, gradients = zip(*(torch.load(tmp_path / f"process {rank}") for rank in range(2)), strict=True)
    torch.testing.assert_close(values, (value.detach(),) * 2)
    torch.testing.assert_close(torch.cat(gradients, 3), pred.grad)


WRONG = {
    "DecisionLoss needs means and scales of 10u and 10v": {"components": ["10u", "10v"]},
    "the model has no output 'lsm'": {"variable": "lsm", "means": [0.0], "scales": [1.0]},
    "the model has no output '10U'; did you mean '10u'": {**WIND, "components": ["10U", "10v"]},
    "DecisionLoss takes no scalers, got 'node_weights'": {**WIND, "scalers": ["node_weights"]},
    "DecisionLoss has no setting 'weight'; did you mean 'weights'": {**WIND, "weight": [1.0]},
    "there is no cost 'imbalanced'": {**WIND, "cost": "imbalanced:short=1"},
}


@pytest.mark.parametrize("told", WRONG)
def test_wrong_settings_are_told_in_one_sentence(told: str) -> None:
    with pytest.raises(Exception, match=told) as error:  # which the factory passes on as an error of its own
        made("DecisionLoss", **{"cost": COST, **AREA, **WRONG[told]})
    assert isinstance(error.value, stakes.StakesError) or isinstance(error.value.__cause__, stakes.StakesError)


def test_wrong_use_is_told_in_one_sentence() -> None:
    pred, target = batch()
    loss = made("DecisionLoss", cost=COST, **WIND, **AREA)
    refuses(ShapeError, r"\(batch, time, ensemble, grid, variable\) with", loss, pred.movedim(2, 1), target, **LAYOUTS)
    refuses(SettingError, "training loss of", loss, pred, target, **LAYOUTS, scaler_indices=(..., torch.arange(3)))
    refuses(SettingError, "pred_layout", loss, pred, target)
