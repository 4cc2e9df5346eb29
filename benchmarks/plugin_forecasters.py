"""What a joint head, its score and a decision term are worth to models of neuralforecast and Darts, on European wind.

    build/plugins/neuralforecast/bin/python -m benchmarks.plugin_forecasters train TSMixerx --tables FOLDER --seeds 0:10
    build/plugins/neuralforecast/bin/python -m benchmarks.plugin_forecasters train NHITS --tables FOLDER --seeds 0:10
    build/plugins/darts/bin/python -m benchmarks.plugin_forecasters train TiDE --tables FOLDER --seeds 0:10
    python -m benchmarks.plugin_forecasters summary --json benchmarks/results/plugin_forecasters.json

FOLDER has the tables of `EuropeanWind`: 6-hourly wind power of 21 series, as a fraction of capacity. Models are trained
on 2017 and 2018, forecast the next four 6-hour means once a day from seven days of the past, and are judged with 100
members: 2019 chooses the weight of the second term, 2020 tells. TSMixerx and TiDE commit the mean power of all series
for each 6 hours, NHITS that of each series for a day: c(a, y) = -a + 20 relu(a - y)^2. The package's own head is a
Gaussian for every hour and series. Two rivals need no such head: its members reordered by the errors of 2019, and ridge
regression on the last day with its error vectors. What is there in build/plugin_forecasters is not trained again.
"""

import argparse
import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import stakes
from reproduction.tasks.portfolio import EuropeanWind
from stakes.evaluation.intervals import paired_difference
from stakes.forecasting.copula import error_ranks, reordered

FOLDER = Path("build/plugin_forecasters")
COST, PENALTY, MEMBERS = "shortfall:penalty=20", 20.0, 100
HOURS, PAST, STEPS, RATE = 4, 28, 500, 3e-3
ACROSS = {"TSMixerx": "series", "NHITS": "hours", "TiDE": "series"}
PACKAGE = {"TSMixerx": "neuralforecast", "NHITS": "neuralforecast", "TiDE": "darts"}
JUDGED_FROM = pd.Timestamp("2019-01-01")
TEST_FROM = pd.Timestamp("2020-01-01")
WEEK = 7
METRICS = ("cost", "energy_score", "crps")


@dataclass(frozen=True)
class Way:
    """A head and what it is trained on; the package's own Gaussian head is trained on its likelihood."""

    score: str = "own head"
    weight: float = 0.0
    factors: int = 8
    shuffled: bool = False

    @property
    def base(self) -> "Way":
        return replace(self, weight=0.0)

    @property
    def name(self) -> str:
        head = self.score if self.factors else f"{self.score}, independent"
        head = f"{head}, shuffled" if self.shuffled else head
        return f"{head} + decision {self.weight:g}" if self.weight else head


RIDGE = Way("ridge + error vectors")
WAYS = (
    RIDGE,
    Way(),
    Way(shuffled=True),
    Way("pointwise", factors=0),
    *(Way(score, weight) for score in ("pointwise", "energy") for weight in (0.0, 0.1, 0.3)),
)


