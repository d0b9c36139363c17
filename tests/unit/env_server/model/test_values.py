"""Values: what may be stored, and which are equal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_server.model.errors import InvalidRequest, LimitExceeded
from env_server.model.limits import Limits
from env_server.model.values import INT_MAX, INT_MIN, Json, check_document, check_value

LIMITS = Limits(value_bytes_max=100, json_depth_max=4)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize(
    "value", [None, True, 0, INT_MIN, INT_MAX, -0.0, 1e308, "", "x" * 100, b"x" * 100, Json(b"[[[[1]]]]"), Json(b'"x"')]
)
def test_these_may_be_stored(value: Any) -> None:
    check_value(value, LIMITS)


@pytest.mark.parametrize(
    "value",
    ["\ud800", float("nan"), float("inf"),
     INT_MIN - 1, INT_MAX + 1, Json(b""), Json(b"{"), Json(b"NaN"), Json(b"-Infinity"),
     Json(b'{"a":1,"a":1}'), Json(b"\xff"), Json(b"1e999"), Json(b"nul"), Json(b"[1,]")],
)  # fmt: skip
def test_these_may_not(value: Any) -> None:
    with pytest.raises(InvalidRequest):
        check_value(value, LIMITS)


@pytest.mark.parametrize(
    ("value", "limit"),
    [("x" * 101, "value_bytes_max"), ("é" * 51, "value_bytes_max"), (b"x" * 101, "value_bytes_max"),
     (Json(b" " * 101), "value_bytes_max"), (Json(b"[[[[[1]]]]]"), "json_depth_max")],
)  # fmt: skip
def test_a_limit_is_named(value: Any, limit: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        check_value(value, LIMITS)
    assert caught.value.metadata["limit"] == limit


@pytest.mark.parametrize("value", [object(), {}, [1], 1j, type("Number", (float,), {})(1.0), bytearray(b"x")])
def test_other_kinds_and_subclasses_are_no_values(value: Any) -> None:
    with pytest.raises(TypeError):
        check_value(value, LIMITS)


def test_brackets_in_strings_are_no_depth() -> None:
    check_value(Json(b'["[[[[[[", "\\"[[[["]'), LIMITS)


@given(DOCUMENTS)
def test_documents_are_equal_when_their_canonical_forms_are(document: Any) -> None:
    compact = Json.of(document)
    spaced = Json(json.dumps(document, indent=2, sort_keys=True).encode())
    assert compact == spaced
    assert hash(compact) == hash(spaced)
    check_document(compact, Limits())
    assert compact.document == document


def test_different_documents_differ() -> None:
    documents = [Json(text) for text in (b"1", b"1.0", b"true", b'"1"', b"[1]", b'{"1":1}', b"null")]
    for place, left in enumerate(documents):
        for right in documents[place + 1 :]:
            assert left != right
