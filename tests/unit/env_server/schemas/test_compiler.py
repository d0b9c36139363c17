"""Schemas of clients: what they let in, and that none of them can keep the server busy or make it fetch anything."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from env_server.model.errors import LimitExceeded, Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.values import Json, Value, check_document
from env_server.schemas.compiler import CompiledSchema, compile_schema

LIMITS = Limits()


def compiled(schema: Any, limits: Limits = LIMITS) -> CompiledSchema:
    document = Json(json.dumps(schema).encode())
    check_document(document, Limits())
    return compile_schema(document, limits)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer", "minimum": 0}, [0, 5, 5.0, 2**63 - 1], [-1, True, None, "x", 0.5, Json(b"{}")]),
        ({"type": ["null", "boolean"]}, [None, True], [0, "null"]),
        ({"type": "string", "pattern": "^a+$"}, ["aa"], ["", "ab", 1]),
        ({"properties": {"x": {"type": "number"}}, "required": ["x"]}, [Json(b'{"x":1}'), 7], [Json(b"{}")]),
        ({"$ref": "#/$defs/p", "$defs": {"p": {"enum": [1, "two"]}}}, [1, "two"], [2, "1"]),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "const": 3}, [3], [4]),
        (True, [1, None, "x"], []),
        (False, [], [1, None, "x"]),
    ],
)
def test_values_of_every_kind_are_checked(schema: Any, good: list[Value], bad: list[Value]) -> None:
    checker = compiled(schema)
    for value in good:
        assert checker.violations(value) == (), value
    for value in bad:
        assert checker.violations(value), value
    assert checker.violations(b"bytes"), "bytes are no JSON, whatever the schema"


def test_a_violation_names_the_pointer_of_what_is_wrong_and_there_are_few() -> None:
    checker = compiled({"properties": {"a/b": {"items": {"type": "integer"}}}})
    found = checker.violations(Json.of({"a/b": [1, "x"] + ["y"] * 100}))
    assert found[0][0] == "/a~1b/1"
    assert "integer" in found[0][1]
    assert len(found) == 16


def test_what_no_unicode_text_holds_is_a_violation_not_a_defect() -> None:
    checker = compiled({"type": "object", "additionalProperties": {"pattern": "^a*$"}})
    assert checker.violations(Json(b'{"a":"\\ud800"}'))
    assert compiled({"maximum": 5}).violations(Json(b"1" + b"0" * 400))


def self_reference(depth: int) -> dict[str, Any]:
    links: dict[str, Any] = {f"d{n}": {"items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{depth}": {"items": {"$ref": "#/$defs/d0"}}}}


def doubling(depth: int) -> dict[str, Any]:
    links = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{depth}": {"type": "integer"}}}


@pytest.mark.parametrize(
    "schema",
    [
        5,
        [],
        {"type": "nonsense"},
        {"minimum": "x"},
        {"$ref": "http://127.0.0.1:9/schema"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#"},
        {"$ref": "#/$defs/none"},
        {"$ref": "#anchor", "$defs": {"a": {"$anchor": "anchor"}}},
        {"$dynamicRef": "#x", "$dynamicAnchor": "x"},
        {"items": {"$id": "http://x/y", "$ref": "#/z"}},
        self_reference(0),
        self_reference(5),
        {"pattern": "("},
        {"pattern": "(?=a)b"},
        {"const": "\ud800"},
    ],
)
def test_what_is_no_schema_or_not_served_is_refused(schema: Any) -> None:
    with pytest.raises(WorldError) as caught:
        compiled(schema)
    assert caught.value.reason is Reason.INVALID_FIELD


def test_a_schema_is_bounded_in_bytes_parts_and_work() -> None:
    compiled(doubling(8))
    started = time.process_time()
    with pytest.raises(LimitExceeded, match="schema_parts_max"):
        compiled(doubling(31))
    with pytest.raises(LimitExceeded, match="schema_bytes_max"):
        compiled({"enum": ["x" * 70_000]})
    wide = compiled({"items": {"allOf": [{"minimum": number} for number in range(3000)]}})
    with pytest.raises(LimitExceeded, match="schema_work_max"):
        wide.violations(Json.of([1] * 300_000))
    assert time.process_time() - started < 2


def test_the_slowest_checks_that_are_let_through_are_quick() -> None:
    """A pattern that would take for ever by backtracking, and as much work as the limit allows."""
    evil = compiled({"type": "string", "pattern": "^(a+)+$"})
    wide = compiled({"items": {"allOf": [{"minimum": -number} for number in range(300)]}})
    started = time.process_time()
    assert evil.violations("a" * 500_000 + "b")
    assert not wide.violations(Json.of([1] * 40_000))
    assert time.process_time() - started < 5


def chain(length: int) -> dict[str, Any]:
    links = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {"type": "integer"}}}


def test_references_are_counted_as_they_are_followed() -> None:
    """A name in percent signs or a base of its own would lead elsewhere than where the parts are counted."""
    twice = [{"$ref": f"#/$defs/x%41{n + 1}"} for n in range(30) for _ in range(2)]
    hidden = {f"xA{n}": {"allOf": twice[2 * n : 2 * n + 2]} for n in range(30)}
    decoys: dict[str, Any] = {f"x%41{n}": True for n in range(31)}
    with pytest.raises(LimitExceeded, match="schema_parts_max"):
        compiled({"$ref": "#/$defs/x%410", "$defs": {**hidden, **decoys, "xA30": True}})
    checker = compiled({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "integer"}}})
    assert checker.violations("x")
    draft4 = "http://json-schema.org/draft-04/schema#"
    for base in ({"id": "http://a/c"}, {"$schema": draft4}):
        with pytest.raises(WorldError, match="is not served"):
            compiled({"$schema": draft4, "properties": {"a": {**base, "$ref": "#/x"}}, "x": {}})
    assert compiled({"properties": {"id": {"type": "integer"}}}).violations(Json(b'{"id":"x"}'))


@pytest.mark.parametrize("schema", [chain(600), {"$ref": "#/a/" + "1" * 5000, "a": [1]}, {"$ref": "#/%ff", "": {}}])
def test_no_reference_is_too_much_for_the_compiler_itself(schema: Any) -> None:
    with pytest.raises(WorldError) as caught:
        compiled(schema)
    assert caught.value.reason is Reason.INVALID_FIELD
    assert not compiled(chain(40)).violations(1)


def test_a_pattern_counts_for_what_it_repeats() -> None:
    """Matching is linear in the text, times the places of the pattern: a short one may have thousands."""
    started = time.process_time()
    with pytest.raises(LimitExceeded, match="schema_work_max"):
        compiled({"pattern": r"a\w{1000}\d"}).violations("ab" * 50_000)
    with pytest.raises(LimitExceeded, match="schema_parts_max"):
        compiled({"patternProperties": {r"(a|b)*a(a|b){800}[c-z]\d": {}}})
    with pytest.raises(LimitExceeded, match="schema_parts_max"):
        compiled({"pattern": "((a{1000}){1000}){10}"})
    assert compiled({"pattern": r"a\w{1000}\d"}).violations("ab" * 8_000)
    assert time.process_time() - started < 5
