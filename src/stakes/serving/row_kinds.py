"""How rows of features and of members are sent, and what is said of other forms."""

from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

__all__ = ["CaseMembers", "Items", "MemberRow", "Number", "Row"]

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
