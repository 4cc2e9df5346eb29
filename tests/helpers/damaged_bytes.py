"""JSON as it should be, JSON as it should not, and random damage: for the tests of files and of checkpoints."""

import hashlib
from typing import Any

import torch
from example_counts import examples
from hypothesis import strategies as st

some_examples = examples(200)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


NOT_JSON: dict[str, tuple[Any, str]] = {
    "nan": (float("nan"), "pass None for NaN"),
    "inf": ({"a": [float("inf")]}, "pass None for NaN"),
    "number as key": ({1: 2}, "use text for keys"),
    "mixed keys": ({"a": 1, 2: 3}, "JSON cannot hold this"),
    "tuple": ((1, 2), "lists for tuples"),
    "set": ({"a": {1}}, "JSON cannot hold this"),
    "tensor": (torch.ones(1), "JSON cannot hold this"),
    "deep": (nested(100_000), "JSON cannot hold this"),
}
"""Values that JSON would not give back, and what is said about each."""


def document(payload: bytes) -> bytes:
    """A payload with its true hash: an attacker can compute it, too."""
    return b'{"sha256":"%s","payload":%s}\n' % (hashlib.sha256(payload).hexdigest().encode(), payload)


places = st.floats(0, 1)
edits = st.lists(
    st.one_of(
        st.tuples(st.just("set"), places, st.binary(min_size=1, max_size=4)),
        st.tuples(st.just("insert"), places, st.binary(min_size=1, max_size=20)),
        st.tuples(st.just("delete"), places, st.binary(min_size=1, max_size=20)),
        st.tuples(st.just("cut"), places, st.just(b"")),
    ),
    min_size=1,
    max_size=4,
)


def edited(content: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
    for kind, place, new in changes:
        start = int(place * len(content))
        rest = {"set": start + len(new), "insert": start, "delete": start + len(new), "cut": len(content)}[kind]
        content = content[:start] + (b"" if kind == "delete" else new) + content[rest:]
    return content
