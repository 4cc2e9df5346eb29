"""Where the members of an answer come from: a fit, a recalibrated forecast, and members that are posted."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.artifacts.fits import AboutFit, Bundle, load_bundle
from stakes.artifacts.folder import STORED_CASES, load_cases, read_manifest
from stakes.artifacts.recalibrations import Recalibration, load_recalibration
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost, RangedParameter, is_separable, outcome_total
from stakes.data.case_table import CaseTable, as_tensor
from stakes.data.forecasts.checks import ascend_like_quantiles, unlike_learned
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.quantiles import weighted_vectors
from stakes.data.forecasts.reading import forecasts_in_table, with_members
from stakes.data.tables.columns import zone_notes
from stakes.data.tables.files import parse_delimited
from stakes.data.tables.layout import TableLayout, left_out_notes
from stakes.data.tables.time_axis import to_utc
from stakes.errors import SettingError, StakesError, did_you_mean, listed
from stakes.evaluation.selection import candidate_title
from stakes.forecasting.decisions import member_parts
from stakes.forecasting.error_model import ForecastTerms
from stakes.forecasting.fitted_forecast import FittedForecast, Which
from stakes.forecasting.input_range import outside_notes
from stakes.service import schemas
from stakes.service.cost import PricedCost
from stakes.service.schemas import RequestError, naming_field
from stakes.service.server import ServiceSettings
from stakes.settings import shown
from stakes.text import count_text, number_text
from stakes.workflows.decide import decidable_rows

Floats = NDArray[np.float64]
PostedMembers = Sequence[float] | Sequence[Sequence[float]]
"""The members of one row: numbers, or lists of one number per outcome."""

Price = Callable[[Mapping[str, Any], int], PricedCost]
"""The served cost with the numbers of a request, for so many rows."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Members of one forecast for the rows of a request."""

    forecast: str  # the name of the forecast
    count: int  # how many members it has
    parts: Iterable[Tensor]  # members (n, M, D) of some rows after the other
    weights: Tensor | None = None  # what each member weighs
    notes: tuple[str, ...] = ()  # sentences for the user
    field: str = "features"  # of the request, which they were made of
    title: str = ""  # what people call the forecast
    beside: Mapping[str, NDArray[Any]] | None = None  # columns about its rows: features outside their range, or missing

    @property
    def members(self) -> Tensor:
        """Members (N, M, D) of all rows."""
        return torch.cat(list(self.parts))


@dataclass(frozen=True, eq=False)
class DrawnTable(Drawn):
    """Members for the rows of a table."""

    index: "pd.Index[Any]" = field(default_factory=lambda: pd.RangeIndex(0))  # what its rows are called
    targets: tuple[str, ...] = ()  # the names of the outcomes
    cost: Cost | None = None  # that of its rows, where each has its own prices


@dataclass(frozen=True, eq=False, kw_only=True)
class ForecastSource(ABC):
    """What is asked for forecasts; a question that a source does not take is refused."""

    settings: ServiceSettings  # how much may be asked at once
    cost: Cost  # what is decided for, unless a request says otherwise
    cost_spec: CostSpec  # the same in words
    targets: tuple[str, ...]  # the names of the outcomes
    outcome_scale: float  # by how much an outcome differs from another, in its unit
    notes: tuple[str, ...]  # sentences for whoever starts the service
    refusal: ClassVar[str] = ""  # of what is asked of another kind of source

    def require_asked(self, request: schemas.RowsRequest | schemas.CaseRequest) -> None:
        """Raise unless there is what a forecast is made of; before anything else is looked at."""
        raise RequestError("", self.refusal)

    def rows(self, request: schemas.RowsRequest, priced: PricedCost) -> Drawn:
        """Members of the forecast that is asked for, or those that are posted."""
        raise RequestError("", self.refusal)

    def case(self, request: schemas.CaseRequest, priced: PricedCost) -> list[Drawn]:
        """Members (1, M, D) of one case, of each forecast that is asked for."""
        raise RequestError("", self.refusal)

    def table(self, request: schemas.TableRequest, priced: PricedCost) -> DrawnTable:
        """Members for every row of a table that can be decided for."""
        raise RequestError("csv", self.refusal)

    def forecasts(self, request: schemas.ForecastRequest, price: Price) -> Drawn:
        """Members alone."""
        raise RequestError("features", self.refusal)

    @abstractmethod
    def model(self) -> dict[str, Any]:
        """What a `schemas.ModelAnswer` says of it, beside what is the same for most sources."""
        return {"features": [], "takes_tables": False, "table_columns": [], "corrects": None}

    @property
    def sees_cost(self) -> bool:
        """Whether a forecast depends on a parameter of the cost."""
        return False

    def cases(self) -> schemas.CasesAnswer:
        """Cases that the forecast was judged by, where some were kept."""
        return schemas.CasesAnswer(cases=[], about="")

    def series(self, request: schemas.SeriesRequest) -> schemas.TableAnswer:
        """The decisions of one of many series."""
        raise RequestError("series", "the forecast has only one series; fit with --series for many")


