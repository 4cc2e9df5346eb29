"""A field model trained point by point and fine-tuned with the decision on an area, by the losses of anemoi-training.

    python -m benchmarks.field_model --data wind_era5_hornsrev_hourly_1997_2008.nc [--seeds 10] [--json FILE]

Needs the environment of `make plugin-anemoi`. The grid is ERA5 off Horns Rev, 2 x 2 points, u and v at 10 m and 100 m
every six hours; the forecast is u and v at 100 m a day later. A network is shared by all points; every member draws
noise for the whole field and noise for every point by itself, and the CRPS of each point does not mind which of them it
uses. It is trained so (anemoi's `CRPS`, 1997 to 2004), and then a quarter as long again in several ways: by the same
loss, with the decision or the CRPS of the area in anemoi's `CombinedLoss`. The decision commits the mean power of the
four points (`wind_dispatch`). The weight of each way is that of the lowest cost in 2005 and 2006; the figures are of
2007 and 2008, with paired 95 % intervals over blocks of five days and seeds. "reordered" is the model as it was
trained, its members put together by the ranks of its errors in 2005 and 2006, without any further training.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stakes.actions.solve import optimal_action
from stakes.cost_spec.spec import CostSpec
from stakes.evaluation.intervals import paired_difference
from stakes.evaluation.metrics import decision_terms
from stakes.forecasting.copula import error_ranks, reordered
from stakes.scores.scoring_rules import PointwiseCRPS

COST = "wind_dispatch:penalty=20"
INPUTS, FORECAST = ("u10", "v10", "u100", "v100"), ("u100", "v100")
STEP, LEAD, LAGS = 6, 24, (0, 6, 12)  # hours
YEARS = {"train": (1997, 2004), "validation": (2005, 2006), "test": (2007, 2008)}
BLOCK = 20  # cases, five days
MEMBERS, JUDGED, BATCH, HIDDEN, NOISE = 6, 40, 256, 32, 4
TRAINING, FINE_TUNING = 12, 3  # epochs
WEIGHTS = (0.1, 0.3)
LAYOUTS = {"pred_layout": "model_output", "target_layout": "data_full"}


class FieldModel(nn.Module):
    """Members of the field from features of the whole grid, S models side by side, one for each seed."""

    def __init__(self, seeds: int, features: int, points: int) -> None:
        super().__init__()
        self.points = points
        sizes = {"case": (features, HIDDEN), "place": (points, HIDDEN), "noise": (2 * NOISE, HIDDEN)}
        sizes |= {"middle": (HIDDEN, HIDDEN), "last": (HIDDEN, len(FORECAST))}
        self.weights = nn.ParameterDict(
            {name: torch.stack([_start(seed, *size) for seed in range(seeds)]) for name, size in sizes.items()}
        )
        self.bias = nn.Parameter(torch.zeros(seeds, 1, HIDDEN))

    def forward(self, features: Tensor, members: int, generator: torch.Generator) -> Tensor:
        """Features (B, F) to members (S, B, M, points, variables)."""
        weights, seeds = self.weights, len(self.bias)
        shape = (seeds, len(features), members, self.points)
        common = torch.randn(*shape[:3], 1, NOISE, generator=generator).expand(*shape, NOISE)
        noise = torch.cat([common, torch.randn(*shape, NOISE, generator=generator)], -1)
        case = torch.baddbmm(self.bias, features.expand(seeds, -1, -1), weights["case"])[:, :, None, None]
        hidden = (
            (noise.flatten(1, 3) @ weights["noise"]).reshape(*shape, HIDDEN) + case + weights["place"][:, None, None]
        )
        hidden = nn.functional.relu(hidden).flatten(1, 3) @ weights["middle"]
        return (nn.functional.relu(hidden) @ weights["last"]).reshape(*shape, len(FORECAST))


def _start(seed: int, rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * (2 / rows) ** 0.5


class Field:
    """The grid as cases: features, normalised targets, and which cases belong to which years."""

    def __init__(self, path: Path) -> None:
        import xarray as xr

        data = xr.open_dataset(path)
        values = np.stack([data[name].values.reshape(len(data.time), -1) for name in INPUTS], -1).astype(np.float32)
        starts = np.arange(max(LAGS), len(values) - LEAD, STEP)
        years = data.time.dt.year.values[starts + LEAD]
        self.rows = {name: np.flatnonzero((years >= low) & (years <= high)) for name, (low, high) in YEARS.items()}
        train = values[starts[self.rows["train"]]]
        self.means, self.scales = train.mean((0, 1)), train.std((0, 1))
        normal = (values - self.means) / self.scales
        lagged = np.concatenate([normal[starts - lag].reshape(len(starts), -1) for lag in LAGS], -1)
        hour = 2 * np.pi * data.time.dt.hour.values[starts] / 24
        season = 2 * np.pi * data.time.dt.dayofyear.values[starts] / 365.25
        clock = np.stack([f(angle) for angle in (hour, season) for f in (np.sin, np.cos)], -1)
        self.features = torch.from_numpy(np.concatenate([lagged, clock], -1).astype(np.float32))
        chosen = [INPUTS.index(name) for name in FORECAST]
        self.means, self.scales = self.means[chosen], self.scales[chosen]
        self.target = torch.from_numpy(normal[starts + LEAD][..., chosen])  # (N, points, variables)
        self.points = self.target.shape[1]

    def speed(self, values: Tensor) -> Tensor:
        """Normalised components (..., points, variables) to speeds (..., points)."""
        return torch.linalg.vector_norm(values * torch.tensor(self.scales) + torch.tensor(self.means), dim=-1)


def loss_of(way: str, weight: float, field: Field, sizes: dict[str, float] | None = None) -> Any:
    """A loss as anemoi's factory makes it: the CRPS of the points, and beside it the second term of this way."""
    from anemoi.models.data_indices.collection import IndexCollection
    from anemoi.training.losses import get_loss_function
    from omegaconf import OmegaConf

    indices = IndexCollection(
        OmegaConf.create({"forcing": [], "diagnostic": [], "target": []}), {n: i for i, n in enumerate(FORECAST)}
    )
    scalers = {"node_weights": (3, torch.full((field.points,), 1 / field.points))}
    first = {"_target_": "anemoi.training.losses.CRPS", "scalers": ["node_weights"], "alpha": 0.95, "backend": "naive"}
    seen = {"components": list(FORECAST), "means": field.means.tolist(), "scales": field.scales.tolist(), "scalers": []}
    seen |= {"points": list(range(field.points))}
    others = {
        "decision": {"_target_": "stakes.integrations.anemoi.DecisionLoss", "cost": COST, **seen},
        "area": {"_target_": "stakes.integrations.anemoi.AggregateCRPS", **seen},
    }
    if way in ("points", *others) and sizes is None:
        return get_loss_function(OmegaConf.create({"points": first, **others}[way]), scalers, indices)
    assert sizes is not None
    combined = {"_target_": "anemoi.training.losses.combined.CombinedLoss", "losses": [first, others[way]]}
    combined["loss_weights"] = [(1 - weight) / sizes["points"], weight / sizes[way]]
    return get_loss_function(OmegaConf.create(combined), scalers, indices)


