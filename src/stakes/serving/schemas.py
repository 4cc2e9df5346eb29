"""What clients send and what they get."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

__all__ = [
    "BundleAnswer",
    "CaseAnswer",
    "CasesAnswer",
    "Certificate",
    "CostAnswer",
    "Curve",
    "CurveAnswer",
    "CurveRequest",
    "DecideAnswer",
    "DecideRequest",
    "Decision",
    "FeatureAnswer",
    "ForecastAnswer",
    "ForecastRequest",
    "ForecastRow",
    "HealthAnswer",
    "LimitsAnswer",
    "MemberRow",
    "ModelAnswer",
    "ParameterAnswer",
    "Row",
    "ServedAnswer",
    "TableAnswer",
    "TableRequest",
]

Number = Annotated[float, Field(allow_inf_nan=False)]
Level = Annotated[float, Field(gt=0, lt=1)]
Levels = Annotated[list[Level], Field(max_length=99)]


def _kind_of_row(value: Any) -> str | None:
    return "<object>" if isinstance(value, dict) else "<list>" if isinstance(value, list) else None


def _kind_of_members(value: Any) -> str | None:
    if not isinstance(value, list):
        return None
    return "<several outcomes>" if value and isinstance(value[0], list) else "<one outcome>"


Row = Annotated[
    Annotated[dict[str, Number], Tag("<object>")] | Annotated[list[Number], Tag("<list>")],
    Discriminator(
        _kind_of_row,
        custom_error_type="row",
        custom_error_message="Input should be an object of numbers by column name, or a list of numbers",
    ),
]
MemberRow = Annotated[
    Annotated[list[Number], Field(min_length=1), Tag("<one outcome>")]
    | Annotated[list[list[Number]], Field(min_length=1), Tag("<several outcomes>")],
    Discriminator(
        _kind_of_members,
        custom_error_type="members",
        custom_error_message="Input should be a list of members, each a number or a list of one number an outcome",
    ),
]
CostParameters = Annotated[
    dict[str, Number], Field(description="numbers in place of those of the cost, such as {'short': 5}")
]
MemberCount = Annotated[int, Field(ge=1, description="members of the forecast; those of the fit by default")]
Name = Annotated[str, Field(max_length=100, description="which forecast, as /v1/model names them")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class DecideRequest(_Request):
    """Features to forecast from, or members of a forecast that is there already: one of both."""

    features: list[Row] | None = None
    members: list[MemberRow] | None = Field(None, description="(rows, members) or (rows, members, outcomes)")
    cost: CostParameters = {}
    member_count: MemberCount | None = None
    quantiles: Levels = [0.1, 0.5, 0.9]
    forecast: Name = "chosen"


class ForecastRequest(_Request):
    """Features to forecast from."""

    features: list[Row]
    member_count: MemberCount | None = None
    quantiles: Levels = [0.1, 0.5, 0.9]
    forecast: Name = "chosen"
    with_members: bool = Field(False, description="whether all members are wanted too")


class CurveRequest(_Request):
    """One case, for all forecasts unless some are named."""

    features: Row | None = None
    members: MemberRow | None = None
    cost: CostParameters = {}
    member_count: MemberCount | None = None
    forecasts: list[Name] | None = Field(None, min_length=1, max_length=10)
    points: int = Field(121, ge=11, le=401, description="of each curve")


class TableRequest(_Request):
    """A table in text, CSV or alike, with the columns that the forecaster was fitted with."""

    csv: str
    cost: CostParameters = {}
    quantiles: Levels = [0.1, 0.5, 0.9]
    forecast: Name = "chosen"


class Certificate(BaseModel):
    """Whether the action can be trusted."""

    interior: bool = Field(description="strictly between the bounds of the action")
    residual: float | None = Field(description="how far a further step of the solver would go; null where unknown")
    certified: bool = Field(
        description="whether it is certified that no action is expected to cost less: for a closed form or a convex "
        "cost between the bounds, for any other cost at the nine actions where it was scanned"
    )
    converged: bool = Field(description="the former name of certified; goes in the next version", deprecated=True)


class Decision(BaseModel):
    """The action of least expected cost."""

    action: float
    expected_cost: float
    quantiles: dict[str, float] = Field(description="of what the decision is about, by level")
    certificate: Certificate


class ParameterAnswer(BaseModel):
    """A number of the cost, and between which values it may be of interest."""

    name: str
    about: str = Field(description="what it stands for; empty for a user's own cost")
    value: float
    low: float
    high: float
    scale: Literal["log", "linear"]
    slider: bool


class CostAnswer(BaseModel):
    """The cost that is decided for."""

    text: str
    about: str = Field(description="what is decided and paid for; empty for a user's own cost")
    unit: str
    action_unit: str
    lower: float = Field(description="bound of the action")
    upper: float
    action_is_outcome: bool = Field(description="whether action and outcome are on one scale")
    parameters: list[ParameterAnswer]


class DecideAnswer(BaseModel):
    """A decision a row."""

    forecast: str
    member_count: int
    cost: str
    unit: str
    action_unit: str
    decisions: list[Decision]


class ForecastRow(BaseModel):
    """By target; `members` is (members, outcomes)."""

    mean: dict[str, float]
    quantiles: dict[str, dict[str, float]]
    members: list[list[float]] | None = None


class ForecastAnswer(BaseModel):
    """A forecast a row."""

    forecast: str
    member_count: int
    targets: list[str]
    forecasts: list[ForecastRow]


class Curve(BaseModel):
    """One forecast: its decision, expected cost over the action, and density over the outcome."""

    forecast: str
    title: str
    decision: Decision
    actions: list[float]
    expected_costs: list[float]
    outcomes: list[float]
    density: list[float]


class CurveAnswer(BaseModel):
    """The curves of all forecasts on the same actions and outcomes."""

    cost: str
    curves: list[Curve]


class TableAnswer(BaseModel):
    """One row a case, its time or row first, and what is good to know about them."""

    forecast: str
    cost: str
    columns: list[str]
    rows: list[list[str | int | float | bool | None]]
    notes: list[str]


class FeatureAnswer(BaseModel):
    """A column that the forecast is made from."""

    name: str
    typical: float


class ServedAnswer(BaseModel):
    """A forecast that can be asked for by name."""

    name: str
    title: str
    decision_weight: float
    member_count: int


class BundleAnswer(BaseModel):
    """What is known about a fit."""

    name: str
    created: str
    versions: dict[str, str]
    data: dict[str, Any] | None
    metrics: dict[str, Any]
    reason: str


class LimitsAnswer(BaseModel):
    """How much may be asked at once."""

    max_rows: int
    max_members: int
    max_body_mb: float
    timeout: float


class ModelAnswer(BaseModel):
    """All about the service."""

    version: str
    features: list[FeatureAnswer]
    targets: list[str]
    cost: CostAnswer
    forecasts: list[ServedAnswer]
    bundles: list[BundleAnswer]
    takes_tables: bool
    table_columns: list[str] = Field(description="the columns that a table must have; empty where none is taken")
    limits: LimitsAnswer


class CaseAnswer(BaseModel):
    """A case that the forecaster was judged by."""

    label: str
    features: dict[str, float]
    outcome: dict[str, float]
    total: float = Field(description="what the decision is about: the outcome, or all of them as the cost sees them")


class CasesAnswer(BaseModel):
    """In the order of time."""

    cases: list[CaseAnswer]


class HealthAnswer(BaseModel):
    """That the service is there, and how many requests it has accepted and not yet answered."""

    status: Literal["ok"]
    pending: int
