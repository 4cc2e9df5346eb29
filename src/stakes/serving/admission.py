"""What a request passes before the service sees it: host and token; and headers that browsers heed."""

import hmac
import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stakes.serving.refusals import refusal
from stakes.serving.settings import ServiceSettings, is_loopback

__all__ = ["Admission"]

_LOG = logging.getLogger("stakes.serving")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_OPEN = ("/", "/healthz")  # without a token: nothing of the bundle is in them


class Admission:
    """An ASGI application around another, which sees only requests that may be answered; it reads no body.

    Args:
        app: The application that answers.
        settings: The token.
    """

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
