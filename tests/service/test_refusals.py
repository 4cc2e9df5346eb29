"""What the service does not answer, and how it says so."""

import gzip
import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

ROW = [0.0, 0.0, 0.0]
AS_JSON = {"Content-Type": "application/json"}


def fault(reply: httpx.Response) -> tuple[int, str, str]:
    """Status, field and message of a refusal."""
    content = reply.json()
    assert content.keys() == {"error"}
    assert content["error"].keys() == {"field", "message"}
    assert "\n" not in content["error"]["message"]
    return reply.status_code, content["error"]["field"], content["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        ("decide", {}, "features", "either features or members, got none"),
        ("decide", {"features": [ROW], "members": [[1]]}, "features", "got both"),
        ("decide", {"features": []}, "features", "between 1 and 50 rows, got 0"),
        ("decide", {"features": [ROW] * 51}, "features", "got 51"),
        ("decide", {"features": [[1, 2]]}, "features.0", "the 3 features of the fit, got 2"),
        ("decide", {"features": [ROW, {"wind": 1, "sun": 1}]}, "features.1.price", "is missing"),
        ("decide", {"features": [{"wind": 1, "son": 1}]}, "features.0.son", "did you mean 'sun'"),
        ("decide", {"features": [[1, 2, "3"]]}, "features.0.2", "valid number"),
        ("decide", {"features": [[1, 2, True]]}, "features.0.2", "valid number"),
        ("decide", {"features": [[1, 2, None]]}, "features.0.2", "valid number"),
        ("decide", {"features": [{"wind": [1]}]}, "features.0.wind", "valid number"),
        ("decide", {"features": [5]}, "features.0", "an object of numbers by column name, or a list"),
        ("decide", {"features": {"wind": 1}}, "features", "valid array"),
        ("decide", {"features": [[0, 0, 1e39]]}, "features", "single precision"),
        ("decide", {"members": []}, "members", "between 1 and 50 rows"),
        ("decide", {"members": [[]]}, "members.0", "at least 1"),
        ("decide", {"members": [[0.0] * 61]}, "members", "at most 60 a row, got 61"),
        ("decide", {"members": [[1, 2], [3]]}, "members.1", "as many members each, got 2 and 1"),
        ("decide", {"members": [[[1, 2]]]}, "members.0", "1 outcomes each, got 2"),
        ("decide", {"members": [[1, [2]]]}, "members.0.1", "valid number"),
        ("decide", {"members": [[1e308, -1e308]]}, "members", "too large"),
        ("decide", {"members": [[1]], "member_count": 5}, "member_count", "for features only"),
        ("decide", {"features": [ROW], "member_levels": [0.1, 0.9]}, "member_levels", "without members"),
        ("decide", {"members": [[1, 2, 3]], "member_levels": [0.1, 0.9]}, "member_levels", "each of 3, got 2"),
        ("decide", {"members": [[1, 2]], "member_levels": [0.9, 0.1]}, "member_levels", "must ascend, got 0.9, 0.1"),
        ("decide", {"members": [[1, 2]], "member_levels": [0.6, 0.9]}, "member_levels", "both sides of the median"),
        ("decide", {"members": [[2, 1]], "member_levels": [0.1, 0.9]}, "member_levels", "quantiles that fall"),
        ("curve", {"members": [[[1], [2]]]}, "members", "one case, (members) or (members, outcomes), not rows of them"),
        ("curve", {"members": [[[1], [2]]]}, "members", "/v1/parts has a decision with many parts"),
        ("parts", {"members": [[[1], [2]]]}, "members", "one case, (members) or (members, outcomes), not rows of them"),
        ("curve", {"members": [1, 2], "member_levels": [0.1, 1.9]}, "member_levels.1", "less than 1"),
        ("decide", {"features": [ROW], "member_count": 61}, "member_count", "at most 60, got 61"),
        ("decide", {"features": [ROW], "member_count": 0}, "member_count", "greater than or equal to 1"),
        ("decide", {"features": [ROW], "member_count": 2.5}, "member_count", "valid integer"),
        ("decide", {"features": [ROW], "quantiles": [0.5, 1]}, "quantiles.1", "less than 1"),
        ("decide", {"features": [ROW], "forecast": "best"}, "forecast", "there are chosen, weight_0"),
        ("decide", {"features": [ROW], "more": 1}, "more", "not permitted"),
        ("decide", {"features": [ROW], "cost": {"short": -1}}, "cost.short", "short must be positive"),
        ("decide", {"features": [ROW], "cost": {"shrt": 1}}, "cost.shrt", "did you mean 'short'?"),
        ("decide", {"features": [ROW], "cost": {"short": "1"}}, "cost.short", "valid number"),
        ("decide", {"features": [ROW], "cost": {"short": 1, "lower": 10}}, "cost.lower", "below upper"),
        ("decide", {"features": [ROW], "cost": {"short": 1e39}}, "cost.short", "single precision, got 1e+39"),
        ("decide", {"members": [[1]], "cost": {"upper": 1e39}}, "cost.upper", "single precision"),
        ("curve", {"features": ROW, "cost": {"lower": -1e300}}, "cost.lower", "single precision"),
        ("table", {"csv": "wind,sun,price\n1,2,3\n", "cost": {"upper": 1e300}}, "cost.upper", "single precision"),
        ("forecast", {"features": [ROW], "members": [[1]]}, "members", "not permitted"),
        ("forecast", {}, "features", "required"),
        ("curve", {"features": [ROW]}, "features.0", "valid number"),
        ("curve", {"features": ROW, "points": 402}, "points", "401"),
        ("curve", {"features": ROW, "forecasts": ["x"]}, "forecast", "no forecast 'x'"),
        ("curve", {"features": {"wind": 1}}, "features.sun", "missing"),
        ("table", {"csv": ""}, "csv", "empty"),
        ("table", {"csv": "wind,sun,price\n"}, "csv", "no rows"),
        ("table", {"csv": "wind,sun,price," * 6666 + ",\n1\n"}, "csv", "the header has 20000"),
        ("table", {"csv": "wind,sun,price," * 6667 + "\n1\n"}, "csv", "at most 100000 characters in all"),
        ("table", {"csv": "wind,sun\n1,2\n"}, "csv", "no column 'price'"),
        ("table", {"csv": "wind,sun,price\n1,2,x\n"}, "csv", "'price' must hold numbers"),
        ("table", {"csv": "wind,sun,price\n" + "1,2,3\n" * 51}, "csv", "between 1 and 50 rows, got 51"),
    ],
)
def test_the_error_names_the_field(client: httpx.Client, path: str, body: Any, field: str, words: str) -> None:
    status, found, message = fault(client.post(f"/v1/{path}", json=body))
    assert (status, found) == (422, field)
    assert words in message


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
    status, field, message = fault(client.post("/v1/decide", content=b'{"features": [[0, 0, 0]]}', headers=headers))
    assert (status, field) == (415, "Content-Type")
    assert message == f"send the header Content-Type: application/json, got {kind or 'none'}"


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/geo+json"])
def test_json_by_other_names(client: httpx.Client, kind: str) -> None:
    headers = {"Content-Type": kind}
    assert client.post("/v1/decide", content=b'{"features": [[0, 0, 0]]}', headers=headers).status_code == 200
    assert fault(client.post("/v1/decide", content=b'{"features": 5}', headers=headers))[:2] == (422, "features")


