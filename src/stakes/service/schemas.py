"""What the service is asked and answers, field by field, and what a client is told when it gets no answer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import PydanticCustomError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response

from stakes.errors import StakesError
from stakes.settings import shown

T = TypeVar("T")
Items = Annotated[list[T], Field(fail_fast=True)]  # of millions of wrong values the first is told
Number = Annotated[float, Field(allow_inf_nan=False)]


def _kind_of_row(value: Any) -> str | None:
    return "<object>" if isinstance(value, dict) else "<list>" if isinstance(value, list) else None


def _kind_of_members(value: Any) -> str | None:
    if not isinstance(value, list):
        return None
    return "<several outcomes>" if value and isinstance(value[0], list) else "<one outcome>"


Row = Annotated[
    Annotated[dict[str, Number], Tag("<object>")] | Annotated[Items[Number], Tag("<list>")],
    Discriminator(
        _kind_of_row,
        custom_error_type="row",
        custom_error_message="Input should be an object of numbers by column name, or a list of numbers",
    ),
]
MemberRow = Annotated[
    Annotated[Items[Number], Field(min_length=1), Tag("<one outcome>")]
    | Annotated[Items[Items[Number]], Field(min_length=1), Tag("<several outcomes>")],
    Discriminator(
        _kind_of_members,
        custom_error_type="members",
        custom_error_message="Input should be a list of members, each a number or a list of one number an outcome",
    ),
]


def _one_case(value: Any) -> Any:
    """The value, unless it has rows as /v1/decide takes them."""
    inner = value
    for _ in range(2):
        inner = inner[0] if isinstance(inner, list) and inner else None
    if isinstance(inner, list):
        raise PydanticCustomError(
            "one_case",
            "Input should be one case, (members) or (members, outcomes), not rows of them as for /v1/decide; /v1/parts "
            "has a decision with many parts, /v1/curve one about a number",
        )
    return value


CaseMembers = Annotated[MemberRow, BeforeValidator(_one_case)]


Level = Annotated[float, Field(gt=0, lt=1)]
Moment = Annotated[str, Field(max_length=40)]
Levels = Annotated[Items[Level], Field(max_length=99)]
CostNumber = Annotated[
    Annotated[Number | None, Tag("<one>")] | Annotated[Items[Number], Field(min_length=1), Tag("<each>")],
    Discriminator(lambda value: "<each>" if isinstance(value, list | tuple) else "<one>"),
]
Costs = Annotated[
    dict[str, CostNumber],
    Field(
        description=(
            "numbers that replace those of the cost, such as {'short': 5}; a list has one for each outcome, where "
            "the cost allows it, and null means no such limit, or the default. A parameter with a range must be "
            "given as one of its values; /v1/decide also takes a list, one value for each row"
        )
    ),
]
Quantiles = Annotated[Levels, Field(description="levels of the quantiles to return, between 0 and 1")]
ForecastName = Annotated[str, Field(max_length=100)]
AskedForecast = Annotated[ForecastName, Field(description="which forecast, as /v1/model names them")]
MemberCount = Annotated[
    Annotated[int, Field(ge=1)] | None, Field(description="members of the forecast; null takes those of the fit")
]
MemberLevels = Annotated[
    Levels | None,
    Field(description="where `members` are quantiles: their levels, ascending; null where members have equal weights"),
]

_FEATURES = "numbers by column name, or a list in the order of /v1/model"
_TOLD_COST = "the cost that was decided for, in words"
_TOLD_FORECAST = "the name of the forecast; members for those of the request"
_TOLD_COUNT = "how many members each forecast has"
_UNIT, _ACTION_UNIT = "unit of the cost; empty where none is known", "unit of the action; empty where none is known"


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class KnownRow(_Request):
    """What else is known of a forecast that a recalibration corrects; /v1/model tells what it depends on."""

    time: Moment | None = Field(None, description="when the outcome happens, ISO, in UTC unless it has a zone")
    issued: Moment | None = Field(None, description="when the forecast was made, likewise")
    lead: Number | None = Field(None, description="hours between the two")
    site: Annotated[str, Field(max_length=200)] | None = Field(None, description="the site of the forecast")
    features: Row | None = Field(None, description=f"the features of the recalibration, {_FEATURES}")


class RowsRequest(_Request):
    """Features to forecast from, or members of a forecast that is there already: one of both."""

    features: Items[Row] | None = Field(None, description=f"rows to forecast from, each {_FEATURES}")
    members: Items[MemberRow] | None = Field(None, description="(rows, members) or (rows, members, outcomes)")
    member_levels: MemberLevels = None
    known: Items[KnownRow] | None = Field(None, description="beside members, of a recalibrated forecast: one a row")
    cost: Costs = {}
    member_count: MemberCount = None
    forecast: AskedForecast = "selected"


class DecideRequest(RowsRequest):
    """Rows to decide for."""

    quantiles: Quantiles = [0.1, 0.5, 0.9]


class ValueRequest(RowsRequest):
    """Rows whose outcomes are known, in the order of time, and the parameter of the cost over which they are judged."""

    outcomes: Items[Number | Items[Number]] = Field(description="what happened: a number a row, or one for each target")
    parameter: str = Field(max_length=100, description="which number of the cost, as /v1/model names it")
    low: Number = Field(description="its least value")
    high: Number = Field(description="its largest value, above `low`")
    points: int = Field(
        50, ge=2, le=100, description="how many values are evaluated, evenly spaced and including both ends"
    )
    log: bool = Field(True, description="whether they are spaced evenly in the logarithm; `low` must then be positive")
    against: ForecastName | None = Field(
        None, description="another forecast to compare with, as /v1/model names it; null for climatology"
    )
    times: Items[Moment] | None = Field(None, description="when the outcomes happened, ISO, for a year's worth")


class ForecastRequest(_Request):
    """Features to forecast from."""

    features: Items[Row] = Field(description=f"rows to forecast from, each {_FEATURES}")
    member_count: MemberCount = None
    quantiles: Quantiles = [0.1, 0.5, 0.9]
    forecast: AskedForecast = "selected"
    with_members: bool = Field(False, description="whether to return all members too")
    cost: Costs = Field({}, description="the parameter of the cost that the forecast depends on, where it does")


class CaseRequest(_Request):
    """One case, for all forecasts unless some are named."""

    features: Row | None = Field(None, description=f"what to forecast from: {_FEATURES}")
    members: CaseMembers | None = Field(None, description="in place of features: (members) or (members, outcomes)")
    member_levels: MemberLevels = None
    known: KnownRow | None = Field(None, description="beside members, of a recalibrated forecast")
    cost: Costs = {}
    member_count: MemberCount = None
    forecasts: list[ForecastName] | None = Field(
        None, min_length=1, max_length=10, description="which forecasts, as /v1/model names them; null takes all"
    )


class CurveRequest(CaseRequest):
    """One case of a decision about one number, for all forecasts unless some are named."""

    points: int = Field(121, ge=11, le=401, description="how many points each curve has")


class TableRequest(_Request):
    """A table in text, CSV or alike, with the columns that the forecaster was fitted with."""

    csv: str = Field(description="the text of the table, its first line the names of the columns")
    cost: Costs = {}
    quantiles: Quantiles = [0.1, 0.5, 0.9]
    forecast: AskedForecast = "selected"


class SeriesRequest(_Request):
    """One of many series, by its key."""

    series: str = Field(max_length=1000, description="its key, the columns of the key with / between them")
    csv: str | None = Field(
        None, description="newer rows of the series, as for /v1/table; those of its key may be left out"
    )
    last: bool = Field(True, description="whether to decide only for times after the newest outcome")
    quantiles: Quantiles = [0.1, 0.5, 0.9]


class Certificate(BaseModel):
    """What is known of how good the action is."""

    interior: bool = Field(description="whether the action lies strictly between its bounds")
    residual: float | None = Field(
        description="how far another step of the solver would move the action; null where unknown"
    )
    gap: float | None = Field(None, description="the most that a better vector action could save; null for one number")
    certified: bool = Field(
        description=(
            "whether it is proven that no action is expected to cost less, which needs a cost that is convex in the "
            "action, as all of the library's are. If false, the action is the best of several hundred searched, or "
            "comes from the cost's own formula"
        )
    )
    status: str = Field(
        description="certified or not certified; infeasible, where limits contradict each other, or unbounded, where "
        "the cost is unbounded below: then there is no action"
    )


class Decision(BaseModel):
    """The action of least expected cost."""

    action: float | list[float] | None = Field(
        description="in its unit; a number for each part where there are several; null where there is none, which "
        "certificate.status explains"
    )
    expected_cost: float | None = Field(description="what the forecast expects the action to cost; null without action")
    plain_expected_cost: float | None = Field(
        description="the mean cost of the same action for a risk-averse cost; null for any other"
    )
    quantiles: dict[str, float | list[float]] = Field(
        description="of what the decision is about, by level; of each outcome where an action has several parts"
    )
    certificate: Certificate = Field(description="how good the action is known to be")
    outside_training_range: str = Field(
        "", description="the feature farthest outside its training range; empty where none is"
    )


class ParameterAnswer(BaseModel):
    """A number of the cost, and between which values it may be of interest."""

    name: str = Field(description="what requests call it")
    about: str = Field(description="what it means; empty for a cost of your own")
    value: float = Field(description="that of the served cost")
    low: float = Field(description="where a slider begins")
    high: float = Field(description="where a slider ends")
    scale: Literal["log", "linear"] = Field(description="of a slider")
    slider: bool = Field(description="whether the page has a slider for it")
    column: str = Field(description="the column of a table that has it for each row; empty where all rows share it")


class CostAnswer(BaseModel):
    """The cost that is decided for."""

    text: str = Field(description="the cost in words")
    about: str = Field(description="what is decided and what is paid for; empty for a cost of your own")
    unit: str = Field(description=_UNIT)
    action_unit: str = Field(description=_ACTION_UNIT)
    lower: float | None = Field(description="lower bound of the action; null where it has none or several")
    upper: float | None = Field(description="upper bound of the action, likewise")
    parts: list[str] = Field(description="the parts of an action with several; empty for one number")
    action_is_outcome: bool = Field(description="whether action and outcome are on one scale")
    parameters: list[ParameterAnswer] = Field(description="the numbers of the cost that a request may change")


class DecideAnswer(BaseModel):
    """One decision per row."""

    forecast: str = Field(description=_TOLD_FORECAST)
    member_count: int = Field(description=_TOLD_COUNT)
    cost: str = Field(description=_TOLD_COST)
    unit: str = Field(description=_UNIT)
    action_unit: str = Field(description=_ACTION_UNIT)
    decisions: list[Decision] = Field(description="in the order of the rows")
    notes: list[str] = Field(description="sentences for the user about the forecast, or members that were sent")


class ForecastRow(BaseModel):
    """The forecast of one row."""

    mean: dict[str, float] = Field(description="of the members, by target")
    quantiles: dict[str, dict[str, float]] = Field(description="of the members, by target and level")
    members: list[list[float]] | None = Field(None, description="(members, outcomes); null unless they were asked for")


class ForecastAnswer(BaseModel):
    """One forecast per row."""

    forecast: str = Field(description=_TOLD_FORECAST)
    member_count: int = Field(description=_TOLD_COUNT)
    targets: list[str] = Field(description="what is forecast, in the order of a member's outcomes")
    forecasts: list[ForecastRow] = Field(description="in the order of the rows")


class ForecastCurve(BaseModel):
    """One forecast: its decision, expected cost over the action, and density over the outcome."""

    forecast: str = Field(description=_TOLD_FORECAST)
    title: str = Field(description="what people call the forecast")
    decision: Decision = Field(description="its best action")
    actions: list[float] = Field(description="the actions at which the expected cost is given")
    expected_costs: list[float] = Field(description="one for each of the actions")
    outcomes: list[float] = Field(description="the outcomes at which the density is given")
    density: list[float] = Field(description="of the members, one value for each of the outcomes")


class CurveAnswer(BaseModel):
    """The curves of all forecasts on the same actions and outcomes."""

    cost: str = Field(description=_TOLD_COST)
    curves: list[ForecastCurve] = Field(description="one for each forecast")


class ForecastValue(BaseModel):
    """What one forecast is worth at each value."""

    forecast: str = Field(description=_TOLD_FORECAST)
    cost: list[float] = Field(description="the mean realised cost of a row")
    value: list[float | None] = Field(
        description="from climatology, 0, to perfect foresight, 1; null where nothing can be gained"
    )
    low: list[float | None] = Field(description="the lower end of its band, which holds at all values at once")
    high: list[float | None] = Field(description="the upper end")


class ValueAnswer(BaseModel):
    """The value of forecasts over a parameter of the cost."""

    parameter: str = Field(description="of the cost")
    values: list[float] = Field(description="of the parameter, ascending; all lists are in this order")
    forecasts: list[ForecastValue] = Field(description="the one asked for, and the one it is compared with")
    climatology_cost: list[float] = Field(description="of the constant action that is best for these outcomes")
    foresight_cost: list[float] = Field(description="of the best action for each outcome")
    saved: list[float] = Field(description="by the first forecast, a row, against the other or climatology")
    saved_low: list[float | None] = Field(description="the lower end of its band; null where rows are too few")
    saved_high: list[float | None] = Field(description="the upper end")
    unit: str = Field(description=_UNIT)
    sentence: str = Field(description="the values for which the forecast is worth buying, and what it saves")


class LimitAnswer(BaseModel):
    """A limit that an action is at."""

    kind: str = Field(description="the parameter that it is of, such as ramp")
    place: str = Field(description="where it holds")
    saves: float = Field(description="what one unit more would save, in the unit of the cost per unit of the action")
    parts: list[int] = Field(description="the parts that it is about, counted from 0")


class ForecastParts(BaseModel):
    """One forecast: its decision part by part, quantiles of each outcome, and the limits that bind."""

    forecast: str = Field(description=_TOLD_FORECAST)
    title: str = Field(description="what people call the forecast")
    decision: Decision = Field(description="its best action")
    binding: list[LimitAnswer] = Field(description="the limits that bind, the most expensive first")


class PartsAnswer(BaseModel):
    """The decisions of all forecasts part by part."""

    cost: str = Field(description=_TOLD_COST)
    outcomes: list[str] = Field(description="the names of the outcomes, in the order of quantiles")
    parts: list[str] = Field(description="the names of the parts, in the order of an action")
    forecasts: list[ForecastParts] = Field(description="one for each forecast")


class TableAnswer(BaseModel):
    """One row per case, its time or row first, and what is good to know about them."""

    forecast: str = Field(description=_TOLD_FORECAST)
    cost: str = Field(description=_TOLD_COST)
    columns: list[str] = Field(description="the names of the columns, as `stakes decide` has them")
    rows: list[list[str | int | float | bool | None]] = Field(description="the values, in the order of the columns")
    notes: list[str] = Field(description="sentences about the forecast, the table and the decisions")


class FeatureAnswer(BaseModel):
    """A column that the forecast is made from."""

    name: str = Field(description="of the column")
    typical: float = Field(description="a value to begin with")


class ServedAnswer(BaseModel):
    """A forecast that can be asked for by name."""

    name: str = Field(description="what requests call it")
    title: str = Field(description="what people call it")
    decision_weight: float = Field(description="that of its training; 0 is trained with the score alone")
    member_count: int = Field(description="how many members it has unless a request says otherwise; 0 for those sent")
    warnings: list[str] = Field(description="what the test cases say against it, as printed by `stakes fit`")


class BundleAnswer(BaseModel):
    """What is known about a fit."""

    name: str = Field(description="of its folder")
    created: str = Field(description="when it was fitted, UTC")
    versions: dict[str, str] = Field(description="of the programs that made it")
    data: dict[str, Any] | None = Field(description="the table that it was fitted on; null where it is not known")
    metrics: dict[str, Any] = Field(description="how it was judged; empty where it was not")
    reason: str = Field(description="why its decision weight was chosen; empty where it was given")


class LimitsAnswer(BaseModel):
    """How much may be asked at once."""

    max_rows: int = Field(description="rows of a request")
    max_members: int = Field(description="members of each row")
    max_body_mb: float = Field(description="size of a request, MiB")
    timeout: float = Field(description="seconds after which a request is abandoned")


class CorrectsAnswer(BaseModel):
    """What a recalibrated forecast corrects."""

    form: Literal["members", "quantiles", "points"] = Field(description="in which form forecasts are sent")
    member_levels: list[float] | None = Field(description="the levels of quantiles; null where there are none")
    known: list[str] = Field(description="which of time, lead and site the correction depends on")
    features: list[str] = Field(description="the names of the features, in the order of a list")


class ModelAnswer(BaseModel):
    """All about the service."""

    version: str = Field(description="of stakes")
    features: list[FeatureAnswer] = Field(description="what a forecast is made from, in the order of a list")
    targets: list[str] = Field(description="what is forecast")
    cost: CostAnswer = Field(description="what is decided for")
    forecasts: list[ServedAnswer] = Field(description="what can be asked for")
    bundles: list[BundleAnswer] = Field(description="the fits that are served")
    takes_tables: bool = Field(description="whether /v1/table can be asked")
    table_columns: list[str] = Field(description="the columns that a table must have; empty where none is taken")
    limits: LimitsAnswer = Field(description="how much may be asked at once")
    corrects: CorrectsAnswer | None = Field(description="what is corrected; null for a fit, which forecasts itself")


class CaseAnswer(BaseModel):
    """A case that the forecaster was judged by."""

    label: str = Field(description="its time, or its row")
    features: dict[str, float] = Field(description="by column")
    outcome: dict[str, float] = Field(description="what happened, by target")
    total: float = Field(description="what the decision is about: the outcome, or all of them as the cost sees them")


class CasesAnswer(BaseModel):
    """Cases that the forecaster was judged by."""

    cases: list[CaseAnswer] = Field(description="in the order of time")
    about: str = Field(description="whether the forecast was trained on them; empty where that is not known")


class HealthAnswer(BaseModel):
    """That the service is there."""

    status: Literal["ok"] = Field(description="always ok")
    pending: int = Field(description="requests that were accepted and are not yet answered")


_STATUS_HEADERS = {413: {"Connection": "close"}, 503: {"Retry-After": "1"}}
_LONGEST = 500  # characters of a message: much of it may be what the client sent


class Fault(BaseModel):
    """What is wrong with a request."""

    field: str = Field(description="the field that the message is about, dotted; empty where there is none")
    message: str = Field(description="what was given, and what is expected")


class ErrorAnswer(BaseModel):
    """What every status of 400 and above comes with."""

    error: Fault = Field(description="what is wrong, and in which field")


class RequestError(Exception):
    """A request that cannot be answered."""

    def __init__(self, field: str, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.field, self.message, self.status = field, message, status


@contextmanager
def naming_field(field: str) -> Iterator[None]:
    """Whatever the library refuses inside is refused with the name of a field."""
    try:
        yield
    except StakesError as error:
        raise RequestError(field, str(error)) from error


def refusal(status: int, field: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """The response to a request that is refused, in ASCII: what was sent may not be text that UTF-8 can hold."""
    words = " ".join(message.split())
    words = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."
    body = json.dumps({"error": {"field": field[:_LONGEST], "message": words}}).encode()
    return Response(body, status, headers, "application/json")


def refused_response(error: RequestError) -> Response:
    """The response to a request that cannot be answered."""
    return refusal(error.status, error.field, error.message, _STATUS_HEADERS.get(error.status))


def against_schema(error: ValidationError) -> RequestError:
    """What is wrong with a body that is not of the schema: the first fault in it."""
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return RequestError("", f"the body must be JSON in UTF-8: {first['ctx']['error']}")
    steps = [str(step) for step in first["loc"] if not _is_tag(step)]
    return RequestError(".".join(steps), first["msg"].removeprefix("Value error, "))


def require_json(headers: Headers) -> None:
    """Raise unless a request says that its body is JSON as it is."""
    came = headers.get("content-type", "")
    if not _says_json(came):
        got = f"got {came}" if came else "got none"
        raise RequestError("Content-Type", f"send the header Content-Type: application/json, {got}", 415)
    if (packed := headers.get("content-encoding", "identity")).lower() != "identity":
        raise RequestError("Content-Encoding", f"the body must be uncompressed JSON, got {packed}", 415)


async def refused(request: Request, error: Exception) -> Response:
    """The response to a `RequestError`."""
    assert isinstance(error, RequestError)
    return refused_response(error)


async def unknown_route(request: Request, error: Exception) -> Response:
    """The response to a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    path = shown(request.url.path)
    known = {
        404: f"there is nothing at {path}; see /openapi.json",
        405: f"{request.method} is not allowed for {path}; see /openapi.json",
    }
    return refusal(error.status_code, "", known.get(error.status_code, str(error.detail)), dict(error.headers or {}))


def _says_json(kind: str) -> bool:
    """Whether a Content-Type is application/json or one like application/geo+json."""
    main, _, name = kind.partition(";")[0].strip().lower().partition("/")
    return main == "application" and (name == "json" or name.endswith("+json"))


def _is_tag(step: object) -> bool:
    """Whether a step of a place names an alternative of the schema rather than something that was sent."""
    return isinstance(step, str) and step.startswith("<") and step.endswith(">")
