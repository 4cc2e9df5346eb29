"""The service as an ASGI application: its routes, its page, and what stands before them."""

import asyncio
import base64
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib import resources
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import stakes
from stakes.reports.page import chart_script, chart_styles, template_text
from stakes.service import schemas
from stakes.service.routes import ROUTES, Answers, Service
from stakes.service.schemas import ErrorAnswer, RequestError, refusal, refused, require_json, unknown_route
from stakes.service.server import ServiceSettings, is_loopback
from stakes.service.sources import ForecastSource
from stakes.service.workers import Answering, WorkerPool

_LOG = logging.getLogger("stakes.service")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_OPEN = ("/", "/healthz")  # without a token: nothing of the bundle is in them


class Admission:
    """An ASGI application around another, which sees only requests that may be answered; it reads no body."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        refused = self._refused(scope)
        try:
            await (refused or self._app)(_as_read(scope), receive, send)
        except Exception:  # the client was told so by the application
            _LOG.exception("%s %s failed", scope["method"], scope["path"])

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._settings.token is None:
            if not is_loopback(_host_name(headers.get("host", ""))):  # a name that leads here, by a page's doing
                return refusal(400, "Host", "the service answers to localhost, 127.0.0.1 and [::1] only")
        elif scope["path"] not in _OPEN and not self._knows_token(headers.get("authorization", "")):
            message = "the token is missing or wrong; send the header Authorization: Bearer TOKEN"
            return refusal(401, "Authorization", message, {"WWW-Authenticate": "Bearer"})
        return None

    def _knows_token(self, header: str) -> bool:
        scheme, _, given = header.partition(" ")
        known = hmac.compare_digest(given.strip().encode(), (self._settings.token or "").encode())
        return known and scheme.lower() == "bearer"


def _host_name(host: str) -> str:
    """The name or number in a Host header, without its port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _as_read(scope: Scope) -> Scope:
    """HEAD as GET: the server sends no body of the answer."""
    return {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


_PATIENCE = 4  # of a body that is too large so many times the limit is read, so that its sender comes to read why
_AT_ONCE = 8  # bodies of the largest size that may be in memory together


class Bodies:
    """All bodies that are in memory."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._most, self._most_text = settings.max_body, f"{settings.max_body_mb:g} MiB"  # of a body
        self._seconds = settings.timeout  # until a body is there
        self._held = 0  # bytes

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytearray]:
        """The whole body of a request, whatever length was announced, for as long as it is needed."""
        content = bytearray()
        try:
            await self._read(request, content)
            yield content
        finally:
            self._held -= len(content)

    async def _read(self, request: Request, content: bytearray) -> None:
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > _PATIENCE * self._most:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._seconds):
                await self._receive(request, content)
        except TimeoutError:
            raise RequestError("", f"the body did not arrive within {self._seconds:g} seconds", 408) from None
        except ClientDisconnect:
            raise RequestError("", "the body ended before its length", 400) from None

    async def _receive(self, request: Request, content: bytearray) -> None:
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > _PATIENCE * self._most:
                break
            if size <= self._most:
                self._keep(part, content)
            else:  # nothing of it is kept
                self._held -= len(content)
                content.clear()
        if size > self._most:
            raise self._too_large()

    def _keep(self, part: bytes, content: bytearray) -> None:
        if self._held + len(part) > _AT_ONCE * self._most:
            raise RequestError("", "too much is being sent at once; try again later", 503)
        content += part
        self._held += len(part)

    def _too_large(self) -> RequestError:
        return RequestError("", f"the body must be at most {self._most_text}", 413)


_SCRIPTS = ("decision.js", "coming.js", "service.js")


@cache
def page(needs_token: bool) -> Response:
    """The page, with a policy that lets it run what is in it and ask its own service."""
    styles = "\n".join((template_text("page.css"), chart_styles(), _text("service.css")))
    script = "\n".join((template_text("page.js"), chart_script(), *map(_text, _SCRIPTS)))
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(_text("service.html"))
    content = template.render(styles=Markup(styles), script=Markup(script), needs_token=needs_token)
    policy = (
        f"default-src 'none'; style-src {_digest(styles)}; script-src {_digest(script)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Response(content, media_type="text/html", headers={"Content-Security-Policy": policy})


def _text(name: str) -> str:
    return resources.files("stakes.service").joinpath("templates", name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_ABOUT = "Decisions, forecasts and expected costs of a fitted forecaster."
_WORDS = {
    400: "the request cannot be read",
    401: "the token is missing or wrong",
    408: "the body took too long to arrive",
    413: "the body is too large",
    415: "the body is not declared as JSON, or is compressed",
    422: "a field cannot be used; the error names it",
    500: "a fault of the service",
    503: "too many requests are waiting, or too much is being sent at once",
    504: "no answer in time",
}
_READ = (400, 401, 500)


def create_app(source: ForecastSource, make: Callable[[], Answering] | None = None) -> ASGIApp:
    """The application; its workers are there when it is, and end with the server."""
    settings = source.settings
    service, bodies = Service(source), Bodies(settings)
    pool = WorkerPool(make or partial(Answers, source), settings)

    @asynccontextmanager
    async def closing(app: FastAPI) -> AsyncIterator[None]:
        yield
        pool.close()

    class Asked(APIRoute):
        """A question for a worker: its body goes there as it is, and nothing of it is parsed here."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            async def answer(request: Request) -> Response:
                require_json(request.headers)
                async with bodies.body(request) as content:
                    reply = await pool.ask(self.name, content)
                if reply.fault:
                    raise RuntimeError(reply.fault)
                return Response(reply.content, reply.status, media_type="application/json")

            return answer

    app = FastAPI(
        title="stakes",
        description=_ABOUT,
        version=stakes.__version__,
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # to an address that the request's Host would decide
        lifespan=closing,
        dependencies=[] if settings.token is None else [Depends(HTTPBearer(auto_error=False))],  # for the schema alone
        exception_handlers={RequestError: refused, HTTPException: unknown_route, Exception: _failed},
    )
    questions = APIRouter(route_class=Asked)
    for name in ROUTES:
        questions.add_api_route(f"/v1/{name}", getattr(service, name), methods=["POST"], responses=_refusals(*_WORDS))
    app.include_router(questions)
    for handler in (service.model, service.cases):
        app.add_api_route(f"/v1/{handler.__name__}", handler, responses=_refusals(*_READ))

    @app.get("/healthz", responses=_refusals(400, 500))
    async def health() -> schemas.HealthAnswer:
        """Whether the service is there."""
        return schemas.HealthAnswer(status="ok", pending=pool.pending)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page(settings.token is not None)

    return Admission(app, settings)


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorAnswer, "description": _WORDS[status]} for status in statuses}


async def _failed(request: Request, error: Exception) -> Response:
    return refusal(500, "", "something went wrong in the service; its log says what")
