"""How the service runs: its settings, and listening until a signal says otherwise."""

import ipaddress
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from stakes.argument_checks import require_count, require_positive
from stakes.errors import SettingError

_MEBIBYTE = 1 << 20
_MOST_WORKERS = 4
_PORTS = 1 << 16


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _can_be_sent(token: str) -> bool:
    """Whether a header brings it here as it is."""
    return token.isascii() and token.isprintable() and token.strip() == token != ""


@dataclass(frozen=True)
class ServiceSettings:
    """Where the service listens, who may ask, and how much at once. An address that others can reach needs a token."""

    host: str = "127.0.0.1"  # the address that is listened to
    port: int = 8000  # the port; 0 takes a free one
    token: str | None = field(default=None, repr=False)  # what every request must bring; None asks for none
    max_rows: int = 10_000  # rows of one request at most
    max_members: int = 2000  # members of each row at most
    max_body_mb: float = 16.0  # size of the body of a request at most, in MiB
    timeout: float = 30.0  # seconds after which a request is given up, and for reading its body
    workers: int = field(default_factory=lambda: min(_MOST_WORKERS, os.cpu_count() or 1))
    waiting: int = 100  # requests that may wait for a thread; one more is refused

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_members", "workers"):
            require_count(name, getattr(self, name))
        require_count("waiting", self.waiting, 0)
        for name in ("max_body_mb", "timeout"):
            require_positive(name, getattr(self, name))
        if not 0 <= self.port < _PORTS:
            raise SettingError(f"port must lie between 0 (any free port) and {_PORTS - 1}, got {self.port}")
        if self.token is not None and not _can_be_sent(self.token):
            raise SettingError("token must be printable ASCII text, not empty and without spaces around it")
        if self.token is None and not is_loopback(self.host):
            raise SettingError(
                f"the address {self.host!r} can be reached by others; set a token that all of them must know, "
                "with --token or STAKES_TOKEN"
            )

    @property
    def max_body(self) -> int:
        """How large the body of a request may be, in bytes."""
        return int(self.max_body_mb * _MEBIBYTE)

    @property
    def threads_each(self) -> int:
        """The threads of torch in every worker: all workers together use no more cores than there are."""
        return max(1, (os.cpu_count() or 1) // self.workers)


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
        raise SettingError(
            f"{settings.host}:{settings.port} cannot be opened for listening: {error.strerror}"
        ) from error
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
