"""Listening, until a signal says otherwise."""

import asyncio
import math
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from stakes.errors import SettingError
from stakes.serving.settings import ServiceSettings

__all__ = ["make_server", "open_listener", "run_service"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CONNECTIONS = 1000
_BACKLOG = 1024
_IDLE_SECONDS = 5
_HEAD_SECONDS = 10


class _Impatient(H11Protocol):
    """Ends a connection that is silent or half a head of a request: enough of them would fill the service."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def _watch(self) -> None:
        asked = self.cycle is not None and not self.cycle.response_complete
        if asked and self._patience is not None:
            self._patience.cancel()
            self._patience = None
        elif not asked and self._patience is None:
            self._patience = self.loop.call_later(_HEAD_SECONDS, self._end)

    def _end(self) -> None:
        self.transport.close()


def make_server(app: ASGIApp, settings: ServiceSettings) -> uvicorn.Server:
    """A server that says nothing unless something goes wrong."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=_Impatient,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=math.ceil(settings.timeout) + 1,
        )
    )


def run_service(app: ASGIApp, settings: ServiceSettings) -> None:
    """Serve until SIGINT or SIGTERM; requests that are being answered are finished."""
    with open_listener(settings) as listener, _ended_by_signals():
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        sys.stderr.write(f"stakes serves http://{host}:{listener.getsockname()[1]}/ until Ctrl-C\n")
        sys.stderr.flush()
        make_server(app, settings).run(sockets=[listener])


def open_listener(settings: ServiceSettings) -> socket.socket:
    """The socket that is listened to, bound before all else: an address in use is one line.

    Its protocol is named, or asyncio would not switch off the delay of small packets, which costs 40 ms an answer.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingError(f"{settings.host}:{settings.port} cannot be listened to: {error.strerror}") from error
    return listener


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Uvicorn raises once more, when it has shut down, the signals that ended it: here they are no fault."""
    before = {each: signal.signal(each, lambda *_: None) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
