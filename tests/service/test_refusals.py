"""What the service does not answer, and how it says so."""

import gzip
import json
import select
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from snapshots import assert_as_kept

ROW = [0.0, 0.0, 0.0]
AS_JSON = {"Content-Type": "application/json"}


def fault(reply: httpx.Response) -> tuple[int, str, str]:
    """Status, field and message of a refusal."""
    content = reply.json()
    assert content.keys() == {"error"}
    assert content["error"].keys() == {"field", "message"}
    assert "\n" not in content["error"]["message"]
    return reply.status_code, content["error"]["field"], content["error"]["message"]


WRONG: list[tuple[str, Any, str]] = [
    ("decide", {}, "features"),
    ("decide", {"features": [ROW], "members": [[1]]}, "features"),
    ("decide", {"features": []}, "features"),
    ("decide", {"features": [ROW] * 51}, "features"),
    ("decide", {"features": [[1, 2]]}, "features.0"),
    ("decide", {"features": [ROW, {"wind": 1, "sun": 1}]}, "features.1.price"),
    ("decide", {"features": [{"wind": 1, "son": 1}]}, "features.0.son"),
    ("decide", {"features": [[1, 2, "3"]]}, "features.0.2"),
    ("decide", {"features": [5]}, "features.0"),
    ("decide", {"features": {"wind": 1}}, "features"),
    ("decide", {"features": [[0, 0, 1e39]]}, "features"),
    ("decide", {"members": []}, "members"),
    ("decide", {"members": [[]]}, "members.0"),
    ("decide", {"members": [[0.0] * 61]}, "members"),
    ("decide", {"members": [[1, 2], [3]]}, "members.1"),
    ("decide", {"members": [[[1, 2]]]}, "members.0"),
    ("decide", {"members": [[1, [2]]]}, "members.0.1"),
    ("decide", {"members": [[1e308, -1e308]]}, "members"),
    ("decide", {"members": [[1]], "member_count": 5}, "member_count"),
    ("decide", {"features": [ROW], "member_levels": [0.1, 0.9]}, "member_levels"),
    ("decide", {"members": [[1, 2, 3]], "member_levels": [0.1, 0.9]}, "member_levels"),
    ("decide", {"members": [[1, 2]], "member_levels": [0.9, 0.1]}, "member_levels"),
    ("decide", {"members": [[1, 2]], "member_levels": [0.6, 0.9]}, "member_levels"),
    ("decide", {"members": [[2, 1]], "member_levels": [0.1, 0.9]}, "member_levels"),
    ("curve", {"members": [[[1], [2]]]}, "members"),
    ("parts", {"members": [[[1], [2]]]}, "members"),
    ("curve", {"members": [1, 2], "member_levels": [0.1, 1.9]}, "member_levels.1"),
    ("decide", {"features": [ROW], "member_count": 61}, "member_count"),
    ("decide", {"features": [ROW], "member_count": 0}, "member_count"),
    ("decide", {"features": [ROW], "quantiles": [0.5, 1]}, "quantiles.1"),
    ("decide", {"features": [ROW], "forecast": "best"}, "forecast"),
    ("decide", {"features": [ROW], "more": 1}, "more"),
    ("decide", {"features": [ROW], "cost": {"short": -1}}, "cost.short"),
    ("decide", {"features": [ROW], "cost": {"shrt": 1}}, "cost.shrt"),
    ("decide", {"features": [ROW], "cost": {"short": 1, "lower": 10}}, "cost.lower"),
    ("decide", {"features": [ROW], "cost": {"short": 1e39}}, "cost.short"),
    ("table", {"csv": "wind,sun,price\n1,2,3\n", "cost": {"upper": 1e300}}, "cost.upper"),
    ("forecast", {"features": [ROW], "members": [[1]]}, "members"),
    ("forecast", {}, "features"),
    ("curve", {"features": [ROW]}, "features.0"),
    ("curve", {"features": ROW, "points": 402}, "points"),
    ("curve", {"features": ROW, "forecasts": ["x"]}, "forecast"),
    ("curve", {"features": {"wind": 1}}, "features.sun"),
    ("table", {"csv": ""}, "csv"),
    ("table", {"csv": "wind,sun,price\n"}, "csv"),
    ("table", {"csv": "wind,sun,price," * 6666 + ",\n1\n"}, "csv"),
    ("table", {"csv": "wind,sun,price," * 6667 + "\n1\n"}, "csv"),
    ("table", {"csv": "wind,sun\n1,2\n"}, "csv"),
    ("table", {"csv": "wind,sun,price\n1,2,x\n"}, "csv"),
    ("table", {"csv": "wind,sun,price\n" + "1,2,3\n" * 51}, "csv"),
]


