"""Single operations from the wire."""

import math
from typing import Any

import pytest
from env_api.v1 import operations_pb2 as pb
from env_api.v1 import queries_pb2, values_pb2

from env_server.model.entries import COUNTER, STREAM, VALUE
from env_server.model.errors import InvalidRequest, LimitExceeded, Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.operations import (
    Acknowledge,
    Code,
    Delete,
    Distance,
    Get,
    Invoke,
    ListChildren,
    ListEntries,
    Nearby,
    Neighbours,
    Precondition,
    Query,
    ReadAggregates,
    ReadStream,
    RegisterEntry,
    RegisterEnvironment,
    Transact,
    Write,
)
from env_server.model.operations import Test as Condition
from env_server.model.spaces import Box
from env_server.model.values import NOTHING, Json
from env_server.rpc.decode.ops import (
    decode_acknowledge,
    decode_delete,
    decode_invoke,
    decode_preconditions,
    decode_query,
    decode_register,
    decode_transact,
    decode_update,
    decode_write,
)

LIMITS = Limits()
Value = values_pb2.Value


def test_register_of_an_entry() -> None:
    code, argument = decode_register(pb.Register(if_absent=True, value=Value(int_value=3)), "k", LIMITS)
    assert (code, argument) == (Code.REGISTER_ENTRY, RegisterEntry(VALUE, 3, 0, if_absent=True))
    stream = pb.Register(entry_kind=values_pb2.ENTRY_KIND_STREAM, stream_items_max=5)
    assert decode_register(stream, "k", LIMITS)[1] == RegisterEntry(STREAM, NOTHING, 5)
    counter = pb.Register(entry_kind=values_pb2.ENTRY_KIND_COUNTER, value=Value(double_value=0.5))
    assert decode_register(counter, "k", LIMITS)[1] == RegisterEntry(COUNTER, 0.5)


def test_register_of_an_environment() -> None:
    code, argument = decode_register(pb.Register(kind="chat_room", labels={"b": "1", "a": "2"}), "", LIMITS)
    assert code is Code.REGISTER_ENVIRONMENT
    assert isinstance(argument, RegisterEnvironment)
    assert (argument.declaration.kind, argument.declaration.labels) == ("chat_room", {"a": "2", "b": "1"})
    assert not argument.if_absent


def test_update_of_an_entry() -> None:
    def update(**fields: Any) -> tuple[Code, object]:
        return decode_update(pb.Update(**fields), "k", LIMITS)

    assert update(set=Value(null_value=True)) == (Code.SET, None)
    assert update(set=Value(string_value="s")) == (Code.SET, "s")
    assert update(merge_json=b'{"a":1}') == (Code.MERGE, Json(b'{"a":1}'))
    assert update(add_int=-2) == (Code.ADD, -2)
    assert update(add_double=0.25) == (Code.ADD, 0.25)
    assert update(append=Value(bytes_value=b"x")) == (Code.APPEND, b"x")


def test_delete() -> None:
    assert decode_delete(pb.Delete(if_present=True), "k", LIMITS) == (
        Code.DELETE_ENTRY,
        Delete(if_present=True),
    )
    assert decode_delete(pb.Delete(recursive=True), "", LIMITS) == (
        Code.DELETE_ENVIRONMENT,
        Delete(recursive=True),
    )


@pytest.mark.parametrize(
    ("key", "fields", "ask"),
    [
        ("", {"get": {}}, Get()),
        ("k", {"get": {}}, Get()),
        ("", {"list_entries": {"key_prefix": "p", "page_size": 5, "page_token": "t"}}, ListEntries("p", 5, "t")),
        (
            "",
            {"list_children": {"name_prefix": "p", "labels": {"b": "1", "a": "2"}}},
            ListChildren("p", (("a", "2"), ("b", "1"))),
        ),
        ("", {"aggregates": {"names": ["x"]}}, ReadAggregates(("x",))),
        ("k", {"stream": {"from_sequence": 4, "limit": 2}}, ReadStream(4, 2)),
    ],
)
def test_queries(key: str, fields: dict[str, Any], ask: object) -> None:
    assert decode_query(queries_pb2.Query(min_revision=9, **fields), key, LIMITS) == (Code.QUERY, Query(ask, 9))  # type: ignore[arg-type]


def test_invoke() -> None:
    companion = pb.Write(path="/a", key="k", update={"add_int": 1})
    message = pb.Invoke(operation="bid", args_json=b'{"amount":3}', companions=[companion])
    expected = Invoke("bid", Json(b'{"amount":3}'), (Write("/a", "k", Code.ADD, 1),))
    assert decode_invoke(message, "", LIMITS) == (Code.INVOKE, expected)
    assert decode_invoke(pb.Invoke(operation="bid"), "", LIMITS)[1] == Invoke("bid", Json(b"{}"))


def test_transact() -> None:
    message = pb.Transact(
        preconditions=[pb.Precondition(path="/a", key="k", value=Value(int_value=1))],
        writes=[pb.Write(path="/a", delete={}, preconditions=[pb.Precondition(exists=True)])],
    )
    expected = Transact(
        (Precondition(Condition.VALUE, 1, "/a", "k"),),
        (Write("/a", "", Code.DELETE_ENVIRONMENT, Delete(), (Precondition(Condition.EXISTS),)),),
    )
    assert decode_transact(message, "", LIMITS) == (Code.TRANSACT, expected)


