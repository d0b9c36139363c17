"""Ops of the model as messages of the contract, and what the answers and events say in the model's words."""

from __future__ import annotations

import json
from typing import Any

import grpc
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import events_pb2, operations_pb2, queries_pb2, session_pb2, values_pb2

from env_server.model.errors import Reason
from tests.event_rows import Row
from tests.promises.world_model import Ask, Document, Said, Told
from tests.raw_client import Failure, call, decode_error

VALUED = frozenset(
    {
        events_pb2.EVENT_TYPE_ENVIRONMENT_REGISTERED,
        events_pb2.EVENT_TYPE_ENTRY_SET,
        events_pb2.EVENT_TYPE_ENTRY_INCREMENTED,
        events_pb2.EVENT_TYPE_ENTRY_APPENDED,
        events_pb2.EVENT_TYPE_MEMBER_JOINED,
        events_pb2.EVENT_TYPE_LEASE_GRANTED,
        events_pb2.EVENT_TYPE_LEASE_ENDED,
    }
)
"""Types of events of which the model knows the value."""
TYPES = VALUED | frozenset(
    {
        events_pb2.EVENT_TYPE_ENVIRONMENT_DELETED,
        events_pb2.EVENT_TYPE_ENTRY_DELETED,
        events_pb2.EVENT_TYPE_MEMBER_LEFT,
        events_pb2.EVENT_TYPE_MEMBER_EXPIRED,
    }
)
"""Types that the model tells."""
AGGREGATE = values_pb2.Aggregate(name="sum", function=values_pb2.AGGREGATE_FUNCTION_SUM)


def frame_of(frame: list[Ask], seq: int) -> session_pb2.OpFrame:
    """A frame of these ops."""
    paths = list(dict.fromkeys(ask.path for ask in frame))
    message = session_pb2.OpFrame(seq=seq, paths=paths, return_versions=True)
    for ask in frame:
        message.ops.add(path=paths.index(ask.path), key=ask.key, **action_of(ask))
        message.producers.append(ask.producer)
        message.producer_seqs.append(ask.seq)
        message.expect_versions.append(ask.version)
    return message


def action_of(ask: Ask) -> dict[str, Any]:
    """The action of an op or a write."""
    match ask.verb:
        case "read":
            return {"query": queries_pb2.Query(get=queries_pb2.Get())}
        case "register" | "ensure environment":
            absent = ask.verb != "register"
            return {"register": operations_pb2.Register(aggregates=[AGGREGATE], if_absent=absent)}
        case "create" | "ensure":
            absent = ask.verb == "ensure"
            return {"register": operations_pb2.Register(value=value_of(ask.value), if_absent=absent)}
        case "join" | "hold":
            kind = values_pb2.ENTRY_KIND_MEMBER if ask.verb == "join" else values_pb2.ENTRY_KIND_VALUE
            lease, value = ask.value
            return {"register": operations_pb2.Register(entry_kind=kind, value=value_of(value), lease_id=lease)}
        case "delete" | "drop" | "unregister" | "unregister all":
            recursive, present = ask.verb == "unregister all", ask.verb == "drop"
            return {"delete": operations_pb2.Delete(recursive=recursive, if_present=present)}
        case "set":
            return {"update": operations_pb2.Update(set=value_of(ask.value))}
        case "add":
            if type(ask.value) is float:
                return {"update": operations_pb2.Update(add_double=ask.value)}
            return {"update": operations_pb2.Update(add_int=ask.value)}
        case "append":
            return {"update": operations_pb2.Update(append=value_of(ask.value))}
        case "merge":
            return {"update": operations_pb2.Update(merge_json=json.dumps(ask.value).encode())}
        case _:
            tests = [operations_pb2.Precondition(path=path, key=key, version=it) for path, key, it in ask.tests]
            writes, otherwise = map(write_of, ask.parts), map(write_of, ask.otherwise)
            return {"transact": operations_pb2.Transact(preconditions=tests, writes=writes, otherwise=otherwise)}


def write_of(ask: Ask) -> operations_pb2.Write:
    """A write of a transaction."""
    return operations_pb2.Write(path=ask.path, key=ask.key, **action_of(ask))


