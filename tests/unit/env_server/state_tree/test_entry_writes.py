"""Entries: streams keep their last items, counters their kind, merges follow RFC 7396."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.model.entries import COUNTER, STREAM, VALUE
from env_server.model.errors import Reason
from env_server.model.frames import StreamPage
from env_server.model.limits import Limits
from env_server.model.operations import Code, Query, ReadStream, RegisterEntry, Transact, Write
from env_server.model.values import INT_MAX, INT_MIN, NOTHING, Json
from tests.engine import Op, Stand, add, drop, get, put


@pytest.fixture
def stand() -> Stand:
    return Stand(limits=Limits(stream_items_max=4))


def append(key: str, value: Any) -> Op:
    return Op("/", key, Code.APPEND, value)


def items(stand: Stand, key: str, start: int = 0, limit: int = 0) -> list[tuple[int, Any]]:
    page = stand.done(Op("/", key, Code.QUERY, Query(ReadStream(start, limit))))[0]
    assert isinstance(page, StreamPage)
    return [(item.sequence, item.value) for item in page.items]


def test_a_stream_keeps_its_last_items_in_a_dense_sequence(stand: Stand) -> None:
    stand.done(*[append("s", number) for number in range(10)])
    for restart in (stand.reopen, lambda: (stand.stop(), stand.open())):
        assert items(stand, "s") == [(7, 6), (8, 7), (9, 8), (10, 9)]
        assert items(stand, "s", 9) == [(9, 8), (10, 9)]
        assert items(stand, "s", 2, 2) == [(7, 6), (8, 7)]
        assert items(stand, "s", 11) == []
        restart()
    stand.done(append("s", "next"))
    assert items(stand, "s")[-1] == (11, "next")


def test_a_stream_of_one_item_and_one_that_begins_again(stand: Stand) -> None:
    stand.done(Op("/", "one", Code.REGISTER_ENTRY, RegisterEntry(STREAM, stream_items_max=1)))
    assert items(stand, "one") == []
    stand.done(append("one", "a"), append("one", "b"))
    assert items(stand, "one") == [(2, "b")]
    stand.done(drop("/", "one"), append("one", "c"))
    stand.stop()
    stand.open()
    assert items(stand, "one") == [(1, "c")]


def test_the_bound_of_a_stream_is_bounded(stand: Stand) -> None:
    error = stand.do(Op("/", "s", Code.REGISTER_ENTRY, RegisterEntry(STREAM, stream_items_max=1_000_001))).error
    assert error.metadata["limit"] == "stream_items_limit_max"
    assert stand.value("/", "s") is NOTHING


def test_counters_count_exactly_up_to_64_bits(stand: Stand) -> None:
    stand.done(add("/", "n", INT_MAX), add("/", "n", INT_MIN), add("/", "n", 2**53 + 1))
    assert stand.value("/", "n") == 2**53
    stand.done(add("/", "n", INT_MAX - 2**53))
    for amount in (1, INT_MAX):
        assert stand.do(add("/", "n", amount)).error.reason is Reason.COUNTER_OVERFLOW
    assert stand.value("/", "n") == INT_MAX
    stand.done(add("/", "d", 1.5e308))
    assert stand.do(add("/", "d", 1.5e308)).error.reason is Reason.COUNTER_OVERFLOW


@pytest.mark.parametrize("starts", ["an increment", "a registration"])
@pytest.mark.parametrize("first", [2**53 + 1, 0, 0.5])
def test_an_increment_of_the_other_kind_is_refused_and_loses_nothing(
    stand: Stand, first: int | float, starts: str
) -> None:
    other = 1 if type(first) is float else 1.0
    begin = Op("/", "n", Code.REGISTER_ENTRY, RegisterEntry(COUNTER, first))
    stand.done(begin if starts == "a registration" else add("/", "n", first))
    writes = tuple(Write("/", key, Code.ADD, amount) for key, amount in (("n", first), ("n", other)))
    for op in (add("/", "n", other), Op("/", "", Code.TRANSACT, Transact(writes=writes))):
        error = stand.do(op).error
        assert error.reason is Reason.ENTRY_KIND_MISMATCH
        kinds = "counter of integers", "counter of doubles"
        assert {error.metadata["kind"], error.metadata["wanted"]} == set(kinds)
        assert all(kind in error.message for kind in kinds)
        found = stand.value("/", "n")
        assert (type(found), found) == (type(first), first)
        stand.reopen()


@pytest.mark.parametrize("kind", [VALUE, COUNTER, STREAM])
def test_changes_of_another_kind_are_refused(stand: Stand, kind: int) -> None:
    stand.done(Op("/", "e", Code.REGISTER_ENTRY, RegisterEntry(kind)))
    changes = {VALUE: put("/", "e", 1), COUNTER: add("/", "e", 1), STREAM: append("e", 1)}
    for other, op in changes.items():
        if other != kind:
            error = stand.do(op).error
            assert error.reason is Reason.ENTRY_KIND_MISMATCH
            assert error.metadata["key"] == "e"
    again = stand.do(Op("/", "e", Code.REGISTER_ENTRY, RegisterEntry(kind % 3 + 1, if_absent=True)))
    assert again.error.reason is Reason.ENTRY_KIND_MISMATCH
    assert not stand.do(Op("/", "e", Code.REGISTER_ENTRY, RegisterEntry(kind, if_absent=True))).written.changed
    assert stand.do(changes[kind]).written.version == 2


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": None, "z": 3}}, {"a": {"y": 2, "z": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ([1], {"a": 1}, {"a": 1}),
        ({"a": 1}, [1], [1]),
        ({"a": "x"}, {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_a_merge_follows_the_rfc(stand: Stand, before: Any, patch: Any, after: Any) -> None:
    if before is not None:
        stand.done(put("/", "d", Json.of(before)))
    stand.done(Op("/", "d", Code.MERGE, Json.of(patch)))
    assert stand.value("/", "d") == Json.of(after)
    stand.reopen()
    assert stand.value("/", "d") == Json.of(after)


def test_a_merge_into_something_else_and_beyond_the_limits_is_refused(stand: Stand) -> None:
    stand.done(put("/", "v", 1), put("/", "d", Json(b'{"a":"' + b"x" * 1_000_000 + b'"}')))
    patch = Json(b'{"b":"' + b"x" * 100_000 + b'"}')
    assert stand.do(Op("/", "v", Code.MERGE, patch)).error.reason is Reason.ENTRY_KIND_MISMATCH
    revision = stand.world.revision
    assert stand.do(Op("/", "d", Code.MERGE, patch)).error.reason is Reason.LIMIT_EXCEEDED
    assert stand.world.revision == revision


def test_an_equal_value_is_an_effect_and_created_and_modified_are_told(stand: Stand) -> None:
    first, second = stand.done(put("/", "v", 1), put("/", "v", 1))
    entry = stand.do(get("/", "v")).entry
    assert (entry.version, entry.created, entry.modified) == (2, first.revision, second.revision)  # type: ignore[union-attr]
    stand.done(drop("/", "v"), put("/", "v", 1))
    assert stand.do(get("/", "v")).entry.version == 1