def train(model: FieldModel, field: Field, loss: Any, epochs: int, rate: float) -> None:
    """Adam with a falling rate; all seeds see the same batches, and noise of their own."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.from_numpy(field.rows["train"])
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    steps = epochs * (len(rows) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    seeds = len(model.bias)
    for _ in range(epochs):
        for batch in rows[torch.randperm(len(rows), generator=generator)].split(BATCH)[: len(rows) // BATCH]:
            pred = model(field.features[batch], MEMBERS, generator).flatten(0, 1)[:, None]
            target = field.target[batch].expand(seeds, -1, -1, -1).flatten(0, 1)[:, None, None]
            value = loss(pred, target, **LAYOUTS) * seeds  # the mean of all seeds: each has its own gradient
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            schedule.step()


@torch.no_grad()
def members_of(model: FieldModel, field: Field, part: str) -> tuple[Tensor, Tensor]:
    """Speeds (S, N, JUDGED, points) and what happened, (N, points)."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.from_numpy(field.rows[part])
    parts = [field.speed(model(field.features[some], JUDGED, generator)) for some in rows.split(256)]
    return torch.cat(parts, 1), field.speed(field.target[rows])


def judged(members: Tensor, outcome: Tensor) -> dict[str, Tensor]:
    """What every case of every seed cost, and how good the forecast was, (S, N)."""
    outcomes = outcome.expand(len(members), -1, -1)
    terms = decision_terms(CostSpec.parse(COST).build(), members, outcomes)
    return {**terms._asdict(), "gap": terms.expected_cost - terms.cost, "crps": PointwiseCRPS()(members, outcomes)}