@cache
def power(tables: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Power by time and series, gaps filled from their ends so that models can read it, and where it was measured."""
    series = EuropeanWind(tables=tables).series()
    table = pd.DataFrame(series.values, pd.DatetimeIndex(series.times), list(series.columns))
    return table.interpolate(limit_direction="both"), table.notna()


def neuralforecast_members(kind: str, way: Way, seed: int, tables: str) -> np.ndarray:
    """Members (days, M, hours, series) of a model that is trained once and forecasts every day from 2019 on."""
    from neuralforecast import NeuralForecast
    from neuralforecast.losses.pytorch import DistributionLoss
    from neuralforecast.models import NHITS, TSMixerx

    from stakes.integrations.neuralforecast import DecisionAwareLoss

    values, known = power(tables)
    table = values.melt(ignore_index=False, var_name="unique_id", value_name="y").reset_index(names="ds")
    table["available_mask"] = known.to_numpy().T.reshape(-1).astype(float)
    own = way.score == Way.score
    if own:
        loss: Any = DistributionLoss("Normal", level=[80], num_samples=2, return_params=True)
    else:
        loss = DecisionAwareLoss(
            COST, ACROSS[kind], way.score, decision_weight=way.weight, factors=way.factors, samples=MEMBERS
        )
    settings: dict[str, Any] = {"h": HOURS, "input_size": PAST, "loss": loss, "scaler_type": "standard"}
    settings |= {"max_steps": STEPS, "learning_rate": RATE, "random_seed": seed, "alias": "net"}
    settings |= {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    if kind == "TSMixerx":
        model = TSMixerx(
            **settings,
            n_series=values.shape[1],
            n_block=2,
            ff_dim=32,
            revin=False,
            batch_size=32,
            windows_batch_size=64,
        )
    else:
        model = NHITS(**settings, mlp_units=[[128, 128]] * 3, batch_size=values.shape[1], windows_batch_size=256)
    judged = int((values.index >= JUDGED_FROM).sum())
    tool = NeuralForecast([model], freq="6h")
    rolled = tool.cross_validation(table, n_windows=None, test_size=judged, step_size=HOURS)
    rolled = rolled.sort_values(["cutoff", "ds", "unique_id"])
    days, names = rolled["cutoff"].nunique(), sorted(values.columns)
    order = [names.index(name) for name in values.columns]
    if own:
        location, scale = (
            rolled[f"net-{name}"].to_numpy().reshape(days, 1, HOURS, -1)[..., order] for name in ("loc", "scale")
        )
        noise = np.random.default_rng(seed).normal(size=(days, MEMBERS, *location.shape[2:]))
        return location + scale * noise
    columns = [f"net-sample-{place + 1}" for place in range(MEMBERS)]
    return np.moveaxis(rolled[columns].to_numpy().reshape(days, HOURS, -1, MEMBERS)[:, :, order], -1, 1)


def darts_members(way: Way, seed: int, tables: str) -> np.ndarray:
    """The same of a model of Darts, whose series are standardised by their training years."""
    from darts import TimeSeries
    from darts.models import TiDEModel
    from darts.utils.likelihood_models.torch import GaussianLikelihood

    from stakes.integrations.darts import DecisionAwareLikelihood
    from stakes.integrations.forecast_objective import FactorForecast

    values, _ = power(tables)
    train = values[values.index < JUDGED_FROM]
    shift, scale = train.mean(), train.std()
    likelihood: Any = GaussianLikelihood()
    if way.score != Way.score:
        likelihood = DecisionAwareLikelihood(
            COST, "series", scale, shift, way.score, decision_weight=way.weight, factors=way.factors
        )
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    model = TiDEModel(
        PAST, HOURS, num_encoder_layers=1, num_decoder_layers=1, decoder_output_dim=8, hidden_size=64, dropout=0.5,
        likelihood=likelihood, random_state=seed, batch_size=64, optimizer_kwargs={"lr": RATE},
        n_epochs=round(STEPS * 64 / len(train)), pl_trainer_kwargs=quiet,
    )  # fmt: skip
    series = TimeSeries.from_dataframe(((values - shift) / scale).astype(np.float32))
    model.fit(TimeSeries.from_dataframe(((train - shift) / scale).astype(np.float32)))
    rolled = model.historical_forecasts(
        series, start=JUDGED_FROM, forecast_horizon=HOURS, stride=HOURS, retrain=False, last_points_only=False,
        predict_likelihood_parameters=True,
    )  # fmt: skip
    numbers = np.stack([each.values() for each in rolled]).reshape(len(rolled), HOURS, values.shape[1], -1)
    location, width, *loadings = torch.from_numpy(numbers).double().unbind(-1)
    together = torch.stack(loadings, -1) if loadings else location.new_zeros(*location.shape, 0)
    forecast = FactorForecast(location, width, together).in_units(
        *(torch.from_numpy(each.to_numpy()) for each in (shift, scale))
    )
    return forecast.draw(MEMBERS, torch.Generator().manual_seed(seed)).numpy()


def ridge_members(seed: int, tables: str) -> np.ndarray:
    """The same of a regression on the last day of all series, the time of day and the season; 6 hours are a row."""
    values, known = power(tables)
    angle = 2 * np.pi * values.index.dayofyear.to_numpy() / 365.25
    season = np.column_stack([np.cos(angle), np.sin(angle), np.eye(HOURS)[values.index.hour // 6]])
    table, measured, rows = values.to_numpy(), known.to_numpy(), np.arange(HOURS, len(values) - HOURS + 1)
    features = np.concatenate([*(table[rows - lag] for lag in range(1, HOURS + 1)), season[rows]], 1)
    outcome = np.concatenate([table[rows + lead] for lead in range(HOURS)], 1)
    whole = np.logical_and.reduce([measured[rows + lead].all(1) for lead in range(HOURS)])
    first = int((values.index < JUDGED_FROM).sum())
    learned, new = whole & (rows + HOURS <= first), (rows >= first) & ((rows - first) % HOURS == 0)
    inputs, targets = (torch.from_numpy(each).float() for each in (features, outcome))
    model = stakes.LinearModel(inputs.shape[1], targets.shape[1], gap=HOURS)
    model.fit_scaling(inputs[learned], targets[learned])
    members = model.sample(inputs[new], MEMBERS, torch.Generator().manual_seed(seed), share_noise=True)
    return members.reshape(len(members), MEMBERS, HOURS, -1).double().numpy()


def shuffled(members: np.ndarray, tables: str) -> np.ndarray:
    """Members in the order of the error vectors, of all hours and series, of the days before the test."""
    outcome = outcomes(len(members), tables)
    flat, happened = members.reshape(*members.shape[:2], -1), outcome.reshape(len(outcome), -1)
    days = pd.date_range(JUDGED_FROM, periods=len(members))
    past = (days < TEST_FROM) & ~np.isnan(happened).any(1)
    return reordered(flat, error_ranks(flat[past], happened[past])).reshape(members.shape)


def outcomes(days: int, tables: str) -> np.ndarray:
    """What happened on the days from 2019 on, (days, hours, series), NaN where it is not known."""
    values, known = power(tables)
    late = values.where(known)[values.index >= JUDGED_FROM].to_numpy()
    return late[: days * HOURS].reshape(days, HOURS, -1)


def members_of(kind: str, way: Way, seed: int, tables: str) -> np.ndarray:
    if way == RIDGE:
        return ridge_members(seed, tables)
    made = darts_members(way, seed, tables) if kind == "TiDE" else neuralforecast_members(kind, way, seed, tables)
    return shuffled(made, tables) if way.shuffled else made


def judged(kind: str, members: np.ndarray, tables: str) -> dict[str, np.ndarray]:
    """Cost and scores of each day from 2019 on, NaN where an outcome is not known."""
    drawn, truth = torch.from_numpy(members).double(), torch.from_numpy(outcomes(len(members), tables))
    cases = (drawn.permute(0, 3, 1, 2), truth.mT) if ACROSS[kind] == "hours" else (drawn.transpose(1, 2), truth)
    measured = ~cases[1].isnan().any(-1)
    filled = cases[0], torch.where(measured[..., None], cases[1], 0.0)
    rules = (stakes.DecisionScore(stakes.ShortfallCost(PENALTY)), stakes.EnergyScore(), stakes.PointwiseCRPS())
    with torch.no_grad():
        scores = [torch.where(measured, rule(*filled), torch.nan).nanmean(1) for rule in rules]
    return {name: score.numpy() for name, score in zip(METRICS, scores, strict=True)}


def train(kind: str, seeds: range, tables: str) -> None:
    torch.set_num_threads(1)
    for seed in seeds:
        for way in WAYS:
            path = FOLDER / kind / f"seed {seed}, {way.name}.npz"
            if path.exists():
                continue
            scores = judged(kind, members_of(kind, way, seed, tables), tables)
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(path, package_version=version(PACKAGE[kind]), **scores)
            print(
                kind,
                seed,
                way.name,
                {name: round(float(np.nanmean(each)), 4) for name, each in scores.items()},
                flush=True,
            )


def summary() -> dict[str, Any]:
    return {kind: of_model(kind) for kind in ACROSS if seeds_of(kind)}


def seeds_of(kind: str) -> list[int]:
    """The seeds that all ways have."""
    return [
        seed for seed in range(100) if all((FOLDER / kind / f"seed {seed}, {way.name}.npz").exists() for way in WAYS)
    ]


def of_model(kind: str) -> dict[str, Any]:
    """Each way in the seeds that all have, with paired differences to its base and to the package's own head."""
    seeds = seeds_of(kind)
    read = {way: [np.load(FOLDER / kind / f"seed {seed}, {way.name}.npz") for seed in seeds] for way in WAYS}
    days = pd.date_range(JUDGED_FROM, periods=len(read[Way()][0]["cost"]))
    scores = {way: {name: np.stack([each[name] for each in files]) for name in METRICS} for way, files in read.items()}
    test = days >= TEST_FROM
    chosen = {
        base: min((way for way in WAYS if way.base == base), key=lambda way: np.nanmean(scores[way]["cost"][:, ~test]))
        for base in {way.base for way in WAYS}
    }
    rows = []
    for way in WAYS:
        row: dict[str, Any] = {
            "way": way.name,
            "chosen_by_validation": chosen[way.base] == way,
        }
        for name in METRICS:
            values = scores[way][name][:, test]
            row[name] = round(float(np.nanmean(values)), 5)
            for rival, against in (
                ("own_head", Way()),
                ("shuffled", Way(shuffled=True)),
                ("ridge", RIDGE),
                ("base", way.base),
            ):
                if way != against:
                    difference = paired_difference(values, scores[against][name][:, test], block=WEEK)
                    row[f"{name}_minus_{rival}"] = [round(each, 5) for each in difference]
        rows.append(row)
    first = read[Way()][0]
    about = {
        "package": PACKAGE[kind],
        "version": str(first["package_version"]),
        "decides_on": ACROSS[kind],
        "seeds": len(seeds),
    }
    return {**about, "test_days": int(test.sum()), "ways": rows}


def page_table(told: dict[str, Any]) -> list[str]:
    """The rows of one model for the documentation: bold where an interval leaves out zero."""

    def cell(ends: list[float] | None) -> str:
        if ends is None:
            return ""
        text = f"{ends[0]:+.4f} [{ends[1]:+.4f}, {ends[2]:+.4f}]"
        return f"**{text}**" if ends[1] > 0 or ends[2] < 0 else text

    columns = ("", "cost", "less its own head", "less that, shuffled", "less no decision term", "energy score", "CRPS")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in told["ways"]:
        name = (
            f"{row['way']}, chosen"
            if row["chosen_by_validation"] and row["way"].split(" + ")[0] in ("pointwise", "energy")
            else row["way"]
        )
        changes = [cell(row.get(f"cost_minus_{rival}")) for rival in ("own_head", "shuffled", "base")]
        numbers = (f"{row['cost']:.4f}", *changes, f"{row['energy_score']:.3f}", f"{row['crps']:.4f}")
        lines.append(f"| {' | '.join((name, *numbers))} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("model", choices=list(ACROSS))
    training.add_argument("--tables", required=True)
    training.add_argument("--seeds", default="0:10")
    commands.add_parser("summary").add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.command == "train":
        train(given.model, range(*map(int, given.seeds.split(":"))), given.tables)
        return
    told = summary()
    for kind, about in told.items():
        print(kind, *page_table(about), "", sep="\n")
    text = json.dumps(told, indent=1)
    if given.json:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
