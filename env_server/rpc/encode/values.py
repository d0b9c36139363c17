"""Values, entries and environments to messages."""

from collections.abc import Callable
from typing import Any, Final

from env_api.v1 import queries_pb2, values_pb2

from env_server.model.entries import Entry, StreamEnds, StreamItem
from env_server.model.environments import (
    Aggregate,
    AggregateValue,
    EnvironmentState,
    GateState,
)
from env_server.model.frames import (
    AggregatesRead,
    DistanceRead,
    EntryPage,
    EntryRead,
    EnvironmentPage,
    NearbyPage,
    NeighbourTable,
    PastPage,
    Read,
    StreamPage,
)
from env_server.model.values import Json, Nothing, Value
from env_server.rpc.encode.spaces import encode_distance, encode_space, fill_nearby, fill_neighbours
from env_server.rpc.encode.timelines import encode_clock


def encode_value(value: Value | Nothing) -> values_pb2.Value | None:
    """One value; None for NOTHING."""
    build = _VALUES.get(type(value))
    return build(value) if build is not None else None


def encode_read(read: Read) -> queries_pb2.QueryResult:
    """What a query found."""
    if isinstance(read, EntryRead):
        return queries_pb2.QueryResult(entry=encode_entry(read.path, read.key, read.entry))
    if isinstance(read, EnvironmentState):
        return queries_pb2.QueryResult(environment=encode_environment(read))
    if isinstance(read, EntryPage):
        page = queries_pb2.EntryPage(
            entries=[encode_entry(read.path, key, entry) for key, entry in read.entries],
            next_page_token=read.next_page_token,
            revision=read.revision,
        )
        return queries_pb2.QueryResult(entries=page)
    if isinstance(read, EnvironmentPage):
        environments = queries_pb2.EnvironmentPage(
            environments=[encode_environment(state) for state in read.environments],
            next_page_token=read.next_page_token,
            revision=read.revision,
        )
        return queries_pb2.QueryResult(environments=environments)
    if isinstance(read, StreamPage):
        items = [_encode_item(item) for item in read.items]
        stream = queries_pb2.StreamPage(items=items, first_kept=read.first, next_sequence=read.next)
        return queries_pb2.QueryResult(stream=stream)
    if isinstance(read, PastPage):
        return queries_pb2.QueryResult(past=_encode_past(read))
    if isinstance(read, NearbyPage):
        result = queries_pb2.QueryResult()
        fill_nearby(result.nearby, read)
        return result
    if isinstance(read, DistanceRead):
        return queries_pb2.QueryResult(distance=encode_distance(read))
    if isinstance(read, NeighbourTable):
        result = queries_pb2.QueryResult()
        fill_neighbours(result.neighbours, read)
        return result
    return queries_pb2.QueryResult(aggregates=_encode_aggregates(read))


def encode_entry(path: str, key: str, entry: Entry) -> values_pb2.Entry:
    """An entry with its name."""
    value, version, created, modified, kind, lease, position, written = entry
    message = values_pb2.Entry(
        path=path,
        key=key,
        kind=kind,  # type: ignore[arg-type]
        version=version,
        create_revision=created,
        modify_revision=modified,
        lease_id=lease,
        position=position,
        value_revision=written,
    )
    if isinstance(value, StreamEnds):
        message.stream_first = value.first
        message.stream_next = value.next
    elif not isinstance(value, Nothing):
        message.value.CopyFrom(_VALUES[type(value)](value))
    return message


def encode_environment(state: EnvironmentState) -> values_pb2.Environment:
    """An environment with what it declares."""
    declaration = state.declaration
    return values_pb2.Environment(
        path=state.path,
        kind=declaration.kind,
        labels=declaration.labels,
        config_json=declaration.config.text,
        entry_schema_json=declaration.schema.text if declaration.schema is not None else b"",
        aggregates=[_encode_aggregate(aggregate) for aggregate in declaration.aggregates],
        gates=[_encode_gate(gate) for gate in state.gates],
        version=state.version,
        create_revision=state.created,
        modify_revision=state.modified,
        entry_count=state.entries,
        child_count=state.children,
        grants=[values_pb2.Grant(group=grant.group, access=int(grant.access)) for grant in declaration.grants],  # type: ignore[arg-type]
        lease_id=declaration.lease,
        clock=None if declaration.clock is None else encode_clock(declaration.clock),
        space=encode_space(declaration.space) if declaration.space is not None else None,
    )


def _encode_past(page: PastPage) -> queries_pb2.PastPage:
    message = queries_pb2.PastPage(
        first_retained_revision=page.first_retained_revision, next_revision=page.next_revision
    )
    for past in page.values:
        told = message.values.add(
            revision=past.revision,
            type=past.type,
            version=past.version,
            actor=past.actor,
            cause=past.cause,
            producer=past.producer,
            wall_time_ns=past.wall_ns,
            position=past.position,
        )
        value = encode_value(past.value)
        if value is not None:
            told.value.CopyFrom(value)
    return message


def _encode_item(item: StreamItem) -> values_pb2.StreamItem:
    return values_pb2.StreamItem(sequence=item.sequence, value=encode_value(item.value), revision=item.revision)


def _encode_aggregates(read: AggregatesRead) -> queries_pb2.AggregateValues:
    return queries_pb2.AggregateValues(
        values=[_encode_aggregate_value(value) for value in read.values],
        gates=[_encode_gate(gate) for gate in read.gates],
    )


def _encode_aggregate(aggregate: Aggregate) -> values_pb2.Aggregate:
    return values_pb2.Aggregate(
        name=aggregate.name,
        function=int(aggregate.function),  # type: ignore[arg-type]
        scope=int(aggregate.scope),  # type: ignore[arg-type]
        in_generation=aggregate.in_generation,
        bounds=aggregate.bounds,
        field=aggregate.pointer,
    )


def _encode_aggregate_value(value: AggregateValue) -> values_pb2.AggregateValue:
    return values_pb2.AggregateValue(
        name=value.name,
        function=int(value.function),  # type: ignore[arg-type]
        entries=value.entries,
        numbers=value.numbers,
        value=None if value.value is None else encode_value(value.value),
        buckets=value.buckets,
    )


def _encode_gate(state: GateState) -> values_pb2.GateState:
    gate = state.gate
    return values_pb2.GateState(
        gate=values_pb2.Gate(
            name=gate.name,
            count_target=gate.count_target,
            deadline_ms=gate.deadline_ms,
            all_live_members=bool(gate.members_path),
            members_path=gate.members_path,
        ),
        generation=gate.generation,
        opened=gate.opened,
        reported=state.reported,
        cause=int(gate.cause),  # type: ignore[arg-type]
        begin_revision=gate.begin_revision,
        open_revision=gate.open_revision,
    )


_VALUES: Final[dict[type, Callable[[Any], values_pb2.Value]]] = {
    type(None): lambda value: values_pb2.Value(null_value=True),
    bool: lambda value: values_pb2.Value(bool_value=value),
    int: lambda value: values_pb2.Value(int_value=value),
    float: lambda value: values_pb2.Value(double_value=value),
    str: lambda value: values_pb2.Value(string_value=value),
    bytes: lambda value: values_pb2.Value(bytes_value=value),
    Json: lambda value: values_pb2.Value(json_value=value.text),
}