async def ask_alone(channel: grpc.aio.Channel, world: str, ask: Ask, request_id: str = "") -> Said:
    """The op as a unary call."""
    ((verb, action),) = action_of(ask).items()
    caller = service.Caller(producer=ask.producer, producer_seq=ask.seq, request_id=request_id)
    fields: dict[str, Any] = {"world": world, verb: action, "caller": caller}
    if verb != "transact":
        fields |= {"path": ask.path, "key": ask.key}
        if ask.version and verb != "query":
            fields["preconditions"] = [operations_pb2.Precondition(version=ask.version)]
    answer = await call(channel, verb, **fields)
    if isinstance(answer, Failure):
        assert answer.reason, answer
        return Said(Reason[answer.reason])
    if verb == "query":
        return said_of_entry(answer.result.entry)
    return said_of_transact(answer.result) if verb == "transact" else said_of_written(answer.written)


def said_of_parts(parts: list[session_pb2.FrameAnswer], count: int) -> list[Said]:
    """What came of each op of a frame."""
    first = parts[0]
    listed = {outcome.index: outcome for part in parts for outcome in part.outcomes}
    said, taken = [], 0
    for index in range(count):
        taken += index not in first.without_revision
        outcome = listed.get(index)
        if outcome is None:
            assert index not in first.without_revision
            said.append(Said(None, first.base_revision + taken, first.versions[index]))
        elif outcome.HasField("error"):
            said.append(Said(Reason[decode_error(outcome.error).reason]))
        elif outcome.HasField("query"):
            said.append(said_of_entry(outcome.query.entry))
        elif outcome.HasField("transact"):
            said.append(said_of_transact(outcome.transact))
        else:
            said.append(said_of_written(outcome.written))
    return said


def said_of_entry(entry: values_pb2.Entry) -> Said:
    """What a read says."""
    is_stream = entry.kind == values_pb2.ENTRY_KIND_STREAM
    return Said(None, entry.modify_revision, entry.version, None if is_stream else plain(entry.value))


def said_of_written(written: operations_pb2.Written) -> Said:
    """What a write says."""
    return Said(None, written.revision, written.version, plain(written.value), written.sequence)


def said_of_transact(done: operations_pb2.TransactResult) -> Said:
    """What a transaction says."""
    parts = tuple(map(said_of_written, done.written))
    return Said(None, done.revision, parts=parts, otherwise=done.otherwise)


def told_of_row(row: Row) -> Told:
    """An event."""
    value = None
    if row.type in VALUED and row.value is not None:
        kind, content = row.value
        value = Document.of(json.loads(content)) if kind == "json_value" else content
    return Told(row.revision, row.type, row.path, row.key, row.version, value)


def value_of(value: Any) -> values_pb2.Value:
    """A value of the model as a message."""
    if value is None:
        return values_pb2.Value(null_value=True)
    return values_pb2.Value(**{{int: "int_value", float: "double_value", str: "string_value"}[type(value)]: value})


def plain(value: values_pb2.Value) -> Any:
    """A message's value as the model holds it."""
    kind = value.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    content = getattr(value, kind)
    return Document.of(json.loads(content)) if kind == "json_value" else content


async def picture_of_server(channel: grpc.aio.Channel, world: str) -> dict[str, Any]:
    """Everything that queries tell, as `picture_of_model` does."""

    async def query(path: str, key: str = "", **asked: Any) -> Any:
        answer = await call(channel, "query", world=world, path=path, key=key, query=queries_pb2.Query(**asked))
        assert not isinstance(answer, Failure), answer
        seen["revision"] = answer.header.revision
        return answer.result

    async def look(path: str) -> None:
        seen[path] = {}
        for entry in (await query(path, list_entries=queries_pb2.ListEntries())).entries.entries:
            value = plain(entry.value)
            if entry.kind == values_pb2.ENTRY_KIND_STREAM:
                page = (await query(path, entry.key, stream=queries_pb2.ReadStream())).stream
                value = (page.next_sequence, [(item.sequence, plain(item.value)) for item in page.items])
            seen[path][entry.key] = (value, entry.version, entry.modify_revision)
        children = await query(path, list_children=queries_pb2.ListChildren())
        for child in children.environments.environments:
            await look(child.path)

    seen: dict[str, Any] = {}
    await look("/")
    return seen
