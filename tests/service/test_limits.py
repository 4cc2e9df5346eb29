"""Time-outs, a queue that ends, and a service that answers for itself meanwhile."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from unittest import TestCase

import httpx
import pytest
from busy_workers import SPACES, Busy, Wayward
from live_services import golden_service, listening
from refusals import refuses

from stakes.errors import SettingError
from stakes.service import server
from stakes.service.server import ServiceSettings

BODY = {"features": [[0.0, 0.0, 0.0]]}
AS_JSON = {"Content-Type": "application/json"}


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Busy]:
    workers = Busy(tmp_path)
    yield workers
    workers.may_end()


@pytest.fixture(scope="module")
def wayward(fit: Path) -> Iterator[httpx.Client]:
    """A service whose one worker does what it is told, for a second at most."""
    settings = ServiceSettings(timeout=1.0, workers=1, max_body_mb=3)
    app = golden_service(fit, settings, Wayward)
    with listening(app, settings) as address, httpx.Client(base_url=address, timeout=30, headers=AS_JSON) as client:
        yield client


def test_a_worker_is_killed_when_its_time_is_up(wayward: httpx.Client) -> None:
    first = int(wayward.post("/v1/table", content=b"who").content)
    assert int(wayward.post("/v1/table", content=b"who").content) == first
    reply = wayward.post("/v1/table", content=b"spin")
    assert reply.status_code == 504
    assert int(wayward.post("/v1/table", content=b"who").content) != first
    assert wayward.get("/healthz").json()["pending"] == 0
    assert has_ended(first)


def test_a_worker_that_dies_fails_one_request(wayward: httpx.Client) -> None:
    assert wayward.post("/v1/decide", content=b"die").status_code == 500
    assert wayward.post("/v1/decide", content=b"who").status_code == 200


def test_a_worker_that_died_while_idle_fails_no_request(wayward: httpx.Client) -> None:
    worker = int(wayward.post("/v1/decide", content=b"who").content)
    os.kill(worker, signal.SIGKILL)
    assert has_ended(worker)
    reply = wayward.post("/v1/decide", content=b"who")
    assert reply.status_code == 200
    assert int(reply.content) != worker


@pytest.mark.parametrize("content", [b"much", b" " * 2_000_000])
def test_a_worker_that_had_much_in_memory_is_not_used_again(wayward: httpx.Client, content: bytes) -> None:
    first = int(wayward.post("/v1/decide", content=content).content)
    assert int(wayward.post("/v1/decide", content=b"who").content) != first


def test_workers_come_back_when_their_fork_server_is_killed(wayward: httpx.Client) -> None:
    worker = int(wayward.post("/v1/decide", content=b"who").content)
    os.killpg(os.getpgid(worker), signal.SIGKILL)
    assert has_ended(worker)
    assert wayward.post("/v1/decide", content=b"who").status_code == 200


def test_a_fault_of_ours_is_logged_and_not_told(wayward: httpx.Client) -> None:
    with TestCase().assertLogs() as log:
        reply = wayward.post("/v1/decide", content=b"fail")
        assert reply.status_code == 500
        assert "secret" not in reply.text
        for _ in range(1000):  # the answer may be here before the line is written
            if "POST /v1/decide failed" in "".join(log.output):
                break
            time.sleep(0.01)
    text = "\n".join(log.output)
    assert "secret of somebody" in text
    assert "POST /v1/decide failed" in text


def has_ended(process: int) -> bool:
    """Whether it ends within ten seconds."""
    status = Path(f"/proc/{process}/stat")
    for _ in range(1000):
        if not status.exists() or ") Z " in status.read_text():
            return True
        time.sleep(0.01)
    return False


def test_the_queue_ends_and_health_does_not_wait_in_it(fit: Path, busy: Busy) -> None:
    """And when the service ends, what is at work is answered first."""
    settings = ServiceSettings(workers=1, waiting=1)
    with ThreadPoolExecutor(2) as threads:
        with (
            listening(golden_service(fit, settings, busy.make), settings) as address,
            httpx.Client(base_url=address, timeout=30) as client,
        ):
            asked = [threads.submit(httpx.post, f"{address}/v1/decide", json=BODY, timeout=30) for _ in range(2)]
            while client.get("/healthz").json()["pending"] < 2:
                time.sleep(0.01)
            reply = client.post("/v1/decide", json=BODY)
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
            assert client.get("/v1/model").status_code == 200
            worker = busy.wait_until_begun()
            threading.Timer(0.1, busy.may_end).start()
        assert [each.result().status_code for each in asked] == [200, 200]
        assert has_ended(worker)
        refuses(httpx.ConnectError, "", httpx.get, f"{address}/healthz")


def test_a_body_that_never_arrives_is_not_waited_for(wayward: httpx.Client) -> None:
    with connected(wayward.base_url) as line:
        line.sendall(post(b"{", length=10))
        assert line.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_connections_whose_answer_nobody_reads_are_ended(wayward: httpx.Client) -> None:
    """The answer is larger than what the kernel takes off the hands of the service."""
    with connected(wayward.base_url) as slow:
        slow.sendall(post(b"very much"))
        assert slow.recv(12) == b"HTTP/1.1 200"
        time.sleep(3)  # the time-out, and a look every second
        assert len(slow.makefile("rb").read()) < SPACES[b"very much"]


def post(content: bytes, length: int | None = None) -> bytes:
    head = f"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length or len(content)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + content


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_A_HEAD = b"POST /v1/decide HTTP/1.1\r\nHost: loc"


def test_nobody_waits_for_a_request_that_does_not_begin(fit: Path, busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for one that is being answered, and for a body whose head is there."""
    monkeypatch.setattr(server, "_HEAD_SECONDS", 0.2)
    settings = ServiceSettings()
    with (
        listening(golden_service(fit, settings, busy.make), settings) as address,
        ThreadPoolExecutor(1) as threads,
        ExitStack() as lines,
    ):
        asked = threads.submit(httpx.post, f"{address}/v1/decide", json=BODY, timeout=30)
        busy.wait_until_begun()
        slow = lines.enter_context(connected(address))
        slow.sendall(post(b"{", length=23))
        silent = [lines.enter_context(connected(address)) for _ in range(4)]
        for line in silent[:2]:  # which have asked before
            line.sendall(HEALTH)
            heard = b""
            while b"pending" not in heard:
                heard += line.recv(1000)
        for line in silent[::2]:
            line.sendall(HALF_A_HEAD)
        assert [line.makefile("rb").read() for line in silent] == [b""] * 4
        assert not asked.done()
        busy.may_end()
        slow.sendall(b'"members": [1.0, 2.0]}')
        assert slow.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert asked.result().status_code == 200


def connected(address: str | httpx.URL) -> socket.socket:
    url = httpx.URL(address)
    return socket.create_connection((url.host, url.port), timeout=30)


WRONG: dict[str, list[object]] = {
    "max_rows": [0],
    "max_members": [0],
    "max_body_mb": [0],
    "timeout": [-1],
    "port": [65536, -1],
    "token": ["", "a\nb", " a"],
    "host": ["0.0.0.0", "::", "192.168.1.4", "example.org"],  # which need a token
}


@pytest.mark.parametrize("name", WRONG)
def test_settings_that_cannot_be(name: str) -> None:
    for value in WRONG[name]:
        refuses(SettingError, "token" if name == "host" else name, ServiceSettings, **{name: value})


def test_settings_that_can_be_keep_their_token_to_themselves() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.3.2.1"):
        assert ServiceSettings(host).token is None
    assert "secret" not in repr(ServiceSettings("0.0.0.0", token="secret"))
