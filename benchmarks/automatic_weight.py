"""What the automatic decision weight does to cost and score on test data that nothing was chosen by, over 20 problems.

    python -m benchmarks.automatic_weight [--only NAME] [--processes N] [--quick] [--json FILE]

Each problem is a task of the package with its own cost. `DecisionAwareForecaster` is fitted, without a linear start, on
the training and validation cases in time order, one implicit model a weight, weights 0 to 0.9. The weight it takes and
weight 0 are then judged on the test cases by paired differences with 95 % block intervals, from the same noise and 200
members. `headroom` compares a policy with weight 0 on the validation cases that judge the weights. A problem already in
the file (benchmarks/results/automatic_weight.json) with the same settings is not run again; `--quick` trains for two
epochs only.
"""

import argparse
import json
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.timing import processor
from reproduction.policy import Headroom, headroom
from reproduction.tasks.frost import FrostTask
from reproduction.tasks.portfolio import FrenchLoad, IrishWind, SimulatedPortfolio
from reproduction.tasks.synthetic import SyntheticTask
from reproduction.tasks.task import Task
from reproduction.tasks.wind import WindTask
from stakes import DecisionAwareForecaster, energy_score, optimal_action
from stakes.data.case_table import CaseTable, alternate_blocks
from stakes.evaluation.intervals import Resampling, block_length
from stakes.evaluation.selection import Frontier
from stakes.models.sample_model import pooled_parts
from stakes.settings import to_plain
from stakes.training.processes import called_for_each
from stakes.training.settings import ESTIMATOR_MODELS, ModelSettings, TrainingSettings, automatic_settings

RESULTS = Path(__file__).parent / "results" / "automatic_weight.json"
MEMBERS = 200

PROBLEMS: dict[str, Task] = {
    **{
        f"portfolio, {sites} sites, penalty {penalty:g}": SimulatedPortfolio(sites=sites, penalty=penalty)
        for sites in (60, 20, 5)
        for penalty in (5.0, 20.0)
    },
    **{
        f"portfolio, 20 sites, penalty 20, correlation {correlation:g}": SimulatedPortfolio(20, correlation, 20.0)
        for correlation in (0.0, 0.6)
    },
    **{f"French load, short {short:g}": FrenchLoad(short) for short in (10.0, 5.0, 2.0)},
    **{f"Irish wind, penalty {penalty:g}": IrishWind(penalty) for penalty in (5.0, 20.0)},
    **{
        f"{record}, penalty {penalty:g}": WindTask(penalty, record)
        for record in ("wind_north_sea", "wind_nora10")
        for penalty in (5.0, 10.0)
    },
    **{f"{record}, ratio 0.3": FrostTask(0.3, record) for record in ("frost_merra2", "frost_era5")},
    "synthetic": SyntheticTask(),
}


@dataclass(frozen=True)
class Settings:
    """What a result depends on, besides the package."""

    task: Task
    model: ModelSettings
    training: TrainingSettings
    members: int = MEMBERS

    @classmethod
    def of(cls, task: Task, quick: bool) -> "Settings":
        cases = len(task.data().train)
        return cls(task, ESTIMATOR_MODELS["implicit"](), automatic_settings(cases, 2 if quick else None))


def run(settings: Settings) -> dict[str, Any]:
    start, own = time.perf_counter(), time.process_time()
    task, data = settings.task, settings.task.data()
    train, validation, test = data.train, data.validation, data.test
    forecaster = DecisionAwareForecaster(
        task.cost,
        model=settings.model,
        base="none",
        refit_on_all_rows=False,
        members=settings.members,
        training=settings.training,
        validation_fraction=len(validation) / (len(train) + len(validation)),
        device="cpu",
        random_state=0,
    )
    both = joined(train, validation)
    forecaster.fit(both.features.numpy(), both.outcome.numpy(), times=both.times)
    trade_off = cast(Frontier, forecaster.frontier_)
    chosen = judged(forecaster, forecaster.forecast_.models, test)
    beside = forecaster.forecast_.baseline_models
    plain = judged(forecaster, beside, test) if beside else chosen
    room = policy_room(forecaster, train, validation, trade_off.block)
    costs = {point.weight: point.cost for point in trade_off.points if point.cost is not None}
    return {
        "chosen weight": trade_off.chosen,
        "cheapest on validation": min(costs, key=lambda weight: costs[weight]),
        **compared(chosen, plain, block_of(test)),
        "headroom": to_plain(room),
        "reason": trade_off.reason,
        "frontier": to_plain(trade_off),
        "training cases": len(train),
        "validation cases": len(validation),
        "test cases": len(test),
        "test block": block_of(test),
        "best epochs": [record["best_epoch"] for record in forecaster.training_],
        "seconds": round(time.perf_counter() - start, 1),
        "CPU seconds": round(time.process_time() - own, 1),
    }


def chosen_rows(cases: CaseTable, rows: NDArray[Any]) -> CaseTable:
    picked = torch.from_numpy(rows)
    return CaseTable(cases.features[picked], cases.outcome[picked], None if cases.times is None else cases.times[rows])


