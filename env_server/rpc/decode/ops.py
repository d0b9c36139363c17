"""Single operations from the wire: a message, with the key it stands beside, becomes (code, argument).

A field that this server does not serve is refused when it is set, never ignored: a caller that asks for a condition
must not get the op without it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from env_api.v1 import operations_pb2, queries_pb2

from env_server.model.entries import COUNTER, MEMBER, STREAM, VALUE
from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_segment
from env_server.model.operations import (
    Acknowledge,
    Ask,
    Code,
    Delete,
    Get,
    Invoke,
    ListChildren,
    ListEntries,
    Precondition,
    Query,
    ReadAggregates,
    ReadPast,
    ReadStream,
    RegisterEntry,
    RegisterEnvironment,
    Test,
    Transact,
    Write,
)
from env_server.model.values import NOTHING, Json, Nothing, Value
from env_server.rpc.decode.environments import decode_declaration, decode_environment_update, decode_labels
from env_server.rpc.decode.spatial import decode_distance, decode_nearby, decode_neighbours
from env_server.rpc.decode.timelines import decode_timeline
from env_server.rpc.decode.values import decode_json, decode_value, refuse_doubles

Decoded = tuple[Code, object]

_NO_ARGUMENTS: Final = Json(b"{}")
_ENVIRONMENT_FIELDS: Final = (
    *("kind", "labels", "config_json", "entry_schema_json"),
    *("aggregates", "gates", "grants", "clock", "space"),
)
_ENTRY_FIELDS: Final = ("entry_kind", "value", "stream_items_max", "position")


def decode_register(message: operations_pb2.Register, key: str, limits: Limits) -> Decoded:
    """REGISTER_ENTRY with a key, REGISTER_ENVIRONMENT without.

    Raises:
        InvalidRequest, LimitExceeded, NotSupported: naming the field.
    """
    foreign = _ENVIRONMENT_FIELDS if key else _ENTRY_FIELDS
    present = {descriptor.name for descriptor, _ in message.ListFields()}
    for name in foreign:
        if name in present:
            owner = "an environment (no key)" if key else "an entry (a key)"
            raise InvalidRequest(Reason.INVALID_FIELD, f"register.{name}", f"belongs to {owner}")
    if not key:
        declaration = decode_declaration(message, limits)
        return Code.REGISTER_ENVIRONMENT, RegisterEnvironment(declaration, message.if_absent)
    return Code.REGISTER_ENTRY, _decode_new_entry(message, limits)


def decode_update(message: operations_pb2.Update, key: str, limits: Limits) -> Decoded:
    """SET, MERGE, ADD, APPEND or MOVE with a key, UPDATE_ENVIRONMENT without. Raises as `decode_register`."""
    change = message.WhichOneof("change")
    if change is None:
        raise InvalidRequest(Reason.INVALID_FIELD, "update.change", "must be set")
    if (change == "environment") == bool(key):
        problem = "must be empty" if key else "must not be empty"
        raise InvalidRequest(Reason.INVALID_FIELD, "key", f"{problem} for update.{change}")
    if change == "set":
        return Code.SET, decode_value(message.set, limits, "update.set")
    if change == "append":
        return Code.APPEND, decode_value(message.append, limits, "update.append")
    if change == "merge_json":
        return Code.MERGE, decode_json(message.merge_json, limits, "update.merge_json")
    if change == "add_int":
        return Code.ADD, message.add_int
    if change == "add_double":
        return Code.ADD, read_double(message.add_double, "update.add_double")
    if change == "move":
        return Code.MOVE, tuple(message.move.position)
    return Code.UPDATE_ENVIRONMENT, decode_environment_update(message.environment, limits)


def decode_delete(message: operations_pb2.Delete, key: str, limits: Limits) -> Decoded:
    """DELETE_ENTRY with a key, DELETE_ENVIRONMENT without.

    Raises:
        InvalidRequest: INVALID_FIELD for `recursive` beside a key.
    """
    if key and message.recursive:
        raise InvalidRequest(Reason.INVALID_FIELD, "delete.recursive", "belongs to an environment (no key)")
    code = Code.DELETE_ENTRY if key else Code.DELETE_ENVIRONMENT
    return code, Delete(message.recursive, message.if_present)


def decode_query(message: queries_pb2.Query, key: str, limits: Limits) -> Decoded:
    """QUERY. Raises as `decode_register`."""
    ask = message.WhichOneof("ask")
    if ask is None:
        raise InvalidRequest(Reason.INVALID_FIELD, "query.ask", "must be set")
    if ask == "get" and message.get.inherit and not key:
        raise InvalidRequest(Reason.INVALID_FIELD, "query.get.inherit", "belongs to an entry (a key)")
    if ask not in ("get", "nearby") and (ask in ("stream", "past")) != bool(key):
        problem = "must be empty" if key else "must not be empty"
        raise InvalidRequest(Reason.INVALID_FIELD, "key", f"{problem} for query.{ask}")
    return Code.QUERY, Query(_decode_ask(message, ask, limits), message.min_revision)


def decode_invoke(message: operations_pb2.Invoke, key: str, limits: Limits) -> Decoded:
    """INVOKE. Raises as `decode_register`, and INVALID_ARGUMENTS when they are no JSON object."""
    if key:
        raise InvalidRequest(Reason.INVALID_FIELD, "key", "must be empty for invoke")
    if not message.operation:
        raise InvalidRequest(Reason.INVALID_FIELD, "invoke.operation", "must not be empty")
    check_count(message.ByteSize(), "transaction_bytes_max", limits)
    check_count(len(message.companions), "companions_max", limits)
    arguments = _NO_ARGUMENTS
    if message.args_json:
        arguments = decode_json(message.args_json, limits, "invoke.args_json")
        if not isinstance(arguments.document, dict):
            raise InvalidRequest(Reason.INVALID_ARGUMENTS, "invoke.args_json", "must be a JSON object")
    companions = tuple(decode_write(write, limits) for write in message.companions)
    return Code.INVOKE, Invoke(message.operation, arguments, companions)


def decode_transact(message: operations_pb2.Transact, key: str, limits: Limits) -> Decoded:
    """TRANSACT. Raises as `decode_register`."""
    if key:
        raise InvalidRequest(Reason.INVALID_FIELD, "key", "must be empty for transact")
    if not message.writes:
        raise InvalidRequest(Reason.INVALID_FIELD, "transact.writes", "must not be empty")
    check_count(message.ByteSize(), "transaction_bytes_max", limits)
    check_count(len(message.writes), "transaction_ops_max", limits)
    check_count(len(message.otherwise), "transaction_ops_max", limits)
    for condition in message.preconditions:
        if not condition.path:
            raise InvalidRequest(Reason.INVALID_FIELD, "transact.preconditions.path", "must not be empty")
    preconditions = decode_preconditions(message.preconditions, limits)
    if message.otherwise and not preconditions:
        raise InvalidRequest(Reason.INVALID_FIELD, "transact.otherwise", "needs a precondition that may fail")
    writes = tuple(decode_write(write, limits) for write in message.writes)
    return Code.TRANSACT, Transact(
        preconditions, writes, tuple(decode_write(write, limits) for write in message.otherwise)
    )


def decode_acknowledge(message: operations_pb2.Acknowledge, key: str, limits: Limits) -> Decoded:
    """ACKNOWLEDGE. Raises as `decode_register`."""
    if key:
        raise InvalidRequest(Reason.INVALID_FIELD, "key", "must be empty for acknowledge")
    check_segment(message.subscription, limits, Reason.INVALID_FIELD, "acknowledge.subscription")
    return Code.ACKNOWLEDGE, Acknowledge(message.subscription, message.term, message.revision)


def decode_write(message: operations_pb2.Write, limits: Limits) -> Write:
    """A write inside a transaction or beside an operation. Raises as `decode_register`."""
    action = message.WhichOneof("action")
    if action is None:
        raise InvalidRequest(Reason.INVALID_FIELD, "write.action", "must be set")
    if bool(message.path) == (action == "acknowledge"):
        problem = "must be empty" if message.path else "must not be empty"
        raise InvalidRequest(Reason.INVALID_FIELD, "write.path", f"{problem} for {action}")
    code, argument = _WRITES[action](getattr(message, action), message.key, limits)
    preconditions = decode_preconditions(message.preconditions, limits)
    return Write(message.path, message.key, code, argument, preconditions)


def decode_preconditions(messages: Sequence[operations_pb2.Precondition], limits: Limits) -> tuple[Precondition, ...]:
    """Conditions of one op. Raises as `decode_register`, and LimitExceeded: preconditions_max."""
    if not messages:
        return ()
    check_count(len(messages), "preconditions_max", limits)
    return tuple(_decode_precondition(message, limits) for message in messages)


def read_double(value: float, field: str) -> float:
    """A finite double.

    Raises:
        InvalidRequest: INVALID_VALUE.
    """
    for error in refuse_doubles((value,), field).values():
        raise error
    return value


def _decode_new_entry(message: operations_pb2.Register, limits: Limits) -> RegisterEntry:
    kind = message.entry_kind or VALUE
    if kind not in (VALUE, COUNTER, STREAM, MEMBER):
        raise InvalidRequest(Reason.INVALID_FIELD, "register.entry_kind", "unknown kind of entry")
    if kind == MEMBER and not message.lease_id:
        raise InvalidRequest(Reason.INVALID_FIELD, "register.lease_id", "members live under a lease")
    value: Value | Nothing = NOTHING
    if message.HasField("value"):
        value = decode_value(message.value, limits, "register.value")
        if kind == STREAM:
            raise InvalidRequest(Reason.INVALID_FIELD, "register.value", "a stream begins empty")
        if kind == COUNTER and type(value) not in (int, float):
            raise InvalidRequest(Reason.INVALID_FIELD, "register.value", "a counter holds an int or a double")
    if message.stream_items_max:
        if kind != STREAM:
            raise InvalidRequest(Reason.INVALID_FIELD, "register.stream_items_max", "belongs to a stream")
        check_count(message.stream_items_max, "stream_items_limit_max", limits)
    position = tuple(message.position) or None
    return RegisterEntry(int(kind), value, message.stream_items_max, message.if_absent, message.lease_id, position)


def _decode_ask(message: queries_pb2.Query, ask: str, limits: Limits) -> Ask:
    if ask == "get":
        return Get(message.get.inherit)
    if ask == "list_entries":
        entries = message.list_entries
        size = read_size(entries.page_size, "query.list_entries.page_size", limits)
        return ListEntries(entries.key_prefix, size, entries.page_token)
    if ask == "list_children":
        children = message.list_children
        size = read_size(children.page_size, "query.list_children.page_size", limits)
        labels = decode_labels(children.labels, limits, "query.list_children.labels")
        return ListChildren(children.name_prefix, labels, size, children.page_token)
    if ask == "aggregates":
        check_count(len(message.aggregates.names), "aggregates_max", limits)
        return ReadAggregates(tuple(message.aggregates.names))
    if ask == "past":
        past = message.past
        size = read_size(past.limit, "query.past.limit", limits)
        return ReadPast(past.from_revision, past.to_revision, size)
    if ask in _SPATIAL:
        return _SPATIAL[ask](getattr(message, ask), limits)
    size = read_size(message.stream.limit, "query.stream.limit", limits)
    return ReadStream(message.stream.from_sequence, size)


def read_size(size: int, field: str, limits: Limits) -> int:
    """How many rows a page is to have; 0 = the default.

    Raises:
        InvalidRequest, LimitExceeded.
    """
    if size < 0:
        raise InvalidRequest(Reason.INVALID_FIELD, field, "must not be negative")
    check_count(size, "page_items_max", limits)
    return size


def _decode_precondition(message: operations_pb2.Precondition, limits: Limits) -> Precondition:
    test = message.WhichOneof("test")
    if test is None:
        raise InvalidRequest(Reason.INVALID_FIELD, "preconditions.test", "must be set")
    if test in ("exists", "absent") and not getattr(message, test):
        raise InvalidRequest(Reason.INVALID_FIELD, f"preconditions.{test}", "must be true when set")
    operand: Value | Nothing = NOTHING
    if test == "value":
        operand = decode_value(message.value, limits, "preconditions.value")
    elif test not in ("exists", "absent"):
        operand = getattr(message, test)
    return Precondition(Test[test.upper()], operand, message.path, message.key)


_SPATIAL: Final[dict[str, Callable[[Any, Limits], Ask]]] = {
    "nearby": decode_nearby,
    "distance": decode_distance,
    "neighbours": decode_neighbours,
}

_WRITES: Final[dict[str, Callable[[Any, str, Limits], Decoded]]] = {
    "register": decode_register,
    "update": decode_update,
    "delete": decode_delete,
    "acknowledge": decode_acknowledge,
    "timeline": decode_timeline,
}