def test_a_packed_body_is_not_read(client: httpx.Client) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    status, field, message = fault(client.post("/v1/decide", content=gzip.compress(b"{}"), headers=headers))
    assert (status, field) == (415, "Content-Encoding")
    assert message == "the body must be uncompressed JSON, got gzip"


def test_paths_and_methods_that_there_are_not(client: httpx.Client) -> None:
    assert fault(client.get("/v2/decide")) == (
        *(404, ""),
        "there is nothing at '/v2/decide'; see /openapi.json",
    )
    status, _, message = fault(client.get("/v1/decide"))
    assert (status, message.partition(";")[0]) == (405, "GET is not allowed for '/v1/decide'")
    assert fault(client.post("/v1/model"))[0] == 405
    assert fault(client.options("/v1/decide"))[0] == 405


def test_a_slash_too_many_is_not_redirected(client: httpx.Client) -> None:
    assert fault(client.post("/v1/decide/", json={"features": [ROW]}))[0] == 404


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/model", "/openapi.json"])
def test_head_is_get_without_a_body(client: httpx.Client, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]
    assert client.head("/v1/decide").status_code == 405


def test_a_large_body_is_refused_by_its_announced_length(client: httpx.Client) -> None:
    status, _, message = fault(client.post("/v1/decide", content=b" " * 200_000, headers=AS_JSON))
    assert (status, message) == (413, "the body must be at most 0.1 MiB")


def test_a_large_body_without_a_length_is_refused_too(client: httpx.Client) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(200):
            yield b" " * 1000

    assert fault(client.post("/v1/decide", content=parts(), headers=AS_JSON))[0] == 413


def test_nobody_waits_for_a_body_that_is_far_too_large(address: str) -> None:
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as line:
        line.settimeout(30)
        head = b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        line.sendall(head + b"Content-Length: 9999999999\r\n\r\n")
        assert line.recv(1000).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("asked", ["POST /healthz", "POST /", "GET /v1/decide", "PUT /v1/x"])
def test_nothing_is_read_where_nothing_can_be_answered(address: str, asked: str) -> None:
    """The answer is there before the body is."""
    url = httpx.URL(address)
    with socket.create_connection((url.host, url.port), 30) as line:
        line.sendall(f"{asked} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n".encode())
        assert line.recv(1000).startswith((b"HTTP/1.1 405 ", b"HTTP/1.1 404 "))


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
