"""What is worth adding to forecasts trained point by point or all sites together: one row per method and weight."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from stakes.evaluation.calibration import calibration_sides, total_spread
from stakes.evaluation.intervals import Difference, Sampled
from stakes.evaluation.study import Study
from stakes.evaluation.weight_choice import chosen_weight
from stakes.paper.base_scores import SHUFFLED, TOTAL, ScoreChoice, score_choice
from stakes.paper.study_collection import Studies, StudyKey

__all__ = ["SCORE_COLUMNS", "score_rows"]

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

    Args:
        studies: What was evaluated; studies of other choices are passed over, and those without their base.
    """
    rows = [row for key in studies for row in _rows(studies, key)]
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS))


def _rows(studies: Studies, key: StudyKey) -> Iterator[dict[str, object]]:
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
