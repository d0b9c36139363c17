"""Requests that are wrong in themselves: values, fields, sizes; the error table, row by row."""

from __future__ import annotations

from env_api.v1 import operations_pb2 as ops
from env_api.v1 import queries_pb2, space_pb2, timeline_pb2
from env_api.v1 import values_pb2 as values

from tests.promises.bad_request import (
    ABORTED,
    INVALID,
    MIB,
    NOT_FOUND,
    ONE,
    RANGE,
    Bad,
    environment,
    limit,
    put,
    transact,
    update,
    write,
)

DEEP = b"[" * 65 + b"]" * 65
VALUES = [
    Bad("NaN", "/town", "v", put(double_value=float("nan")), INVALID, "INVALID_VALUE"),
    Bad("infinity", "/town", "v", put(double_value=float("-inf")), INVALID, "INVALID_VALUE"),
    Bad("NaN added", "/town", "c", update(add_double=float("nan")), INVALID, "INVALID_VALUE"),
    Bad("NaN appended", "/town", "s", update(append=values.Value(double_value=float("nan"))), INVALID, "INVALID_VALUE"),
    *[
        Bad(f"JSON {text[:12]!r}", "/town", "v", put(json_value=text), INVALID, "INVALID_VALUE")
        for text in (b"", b"{", b"NaN", b"[Infinity]", b'{"a":1,"a":2}', b"\xff", b"1e999", b"1 2", b"'x'")
    ],
    Bad("JSON too deep", "/town", "v", put(json_value=DEEP), INVALID, "LIMIT_EXCEEDED", limit("json_depth_max", 64)),
    Bad(
        "a long string",
        "/town",
        "v",
        put(string_value="x" * (MIB + 1)),
        INVALID,
        "LIMIT_EXCEEDED",
        limit("value_bytes_max", MIB),
    ),
    Bad(
        "a long string of few characters",
        "/town",
        "v",
        put(string_value="é" * (MIB // 2) + "x"),
        INVALID,
        "LIMIT_EXCEEDED",
        limit("value_bytes_max", MIB),
    ),
    Bad("long bytes", "/town", "v", put(bytes_value=b"x" * (MIB + 1)), INVALID, "LIMIT_EXCEEDED"),
    Bad("long JSON", "/town", "v", put(json_value=b'"' + b"x" * MIB + b'"'), INVALID, "LIMIT_EXCEEDED"),
    Bad("null that is false", "/town", "v", put(null_value=False), INVALID, "INVALID_FIELD"),
]
UNSET = [
    Bad("update of nothing", "/town", "v", ops.Update(), INVALID, "INVALID_FIELD"),
    Bad("value of nothing", "/town", "v", ops.Update(set=values.Value()), INVALID, "INVALID_FIELD"),
    Bad("query of nothing", "/town", "", queries_pb2.Query(), INVALID, "INVALID_FIELD"),
    Bad("environment update of nothing", "/town", "", environment(), INVALID, "INVALID_FIELD"),
    Bad("transaction of nothing", "", "", ops.Transact(), INVALID, "INVALID_FIELD"),
    Bad("write of nothing", "", "", transact(ops.Write(path="/town")), INVALID, "INVALID_FIELD"),
    Bad("write without a path", "", "", transact(ops.Write(key="v", update=ONE)), INVALID, "INVALID_FIELD"),
    Bad("condition of nothing", "/town", "v", ONE, INVALID, "INVALID_FIELD", preconditions=(ops.Precondition(),)),
]
FIELDS = [
    Bad(
        "negative page",
        "/town",
        "",
        queries_pb2.Query(list_entries=queries_pb2.ListEntries(page_size=-1)),
        INVALID,
        "INVALID_FIELD",
    ),
    Bad(
        "negative limit",
        "/town",
        "s",
        queries_pb2.Query(stream=queries_pb2.ReadStream(limit=-1)),
        INVALID,
        "INVALID_FIELD",
    ),
    Bad(
        "large page",
        "/town",
        "",
        queries_pb2.Query(list_children=queries_pb2.ListChildren(page_size=10_001)),
        INVALID,
        "LIMIT_EXCEEDED",
        limit("page_items_max", 10_000),
    ),
    Bad("unknown kind of entry", "/town", "n", ops.Register(entry_kind=99), INVALID, "INVALID_FIELD"),  # type: ignore[arg-type]
    Bad(
        "unknown function",
        "/n",
        "",
        ops.Register(aggregates=[values.Aggregate(name="a", function=99)]),  # type: ignore[arg-type]
        INVALID,
        "INVALID_FIELD",
    ),
    Bad(
        "descending bounds",
        "/n",
        "",
        ops.Register(aggregates=[values.Aggregate(name="a", function=6, bounds=[2, 1])]),  # type: ignore[arg-type]
        INVALID,
        "INVALID_FIELD",
    ),
    Bad(
        "two gates",
        "/n",
        "",
        ops.Register(gates=[values.Gate(name="a"), values.Gate(name="b")]),
        INVALID,
        "INVALID_FIELD",
    ),
    Bad(
        "negative deadline",
        "/n",
        "",
        ops.Register(gates=[values.Gate(name="a", deadline_ms=-1)]),
        INVALID,
        "INVALID_FIELD",
    ),
    Bad("recursive deletion of an entry", "/town", "v", ops.Delete(recursive=True), INVALID, "INVALID_FIELD"),
    Bad("kind for an entry", "/town", "n", ops.Register(kind="basic"), INVALID, "INVALID_FIELD"),
    Bad(
        "arguments that are no object",
        "/busy",
        "",
        ops.Invoke(operation="hold", args_json=b"[1]"),
        INVALID,
        "INVALID_ARGUMENTS",
    ),
    Bad("missing arguments", "/busy", "", ops.Invoke(operation="hold"), INVALID, "INVALID_ARGUMENTS"),
    Bad(
        "unknown arguments",
        "/busy",
        "",
        ops.Invoke(operation="refuse", args_json=b'{"x":1}'),
        INVALID,
        "INVALID_ARGUMENTS",
    ),
]
SIZES = [
    Bad("129 writes", "", "", transact(*[write()] * 129), INVALID, "LIMIT_EXCEEDED", limit("transaction_ops_max", 128)),
    Bad(
        "a transaction above 1 MiB",
        "",
        "",
        transact(*[write(update=put(bytes_value=b"x" * 600_000))] * 2),
        INVALID,
        "LIMIT_EXCEEDED",
        limit("transaction_bytes_max", MIB),
    ),
    Bad(
        "17 companions",
        "/busy",
        "",
        ops.Invoke(operation="refuse", companions=[write()] * 17),
        INVALID,
        "LIMIT_EXCEEDED",
        limit("companions_max", 16),
    ),
    Bad(
        "17 conditions",
        "/town",
        "v",
        ONE,
        INVALID,
        "LIMIT_EXCEEDED",
        limit("preconditions_max", 16),
        (ops.Precondition(exists=True),) * 17,
    ),
    Bad(
        "65 labels",
        "/n",
        "",
        ops.Register(labels={f"l{n}": "" for n in range(65)}),
        INVALID,
        "LIMIT_EXCEEDED",
        limit("labels_max", 64),
    ),
]
UNSUPPORTED = [
    Bad("inherit", "/town", "", queries_pb2.Query(get=queries_pb2.Get(inherit=True)), INVALID, "INVALID_FIELD"),
    Bad(
        "nearby",
        "/town",
        "",
        queries_pb2.Query(nearby=queries_pb2.Nearby(radius=1)),
        NOT_FOUND,
        "SPACE_NOT_FOUND",
        {"path": "/town"},
    ),
    Bad(
        "past of an environment", "/town", "", queries_pb2.Query(past=queries_pb2.ReadPast()), INVALID, "INVALID_FIELD"
    ),
    Bad(
        "past that is to come",
        "/town",
        "v",
        queries_pb2.Query(past=queries_pb2.ReadPast(to_revision=1 << 40)),
        RANGE,
        "REVISION_IN_FUTURE",
    ),
    Bad("move", "/town", "v", update(move=ops.Move(position=[1])), NOT_FOUND, "SPACE_NOT_FOUND", {"path": "/town"}),
    Bad("lease", "/town", "n", ops.Register(lease_id=1), NOT_FOUND, "LEASE_NOT_FOUND", {"lease": "1"}),
    Bad("lease of an environment", "/n", "", ops.Register(lease_id=1), NOT_FOUND, "LEASE_NOT_FOUND", {"lease": "1"}),
    Bad("a member's", "/town", "n", ops.Register(entry_kind=4, lease_id=1), NOT_FOUND, "LEASE_NOT_FOUND"),
    Bad("a member without", "/town", "n", ops.Register(entry_kind=4), INVALID, "INVALID_FIELD"),
    Bad("position", "/town", "n", ops.Register(position=[1.0]), NOT_FOUND, "SPACE_NOT_FOUND", {"path": "/town"}),
    Bad("space without a shape", "/n", "", ops.Register(space=space_pb2.Space()), INVALID, "INVALID_FIELD"),
    Bad("clock without a mode", "/n", "", ops.Register(clock=timeline_pb2.Clock()), INVALID, "INVALID_FIELD"),
    Bad("schema that is none", "/n", "", ops.Register(entry_schema_json=b"5"), INVALID, "INVALID_FIELD"),
    Bad(
        "lease owner",
        "/town",
        "v",
        ONE,
        ABORTED,
        "FENCED",
        {"path": "/town", "key": "v", "version": "1", "revision": None},
        (ops.Precondition(lease_owner=1),),
    ),
    Bad(
        "else branch without a condition",
        "",
        "",
        transact(write(), otherwise=[write()]),
        INVALID,
        "INVALID_FIELD",
    ),
    Bad(
        "gate of members without a path",
        "/n",
        "",
        ops.Register(gates=[values.Gate(name="a", all_live_members=True)]),
        INVALID,
        "INVALID_FIELD",
    ),
    Bad(
        "gate of members of nobody",
        "/n",
        "",
        ops.Register(gates=[values.Gate(name="a", all_live_members=True, members_path="/absent")]),
        INVALID,
        "INVALID_FIELD",
    ),
    Bad(
        "gate of its own members",
        "/n",
        "",
        ops.Register(gates=[values.Gate(name="a", all_live_members=True, members_path="/n")]),
        INVALID,
        "INVALID_FIELD",
    ),
    Bad(
        "field of an aggregate over children",
        "/n",
        "",
        ops.Register(aggregates=[values.Aggregate(name="a", function=1, scope=2, field="/x")]),
        INVALID,
        "INVALID_FIELD",
    ),  # type: ignore[arg-type]
]
