"""What a client is told when it gets no answer: {"error": {"field": ..., "message": ...}}, and never a traceback."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response

from stakes.errors import StakesError
from stakes.settings import shown

_HEADERS = {413: {"Connection": "close"}, 503: {"Retry-After": "1"}}
_LONGEST = 500  # characters of a message: much of it may be what the client sent


class Fault(BaseModel):
    """What is wrong with a request."""

    field: str = Field(description="what the message is about, dotted; empty where it is about no field")
    message: str = Field(description="what came, and what is expected")


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
    return refusal(error.status, error.field, error.message, _HEADERS.get(error.status))


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
        raise RequestError("Content-Encoding", f"the body must be JSON that is not packed, got {packed}", 415)


async def refused(request: Request, error: Exception) -> Response:
    """The response to a `RequestError`."""
    assert isinstance(error, RequestError)
    return refused_response(error)


async def unknown_route(request: Request, error: Exception) -> Response:
    """The response to a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    path = shown(request.url.path)
    known = {
        404: f"there is nothing at {path}; /openapi.json tells what there is",
        405: f"{request.method} is not for {path}; /openapi.json tells what there is",
    }
    return refusal(error.status_code, "", known.get(error.status_code, str(error.detail)), dict(error.headers or {}))


def _says_json(kind: str) -> bool:
    """Whether a Content-Type is application/json or one like application/geo+json."""
    main, _, name = kind.partition(";")[0].strip().lower().partition("/")
    return main == "application" and (name == "json" or name.endswith("+json"))


def _is_tag(step: object) -> bool:
    """Whether a step of a place names an alternative of the schema rather than something that was sent."""
    return isinstance(step, str) and step.startswith("<") and step.endswith(">")
