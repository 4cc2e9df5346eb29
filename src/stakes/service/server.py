"""Listening, until a signal says otherwise."""

import math
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from stakes.errors import SettingError
from stakes.service.settings import ServiceSettings

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CONNECTIONS = 1000
_BACKLOG = 1024
_IDLE_SECONDS = 5
_HEAD_SECONDS = 10.0


@dataclass
class _Watched:
    """A connection: its last request, since when nothing is asked on it, and since when an answer waits to be read."""

    request: object = None
    idle_since: float = math.inf
    unread_since: float = math.inf


class _IdleConnections:
    """Ends connections on which no request begins, or no answer is read: uvicorn waits for ever for both.

    Enough of them would fill the service. What answers, or waits for a body, is left alone: that has its own time.
    """

    def __init__(self, read_seconds: float) -> None:
        self._read_seconds = read_seconds
        self._watched: dict[Any, _Watched] = {}

    def end(self, connections: Iterable[Any]) -> None:
        """To be called now and then with the protocols of the open connections."""
        now = time.monotonic()
        self._watched = {each: self._watched.get(each, _Watched()) for each in connections}
        for connection, watched in self._watched.items():
            _look(connection, watched, now)
            if now - watched.unread_since > self._read_seconds:
                connection.transport.abort()  # to close it would wait for what is not read
            elif now - watched.idle_since > _HEAD_SECONDS:
                connection.transport.close()


def _look(connection: Any, watched: _Watched, now: float) -> None:
    request = connection.cycle  # of uvicorn's protocols: the request and its answer, None before the first
    at_work = request is not None and not request.response_complete
    new = request is not watched.request or watched.idle_since == math.inf
    watched.request = request
    if at_work or new:
        watched.idle_since = math.inf if at_work else now
    if not connection.transport.get_write_buffer_size():
        watched.unread_since = math.inf
    else:
        watched.unread_since = min(watched.unread_since, now)


def make_server(app: ASGIApp, settings: ServiceSettings) -> uvicorn.Server:
    """A server that says nothing unless something goes wrong."""
    idle = _IdleConnections(settings.timeout)

    async def every_second() -> None:
        idle.end(server.server_state.connections)

    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http="h11",
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=math.ceil(settings.timeout),  # within which everything is answered or refused
            callback_notify=every_second,
            timeout_notify=0,
        )
    )
    return server


def run_service(make_app: Callable[[], ASGIApp], settings: ServiceSettings) -> None:
    """Serve until SIGINT or SIGTERM; requests that are being answered are finished."""
    with open_listener(settings) as listener, _ended_by_signals():
        app = make_app()
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        sys.stderr.write(f"stakes serves http://{host}:{listener.getsockname()[1]}/ until Ctrl-C\n")
        sys.stderr.flush()
        make_server(app, settings).run(sockets=[listener])


def open_listener(settings: ServiceSettings) -> socket.socket:
    """The socket that is listened to, bound before all else: an address in use is one line.

    Its protocol is named, or asyncio would not switch off the delay of small packets, which costs 40 ms per answer.
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