def open_source(folder: Path, cost: str | None, settings: ServiceSettings) -> ForecastSource:
    """What is to be served: a fit, a recalibrated forecast, or a forecast of many series."""
    spec, kind = None if cost is None else CostSpec.parse(cost), read_manifest(folder).kind
    if kind == "fit":
        return _open_fit(folder, spec, settings)
    if kind == "recalibration":
        return _open_recalibration(folder, spec, settings)
    from stakes.service.panels import open_panel  # which has these sources

    return open_panel(folder, spec, settings)


# What is posted


def require_rows(field: str, rows: int, settings: ServiceSettings) -> None:
    """Raise unless there are some rows, and not too many."""
    if not 1 <= rows <= settings.max_rows:
        raise RequestError(field, f"{field} must have between 1 and {settings.max_rows} rows, got {rows}")


_LONGEST_HEADER = 100_000  # characters: many more take too long to read


def _posted_table(csv: str) -> pd.DataFrame:
    """The table of a request, with at least one row."""
    if len(csv.partition("\n")[0]) > _LONGEST_HEADER:
        raise RequestError("csv", f"the names of the columns must have at most {_LONGEST_HEADER} characters in all")
    with naming_field("csv"):
        table = parse_delimited(csv.encode("utf-8", "replace"), "the table")
    if not len(table):
        raise RequestError("csv", "the table has no rows below its line of column names")
    return table


def _feature_row(row: Mapping[str, float] | Sequence[float], names: Sequence[str], where: str) -> Sequence[float]:
    """The features of one case, in the order of the fit."""
    if not isinstance(row, Mapping):
        if len(row) != len(names):
            raise RequestError(where, f"a row must have the {len(names)} features of the fit, got {len(row)}")
        return row
    if unknown := row.keys() - set(names):
        name = next(name for name in row if name in unknown)
        raise RequestError(f"{where}.{name}", f"there is no feature {shown(name)}; {did_you_mean(name, names)}")
    for name in names:
        if name not in row:
            raise RequestError(f"{where}.{name}", f"the feature {shown(name)} is missing")
    return [row[name] for name in names]


def _member_array(rows: Sequence[PostedMembers], settings: ServiceSettings, outcomes: int) -> Floats:
    """Members (N, M, D), as many for each row."""
    require_rows("members", len(rows), settings)
    count = len(rows[0])
    if count > settings.max_members:
        raise RequestError("members", f"a row may have at most {settings.max_members} members, got {count}")
    members = np.empty((len(rows), count, outcomes))
    for place, row in enumerate(rows):
        if len(row) != count:
            raise RequestError(
                f"members.{place}", f"all rows must have the same number of members, got {count} and {len(row)}"
            )
        widths = {len(member) if isinstance(member, list) else 1 for member in row}
        if widths != {outcomes}:
            came = next(iter(widths - {outcomes}))
            raise RequestError(
                f"members.{place}", f"each member must have {count_text(outcomes, 'outcome')}, got {came}"
            )
        members[place] = np.asarray(row).reshape(count, outcomes)
    return members


def posted_members(
    rows: Sequence[PostedMembers], levels: Sequence[float] | None, cost: Cost, settings: ServiceSettings, outcomes: int
) -> Drawn:
    """The members of a request as they are, or weighted ones made of its quantiles."""
    array = _member_array(rows, settings, outcomes)
    weights, notes = None, dict.fromkeys(_look_like_quantiles(array) if levels is None else ())
    if levels is not None:
        if outcomes > 1 and not is_separable(cost):
            raise RequestError(
                "member_levels", f"quantiles do not say how {outcomes} outcomes vary together; send members"
            )
        _require_level_each(levels, array.shape[1])
        with naming_field("member_levels"):
            weighted = weighted_vectors(levels, array, "the request", cost=cost)
        array, weights = weighted.members, torch.from_numpy(weighted.weights)
        notes = dict.fromkeys(weighted.notes)
    parts = [*member_parts(torch.from_numpy(array))]
    return Drawn("members", array.shape[1], parts, weights, tuple(notes), "members", "Members")


