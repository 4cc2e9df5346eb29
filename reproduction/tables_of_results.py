"""The tables of a report: metrics by weight, by region, and the portfolios beside their rivals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reproduction.calibration import calibration_sides, economic_value, skill, total_spread
from reproduction.plan import BASES, CHOICES, MAIN, METHODS, SCORE_CHOICES, SHUFFLED, TOTAL, ScoreChoice, score_choice
from reproduction.studies import untrained_runs
from reproduction.study import RegionBy, Study, StudyError, defined_deviation, defined_mean
from reproduction.study_collection import Studies, StudyKey
from stakes.argument_checks import require_finite
from stakes.evaluation.intervals import Difference, Sampled
from stakes.reports.page import Cell, Column, ShownCell, Table
from stakes.text import number_text, signed_interval_text

METRICS = (
    "energy_score",
    "tail_crps",
    "crps_of_total",
    "variogram_score",
    "cost",
    "expected_cost",
    "gap",
    "miscalibration",
    "regret",
    "foresight_regret",
    "tracking",
    "spread",
)
"""What is averaged, where a study has it."""


def summarise(study: Study, metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """One line for each parameter, decision weight, region (all, by outcome, by forecast) and metric.

    `mean` over cases and seeds, `deviation` between seeds; `difference` from weight 0 with its 95 % interval `low` to
    `high`, paired in cases and seeds: over those that failed at neither weight. `untrained` runs kept epoch 0.
    """
    present = [metric for metric in metrics if metric in study.forecasts]
    rows = [
        row
        for parameter in study.parameters
        for region, by in _regions(study)
        for metric in present
        for row in _rows(study, metric, parameter, region, by)
    ]
    return pd.DataFrame(rows)


def _regions(study: Study) -> Iterator[tuple[str | None, RegionBy]]:
    yield None, "observed"
    for name in study.regions:
        yield name, "observed"
        if f"mass_{name}" in study.forecasts:  # a policy has actions, and no forecast
            yield name, "forecast"


def _rows(study: Study, metric: str, parameter: float, region: str | None, by: RegionBy) -> Iterator[dict[str, object]]:
    values = np.stack([study.chosen(metric, weight, parameter, region, by) for weight in study.weights])
    for weight, at_weight, difference in zip(study.weights, values, _differences(study, values), strict=True):
        yield {
            "parameter": parameter,
            "decision_weight": weight,
            "region": region or "all",
            "by": by if region else "",
            "metric": metric,
            "mean": float(defined_mean(at_weight)),
            "deviation": float(defined_deviation(defined_mean(at_weight, -1).reshape(-1), 0)),
            "difference": None if difference is None else difference.mean,
            "low": None if difference is None else difference.low,
            "high": None if difference is None else difference.high,
            "untrained": untrained_runs(study, decision_weight=weight, parameter=parameter),
        }


def _differences(study: Study, values: NDArray[np.float64]) -> list[Difference] | list[None]:
    """Of values (weights, groups, seeds, cases) from those at weight 0, over the forecasts that both have."""
    if 0.0 not in study.weights:
        return [None] * len(values)
    apart = values - values[study.weights.index(0.0)]
    return [mean.interval() for mean in study.resampling.means(apart)]


def chosen_weight(study: Study, parameter: float | None = None, tolerance: float = 1.0) -> float:
    """The weight with the lowest mean validation cost, over groups and seeds, that costs the forecast little.

    Only weights whose mean validation energy score is hardly worse than that of weight 0 are considered, and weight 0
    itself. Each is compared with weight 0 over the runs that failed at neither.
    """
    require_finite("tolerance", tolerance)
    if "validation_cost" not in study.forecasts:
        raise StudyError("this study was evaluated without validation data, by which a weight is chosen")
    if 0.0 not in study.weights:
        raise StudyError(f"a weight is chosen against weight 0, this study has the weights {study.weights}")
    score, cost = (
        {weight: _change(study, metric, weight, parameter) for weight in study.weights}
        for metric in ("energy_score", "cost")
    )
    allowed = [
        weight
        for weight in study.weights
        if score[weight].difference <= abs(score[weight].baseline) * tolerance / 100 and cost[weight].difference < 0
    ]
    return min(allowed, key=lambda weight: cost[weight].difference, default=0.0)


class _Change(NamedTuple):
    """The mean of a metric at weight 0, and how far that of another weight lies above it."""

    baseline: float
    difference: float


def _change(study: Study, metric: str, weight: float, parameter: float | None) -> _Change:
    """Over the runs that failed at neither weight; NaN where there are none."""
    values, baseline = (study.validation(metric, each, parameter) for each in (weight, 0.0))
    difference = values - baseline
    return _Change(
        float(defined_mean(np.where(np.isfinite(difference), baseline, np.nan))), float(defined_mean(difference))
    )


SCORE_COLUMNS = (
    "portfolio",
    "parameter",
    "base",
    "method",
    "weight",
    "chosen",
    "cost",
    "cost_change",
    "above_foresight",
    "above_foresight_change",
    "crps_of_sites_change",
    "energy_score_change",
    "gap_at_0",
    "gap",
    "spread_at_0",
    "spread",
    "less_shuffled",
    "less_total",
)


def score_rows(studies: Studies) -> pd.DataFrame:
    """One row per portfolio, cost parameter, base, method and weight, against weight 0 of the same base.

    `cost` and `above_foresight`, the cost above that of perfect foresight, are means; `less_shuffled` and `less_total`
    are paired differences of the cost to the rivals, the CRPS of the total at the weight that validation data choose.
    """
    rows = [row for key in studies for row in _score_rows_rows(studies, key)]
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS))


def _score_rows_rows(studies: Studies, key: StudyKey) -> Iterator[dict[str, object]]:
    choice = score_choice(key.choice)
    if choice is None:
        return
    plain = studies.by_key.get(StudyKey(key.task, "implicit", choice.base))
    if plain is None:
        return
    rivals = {
        rival: studies.by_key.get(StudyKey(key.task, "implicit", ScoreChoice(choice.base, rival).name))
        for rival in (SHUFFLED, TOTAL)
    }
    for parameter in studies[key].parameters:
        compared = _Compared(studies[key], plain, parameter, rivals[SHUFFLED], rivals[TOTAL])
        common: dict[str, object] = {"portfolio": key.task, "parameter": parameter, "base": choice.base}
        if key.model == "policy":
            yield common | {"method": "policy", "chosen": True} | compared.paid(1.0)
        elif choice.method == SHUFFLED:
            yield common | {"method": SHUFFLED, "chosen": True} | compared.paid(0.0) | compared.forecast(0.0)
        else:
            chosen = chosen_weight(studies[key], parameter)
            for weight in studies[key].weights:
                place = {"method": choice.method, "weight": weight, "chosen": weight == chosen}
                yield common | place | compared.paid(weight) | compared.forecast(weight)


@dataclass(frozen=True, eq=False)
class _Compared:
    """A study at one cost parameter beside its base at weight 0, and the rivals of that base, where they are there."""

    study: Study
    plain: Study
    parameter: float
    shuffled: Study | None
    total: Study | None

    def paid(self, weight: float) -> dict[str, object]:
        """What the decisions cost."""
        cost, cost_at_0 = self._pair("cost", weight)
        row: dict[str, object] = {"cost": cost.estimate, "cost_change": (cost - cost_at_0).interval()}
        if "foresight_regret" in self.study.forecasts:
            above, above_at_0 = self._pair("foresight_regret", weight)
        else:  # a policy: foresight costs what it costs beside the forecast
            above_at_0 = self.plain.mean("foresight_regret", 0.0, self.parameter)
            above = above_at_0 + (cost - cost_at_0)
        row |= {"above_foresight": above.estimate, "above_foresight_change": above.relative_to(above_at_0).interval()}
        if self.shuffled is not None and self.study is not self.shuffled:
            row["less_shuffled"] = self._less(weight, self.shuffled, 0.0)
        if self.total is not None and self.study is not self.total:
            row["less_total"] = self._less(weight, self.total, self._chosen_of_total)
        return row

    def forecast(self, weight: float) -> dict[str, object]:
        """What became of the forecast."""
        row: dict[str, object] = {}
        for metric in ("crps_of_sites", "energy_score"):
            mean, at_0 = self._pair(metric, weight)
            row[f"{metric}_change"] = mean.relative_to(at_0).interval()
        return row | {
            "gap_at_0": calibration_sides(self.plain, 0.0, self.parameter).gap.estimate,
            "gap": calibration_sides(self.study, weight, self.parameter).gap.interval(),
            "spread_at_0": total_spread(self.plain, 0.0, self.parameter).estimate,
            "spread": total_spread(self.study, weight, self.parameter).interval(),
        }

    @cached_property
    def _chosen_of_total(self) -> float:
        assert self.total is not None
        return chosen_weight(self.total, self.parameter)

    def _pair(self, metric: str, weight: float) -> tuple[Sampled, Sampled]:
        values = self.study.values(metric, weight, self.parameter)
        return self.plain.resampling.pair(values, self.plain.values(metric, 0.0, self.parameter))

    def _less(self, weight: float, rival: Study, rival_weight: float) -> Difference:
        costs = self.study.values("cost", weight, self.parameter), rival.values("cost", rival_weight, self.parameter)
        cost, cost_of_rival = self.plain.resampling.pair(*costs)
        return (cost - cost_of_rival).interval()


_NAMES = {
    "energy_score": "energy score",
    "tail_crps": "tail CRPS",
    "crps_of_total": "CRPS of the total",
    "cost": "realised cost",
    "gap": "signed gap",
    "miscalibration": "miscalibration",
    "regret": "regret",
    "tracking": "error of a*",
}
_REGIONAL = ("energy_score", "cost", "gap", "miscalibration")


def metrics_table(key: StudyKey, study: Study, summary: pd.DataFrame) -> Table:
    """Every cost parameter and weight: the mean, and the paired difference from weight 0 with its interval."""
    whole = summary[summary["region"] == "all"]
    metrics = [metric for metric in _NAMES if metric in set(whole["metric"])]
    rows: list[tuple[Cell, ...]] = []
    for (parameter, weight), lines in _grouped(whole, "parameter", "decision_weight").items():
        cells = [_with_difference(lines[metric]) for metric in metrics]
        value = _interval(economic_value(study, weight, parameter).interval(), 3)
        rows.append(
            (parameter, weight, *cells, value, untrained_runs(study, decision_weight=weight, parameter=parameter))
        )
    columns = (
        Column(study.about["parameter"] or "data", help="the parameter of the cost"),
        Column("weight", help="the decision weight"),
        *(Column(_NAMES[metric]) for metric in metrics),
        Column("economic value", help="0: climatology's action; 1: perfect foresight"),
        Column("kept epoch 0", help="runs without decision training, which no claim counts"),
    )
    note = "Mean over seeds and cases; in brackets the difference from weight 0 with its paired 95 % interval, bold "
    note += (
        "where it leaves out zero. Lower is better, but for the economic value and the signed gap, which should be 0."
    )
    return Table(f"metrics-{key}", f"{_title(key)}: metrics by decision weight", columns, tuple(rows), note)


def regions_table(key: StudyKey, study: Study, summary: pd.DataFrame) -> Table:
    """Differences from weight 0 by region, whose cases are chosen by the outcome as in the paper and by
    the forecast."""
    parts = summary[(summary["region"] != "all") & (summary["decision_weight"] > 0)]
    rows: list[tuple[Cell, ...]] = []
    for place, lines in _grouped(parts, "region", "by", "parameter", "decision_weight").items():
        rows.append((*place, *(_difference(lines[metric]) for metric in _REGIONAL)))
    columns = (
        Column("region"),
        Column("chosen by", help="the outcome, as in the paper, or the mean of all forecasts of the study"),
        Column(study.about["parameter"] or "data"),
        Column("weight"),
        *(Column(f"Δ {_NAMES[metric]}") for metric in _REGIONAL),
    )
    note = "Differences from weight 0. Scores of cases chosen by their outcome reward forecasts that exaggerate (the "
    note += "forecaster's dilemma): the rows chosen by the forecast, as many cases, do not have that fault."
    return Table(f"regions-{key}", f"{_title(key)}: differences by region", columns, tuple(rows), note)


PORTFOLIO_COLUMNS = (
    "portfolio",
    "parameter",
    "method",
    "weight",
    "chosen",
    "energy_score_change",
    "cost_change",
    "regret_change",
    "gap_at_0",
    "gap",
    "spread_at_0",
    "spread",
    "skill",
)


def portfolio_rows(studies: Studies) -> pd.DataFrame:
    """One row per portfolio, cost parameter, method and weight; those that validation data choose are marked."""
    keys = [key for key in studies if key.task in _PORTFOLIOS and key.choice not in SCORE_CHOICES]
    rows = [row for key in keys for row in _portfolio_rows(studies, key)]
    return pd.DataFrame(rows, columns=list(PORTFOLIO_COLUMNS))


_PORTFOLIOS = ("simulated_portfolio", "french_load", "irish_wind", "european_wind")


def _portfolio_rows(studies: Studies, key: StudyKey) -> Iterator[dict[str, object]]:
    study = studies[key]
    place = f"simulated, {key.sites} sites" if key.sites else key.task.replace("_", " ")
    for parameter in study.parameters:
        common: dict[str, object] = {"portfolio": place, "parameter": parameter}
        if key.model == "policy":
            plain = studies.by_key.get(StudyKey(key.task, "implicit", MAIN, key.sites))
            if plain is not None:
                yield common | _policy_row(study, plain, parameter)
            continue
        method = key.model if key.choice == MAIN else f"{key.model}, {CHOICES[key.choice][0]}"
        chosen = chosen_weight(study, parameter)
        for weight in study.weights:
            marked = {"method": method, "weight": weight, "chosen": weight == chosen}
            yield common | marked | _forecast_row(study, parameter, weight)


def _forecast_row(study: Study, parameter: float, weight: float) -> dict[str, object]:
    before, after = calibration_sides(study, 0.0, parameter), calibration_sides(study, weight, parameter)
    cost, cost_at_0 = study.pair("cost", weight, parameter)
    return {
        "energy_score_change": _relative(study, "energy_score", weight, parameter),
        "cost_change": (cost - cost_at_0).interval(),
        "regret_change": _relative(study, "regret", weight, parameter) if "regret" in study.forecasts else None,
        "gap_at_0": before.gap.estimate,
        "gap": after.gap.interval(),
        "spread_at_0": total_spread(study, 0.0, parameter).estimate,
        "spread": total_spread(study, weight, parameter).interval(),
        "skill": skill(study, weight, parameter).interval(),
    }


def _policy_row(policy: Study, plain: Study, parameter: float) -> dict[str, object]:
    cost, cost_of_plain = _across("cost", policy, plain, parameter)
    row: dict[str, object] = {
        "method": "direct policy a(x), no forecast",
        "chosen": True,
        "cost_change": (cost - cost_of_plain).interval(),
        "skill": skill(policy, 1.0, parameter).interval(),
    }
    if "regret" in policy.forecasts:
        regret, regret_of_plain = _across("regret", policy, plain, parameter)
        row["regret_change"] = regret.relative_to(regret_of_plain).interval()
    return row


def _across(metric: str, policy: Study, plain: Study, parameter: float) -> tuple[Sampled, Sampled]:
    """The means of a policy and of the forecasts at weight 0, over what both have."""
    return plain.resampling.pair(policy.values(metric, 1.0, parameter), plain.values(metric, 0.0, parameter))


def _relative(study: Study, metric: str, weight: float, parameter: float) -> object:
    mean, at_0 = study.pair(metric, weight, parameter)
    return mean.relative_to(at_0).interval()


_PORTFOLIO_HEADS = {
    "portfolio": Column("portfolio"),
    "parameter": Column("penalty", help="lambda; for the French load: how much more expensive short is"),
    "method": Column("method"),
    "weight": Column("weight", help="the decision weight"),
    "energy_score_change": Column("Δ energy score", "%"),
    "cost_change": Column("Δ realised cost"),
    "regret_change": Column("Δ regret", "%", "against the true optimum"),
    "gap_at_0": Column("gap at 0", help="predicted less realised cost at weight 0"),
    "gap": Column("gap", help="at this weight"),
    "spread_at_0": Column("spread at 0", help="of the total, over the true one or over its error"),
    "spread": Column("spread", help="at this weight"),
    "skill": Column("skill", "%", "less paid than with climatology's action"),
}
_DIFFERENCES = (
    "Differences from the same model at weight 0 (for the direct policy: from the implicit model at weight 0) with "
    "paired 95 % intervals, bold where they leave out zero."
)


def portfolio_table(rows: pd.DataFrame) -> Table:
    """The flagship table: every method at the weight that validation data choose."""
    note = f"{_DIFFERENCES} The weight is the one with the lowest validation cost among those whose validation energy "
    note += "score is at most 1 % above that of weight 0."
    chosen = rows[rows["chosen"].astype(bool)]
    return _portfolio_table("portfolio-methods", "Portfolios: every method at its chosen weight", chosen, note)


def portfolio_weights_table(rows: pd.DataFrame) -> Table:
    """The portfolios at every weight."""
    of_forecasts = rows[rows["weight"].notna()]
    return _portfolio_table("portfolio-weights", "Portfolios: every weight", of_forecasts, _DIFFERENCES)


_SCORE_HEADS = {
    "portfolio": Column("portfolio"),
    "parameter": Column("penalty", help="lambda; for load: how much more expensive short is"),
    "base": Column("trained on"),
    "method": Column("added"),
    "weight": Column("weight", help="of what is added"),
    "chosen": Column("chosen", help="whether validation data choose this weight"),
    "cost": Column("cost"),
    "cost_change": Column("Δ cost"),
    "above_foresight_change": Column("Δ above foresight", "%", "of what lies above perfect foresight"),
    "crps_of_sites_change": Column("Δ CRPS of the sites", "%"),
    "energy_score_change": Column("Δ energy score", "%"),
    "gap_at_0": Column("gap at 0", help="predicted less realised cost of the score alone"),
    "gap": Column("gap"),
    "spread_at_0": Column("spread at 0", help="of the total, over its error, of the score alone"),
    "spread": Column("spread"),
    "less_shuffled": Column("less the shuffled", help="cost, less that of the shuffled members"),
    "less_total": Column("less the total", help="cost, less that of the CRPS of the total"),
}


def scores_table(rows: pd.DataFrame) -> Table:
    """Forecasts trained point by point or all sites together, with all that was added to them."""
    note = "Differences from the same forecast trained on its score alone, with paired 95 % intervals, bold where they "
    note += "leave out zero; those to the CRPS of the total are to its own chosen weight."
    methods = {name: title for name, (title, _) in METHODS.items()} | {"policy": "direct policy a(x), no forecast"}
    shown = rows.assign(
        portfolio=rows["portfolio"].str.replace("_", " "),
        base=rows["base"].map({name: title for name, (title, _) in BASES.items()}),
        method=rows["method"].map(methods),
        chosen=rows["chosen"].map({True: "yes", False: ""}),
    )
    cells = tuple(tuple(_cell(row[name]) for name in _SCORE_HEADS) for _, row in shown.iterrows())
    return Table("portfolio-scores", "Portfolios by base score", tuple(_SCORE_HEADS.values()), cells, note)


def _portfolio_table(label: str, title: str, rows: pd.DataFrame, note: str) -> Table:
    cells = tuple(tuple(_cell(row[name]) for name in _PORTFOLIO_HEADS) for _, row in rows.iterrows())
    return Table(label, title, tuple(_PORTFOLIO_HEADS.values()), cells, note)


def _cell(value: object) -> Cell:
    if isinstance(value, Difference):
        return _interval(value, _decimals(value.mean))
    if isinstance(value, str | int):
        return value
    return float(value) if isinstance(value, float) and value == value else None


def _interval(difference: Difference, decimals: int) -> Cell:
    if difference.mean == difference.low == difference.high == 0:  # weight 0 beside itself
        return 0
    return None if isnan(difference.low) else ShownCell.interval(*difference, decimals)


def _decimals(value: float) -> int:
    return 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 4


def _grouped(summary: pd.DataFrame, *columns: str) -> dict[Any, dict[str, Any]]:
    """The lines of a summary by the values of some columns, and then by metric."""
    grouped: dict[Any, dict[str, Any]] = {}
    for line in summary.to_dict("records"):
        grouped.setdefault(tuple(line[name] for name in columns), {})[str(line["metric"])] = line
    return grouped


def _with_difference(line: Mapping[str, float]) -> Cell:
    mean, difference, low, high = (line[name] for name in ("mean", "difference", "low", "high"))
    if isnan(mean):
        return None
    if isnan(low) or difference == low == high == 0:
        return ShownCell(number_text(mean), mean)
    text = f"{number_text(mean)} ({signed_interval_text((difference, low, high), digits=2)})"
    return ShownCell(text, mean, strong=low > 0 or high < 0)


def _difference(line: Mapping[str, float]) -> Cell:
    difference, low, high = (line[name] for name in ("difference", "low", "high"))
    if isnan(low):
        return None
    return ShownCell(signed_interval_text((difference, low, high)), difference, strong=low > 0 or high < 0)


def _title(key: StudyKey) -> str:
    return f"{key.task.replace('_', ' ')}{f' ({key.sites} sites)' if key.sites else ''}, {key.model}"
