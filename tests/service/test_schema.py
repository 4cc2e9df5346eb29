"""Requests that schemathesis makes up from the OpenAPI schema: whatever comes, no 5xx, and answers as announced."""

import httpx
import pytest
import schemathesis
from example_counts import SHARE
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode, checks

pytestmark = pytest.mark.hypothesis  # `make soak` sends all examples
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
ROW = {"type": "array", "items": {"type": "number", "minimum": -9, "maximum": 9}, "minItems": 3, "maxItems": 3}
COST = {"type": "object", "properties": {key: {"type": "number"} for key in ("short", "upper")}, "required": ["upper"]}
ASKED = ["/v1/decide", "/v1/forecast", "/v1/curve", "/v1/table"]
TOLD = ["/v1/model", "/v1/cases", "/healthz"]


@pytest.fixture(scope="module")
def announced(address: str) -> schemathesis.BaseSchema:
    """The schema of the live service."""
    return schema_of(httpx.get(f"{address}/openapi.json").json(), address)


@pytest.fixture(scope="module")
def answerable(address: str) -> schemathesis.BaseSchema:
    """The same, with rows that have the features of this fit, so that there is something to answer."""
    found = httpx.get(f"{address}/openapi.json").json()
    requests = found["components"]["schemas"]
    requests["DecideRequest"]["properties"]["features"] = {"type": "array", "items": ROW, "minItems": 1, "maxItems": 9}
    requests["ForecastRequest"]["properties"]["features"] = {"type": "array", "items": ROW, "minItems": 1}
    requests["CurveRequest"]["properties"]["features"] = ROW
    requests["DecideRequest"]["required"] = requests["CurveRequest"]["required"] = ["features"]
    for name in ("DecideRequest", "CurveRequest"):
        for other in ("members", "known"):
            del requests[name]["properties"][other]
        requests[name]["properties"]["cost"] = COST
    return schema_of(found, address)


def schema_of(found: dict[str, object], address: str) -> schemathesis.BaseSchema:
    schema = schemathesis.openapi.from_dict(found)
    schema.config.update(base_url=address)
    return schema


def fuzzed(schema: schemathesis.BaseSchema, path: str, mode: GenerationMode, examples: int) -> set[int]:
    """The statuses that so many made-up requests have led to."""
    (operation,) = schema[path].values()
    found = set()

    @seed(0)
    @settings(
        max_examples=max(2, examples // SHARE),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        found.add(case.call_and_validate(checks=CHECKS).status_code)

    check()
    return found


@pytest.mark.parametrize("path", ASKED)
def test_whatever_is_sent_is_answered_or_refused(announced: schemathesis.BaseSchema, path: str) -> None:
    assert fuzzed(announced, path, GenerationMode.POSITIVE, 80) <= {200, 422}
    refused = fuzzed(announced, path, GenerationMode.NEGATIVE, 80)
    assert refused <= {400, 405, 413, 415, 422}
    assert refused


@pytest.mark.parametrize("path", ["/v1/decide", "/v1/forecast", "/v1/curve"])
def test_rows_of_this_fit_are_answered(answerable: schemathesis.BaseSchema, path: str) -> None:
    assert 200 in fuzzed(answerable, path, GenerationMode.POSITIVE, 80)


@pytest.mark.parametrize("path", TOLD)
def test_what_is_told_is_as_announced(announced: schemathesis.BaseSchema, path: str) -> None:
    assert fuzzed(announced, path, GenerationMode.POSITIVE, 2) == {200}


def test_every_property_says_what_it_is(announced: schemathesis.BaseSchema) -> None:
    schemas = announced.raw_schema["components"]["schemas"]
    assert {"DecideRequest", "Certificate", "ErrorAnswer"} <= schemas.keys()
    properties = {
        f"{name}.{key}": value
        for name, schema in schemas.items()
        for key, value in schema.get("properties", {}).items()
    }
    assert [name for name, value in properties.items() if not value.get("description")] == []
