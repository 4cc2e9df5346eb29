"""What a report compares: policies judged on the same test cases, by a fit, a recalibration or a backtest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.artifacts.fits import AboutFit, Bundle
from stakes.artifacts.folder import JUDGED_CASES, MANIFEST, REGRET, errors_name, read_judged
from stakes.artifacts.recalibrations import Recalibration
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost, outcome_total
from stakes.data.tables.layout import DataQuality
from stakes.errors import SettingError
from stakes.evaluation.case_metrics import JudgedParts, WorthAtValue
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, Resampling, Sampled, YearlyCases, block_length
from stakes.evaluation.regret import MEMBERS, OUTCOME, RegretAttribution
from stakes.evaluation.selection import Frontier, ModelSelection, candidate_title
from stakes.forecasting.corrections import ForecastForm
from stakes.forecasting.fitted_forecast import ForecastState
from stakes.forecasting.recalibration import JudgedCorrection
from stakes.settings import to_plain
from stakes.text import count_text
from stakes.training.stored_models import versions_here

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Columns = Mapping[str, NDArray[Any]]

_SCORES = {"crps_of_total": "CRPS of the total", "tail_crps": "tail CRPS"}
BY_OUTCOME, BY_FORECAST, MONTH, HOUR, SITE = "third by outcome", "third by forecast", "month", "hour", "site"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, eq=False)
class Forecast:
    """What was measured of a forecast case by case, each (N,)."""

    expected_cost: Floats  # what it expected its own action to cost
    scores: Mapping[str, Floats]  # by the heads of their columns; lower is better
    error: Floats | None = None  # the mean of its members less the outcome
    spread: Floats | None = None  # of the size that the error should have; None for a point forecast
    pit: tuple[Floats, Floats] | None = None  # between which ends the PIT lies
    plain: tuple[Floats, Floats] | None = None  # paid and expected cost without the aversion to risk
    band: tuple[Floats, Floats] | None = None  # the quantiles at 10 and 90 %

    @classmethod
    def of_measured(cls, measured: Columns, targets: int, members: int = 0) -> "Forecast":
        """Of the columns of `Assessor`, or of `JudgedCorrection`, which knows both ends of the PIT."""
        score = {"CRPS" if targets == 1 else "energy score": measured["energy_score"]}
        score |= {title: measured[name] for name, title in _SCORES.items() if name in measured}
        spread, pit = measured.get("spread"), None
        if "pit_from" in measured:
            pit = measured["pit_from"], measured["pit_to"]
        elif "pit" in measured and spread is not None:
            rank, spread = members * measured["pit"], spread * np.sqrt(1 + 1 / members)
            pit = rank / (members + 1), (rank + 1) / (members + 1)
        plain = "plain_cost" in measured
        return cls(
            expected_cost=measured["expected_cost"],
            scores=score,
            error=measured.get("error"),
            spread=spread,
            pit=pit,
            plain=(measured["plain_cost"], measured["plain_expected_cost"]) if plain else None,
            band=(measured["low"], measured["high"]) if "low" in measured else None,
        )


@dataclass(frozen=True, eq=False)
class Policy:
    """A way to decide, and what it cost."""

    name: str  # as sentences have it, such as "the raw forecast"
    label: str  # as figures have it, such as "raw"
    cost: Floats  # what it cost in each case, (N,); NaN where its action is not known
    action: Floats | None = None  # what was decided, (N,): a number, or the mean of the parts of each outcome
    forecast: Forecast | None = None  # what is known of the forecast that it follows; None where it follows none

    @property
    def known(self) -> Bools:
        """The cases in which its cost is known, (N,)."""
        return np.isfinite(self.cost)


class CaseGroup(NamedTuple):
    """Some of the test cases, and what decisions cost in them."""

    kind: str  # what the cases are grouped by, such as `MONTH`
    name: str  # the name of the group, such as "high", "Jan" or "06:00"
    place: int  # where it stands among those of its kind; the number of the month, the hour of the day
    cases: int  # how many cases it holds
    cost: float  # their mean cost under the selected policy
    change: Difference  # the paired difference from their cost under the reference
    reference_regret: float  # the mean of what the reference costs more than perfect foresight
    regret: float  # the same under the selected policy
    share: float  # of all regret of the selected policy, the part that these cases have


@dataclass(frozen=True, eq=False)
class Comparison:
    """A selected forecast beside other policies on the same test cases, and how it was made."""

    policies: tuple[Policy, ...]  # the first is the reference, with which others are compared
    selected: Policy  # one of them
    outcome: Floats  # what happened, (N,): the outcome, or the total of several
    cost: Cost  # what a decision costs
    kind: Literal["fit", "recalibration", "backtest"] = "fit"  # what made it
    cost_spec: CostSpec | None = None  # the cost as it was written; None for one given in Python
    targets: tuple[str, ...] = ()  # the names of the outcomes
    block: int = 1  # how many neighbouring cases depend on each other
    times: NDArray[np.datetime64] | None = None  # when the cases were, (N,)
    sites: NDArray[Any] | None = None  # where they were, (N,)
    thirds: Mapping[str, Mapping[str, Bools]] = field(default_factory=dict)  # `BY_OUTCOME` and `BY_FORECAST`
    outcomes: Floats | None = None  # some outcomes (K, D) to draw the cost at
    regret: RegretAttribution | None = None  # which errors cost how much; None where it is not known
    has_features: bool = True  # whether features go into the forecast, or stand beside it
    several: bool = False  # whether an action has several parts, of which means are shown
    weight: float | None = None  # the selected decision weight; None where none is spoken of
    selection: ModelSelection | None = None  # what each candidate was worth, on test cases too
    frontier: Frontier | None = None  # how the decision weight was chosen
    by_parameter: tuple[WorthAtValue, ...] = ()  # what each of several decision makers pays
    parts: JudgedParts | None = None  # decisions with several parts, part by part
    origins: pd.DataFrame | None = None  # one row per origin of a backtest, and one for all
    quality: DataQuality | None = None  # what the table was like
    notes: tuple[str, ...] = ()  # what the user was told of the data
    leaks: tuple[str, ...] = ()  # a sentence for each outcome that features reproduce almost exactly
    settings: Mapping[str, Any] = field(default_factory=dict)  # nested by name
    provenance: Mapping[str, str] = field(default_factory=dict)  # what it was made with and from, by name

    @property
    def reference(self) -> Policy:
        """The policy with which others are compared: weight 0, or the raw forecast."""
        return self.policies[0]

    @property
    def left_reference(self) -> bool:
        """Whether another forecast than the reference was selected."""
        return self.selected is not self.reference

    @property
    def forecasts(self) -> dict[Policy, Forecast]:
        """The policies that follow a forecast: the reference, and the selected one where it is another."""
        return {policy: policy.forecast for policy in self.policies if policy.forecast is not None}

    @property
    def forecast(self) -> Forecast:
        """That of the selected policy."""
        return self.forecasts[self.selected]

    @property
    def cases(self) -> int:
        """How many test cases there are."""
        return len(self.outcome)

    @property
    def unit(self) -> str:
        """The unit of the cost; empty where it is not known."""
        return self.cost_spec.unit if self.cost_spec else ""

    @property
    def action_unit(self) -> str:
        """The unit of the action; empty where it is not known."""
        return self.cost_spec.action_unit if self.cost_spec else ""

    def policy(self, label: str) -> Policy | None:
        """The policy of this label; None where it is not known."""
        return next((policy for policy in self.policies if policy.label == label), None)

    @cached_property
    def resampling(self) -> Resampling:
        """How sure one can be of means over the cases."""
        return Resampling(self.cases, block=min(self.block, self.cases))

    @property
    def believed(self) -> bool:
        """Whether there are so many blocks of neighbouring cases that an interval says anything."""
        return self.cases >= LEAST_BLOCKS * self.resampling.block

    def stated(self, statistic: Sampled | Difference, known: Bools | None = None) -> Difference:
        """With its interval, unless there are too few blocks of cases, all or those known, to believe it."""
        difference = statistic.interval() if isinstance(statistic, Sampled) else statistic
        touched = LEAST_BLOCKS if known is None else len(np.unique(np.flatnonzero(known) // self.resampling.block))
        enough = self.believed and touched >= LEAST_BLOCKS
        return difference if enough else Difference(difference.mean, float("nan"), float("nan"))

    def pair(self, policy: Policy, other: Policy) -> tuple[Sampled, Sampled]:
        """The mean costs of two policies over the cases in which both are known."""
        return self.resampling.pair(policy.cost[None, None], other.cost[None, None])

    def change(self, policy: Policy, other: Policy | None = None) -> Difference:
        """What a policy costs a case less what another does, by default the reference."""
        rival = other or self.reference
        ours, baseline = self.pair(policy, rival)
        return self.stated(ours - baseline, policy.known & rival.known)

    def mean_of(self, values: Floats) -> Difference:
        """The mean of some values (N,) with its interval, where there are cases enough for one."""
        return self.stated(self.resampling.mean(values[None, None]))

    def gap(self, policy: Policy) -> Difference:
        """What the decisions of a forecast were expected to cost less what they cost."""
        return self.mean_of(self.forecasts[policy].expected_cost - policy.cost)

    def spread_over_error(self, forecast: Forecast) -> Difference | None:
        """The root mean square of the spread over that of the error, 1 where it is right; None where there is none."""
        if forecast.spread is None or forecast.error is None:
            return None
        squares = self.resampling.means([(values**2)[None, None] for values in (forecast.spread, forecast.error)])
        return self.stated((squares[0] / squares[1]).applied(np.sqrt))

    @property
    def case_table(self) -> pd.DataFrame:
        """What is drawn of every time or case: `outcome`, actions (`plain`, `selected`, `today`), `low` and `high`.

        Where a time has several cases, their means.
        """
        drawn = {"plain": self.reference, "today": self.policy("today")}
        drawn |= {"selected": self.selected} if self.left_reference else {}
        columns = {"outcome": self.outcome}
        columns |= {name: policy.action for name, policy in drawn.items() if policy and policy.action is not None}
        if self.forecast.band is not None:
            columns |= dict(zip(("low", "high"), self.forecast.band, strict=True))
        if self.times is None:
            return pd.DataFrame(columns, index=np.arange(1, self.cases + 1))
        return pd.DataFrame(columns).groupby(pd.DatetimeIndex(self.times)).mean()

    @cached_property
    def groups(self) -> list[CaseGroup]:
        """Thirds, months, hours (UTC) and sites that hold a case; months, hours and sites where there are several."""
        groups = [each for each in self._groups() if each[-1].any()]
        plain, selected, best = self.reference.cost, self.selected.cost, self.policy("foresight")
        foresight = np.zeros(self.cases) if best is None else best.cost
        total = float((selected - foresight).sum())
        apart = np.array([np.where(mask, selected - plain, np.nan) for *_, mask in groups])
        changes = self.resampling.means(apart[:, None, None]) if groups else []
        found = []
        for (kind, name, place, mask), change in zip(groups, changes, strict=True):
            known, own = (float((cost - foresight)[mask].mean()) for cost in (plain, selected))
            count, stated = int(mask.sum()), self.stated(change, mask)
            share = count * own / total if total else 0.0
            paid = float(selected[mask].mean())
            found.append(CaseGroup(kind, name, place, count, paid, stated, known, own, share))
        return found

    def _groups(self) -> Iterator[tuple[str, str, int, Bools]]:
        """Kind, name, place within the kind, and which cases."""
        for kind, thirds in self.thirds.items():
            for place, (name, cases) in enumerate(thirds.items()):
                yield kind, name, place, cases
        if self.times is not None:
            times = pd.DatetimeIndex(self.times)
            for kind, values in ((MONTH, times.month.to_numpy()), (HOUR, times.hour.to_numpy())):
                present = np.unique(values)
                for value in present if len(present) > 1 else ():
                    name = MONTHS[value - 1] if kind == MONTH else f"{value:02d}:00"
                    yield kind, name, int(value), values == value
        sites = () if self.sites is None else pd.unique(self.sites)
        for place, site in enumerate(sites if len(sites) > 1 else ()):
            yield SITE, str(site), place, self.sites == site

    @property
    def yearly(self) -> YearlyCases | None:
        """How many cases a year has; None where they have no times, or all the same."""
        return None if self.times is None else YearlyCases.of(self.times)


def comparison_of_fit(
    cases: pd.DataFrame,
    state: ForecastState,
    about: AboutFit,
    cost: Cost,
    cost_spec: CostSpec | None,
    frontier: Frontier | None,
    selection: ModelSelection | None,
) -> Comparison:
    """A fit on its test cases, one row each: the forecast of weight 0, and of the selected weight if it is not 0."""
    targets, weight = state.target_names, state.decision_weight
    if not about.outcomes or {len(row) for row in about.outcomes} != {len(targets)}:
        raise SettingError(f"about.outcomes must be rows of one number for each of the {len(targets)} targets")
    tested = selection if selection is not None and selection.tested else None
    columns = {str(name): values.to_numpy() for name, values in cases.items()}
    columns |= {name: values.astype(np.float64) for name, values in columns.items() if values.dtype == np.float32}
    plain = _named(columns, "weight_0_") or columns
    weightless = tested is not None and not weight
    name = tested.forecast_words() if tested is not None and weightless else "the forecast of weight 0"
    forecasts = [_following(name, "forecast" if weightless else "weight 0", plain, targets, state.members)]
    if weight:
        name = f"the decision-aware forecast (weight {weight:g})"
        forecasts.append(_following(name, f"weight {weight:g}", columns, targets, state.members))
    times = columns.get("time")
    foresight = _foresight(plain["cost"] - plain["foresight_regret"])
    block = block_length(len(cases), times, state.block)
    unit = "" if cost_spec is None else cost_spec.unit
    return Comparison(
        policies=(*forecasts, *_others(columns, targets), foresight),
        selected=forecasts[-1],
        outcome=columns["outcome"].astype(np.float64),
        cost=cost,
        cost_spec=cost_spec,
        targets=targets,
        block=block,
        times=times,
        thirds=_thirds(columns["outcome"], forecasts[0].forecast),
        outcomes=np.array(about.outcomes),
        regret=_regret(columns, forecasts[-1].cost - foresight.cost, block, unit),
        has_features=state.features > 0,
        several="action" not in plain,
        weight=None if weightless else weight,
        selection=tested,
        frontier=frontier,
        by_parameter=about.by_parameter,
        parts=about.parts,
        quality=about.quality,
        leaks=about.leaks,
        settings=about.settings,
        provenance=about.provenance,
    )


def comparison_of_folder(opened: Bundle | Recalibration, folder: Path) -> Comparison:
    """That of a saved fit, or of a saved recalibration."""
    return comparison_of_bundle(opened, folder) if opened.kind == "fit" else comparison_of_recalibration(opened)


def comparison_of_bundle(bundle: Bundle, folder: Path) -> Comparison:
    """That of a fit, from its bundle and the evaluation beside it."""
    bundle.require_recorded(JUDGED_CASES.parent.as_posix())
    cases, forecaster = read_judged(folder), bundle.forecaster
    known = (bundle.known, forecaster.cost, bundle.cost_spec, forecaster.frontier_, forecaster.selection_)
    with errors_name(folder / MANIFEST):
        return comparison_of_fit(cases, bundle.forecast.state, *known)


def comparison_of_recalibration(recalibration: Recalibration) -> Comparison:
    """That of a recalibration with test cases."""
    if recalibration.judged is None:
        raise SettingError("there are no test cases to report of; recalibrate with more past cases")
    about = recalibration.about
    when = "" if about.fitted.first is None else f" from {about.fitted.first} to {about.fitted.last}"
    provenance = {
        "made": recalibration.created,
        "data": ", ".join(each.file for each in about.data),
        "learned from": f"{count_text(about.fitted.cases, 'case')}{when}",
        **(recalibration.versions or versions_here()),
    }
    return comparison_of_correction(
        recalibration.judged,
        recalibration.selection,
        recalibration.state.form,
        recalibration.state.targets,
        recalibration.cost,
        recalibration.cost_spec,
        has_features=bool(recalibration.layout.features),
        notes=about.said,
        settings={"layout": to_plain(recalibration.layout), **to_plain(about.settings)},
        provenance={name: text for name, text in provenance.items() if text},
    )


def comparison_of_correction(
    judged: JudgedCorrection,
    selection: ModelSelection,
    form: ForecastForm,
    targets: tuple[str, ...],
    cost: Cost,
    cost_spec: CostSpec | None,
    **about: Any,
) -> Comparison:
    """A recalibration on its test cases: the forecast as it came, and corrected where that was selected."""
    columns = {str(name): values.to_numpy() for name, values in judged.cases.items()}
    outcome = columns["outcome"].astype(np.float64)
    raw = _following("the raw forecast", "raw", _named(columns, "raw_"), targets)
    thirds = _thirds(outcome, raw.forecast)
    if form == "points":
        raw = replace(raw, forecast=raw.forecast and replace(raw.forecast, spread=None, pit=None))
    forecasts = [raw]
    if selection.selected.name != "raw":
        name = f"the corrected forecast ({candidate_title(selection.selected.name)})"
        forecasts.append(_following(name, "corrected", _named(columns, "corrected_"), targets))
    return Comparison(
        policies=(*forecasts, *_others(columns, targets), _foresight(columns["foresight_cost"])),
        selected=forecasts[-1],
        outcome=outcome,
        cost=cost,
        kind="recalibration",
        cost_spec=cost_spec,
        targets=targets,
        block=judged.block,
        times=judged.times,
        sites=columns.get("site"),
        thirds=thirds,
        outcomes=outcome[:, None] if len(targets) == 1 else None,  # of several only their sum is kept
        several="raw_action" not in columns,
        selection=selection,
        parts=judged.parts,
        **about,
    )


def comparison_of_backtest(
    cases: pd.DataFrame,
    origins: pd.DataFrame,
    targets: tuple[str, ...],
    cost: Cost,
    cost_spec: CostSpec | None,
    members: int,
    **about: Any,
) -> Comparison:
    """A backtest on the cases of all origins: the forecasts of weight 0 too, where another weight was selected."""
    columns = {str(name): values.to_numpy() for name, values in cases.items()}
    plain = _named(columns, "weight_0_")
    differs = bool((plain["cost"] != columns["cost"]).any())
    name = "the forecast" if differs or "candidate" in columns else "the forecast of weight 0"
    selected = _following(name, "forecast", columns, targets, members)
    forecasts = [*([_following("the forecast of weight 0", "weight 0", plain, targets)] if differs else []), selected]
    outcomes = np.array(cases[list(targets)], np.float64)
    outcome = outcome_total(cost, torch.from_numpy(outcomes)).numpy()
    return Comparison(
        policies=(*forecasts, *_others(columns, targets), _foresight(selected.cost - columns["foresight_regret"])),
        selected=selected,
        outcome=outcome,
        cost=cost,
        kind="backtest",
        cost_spec=cost_spec,
        targets=targets,
        thirds=_thirds(outcome, selected.forecast),
        outcomes=outcomes,
        several="action" not in columns,
        origins=origins,
        **about,
    )


def _following(name: str, label: str, measured: Columns, targets: Sequence[str], members: int = 0) -> Policy:
    """The policy that follows a forecast, of which so much was measured."""
    forecast = Forecast.of_measured(measured, len(targets), members)
    return Policy(name, label, measured["cost"].astype(np.float64), _action(measured, targets), forecast)


def _others(columns: Columns, targets: Sequence[str]) -> Iterator[Policy]:
    """Today's action and climatology, where they are known."""
    today = _named(columns, "today_")
    if "cost" in today and np.isfinite(today["cost"]).any():
        yield Policy("today's action", "today", today["cost"], _action(today, targets))
    climatology = columns.get("climatology_cost")
    if climatology is not None and np.isfinite(climatology).any():
        yield Policy("climatology", "climatology", climatology.astype(np.float64))


