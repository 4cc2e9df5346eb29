"""What a client is told when it gets no answer: {"error": {"field": ..., "message": ...}}, and never a traceback."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from stakes.errors import StakesError
from stakes.settings import shown

__all__ = ["ErrorAnswer", "RefusedError", "body", "fault", "naming", "refused", "unanswered", "unreadable"]

_LONGEST = 500  # characters of a message: much of it may be what the client sent


class Fault(BaseModel):
    """The field of the request, dotted, that the message is about; empty where it is about none."""

    field: str
    message: str


class ErrorAnswer(BaseModel):
    """What every status of 400 and above comes with."""

    error: Fault = Field(description="what is wrong, and in which field")


class RefusedError(Exception):
    """A request that cannot be answered."""

    def __init__(self, field: str, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.field, self.message, self.status = field, message, status


@contextmanager
def naming(field: str) -> Iterator[None]:
    """Whatever the library refuses inside is about this field."""
    try:
        yield
    except StakesError as error:
        raise RefusedError(field, str(error)) from error


def body(field: str, message: str) -> bytes:
    """The JSON of a refusal, in ASCII: what was sent may not be text that UTF-8 can hold."""
    words = " ".join(message.split())
    words = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."
    return json.dumps({"error": {"field": field[:_LONGEST], "message": words}}).encode()


def fault(status: int, field: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """The same as a response."""
    return Response(body(field, message), status, headers, "application/json")


async def refused(request: Request, error: Exception) -> Response:
    """For a `RefusedError`."""
    assert isinstance(error, RefusedError)
    headers = {"Retry-After": "1"} if error.status == 503 else None
    return fault(error.status, error.field, error.message, headers)


async def unreadable(request: Request, error: Exception) -> Response:
    """For a body or a query that is not of the schema."""
    assert isinstance(error, RequestValidationError)
    if not _says_json(came := request.headers.get("content-type", "")):
        came = f"got {came}" if came else "got none"
        return fault(415, "Content-Type", f"send the header Content-Type: application/json, {came}")
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        place = first["loc"][-1]
        return fault(422, "", f"the body must be JSON: {first['ctx']['error']} at character {place}")
    steps = [str(step) for step in first["loc"][1:] if not _is_tag(step)]
    return fault(422, ".".join(steps), first["msg"].removeprefix("Value error, "))


async def unanswered(request: Request, error: Exception) -> Response:
    """For paths and methods that there are not."""
    assert isinstance(error, HTTPException)
    path = shown(request.url.path)
    known = {
        400: "the body cannot be read, expected JSON in UTF-8 that is not packed and not nested deeply",
        404: f"there is nothing at {path}; /openapi.json tells what there is",
        405: f"{request.method} is not for {path}; /openapi.json tells what there is",
    }
    return fault(error.status_code, "", known.get(error.status_code, str(error.detail)), dict(error.headers or {}))


def _says_json(kind: str) -> bool:
    """Whether a Content-Type is application/json or one like application/geo+json."""
    main, _, name = kind.partition(";")[0].strip().lower().partition("/")
    return main == "application" and (name == "json" or name.endswith("+json"))


def _is_tag(step: object) -> bool:
    """Whether a step of a place names an alternative of the schema rather than something that was sent."""
    return isinstance(step, str) and step.startswith("<") and step.endswith(">")