def _require_level_each(levels: Sequence[float], count: int) -> None:
    if len(levels) != count:
        raise RequestError(
            "member_levels", f"member_levels must have a level for each of {count} quantiles, got {len(levels)}"
        )


def _look_like_quantiles(array: Floats) -> tuple[str, ...]:
    """A note where members ascend in every row, which is hardly by chance."""
    if not ascend_like_quantiles(array):
        return ()
    return ("the members of every row ascend as quantiles do; if they are quantiles, give their member_levels",)


# Fits

_MEMBERS_AT_ONCE = 1 << 16  # after which it is asked whether anybody still waits
_MOST_NUMBERS = 1_000_000  # of members in one answer
_CASES_KEPT = 32  # whose members the next move of a slider finds again


@dataclass(frozen=True, eq=False)
class ServedForecast:
    """A forecast of a fit that can be asked for by name."""

    name: str  # what requests call it: "selected" or "weight_0"
    title: str  # what people call it
    decision_weight: float  # that of its training
    forecast: FittedForecast
    which: Which = "chosen"
    warnings: tuple[str, ...] = ()  # what the test cases of its fit say against it

    @property
    def depends_on(self) -> RangedParameter | None:
        """The parameter of the cost that the models see; None where they see none."""
        return self.forecast.state.ranged if self.forecast.state.conditioned else None

    def sample(
        self, features: Floats, members: int, parameter: Any = None, field: str = "features"
    ) -> Iterator[Tensor]:
        """Members (n, M, D) of some rows after the other, the same whichever rows are asked for together."""
        with naming_field(field):
            rows = self._with_parameter(as_tensor(features, "features", incomplete=field == "csv"), parameter)
        for some in rows.split(max(1, _MEMBERS_AT_ONCE // members)):
            for _, part in self.forecast.drawn(some, self.which, members):
                yield part

    def _with_parameter(self, rows: Tensor, parameter: float | Sequence[float] | None) -> Tensor:
        """Rows (N, F) with the parameter of the cost; any where the models do not see it."""
        if (ranged := self.depends_on) is None:
            return torch.cat([rows, rows.new_zeros(len(rows), self.forecast.state.parameter_column.width)], 1)
        if parameter is None:
            raise RequestError("cost", f"the forecast {self.name} depends on {ranged}, which the cost must have")
        values = torch.tensor(parameter, dtype=torch.float64)
        with naming_field(f"cost.{ranged.name}"):
            ranged.require_inside(float(values.min()), float(values.max()))
        return torch.cat([rows, values.expand(len(rows))[:, None].to(rows)], 1)

    def seen(self, priced: PricedCost) -> float | tuple[float, ...] | None:
        """The parameter of the cost that the forecast depends on; None where it depends on none."""
        return None if self.depends_on is None else priced.parameter(self.depends_on.name)


@lru_cache(_CASES_KEPT)
def _case_members(forecast: ServedForecast, features: bytes, count: int, parameter: float | None) -> Tensor:
    """Members (1, M, D) of one case."""
    (members,) = forecast.sample(np.frombuffer(features)[None], count, parameter)
    return members


@dataclass(frozen=True, eq=False, kw_only=True)
class FitSource(ForecastSource):
    """A fit, and its forecast of weight 0 where there is one."""

    layout: TableLayout | None  # what the columns of a table are
    known: AboutFit  # what is known of the fit
    served: Mapping[str, ServedForecast]  # what can be asked for, by name
    folder: schemas.BundleAnswer
    kept: CaseTable | None  # cases that the fit was judged by; None where it kept none

    def require_asked(self, request: schemas.RowsRequest | schemas.CaseRequest) -> None:
        if (request.features is None) == (request.members is None):
            came = "neither" if request.features is None else "both"
            raise RequestError("features", f"a request must have either features or members, got {came}")
        if request.known is not None:
            raise RequestError("known", "known is for recalibrated forecasts only: a fit takes members as they are")

    def rows(self, request: schemas.RowsRequest, priced: PricedCost) -> Drawn:
        if (posted := self._posted(request, request.members, priced)) is not None:
            if request.member_count is not None:
                raise RequestError(
                    "member_count", "member_count is for features only: the number of members sent is taken as it is"
                )
            return posted
        forecast = self._named(request.forecast)
        return self._drawn(forecast, request.features or [], request.member_count, forecast.seen(priced))

    def case(self, request: schemas.CaseRequest, priced: PricedCost) -> list[Drawn]:
        rows = None if request.members is None else [request.members]
        if (posted := self._posted(request, rows, priced)) is not None:
            return [posted]
        forecasts = [self._named(name) for name in dict.fromkeys(request.forecasts or self.served)]
        features = np.array(_feature_row(request.features or [], self._features, "features")).tobytes()
        count = min(self._count(each, request.member_count) for each in forecasts)
        members = [_case_members(each, features, count, each.seen(priced)) for each in forecasts]
        return [
            Drawn(
                each.name, count, [part], title=each.title, beside=each.forecast.outside(np.frombuffer(features)[None])
            )
            for each, part in zip(forecasts, members, strict=True)
        ]

    def table(self, request: schemas.TableRequest, priced: PricedCost) -> DrawnTable:
        if self.layout is None:
            raise RequestError("csv", "the fit was saved without the layout of its table; send features instead")
        forecast, table = self._named(request.forecast), _posted_table(request.csv)
        with naming_field("csv"):
            rows = decidable_rows(forecast.forecast.inputs, self.known, self.layout, table)
        require_rows("csv", len(rows.features), self.settings)
        count, beside = self._count(forecast, None), rows.beside(forecast.forecast)
        told = (*zone_notes(table, self.layout.time), *left_out_notes(rows.quality))
        return DrawnTable(
            forecast.name,
            count,
            forecast.sample(rows.features.to_numpy(np.float64), count, forecast.seen(priced), "csv"),
            notes=(*forecast.warnings, *rows.notes, *told, *outside_notes(beside)),
            field="csv",
            beside=beside,
            index=rows.features.index,
            targets=self.layout.targets,
        )

    def forecasts(self, request: schemas.ForecastRequest, price: Price) -> Drawn:
        forecast, rows = self._named(request.forecast), len(request.features)
        count = self._count(forecast, request.member_count)
        if request.with_members and rows * count * len(self.targets) > _MOST_NUMBERS:
            raise RequestError(
                "with_members",
                f"at most {_MOST_NUMBERS} members can be returned at once; ask for fewer rows or members",
            )
        if forecast.depends_on is None and request.cost:
            raise RequestError("cost", f"the forecast {forecast.name} does not depend on the cost; leave it out")
        parameter = None if forecast.depends_on is None else forecast.seen(price(request.cost, rows))
        return self._drawn(forecast, request.features, request.member_count, parameter)

    def model(self) -> dict[str, Any]:
        layout = self.layout
        times = () if layout is None or layout.time is None else (layout.time,)
        columns = () if layout is None else (*layout.features, *layout.known)
        return super().model() | {
            "features": [
                schemas.FeatureAnswer(name=name, typical=value)
                for name, value in zip(self._features, self._typical, strict=True)
            ],
            "forecasts": [
                schemas.ServedAnswer(
                    name=each.name,
                    title=each.title,
                    decision_weight=each.decision_weight,
                    member_count=self._count(each, None),
                    warnings=list(each.warnings),
                )
                for each in self.served.values()
            ],
            "bundles": [self.folder],
            "takes_tables": layout is not None,
            "table_columns": [*times, *dict.fromkeys(columns)],
        }

    def cases(self) -> schemas.CasesAnswer:
        kept, known = self.kept, self.known
        if kept is None:
            return super().cases()
        assert kept.index is not None
        totals = outcome_total(self.cost, kept.outcome).tolist()
        seen = None
        if known.fitted is not None and known.quality is not None:
            seen = known.fitted.cases == known.quality.used
        return schemas.CasesAnswer(
            about=SEEN[seen],
            cases=[
                schemas.CaseAnswer(
                    label=label,
                    features=dict(zip(self._features, features.tolist(), strict=True)),
                    outcome=dict(zip(self.targets, outcome.tolist(), strict=True)),
                    total=total,
                )
                for label, features, outcome, total in zip(kept.index, kept.features, kept.outcome, totals, strict=True)
            ],
        )

    @property
    def sees_cost(self) -> bool:
        return any(each.depends_on is not None for each in self.served.values())

    @property
    def _first(self) -> FittedForecast:
        return next(iter(self.served.values())).forecast

    @property
    def _features(self) -> tuple[str, ...]:
        return self._first.state.named_features

    @property
    def _typical(self) -> list[float]:
        """A value of each feature to begin with."""
        if self.kept is not None and len(self.kept.features):
            return [float(value) for value in np.median(self.kept.features.numpy(), axis=0)]
        scaling = getattr(self._first.models[0], "feature_scaling", None)
        return [0.0] * len(self._features) if scaling is None else scaling.mean.double().tolist()

    def _posted(
        self,
        request: schemas.RowsRequest | schemas.CaseRequest,
        rows: Sequence[PostedMembers] | None,
        priced: PricedCost,
    ) -> Drawn | None:
        """The members that came with the request; None where features did."""
        if rows is not None:
            return posted_members(rows, request.member_levels, priced.cost, self.settings, len(self.targets))
        if request.member_levels is not None:
            raise RequestError("member_levels", "member_levels needs members")
        return None

    def _drawn(self, forecast: ServedForecast, rows: Sequence[Any], asked: int | None, parameter: Any) -> Drawn:
        count = self._count(forecast, asked)
        require_rows("features", len(rows), self.settings)
        features = np.array([_feature_row(row, self._features, f"features.{one}") for one, row in enumerate(rows)])
        members = forecast.sample(features, count, parameter)
        with naming_field("features"):
            beside = forecast.forecast.outside(as_tensor(features, "features").numpy())
        notes = *forecast.warnings, *outside_notes(beside)
        return Drawn(forecast.name, count, members, notes=notes, beside=beside)

    def _named(self, name: str) -> ServedForecast:
        if name not in self.served:
            raise RequestError("forecast", f"there is no forecast {shown(name)}; there are {', '.join(self.served)}")
        return self.served[name]

    def _count(self, forecast: ServedForecast, asked: int | None) -> int:
        if asked is None:
            return min(forecast.forecast.state.members, self.settings.max_members)
        if asked > self.settings.max_members:
            raise RequestError("member_count", f"member_count must be at most {self.settings.max_members}, got {asked}")
        return asked


SEEN: dict[bool | None, str] = {
    None: "",
    True: (
        "After its test the forecast was trained on these cases, too, so its decisions here may look better than they "
        "did in the test."
    ),
    False: "The forecast has not been trained on these cases: its decisions are those of the test.",
}


def _open_fit(folder: Path, cost: CostSpec | None, settings: ServiceSettings) -> FitSource:
    bundle = load_bundle(folder, cost=cost)
    if bundle.cost_spec is None:
        raise SettingError(
            "the cost is a Python object without a description; give it as NAME:key=value,... or FILE.py:function"
        )
    forecast, selection = bundle.forecast, bundle.restore().selection_
    weight = forecast.state.decision_weight
    title = f"Weight {weight:g}" if weight or selection is None else selection.forecast_words()
    warnings = tuple(sentence.removesuffix(".") for sentence in bundle.known.alarms)
    title = f"{title[0].upper()}{title[1:]}"
    served = {"selected": ServedForecast("selected", title, weight, forecast, warnings=warnings)}
    if forecast.baseline_models:
        served["weight_0"] = ServedForecast("weight_0", "Weight 0", 0.0, forecast, "baseline")
    kept, trouble = _kept_cases(folder, bundle)
    scaling = getattr(forecast.models[0], "outcome_scaling", None)
    return FitSource(
        settings=settings,
        cost=forecast.cost,
        cost_spec=bundle.cost_spec,
        targets=forecast.state.target_names,
        outcome_scale=1.0 if scaling is None else float(scaling.scale.mean()),
        notes=(*bundle.notes, *trouble),
        layout=bundle.layout,
        known=bundle.known,
        served=served,
        folder=_bundle_answer(folder.resolve().name, bundle),
        kept=kept,
    )


def _kept_cases(folder: Path, bundle: Bundle) -> tuple[CaseTable | None, tuple[str, ...]]:
    """The cases that the manifest vouches for, or a sentence on why they cannot be read."""
    sha256, state = bundle.files.get(STORED_CASES.as_posix()), bundle.forecast.state
    if sha256 is None:
        return None, ()
    try:
        return load_cases(folder, state.named_features, state.target_names, sha256), ()
    except StakesError as error:
        return None, (f"the cases to look at cannot be read: {error}",)


def _bundle_answer(name: str, bundle: Bundle) -> schemas.BundleAnswer:
    return schemas.BundleAnswer(
        name=name,
        created=bundle.created,
        versions=dict(bundle.versions),
        data=bundle.about.get("data"),
        metrics=bundle.about.get("metrics") or {},
        reason=bundle.known.reason,
    )


# Recalibrations

_CORRECTED, _RAW = "selected", "raw"
_MADE_OF_MEMBERS = "a recalibrated forecast takes members; give anything else in known"
_EXAMPLES = {"time": '"2026-01-31T12:00Z"', "lead": "24", "site": '"..."', "features": "[...]"}


@dataclass(frozen=True, eq=False, kw_only=True)
class RecalibrationSource(ForecastSource):
    """A recalibrated forecast: members that are posted are corrected."""

    refusal = f"{_MADE_OF_MEMBERS}; /v1/decide returns quantiles of the corrected ones"

    name: str  # of its folder
    opened: Recalibration

    def require_asked(self, request: schemas.RowsRequest | schemas.CaseRequest) -> None:
        if request.features is not None or request.members is None:
            raise RequestError("features" if request.members else "members", _MADE_OF_MEMBERS)

    def rows(self, request: schemas.RowsRequest, priced: PricedCost) -> Drawn:
        if request.member_count is not None:
            raise RequestError(
                "member_count", "member_count must be left out: a correction does not change the number of members"
            )
        given = self._posted(request.members or [], request.member_levels, request.known)
        return self._drawn(given, request.forecast)

    def case(self, request: schemas.CaseRequest, priced: PricedCost) -> list[Drawn]:
        known = None if request.known is None else [request.known]
        given = self._posted([request.members or []], request.member_levels, known)
        return [self._drawn(given, name) for name in dict.fromkeys(request.forecasts or (_CORRECTED, _RAW))]

    def table(self, request: schemas.TableRequest, priced: PricedCost) -> DrawnTable:
        table = _posted_table(request.csv)
        with naming_field("csv"):
            given = forecasts_in_table(self.opened.layout, table, "the table")
            require_rows("csv", len(given), self.settings)
            drawn = self._drawn(given, request.forecast)
            cost = given.priced(priced.cost, priced.spec.columns)
        prices = {} if given.prices is None else dict(given.prices.items())
        beside = {name: prices[key].to_numpy() for key, name in priced.spec.columns.items()}
        told = vars(drawn) | {"field": "csv", "beside": beside}
        return DrawnTable(**told, index=given.labels, targets=given.targets, cost=cost)

    def model(self) -> dict[str, Any]:
        opened, state, layout = self.opened, self.opened.state, self.opened.layout
        terms, data, learned = state.terms, opened.about.data[0], layout.learned
        assert learned is not None
        uses = {"time": terms.season or terms.hour_waves, "lead": terms.lead, "site": terms.sites}
        own = [name for name in (layout.time, *layout.runs, layout.site) if name is not None]
        count = len(state.models[0].shape) if state.models else 0
        return super().model() | {
            "forecasts": [
                schemas.ServedAnswer(
                    name=name,
                    title=self._title(name),
                    decision_weight=state.decision_weight if name == _CORRECTED else 0.0,
                    member_count=count if name == _CORRECTED else 0,
                    warnings=list(self._warnings(name)),
                )
                for name in (_CORRECTED, _RAW)
            ],
            "bundles": [
                schemas.BundleAnswer(
                    name=self.name,
                    created=opened.created,
                    versions=dict(opened.versions),
                    data={"file": data.file, "rows": data.rows, "first": data.first, "last": data.last},
                    metrics={},
                    reason=opened.selection.reason,
                )
            ],
            "takes_tables": True,
            "table_columns": [*own, *layout.columns, *layout.known],
            "corrects": schemas.CorrectsAnswer(
                form=state.form,
                member_levels=list(learned.levels) or None,
                known=[name for name, used in uses.items() if used and state.models],
                features=list(layout.features),
            ),
        }

    def _posted(
        self,
        rows: Sequence[PostedMembers],
        levels: Sequence[float] | None,
        known: Sequence[schemas.KnownRow] | None,
    ) -> ForecastSet:
        """The forecasts of a request, in its order."""
        layout, learned = self.opened.layout, self.opened.layout.learned
        assert learned is not None
        values = _member_array(rows, self.settings, len(self.targets))
        if tuple(levels or ()) != learned.levels:
            past, given = (
                f"the levels {listed([*map(number_text, each)])}" if each else "none"
                for each in (learned.levels, levels)
            )
            raise RequestError("member_levels", f"member_levels must be {past}, as in the past, got {given}")
        if learned.levels:
            _require_level_each(learned.levels, values.shape[1])
        index = pd.RangeIndex(len(values), name="row")
        names = learned.targets if len(self.targets) > 1 else ("outcome",)
        posted = ForecastSet(values, targets=names, index=index, levels=learned.levels or None, incomplete=True)
        with naming_field("members"):
            made = with_members(layout, posted).noting(*unlike_learned(learned, posted))
        beside = {} if known is None else _beside(known, len(values), layout.features)
        with naming_field("known"):
            return replace(made, targets=self.targets, incomplete=False, **beside)

    def _drawn(self, given: ForecastSet, name: str) -> Drawn:
        """The forecast of that name."""
        if name not in (_CORRECTED, _RAW):
            raise RequestError("forecast", f"there is no forecast {shown(name)}; there are {_CORRECTED}, {_RAW}")
        state = self.opened.state
        members, weights = given.members, given.weights
        if name == _CORRECTED:
            if state.models:
                _require_known(state.terms, given)
            with naming_field("members"):
                members, weights = state.corrected(given)
        parts = [*member_parts(torch.from_numpy(np.ascontiguousarray(members)))]
        shares = None if weights is None else torch.from_numpy(weights)
        notes = (*self._warnings(name), *given.notes)
        return Drawn(name, members.shape[1], parts, shares, notes, "members", self._title(name))

    def _warnings(self, name: str) -> tuple[str, ...]:
        """What the test cases said against the forecast of that name."""
        return self.opened.about.alarms if name == _CORRECTED else ()

    def _title(self, name: str) -> str:
        candidate = candidate_title(self.opened.selection.selected.name)
        return "Raw" if name == _RAW else f"Corrected ({candidate})"


def _open_recalibration(folder: Path, cost: CostSpec | None, settings: ServiceSettings) -> RecalibrationSource:
    opened = load_recalibration(folder, cost)
    judged = opened.judged
    return RecalibrationSource(
        settings=settings,
        cost=opened.cost,
        cost_spec=opened.cost_spec,
        targets=opened.state.targets,
        outcome_scale=1.0 if judged is None else float(judged.values("outcome").std()) or 1.0,
        notes=opened.notes,
        name=folder.resolve().name,
        opened=opened,
    )


def _require_known(terms: ForecastTerms, given: ForecastSet) -> None:
    """Refuse where something is not there that the correction depends on besides members."""
    needed = {
        "time": (terms.season or terms.hour_waves, given.times),
        "lead": (terms.lead, given.leads),
        "site": (terms.sites, given.sites),
        "features": (terms.features, given.features),
    }
    if missing := [name for name, (need, there) in needed.items() if need and there is None]:
        example = ", ".join(f'"{name}": {_EXAMPLES[name]}' for name in missing)
        raise RequestError(
            "known",
            f"known must give the {' and '.join(missing)} of each row, on which the correction depends, as in "
            f"known: [{{{example}}}]",
        )


def _beside(known: Sequence[schemas.KnownRow], rows: int, features: Sequence[str]) -> dict[str, Any]:
    if len(known) != rows:
        raise RequestError("known", f"known must have an entry for each of {rows} rows, got {len(known)}")
    beside: dict[str, Any] = {}
    for name, column in (("time", "times"), ("issued", "issued"), ("lead", "leads"), ("site", "sites")):
        if (values := _all_or_none(known, name)) is not None:
            beside[column] = values
    for column in ("times", "issued"):
        if column in beside:
            with naming_field("known"):
                beside[column] = to_utc(beside[column], column)
    if (table := _all_or_none(known, "features")) is not None:
        each = [_feature_row(row, features, f"known.{place}.features") for place, row in enumerate(table)]
        beside["features"] = pd.DataFrame(np.array(each, dtype=np.float64), columns=list(features))
    return beside


def _all_or_none(known: Sequence[schemas.KnownRow], name: str) -> list[Any] | None:
    values = [getattr(row, name) for row in known]
    missing = [place for place, value in enumerate(values) if value is None]
    if missing and len(missing) < len(values):
        raise RequestError(f"known.{missing[0]}.{name}", f"{name} must be given for all rows or for none")
    return None if missing else values