def row(name: str, metrics: dict[str, Tensor], base: dict[str, Tensor], weight: float | None) -> dict[str, Any]:
    """One line of the table, against the model that was trained on by the points alone."""
    changes = {f"{key}_change": list(paired_difference(metrics[key], base[key], BLOCK)) for key in ("cost", "crps")}
    means = {key: float(metrics[key].mean()) for key in ("cost", "gap", "crps")}
    ratio = (1 + 1 / JUDGED) * metrics["variance"].mean() / metrics["squared_error"].mean()
    return {"way": name, "weight": weight, **means, "spread_skill": float(ratio.sqrt()), **changes}


def foresight(field: Field) -> float:
    """The mean cost in the test years of the best action for what happened."""
    cost, outcome = CostSpec.parse(COST).build(), field.speed(field.target[torch.from_numpy(field.rows["test"])])
    return float(cost(optimal_action(cost, outcome[:, None]), outcome).mean())


def measure(path: Path, seeds: int) -> tuple[float, list[dict[str, Any]]]:
    """The cost of perfect foresight, and every way on the test years, its weight chosen on the validation years."""
    field = Field(path)
    trained = FieldModel(seeds, field.features.shape[1], field.points)
    train(trained, field, loss_of("points", 0.0, field), TRAINING, rate=3e-3)
    start = {name: values.clone() for name, values in trained.state_dict().items()}
    with torch.no_grad():
        some = torch.from_numpy(field.rows["train"][::8])
        pred = trained(field.features[some], MEMBERS, torch.Generator().manual_seed(2))[0][:, None]
        known = field.target[some][:, None, None]
        sizes = {
            way: abs(float(loss_of(way, 0.0, field)(pred, known, **LAYOUTS))) for way in ("points", "decision", "area")
        }

    def finetuned(loss: Any) -> tuple[float, dict[str, Tensor]]:
        model = FieldModel(seeds, field.features.shape[1], field.points)
        model.load_state_dict(start)
        train(model, field, loss, FINE_TUNING, rate=1e-3)
        paid = judged(*members_of(model, field, "validation"))["cost"]
        return float(paid.mean()), judged(*members_of(model, field, "test"))

    _, base = finetuned(loss_of("points", 0.0, field))
    rows = [row("points", base, base, None)]
    for way in ("decision", "area"):
        tried = {weight: finetuned(loss_of(way, weight, field, sizes)) for weight in WEIGHTS}
        best = min(WEIGHTS, key=lambda weight: tried[weight][0])
        rows += [row(way, tried[best][1], base, best)]
        rows += [row(f"{way}, every weight", tried[weight][1], base, weight) for weight in WEIGHTS]
    members, outcome = (values.double().numpy() for values in members_of(trained, field, "test"))
    past, known = (values.double().numpy() for values in members_of(trained, field, "validation"))
    joined = np.stack([reordered(new, error_ranks(old, known)) for new, old in zip(members, past, strict=True)])
    rows.append(row("reordered", judged(torch.from_numpy(joined), torch.from_numpy(outcome)), base, None))
    rows.append(row("as trained", judged(torch.from_numpy(members), torch.from_numpy(outcome)), base, None))
    return foresight(field), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    best, rows = measure(options.data, options.seeds)
    print(f"perfect foresight {best:.4f}")
    for each in rows:
        low, high = each["cost_change"][1:]
        print(
            f"{each['way']:24} {each['weight'] or '':>5} cost {each['cost']:.4f} {each['cost_change'][0]:+.4f} "
            f"[{low:+.4f}, {high:+.4f}] CRPS {each['crps']:.3f} "
            f"gap {each['gap']:+.4f} spread {each['spread_skill']:.2f}"
        )
    if options.json:
        options.json.write_text(
            json.dumps({"cost": COST, "seeds": options.seeds, "foresight": best, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