def test_acknowledge_stands_alone_or_in_a_transaction_and_names_no_place() -> None:
    message = pb.Acknowledge(subscription="s", term=3, revision=9)
    assert decode_acknowledge(message, "", LIMITS) == (Code.ACKNOWLEDGE, Acknowledge("s", 3, 9))
    write = decode_write(pb.Write(acknowledge=message), LIMITS)
    assert write == Write("", "", Code.ACKNOWLEDGE, Acknowledge("s", 3, 9))
    for wrong in (pb.Write(path="/a", acknowledge=message), pb.Write(key="k", acknowledge=message)):
        with pytest.raises(InvalidRequest):
            decode_write(wrong, LIMITS)


def test_an_else_branch_needs_a_precondition_that_may_fail() -> None:
    write = pb.Write(path="/a", key="k", update={"add_int": 1})
    guard = pb.Precondition(path="/a", key="k", absent=True)
    decoded = decode_transact(pb.Transact(preconditions=[guard], writes=[write], otherwise=[write]), "", LIMITS)[1]
    assert isinstance(decoded, Transact) and len(decoded.otherwise) == 1
    with pytest.raises(InvalidRequest, match="precondition"):
        decode_transact(pb.Transact(writes=[write], otherwise=[write]), "", LIMITS)


def test_every_precondition_is_read() -> None:
    expected = {
        "exists": Precondition(Condition.EXISTS),
        "absent": Precondition(Condition.ABSENT),
        "version": Precondition(Condition.VERSION, 1),
        "gate_generation": Precondition(Condition.GATE_GENERATION, 1),
        "lease_owner": Precondition(Condition.LEASE_OWNER, 1),
        "created_revision": Precondition(Condition.CREATED_REVISION, 1),
    }
    for field in pb.Precondition.DESCRIPTOR.oneofs_by_name["test"].fields:
        if field.name in expected:
            assert decode_preconditions([pb.Precondition(**{field.name: 1})], LIMITS) == (expected[field.name],)
        else:
            assert field.name == "value", "a new precondition is to be tested here"


@pytest.mark.parametrize(
    ("decode", "message", "key"),
    [
        (decode_register, pb.Register(kind="x"), "k"),
        (decode_register, pb.Register(labels={"a": "b"}), "k"),
        (decode_register, pb.Register(value=Value(int_value=1)), ""),
        (decode_register, pb.Register(entry_kind=9), "k"),  # type: ignore[arg-type]
        (decode_register, pb.Register(value=Value()), "k"),
        (decode_register, pb.Register(value=Value(null_value=False)), "k"),
        (decode_register, pb.Register(entry_kind=2, value=Value(bool_value=True)), "k"),  # type: ignore[arg-type]
        (decode_register, pb.Register(entry_kind=3, value=Value(int_value=1)), "k"),  # type: ignore[arg-type]
        (decode_register, pb.Register(stream_items_max=1), "k"),
        (decode_update, pb.Update(), "k"),
        (decode_update, pb.Update(add_int=1), ""),
        (decode_update, pb.Update(environment={}), "k"),
        (decode_update, pb.Update(set=Value()), "k"),
        (decode_delete, pb.Delete(recursive=True), "k"),
        (decode_query, queries_pb2.Query(), "k"),
        (decode_query, queries_pb2.Query(list_entries={}), "k"),
        (decode_query, queries_pb2.Query(stream={}), ""),
        (decode_query, queries_pb2.Query(list_entries={"page_size": -1}), ""),
        (decode_query, queries_pb2.Query(get={"inherit": True}), ""),
        (decode_query, queries_pb2.Query(past={}), ""),
        (decode_invoke, pb.Invoke(), ""),
        (decode_invoke, pb.Invoke(operation="x"), "k"),
        (decode_transact, pb.Transact(), ""),
        (decode_transact, pb.Transact(writes=[pb.Write(path="/a")]), ""),
        (decode_transact, pb.Transact(writes=[pb.Write(delete={})]), ""),
        (decode_transact, pb.Transact(preconditions=[{"exists": True}], writes=[{"path": "/a"}]), ""),
        (decode_transact, pb.Transact(writes=[{"path": "/a", "delete": {}, "preconditions": [{}]}]), ""),
        (
            decode_transact,
            pb.Transact(writes=[{"path": "/a", "delete": {}, "preconditions": [{"exists": False}]}]),
            "",
        ),
    ],
)
def test_what_makes_no_sense_is_an_invalid_field(decode: Any, message: Any, key: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(message, key, LIMITS)
    assert caught.value.reason is Reason.INVALID_FIELD
    assert caught.value.violations


@pytest.mark.parametrize(
    ("decode", "message", "key", "reason"),
    [
        (decode_update, pb.Update(set=Value(double_value=math.nan)), "k", Reason.INVALID_VALUE),
        (decode_update, pb.Update(add_double=math.inf), "k", Reason.INVALID_VALUE),
        (decode_update, pb.Update(merge_json=b"{"), "k", Reason.INVALID_VALUE),
        (decode_update, pb.Update(merge_json=b"\x80\x04N."), "k", Reason.INVALID_VALUE),
        (decode_update, pb.Update(append=Value(json_value=b'{"a":1,"a":2}')), "k", Reason.INVALID_VALUE),
        (decode_invoke, pb.Invoke(operation="x", args_json=b"[1]"), "", Reason.INVALID_ARGUMENTS),
        (decode_invoke, pb.Invoke(operation="x", args_json=b"\x80\x04N."), "", Reason.INVALID_VALUE),
        (decode_register, pb.Register(config_json=b"NaN"), "", Reason.INVALID_VALUE),
    ],
)
def test_values_are_checked(decode: Any, message: Any, key: str, reason: Reason) -> None:
    with pytest.raises(WorldError) as caught:
        decode(message, key, LIMITS)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    ("limit", "decode", "message", "key"),
    [
        ("transaction_ops_max", decode_transact, pb.Transact(writes=[{"path": "/a", "delete": {}}] * 3), ""),
        (
            "transaction_bytes_max",
            decode_transact,
            pb.Transact(writes=[{"path": "/" + "x" * 99, "delete": {}}] * 2),
            "",
        ),
        ("transaction_bytes_max", decode_invoke, pb.Invoke(operation="x", args_json=b"[" * 150), ""),
        ("companions_max", decode_invoke, pb.Invoke(operation="x", companions=[{"path": "/a", "delete": {}}] * 3), ""),
        ("page_items_max", decode_query, queries_pb2.Query(list_entries={"page_size": 3}), ""),
        ("stream_items_limit_max", decode_register, pb.Register(entry_kind=3, stream_items_max=3), "k"),  # type: ignore[arg-type]
    ],
)
def test_limits_are_named(limit: str, decode: Any, message: Any, key: str) -> None:
    limits = Limits(
        transaction_ops_max=2,
        transaction_bytes_max=100,
        companions_max=2,
        page_items_max=2,
        stream_items_limit_max=2,
        preconditions_max=2,
    )
    with pytest.raises(LimitExceeded) as caught:
        decode(message, key, limits)
    assert caught.value.metadata["limit"] == limit


