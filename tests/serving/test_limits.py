"""Time-outs, a queue that ends, and a service that answers for itself meanwhile."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from live_services import golden_service, listening

from stakes.errors import SettingError
from stakes.serving import server
from stakes.serving.schemas import DecideAnswer, DecideRequest
from stakes.serving.service import Service
from stakes.serving.settings import ServiceSettings
from stakes.serving.worker_pool import GoOn

BODY = {"features": [[0.0, 0.0, 0.0]]}


class Busy:
    """Decisions that are made when somebody says so, or given up."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.given_up = threading.Semaphore(0), threading.Event(), threading.Event()

    def decide(self, request: DecideRequest, go_on: GoOn) -> DecideAnswer:
        self.begun.release()
        try:
            while not self.may_end.wait(0.01):
                go_on()
        except Exception:
            self.given_up.set()
            raise
        return DecideAnswer(forecast="busy", member_count=1, cost="", unit="", action_unit="", decisions=[])


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Busy]:
    found = Busy()
    monkeypatch.setattr(Service, "decide", lambda _, request, go_on: found.decide(request, go_on))
    yield found
    found.may_end.set()


def test_a_request_that_takes_too_long_is_given_up(fit: Path, busy: Busy) -> None:
    settings = ServiceSettings(timeout=0.2, workers=1)
    with listening(golden_service(fit, settings), settings) as address:
        reply = httpx.post(f"{address}/v1/decide", json=BODY, timeout=30)
        assert reply.status_code == 504
        assert "no answer within 0.2 seconds" in reply.json()["error"]["message"]
        assert busy.given_up.wait(30)
        busy.may_end.set()
        assert httpx.post(f"{address}/v1/decide", json=BODY, timeout=30).status_code == 200


def test_the_queue_ends_and_health_does_not_wait_in_it(fit: Path, busy: Busy) -> None:
    settings = ServiceSettings(workers=1, waiting=1)
    with (
        listening(golden_service(fit, settings), settings) as address,
        httpx.Client(base_url=address, timeout=30) as client,
        ThreadPoolExecutor(2) as threads,
    ):
        asked = [threads.submit(client.post, "/v1/decide", json=BODY) for _ in range(2)]
        while client.get("/healthz").json()["pending"] < 2:
            pass
        reply = client.post("/v1/decide", json=BODY)
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert client.get("/v1/model").status_code == 200
        busy.may_end.set()
        assert [each.result().status_code for each in asked] == [200, 200]
        assert client.get("/healthz").json()["pending"] == 0


def test_a_body_that_never_arrives_is_not_waited_for(fit: Path) -> None:
    settings = ServiceSettings(timeout=0.2)
    with listening(golden_service(fit, settings), settings) as address, connected(address) as line:
        line.sendall(b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        assert line.recv(1000).startswith(b"HTTP/1.1 408 ")


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_A_HEAD = b"POST /v1/decide HTTP/1.1\r\nHost: loc"
HALF_A_BODY = b"POST /v1/curve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HALF_A_BODY += b"Content-Length: 23\r\n\r\n{"


def test_nobody_waits_for_a_request_that_does_not_begin(fit: Path, busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for one that is being answered, and for a body whose head is there."""
    monkeypatch.setattr(server, "_HEAD_SECONDS", 0.2)
    settings = ServiceSettings()
    with (
        listening(golden_service(fit, settings), settings) as address,
        ThreadPoolExecutor(1) as threads,
        ExitStack() as lines,
    ):
        asked = threads.submit(httpx.post, f"{address}/v1/decide", json=BODY, timeout=30)
        assert busy.begun.acquire(timeout=30)
        slow = lines.enter_context(connected(address))
        slow.sendall(HALF_A_BODY)
        silent = [lines.enter_context(connected(address)) for _ in range(4)]
        for line in silent[:2]:  # which have asked before
            line.sendall(HEALTH)
            heard = b""
            while b"pending" not in heard:
                heard += line.recv(1000)
        for line in silent[::2]:
            line.sendall(HALF_A_HEAD)
        assert [line.makefile("rb").read() for line in silent] == [b""] * 4
        slow.sendall(b'"members": [1.0, 2.0]}')
        assert slow.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert not asked.done()
        busy.may_end.set()
        assert asked.result().status_code == 200


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


class Connection:
    """What is looked at of a connection of uvicorn."""

    def __init__(self) -> None:
        self.cycle: SimpleNamespace | None = None
        self.closed = False
        self.transport = SimpleNamespace(close=lambda: setattr(self, "closed", True))

    def asks(self, answered: bool) -> None:
        self.cycle = SimpleNamespace(response_complete=answered)


def test_only_connections_without_a_request_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    _, answering, asking, done = every = [Connection() for _ in range(4)]
    answering.asks(answered=False)
    watched = server._SilentConnections()
    monkeypatch.setattr(server, "_HEAD_SECONDS", 60.0)
    watched.end(every)
    assert not any(each.closed for each in every)
    monkeypatch.setattr(server, "_HEAD_SECONDS", 0.0)
    for _ in range(3):
        asking.asks(answered=True)
        done.cycle = done.cycle or SimpleNamespace(response_complete=True)
        watched.end(every)
    assert [each.closed for each in every] == [True, False, False, True]
    watched.end([])


def test_requests_at_work_are_finished_when_the_service_ends(fit: Path, busy: Busy) -> None:
    settings = ServiceSettings()
    with ThreadPoolExecutor(1) as threads:
        with listening(golden_service(fit, settings), settings) as address:
            asked = threads.submit(httpx.post, f"{address}/v1/decide", json=BODY, timeout=30)
            assert busy.begun.acquire(timeout=30)
            threading.Timer(0.3, busy.may_end.set).start()
        assert asked.result().status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/healthz")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_rows": 0}, "max_rows"),
        ({"max_members": 0}, "max_members"),
        ({"max_body_mb": 0}, "max_body_mb"),
        ({"timeout": -1}, "timeout"),
        ({"port": 65536}, "port must lie between"),
        ({"port": -1}, "port must lie between"),
        ({"token": ""}, "token must be printable"),
        ({"token": "a\nb"}, "token must be printable"),
        ({"token": " a"}, "without spaces around it"),
        ({"host": "0.0.0.0"}, "give a token"),
        ({"host": "::"}, "give a token"),
        ({"host": "192.168.1.4"}, "give a token"),
        ({"host": "example.org"}, "give a token"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        ServiceSettings(**settings)  # type: ignore[arg-type]


def test_settings_that_can_be_keep_their_token_to_themselves() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.3.2.1"):
        assert ServiceSettings(host).token is None
    assert "secret" not in repr(ServiceSettings("0.0.0.0", token="secret"))
