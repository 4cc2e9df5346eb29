"""With a token, whatever tells of the fit must be asked with it."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import httpx
import pytest
from busy_workers import Wayward
from live_services import golden_service, listening

from stakes.service.server import ServiceSettings

ROUTES = ["/v1/model", "/v1/cases", "/v1/decide", "/v1/forecast", "/v1/curve", "/v1/parts", "/v1/table", "/v1/nothing"]


@pytest.fixture(scope="module")
def client(fit: Path) -> Iterator[httpx.Client]:
    settings = ServiceSettings(token="open sesame", max_body_mb=0.01)
    app = golden_service(fit, settings, Wayward)
    with listening(app, settings) as address, httpx.Client(base_url=address) as found:
        yield found


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer open", "Bearer open sesame!", "Basic open sesame", "open sesame"]
)
def test_without_the_token_nothing_is_told(client: httpx.Client, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for method, path in product(("GET", "POST"), [*ROUTES, "/openapi.json"]):
        reply = client.request(method, path, headers=headers)
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"
        assert reply.json()["error"]["field"] == "Authorization"


def test_the_token_is_asked_for_before_the_body_is_read(client: httpx.Client) -> None:
    assert client.post("/v1/decide", content=b" " * 100_000).status_code == 401


def test_with_the_token_everything_is(client: httpx.Client) -> None:
    for scheme in ("Bearer", "bearer"):
        headers = {"Authorization": f"{scheme} open sesame"}
        assert client.get("/v1/model", headers=headers).status_code == 200
        reply = client.post("/v1/decide", json={"features": [[0, 0, 0]]}, headers=headers)
        assert reply.status_code == 200


def test_the_schema_says_that_a_token_is_needed(client: httpx.Client, address: str) -> None:
    schema = client.get("/openapi.json", headers={"Authorization": "Bearer open sesame"}).json()
    assert schema["components"]["securitySchemes"] == {"HTTPBearer": {"type": "http", "scheme": "bearer"}}
    assert schema["paths"]["/v1/decide"]["post"]["security"] == [{"HTTPBearer": []}]
    assert "securitySchemes" not in httpx.get(f"{address}/openapi.json").json()["components"]


def test_page_and_health_need_none_and_other_host_names_are_welcome(client: httpx.Client) -> None:
    for path in ("/", "/healthz"):
        assert client.get(path, headers={"Host": "forecasts.example.org"}).status_code == 200
    assert "data-needs-token" in client.get("/").text
    assert "price" not in client.get("/").text  # a feature
