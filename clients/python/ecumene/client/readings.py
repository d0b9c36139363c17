"""What the server answers, from wire messages to the values of `model`."""

from __future__ import annotations

from env_api.v1 import operations_pb2, queries_pb2, values_pb2, world_service_pb2

from ecumene.client import error_table, space_actions, surroundings, timeline_actions
from ecumene.client.errors import EcumeneError
from ecumene.client.model import (
    Access,
    Aggregate,
    AggregateFunction,
    Aggregates,
    AggregateScope,
    AggregateValue,
    Entry,
    EntryKind,
    EntryPage,
    EnvironmentInfo,
    EnvironmentPage,
    EventType,
    Gate,
    GateCause,
    GateState,
    Grant,
    Invoked,
    Outcome,
    PastPage,
    PastValue,
    StreamItem,
    StreamPage,
    Transacted,
    WorldInfo,
    Written,
)
from ecumene.client.snapshots import read_origin
from ecumene.client.values import decode_json, read_value


def read_outcome(message: operations_pb2.OpOutcome) -> Outcome | EcumeneError:
    """What one op of a frame came to; an error is returned, not raised."""
    kind = message.WhichOneof("outcome")
    if kind == "error":
        return error_table.from_message(message.error)
    if kind == "query":
        return read_query(message.query)
    if kind == "invoke":
        return read_invoked(message.invoke, message.duplicate)
    if kind == "transact":
        return read_transacted(message.transact, message.duplicate)
    return read_written(message.written, message.duplicate)


def read_query(message: queries_pb2.QueryResult) -> Outcome:
    """What a read saw."""
    kind = message.WhichOneof("answer")
    if kind == "entry":
        return read_entry(message.entry)
    if kind == "environment":
        return read_environment(message.environment)
    if kind == "aggregates":
        return read_aggregates(message.aggregates)
    if kind == "stream":
        page = message.stream
        items = tuple(read_stream_item(item) for item in page.items)
        return StreamPage(items, page.first_kept, page.next_sequence)
    if kind == "past":
        values = tuple(_read_past_value(value) for value in message.past.values)
        return PastPage(values, message.past.first_retained_revision, message.past.next_revision)
    if kind == "nearby":
        return surroundings.read_nearby(message.nearby)
    if kind == "distance":
        return surroundings.read_way(message.distance)
    if kind == "neighbours":
        return surroundings.Neighbours(message.neighbours)
    if kind == "environments":
        found = message.environments
        environments = tuple(read_environment(environment) for environment in found.environments)
        return EnvironmentPage(environments, found.next_page_token, found.revision)
    entries = tuple(read_entry(entry) for entry in message.entries.entries)
    return EntryPage(entries, message.entries.next_page_token, message.entries.revision)


def read_entry(message: values_pb2.Entry) -> Entry:
    """An entry."""
    return Entry(
        path=message.path,
        key=message.key,
        kind=EntryKind(message.kind),
        value=read_value(message.value),
        version=message.version,
        create_revision=message.create_revision,
        modify_revision=message.modify_revision,
        stream_first=message.stream_first,
        stream_next=message.stream_next,
        position=tuple(message.position),
        lease_id=message.lease_id,
        value_revision=message.value_revision or message.modify_revision,
    )


def read_stream_item(message: values_pb2.StreamItem) -> StreamItem:
    """An item of a stream."""
    return StreamItem(message.sequence, read_value(message.value), message.revision)


def read_environment(message: values_pb2.Environment) -> EnvironmentInfo:
    """An environment; an empty config is {}."""
    return EnvironmentInfo(
        path=message.path,
        kind=message.kind,
        labels=dict(message.labels),
        config=decode_json(message.config_json) if message.config_json else {},
        entry_schema=decode_json(message.entry_schema_json),
        aggregates=tuple(_read_aggregate(aggregate) for aggregate in message.aggregates),
        gates=tuple(_read_gate_state(gate) for gate in message.gates),
        version=message.version,
        create_revision=message.create_revision,
        modify_revision=message.modify_revision,
        entry_count=message.entry_count,
        child_count=message.child_count,
        grants=tuple(Grant(grant.group, Access(grant.access)) for grant in message.grants),
        lease_id=message.lease_id,
        clock=timeline_actions.read_clock(message.clock) if message.HasField("clock") else None,
        space=space_actions.read_space(message),
        regions=tuple(map(space_actions.read_region, message.space.regions)),
        proximities=tuple(map(space_actions.read_proximity, message.space.proximities)),
    )


def read_aggregates(message: queries_pb2.AggregateValues) -> Aggregates:
    """Aggregates and gates by name."""
    values = {value.name: _read_aggregate_value(value) for value in message.values}
    return Aggregates(values, {gate.gate.name: _read_gate_state(gate) for gate in message.gates})


def read_written(message: operations_pb2.Written, duplicate: bool = False) -> Written:
    """What a write did."""
    return Written(
        revision=message.revision,
        version=message.version,
        value=read_value(message.value),
        sequence=message.sequence,
        changed=message.changed,
        duplicate=duplicate,
    )


def read_invoked(message: operations_pb2.InvokeResult, duplicate: bool = False) -> Invoked:
    """What an operation returned."""
    return Invoked(message.revision, decode_json(message.result_json), message.changed, duplicate)


def read_transacted(message: operations_pb2.TransactResult, duplicate: bool = False) -> Transacted:
    """What a transaction did."""
    written = tuple(read_written(write) for write in message.written)
    return Transacted(message.revision, written, message.otherwise, duplicate)


def read_world(message: world_service_pb2.World) -> WorldInfo:
    """A world."""
    return WorldInfo(
        name=message.name,
        history=message.history,
        revision=message.revision,
        first_retained_revision=message.first_retained_revision,
        environments=message.environments,
        entries=message.entries,
        storage_bytes=message.storage_bytes,
        storage_bytes_max=message.storage_bytes_max,
        storage_low=message.storage_low,
        restored_from=read_origin(message.restored_from) if message.HasField("restored_from") else None,
        open=message.open,
    )


def _read_past_value(message: queries_pb2.PastValue) -> PastValue:
    return PastValue(
        revision=message.revision,
        type=EventType(message.type),
        value=read_value(message.value),
        version=message.version,
        actor=message.actor,
        cause=message.cause,
        producer=message.producer,
        wall_time_ns=message.wall_time_ns,
        position=tuple(message.position),
    )


def _read_aggregate(message: values_pb2.Aggregate) -> Aggregate:
    return Aggregate(
        name=message.name,
        function=AggregateFunction(message.function),
        scope=AggregateScope(message.scope or AggregateScope.ENTRIES),
        in_generation=message.in_generation,
        bounds=tuple(message.bounds),
        field=message.field,
    )


def _read_aggregate_value(message: values_pb2.AggregateValue) -> AggregateValue:
    return AggregateValue(
        name=message.name,
        function=AggregateFunction(message.function),
        entries=message.entries,
        numbers=message.numbers,
        value=read_value(message.value),
        buckets=tuple(message.buckets),
    )


def _read_gate_state(message: values_pb2.GateState) -> GateState:
    gate = message.gate
    return GateState(
        gate=Gate(gate.name, gate.count_target, gate.deadline_ms, gate.all_live_members, gate.members_path),
        generation=message.generation,
        opened=message.opened,
        reported=message.reported,
        cause=GateCause(message.cause),
        begin_revision=message.begin_revision,
        open_revision=message.open_revision,
    )