def joined(first: CaseTable, second: CaseTable) -> CaseTable:
    times = None if first.times is None or second.times is None else np.concatenate([first.times, second.times])
    return CaseTable(torch.cat([first.features, second.features]), torch.cat([first.outcome, second.outcome]), times)


def block_of(test: CaseTable) -> int:
    """A week of test cases; one where they are drawn independently of each other."""
    return 1 if test.times is None else block_length(len(test), test.times)


def judged(forecaster: DecisionAwareForecaster, models: list[Any], cases: CaseTable) -> dict[str, NDArray[np.float64]]:
    """Cost and energy score of every case, from the same noise for every model."""
    cost: list[torch.Tensor] = []
    score: list[torch.Tensor] = []
    for rows, members in pooled_parts(models, cases.features, MEMBERS, forecaster.forecast_.state.noise_seed):
        outcome = cases.outcome[rows]
        cost.append(forecaster.cost(optimal_action(forecaster.cost, members), outcome))
        score.append(energy_score(members, outcome))
    return {"cost": torch.cat(cost).double().numpy(), "energy_score": torch.cat(score).double().numpy()}


def compared(
    chosen: dict[str, NDArray[np.float64]], plain: dict[str, NDArray[np.float64]], block: int
) -> dict[str, Any]:
    resampling = Resampling(len(plain["cost"]), block=block)
    cost, score = (
        resampling.pair(chosen[name][None, None], plain[name][None, None]) for name in ("cost", "energy_score")
    )
    return {
        "cost at weight 0": cost[1].estimate,
        "cost at chosen weight": cost[0].estimate,
        "cost change": list((cost[0] - cost[1]).interval()),
        "cost change, %": list(cost[0].relative_to(cost[1]).interval()),
        "energy score change, %": list(score[0].relative_to(score[1]).interval()),
    }


def policy_room(forecaster: DecisionAwareForecaster, train: CaseTable, validation: CaseTable, block: int) -> Headroom:
    """A policy stopped on the blocks of validation cases that stop the models, judged on those that judge them."""
    stopping, held_out = (chosen_rows(validation, rows) for rows in alternate_blocks(len(validation), block))
    paid = judged(forecaster, forecaster.forecast_.baseline_models or forecaster.forecast_.models, held_out)["cost"]
    return headroom(forecaster.cost, train, stopping, held_out, paid, block=block)


def line(name: str, row: dict[str, Any]) -> str:
    change, score, gain = row["cost change"], row["energy score change, %"], row["headroom"]["gain"]
    sign = "better" if change[2] < 0 else "WORSE" if change[1] > 0 else ""
    return (
        f"{name:48} {row['chosen weight']:5g} {row['cheapest on validation']:8g} {row['cost at weight 0']:9.4f} "
        f"{row['cost at chosen weight']:9.4f} {interval(change):>30} {sign:6} {score[0]:+7.2f} {interval(gain):>30} "
        f"{row['seconds']:6.0f}"
    )


def interval(bounds: list[float]) -> str:
    return "{:+.4f} [{:+.4f}, {:+.4f}]".format(*bounds)


HEADER = (
    f"{'problem':48} {'selected':>5} {'cheapest':>8} {'cost at 0':>9} {'at selected':>9} {'change, 95 % interval':>30} "
    f"{'':6} {'score %':>7} {'policy less weight 0':>30} {'s':>6}"
)


def summary(rows: list[dict[str, Any]]) -> str:
    moved = [row for row in rows if row["chosen weight"] > 0]
    better = sum(row["cost change"][2] < 0 for row in moved)
    worse = sum(row["cost change"][1] > 0 for row in moved)
    return (
        f"{len(rows)} problems: another weight than 0 selected in {len(moved)}, on test data significantly better in "
        f"{better}, significantly worse in {worse}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="part of a problem's name")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, help=f"{RESULTS.name} beside the others; none by default with --quick")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    file = arguments.json or (None if arguments.quick else RESULTS)
    kept = json.loads(file.read_text())["problems"] if file and file.exists() else {}
    wanted = [name for name in PROBLEMS if (arguments.only or "") in name]
    settings = {name: Settings.of(PROBLEMS[name], arguments.quick) for name in wanted}
    described = {name: json.loads(json.dumps(to_plain(each))) for name, each in settings.items()}
    missing = {name: (settings[name],) for name in wanted if kept.get(name, {}).get("settings") != described[name]}
    machine = f"{processor()}, 1 thread a problem, Python {platform.python_version()}, torch {torch.__version__}"
    for name, record in called_for_each(run, missing, arguments.processes):
        kept[name] = {"settings": described[name], **record}
        print(f"{name}: {record['seconds']:g} s", flush=True)
        if file:
            in_order = {name: kept[name] for name in PROBLEMS if name in kept}
            file.write_text(json.dumps({"machine": machine, "problems": in_order}, indent=1) + "\n")
    print(HEADER, *(line(name, kept[name]) for name in wanted), sep="\n")
    print(summary([kept[name] for name in wanted]))


if __name__ == "__main__":
    main()