def test_too_many_preconditions_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="preconditions_max"):
        decode_preconditions([pb.Precondition(exists=True)] * 3, Limits(preconditions_max=2))


def test_positions_and_questions_about_spaces_are_read() -> None:
    assert decode_update(pb.Update(move={"position": [1, 2]}), "k", LIMITS) == (Code.MOVE, (1.0, 2.0))
    assert decode_update(pb.Update(move={}), "k", LIMITS) == (Code.MOVE, ())
    registered = decode_register(pb.Register(position=[3]), "k", LIMITS)[1]
    assert isinstance(registered, RegisterEntry) and registered.position == (3.0,)
    asked = [
        (queries_pb2.Query(nearby={"radius": 0}), "k", Nearby(radius=0.0)),
        (
            queries_pb2.Query(nearby={"position": [1], "nearest": 3, "hops": True, "limit": 4}),
            "",
            Nearby((1.0,), None, 3, hops=True, limit=4),
        ),
        (
            queries_pb2.Query(nearby={"box": {"low": [0, 0], "high": [1, 1]}}),
            "",
            Nearby(box=Box((0.0, 0.0), (1.0, 1.0))),
        ),
        (queries_pb2.Query(nearby={"adjacent": True}), "k", Nearby(adjacent=True)),
        (queries_pb2.Query(distance={"from_key": "a", "to": [1, 2]}), "", Distance(None, "a", (1.0, 2.0), "")),
        (queries_pb2.Query(neighbours={"radius": 2, "keys": ["a"]}), "", Neighbours(2.0, keys=("a",))),
        (queries_pb2.Query(neighbours={"adjacent": True}), "", Neighbours(adjacent=True)),
    ]
    for message, key, ask in asked:
        assert decode_query(message, key, LIMITS) == (Code.QUERY, Query(ask))


@pytest.mark.parametrize(
    ("message", "key"),
    [
        (queries_pb2.Query(nearby={}), "k"),
        (queries_pb2.Query(nearby={"nearest": 0}), "k"),
        (queries_pb2.Query(nearby={"adjacent": False}), "k"),
        (queries_pb2.Query(nearby={"box": {"low": [1]}}), ""),
        (queries_pb2.Query(nearby={"radius": 1, "limit": 10_001}), "k"),
        (queries_pb2.Query(nearby={"nearest": 10_001}), "k"),
        (queries_pb2.Query(neighbours={}), ""),
        (queries_pb2.Query(neighbours={"radius": 1}), "k"),
        (queries_pb2.Query(neighbours={"radius": 1, "keys": ["a/b"]}), ""),
        (queries_pb2.Query(distance={}), "k"),
    ],
)
def test_questions_that_make_no_sense_are_refused(message: Any, key: str) -> None:
    with pytest.raises(WorldError):
        decode_query(message, key, LIMITS)