def _regret(columns: Columns, regret: Floats, block: int, unit: str) -> RegretAttribution | None:
    """Which errors cost how much, from the columns that a fit keeps of it; None where it keeps none."""
    kept = {kind: _named(columns, f"{REGRET}{kind}_") for kind in (OUTCOME, MEMBERS)}
    if not all(kept.values()):
        return None
    outcome, members = (np.stack(list(named.values()), 1).astype(np.float64) for named in kept.values())
    told = np.isfinite(outcome[:, 0])
    spaced = max(1, block * int(told.sum()) // len(told))  # fewer cases, farther apart
    outcomes, regions = (tuple(named) for named in kept.values())
    return RegretAttribution(regret[told], outcome[told], members[told], outcomes, regions, spaced, unit=unit)


def _foresight(cost: Floats) -> Policy:
    return Policy("perfect foresight", "foresight", cost)


def _action(measured: Columns, targets: Sequence[str]) -> Floats | None:
    """The action of each case, (N,), or the mean of its parts where each outcome has one."""
    if "action" in measured:
        return measured["action"].astype(np.float64)
    parts = [values for name, values in measured.items() if name.startswith("action_")]
    return np.mean(parts, axis=0) if parts and len(parts) == len(targets) else None


def _named(columns: Columns, start: str) -> dict[str, Any]:
    """The columns whose names begin so, without that beginning."""
    return {name.removeprefix(start): values for name, values in columns.items() if name.startswith(start)}


def _thirds(outcome: Floats, forecast: Forecast | None) -> dict[str, dict[str, Bools]]:
    """By the outcome, and by what the forecast expected."""
    by = {BY_OUTCOME: outcome} | (
        {} if forecast is None or forecast.error is None else {BY_FORECAST: outcome + forecast.error}
    )
    found = {}
    for kind, values in by.items():
        low, high = np.quantile(values, [1 / 3, 2 / 3])
        found[kind] = {"low": values < low, "middle": (values >= low) & (values < high), "high": values >= high}
    return found