def test_the_error_names_the_field(client: httpx.Client) -> None:
    said = []
    for path, body, field in WRONG:
        status, found, message = fault(client.post(f"/v1/{path}", json=body))
        assert (status, found) == (422, field), (path, body, message)
        said.append(f"{path}, {field}: {message}\n")
    assert_as_kept(Path(__file__).with_name("refusals.txt"), "".join(said))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b'"text"',
        b"null",
        b'"\xff"',
        b"[" * 50_000,
        b'{"members": [[NaN]]}',
        b'{"members": [[-Infinity]]}',
        b'{"members": [[1e999]]}',
        b'{"members": [[' + b"9" * 400 + b"]]}",
        b'{"members": [[' + b"9" * 5000 + b"]]}",
        b'{"features": [{"\\ud800": 1}]}',
        b'{"forecast": "\\ud800", "features": [[0, 0, 0]]}',
        b'{"csv": "\\ud800"}',
    ],
)
def test_content_that_is_no_request(client: httpx.Client, content: bytes) -> None:
    for path in ("decide", "table"):
        reply = client.post(f"/v1/{path}", content=content, headers=AS_JSON)
        assert fault(reply)[0] == 422


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "json"])
def test_a_body_must_say_that_it_is_json(client: httpx.Client, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    reply = client.post("/v1/decide", content=b'{"features": [[0, 0, 0]]}', headers=headers)
    assert fault(reply)[:2] == (415, "Content-Type")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/geo+json"])
def test_json_by_other_names(client: httpx.Client, kind: str) -> None:
    headers = {"Content-Type": kind}
    assert client.post("/v1/decide", content=b'{"features": [[0, 0, 0]]}', headers=headers).status_code == 200
    assert fault(client.post("/v1/decide", content=b'{"features": 5}', headers=headers))[:2] == (422, "features")


def test_a_packed_body_is_not_read(client: httpx.Client) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    reply = client.post("/v1/decide", content=gzip.compress(b"{}"), headers=headers)
    assert fault(reply)[:2] == (415, "Content-Encoding")


def test_paths_and_methods_that_there_are_not(client: httpx.Client) -> None:
    assert fault(client.get("/v2/decide"))[:2] == (404, "")
    assert fault(client.post("/v1/decide/", json={"features": [ROW]}))[0] == 404  # which is not redirected
    for method, path in (("GET", "decide"), ("POST", "model"), ("OPTIONS", "decide")):
        assert fault(client.request(method, f"/v1/{path}"))[0] == 405


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/model", "/openapi.json"])
def test_head_is_get_without_a_body(client: httpx.Client, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]
    assert client.head("/v1/decide").status_code == 405


def test_a_large_body_is_refused_by_its_announced_length(client: httpx.Client) -> None:
    whole = b" " * 200_000
    for content in (whole, (whole[:1000] for _ in range(200))):  # the latter without a length
        assert fault(client.post("/v1/decide", content=content, headers=AS_JSON))[0] == 413


@pytest.mark.parametrize(
    ("asked", "length", "status"),
    [
        ("POST /v1/decide", 9999999999, 413),
        ("POST /healthz", 9, 405),
        ("POST /", 9, 405),
        ("GET /v1/decide", 9, 405),
        ("PUT /v1/x", 9, 404),
    ],
)
def test_nothing_is_read_where_nothing_can_be_answered(address: str, asked: str, length: int, status: int) -> None:
    """The answer is there before the body is."""
    url = httpx.URL(address)
    head = f"{asked} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection((url.host, url.port), 30) as line:
        line.sendall(head.encode())
        assert line.recv(1000).startswith(f"HTTP/1.1 {status} ".encode())


def test_bodies_together_are_bounded(address: str) -> None:
    """Nine that are nearly as large as one may be, all of them but a byte: the last one is too much."""
    url, size = httpx.URL(address), 100_000
    head = (
        f"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n"
    )
    with ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection((url.host, url.port), 30)) for _ in range(9)]
        for line in lines:
            line.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + b" " * (size - 1))
        refused, _, _ = select.select(lines, [], [], 30)
        assert [line.recv(1000)[:13] for line in refused] == [b"HTTP/1.1 503 "]
        for line in set(lines) - set(refused):
            line.sendall(b" ")
            assert line.recv(1000).startswith(b"HTTP/1.1 422 ")


def test_a_body_in_parts_is_read_whole(client: httpx.Client) -> None:
    content = json.dumps({"features": [ROW]}).encode()
    reply = client.post("/v1/decide", content=iter([content[:7], content[7:]]), headers=AS_JSON)
    assert reply.status_code == 200


def test_names_that_lead_here_by_somebodys_doing_are_refused(client: httpx.Client) -> None:
    assert fault(client.get("/v1/model", headers={"Host": "example.org"}))[:2] == (400, "Host")
    for host in ("localhost:8000", "127.0.0.1", "[::1]:8000"):
        assert client.get("/v1/model", headers={"Host": host}).status_code == 200


def test_answers_tell_browsers_to_be_careful(client: httpx.Client) -> None:
    for path in ("/", "/v1/model", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers
