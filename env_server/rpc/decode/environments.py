"""Declarations of environments from the wire: labels, config, aggregates, gates, space."""

import math
from collections.abc import Mapping, Sequence

from env_api.v1 import operations_pb2, values_pb2

from env_server.model.environments import (
    BASIC,
    EMPTY_CONFIG,
    Access,
    Aggregate,
    Declaration,
    Function,
    Gate,
    Grant,
    Scope,
)
from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_segment, split_path
from env_server.model.operations import BeginGeneration, EnvironmentUpdate, OpenGate
from env_server.model.views import EVERY_GROUP, check_group
from env_server.rpc.decode.spaces import decode_proximities, decode_regions, decode_space
from env_server.rpc.decode.timelines import decode_clock
from env_server.rpc.decode.values import decode_json


def decode_declaration(message: operations_pb2.Register, limits: Limits) -> Declaration:
    """What an environment is registered with.

    Raises:
        InvalidRequest: INVALID_FIELD, INVALID_VALUE.
        LimitExceeded: labels_max, aggregates_max, histogram_bounds_max, value_bytes_max, json_depth_max.
    """
    if message.kind:
        check_segment(message.kind, limits, Reason.INVALID_FIELD, "register.kind")
    config, schema = message.config_json, message.entry_schema_json
    check_count(len(schema), "schema_bytes_max", limits)
    return Declaration(
        kind=message.kind or BASIC,
        labels=dict(decode_labels(message.labels, limits, "register.labels")),
        config=decode_json(config, limits, "register.config_json") if config else EMPTY_CONFIG,
        schema=decode_json(schema, limits, "register.entry_schema_json") if schema else None,
        aggregates=_decode_aggregates(message.aggregates, limits, "register.aggregates"),
        gates=_decode_gates(message.gates, limits, "register.gates"),
        lease=message.lease_id,
        grants=_decode_grants(message.grants, limits, "register.grants"),
        clock=decode_clock(message.clock, limits, "register.clock") if message.HasField("clock") else None,
        space=decode_space(message.space, limits, "register.space") if message.HasField("space") else None,
    )


def decode_environment_update(message: operations_pb2.EnvironmentUpdate, limits: Limits) -> EnvironmentUpdate:
    """Changes to an environment's declarations. Raises as `decode_declaration`."""
    begin = opening = None
    if message.HasField("begin_generation"):
        asked = message.begin_generation
        deadline_ms = asked.deadline_ms if asked.HasField("deadline_ms") else None
        if deadline_ms is not None and deadline_ms < 0:
            raise InvalidRequest(Reason.INVALID_FIELD, "begin_generation.deadline_ms", "must not be negative")
        count = asked.count_target if asked.HasField("count_target") else None
        begin = BeginGeneration(asked.gate, count, deadline_ms)
    if message.HasField("open_gate"):
        opening = OpenGate(message.open_gate.gate, message.open_gate.generation)
    patch = message.merge_config_json
    return EnvironmentUpdate(
        set_labels=decode_labels(message.set_labels, limits, "set_labels"),
        remove_labels=tuple(message.remove_labels),
        merge_config=decode_json(patch, limits, "merge_config_json") if patch else None,
        set_aggregates=_decode_aggregates(message.set_aggregates, limits, "set_aggregates"),
        remove_aggregates=tuple(message.remove_aggregates),
        set_gates=_decode_gates(message.set_gates, limits, "set_gates"),
        remove_gates=tuple(message.remove_gates),
        begin=begin,
        open=opening,
        set_grants=_decode_grants(message.set_grants, limits, "set_grants"),
        remove_grants=tuple(message.remove_grants),
        clock=decode_clock(message.clock, limits, "environment.clock") if message.HasField("clock") else None,
        space=decode_space(message.space, limits, "environment.space") if message.HasField("space") else None,
        set_regions=decode_regions(message.set_regions, limits, "set_regions"),
        remove_regions=tuple(message.remove_regions),
        set_proximities=decode_proximities(message.set_proximities, limits, "set_proximities"),
        remove_proximities=tuple(message.remove_proximities),
    )


def decode_labels(labels: Mapping[str, str], limits: Limits, field: str) -> tuple[tuple[str, str], ...]:
    """Labels in the order of their names.

    Raises:
        InvalidRequest: INVALID_FIELD; LimitExceeded: labels_max.
    """
    if not labels:
        return ()
    check_count(len(labels), "labels_max", limits)
    for name, value in labels.items():
        check_segment(name, limits, Reason.INVALID_FIELD, field)
        if value:
            size = len(value.encode())
            if size > limits.segment_bytes_max:
                problem = f"{size} bytes exceed segment_bytes_max = {limits.segment_bytes_max}"
                raise InvalidRequest(Reason.INVALID_FIELD, field, problem)
    return tuple(sorted(labels.items()))


def _decode_aggregates(messages: Sequence[values_pb2.Aggregate], limits: Limits, field: str) -> tuple[Aggregate, ...]:
    if not messages:
        return ()
    check_count(len(messages), "aggregates_max", limits)
    aggregates = tuple(_decode_aggregate(message, limits, field) for message in messages)
    _check_unique([aggregate.name for aggregate in aggregates], field)
    return aggregates


def _decode_aggregate(message: values_pb2.Aggregate, limits: Limits, field: str) -> Aggregate:
    check_segment(message.name, limits, Reason.INVALID_FIELD, f"{field}.name")
    try:
        function = Function(message.function)
        scope = Scope(message.scope or Scope.ENTRIES)
    except ValueError:
        raise InvalidRequest(Reason.INVALID_FIELD, field, "unknown function or scope") from None
    bounds = tuple(message.bounds)
    check_count(len(bounds), "histogram_bounds_max", limits)
    if function is Function.HISTOGRAM:
        if not bounds or not all(map(math.isfinite, bounds)) or list(bounds) != sorted(set(bounds)):
            raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.bounds", "must be finite and ascending")
    elif bounds:
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.bounds", "belong to a histogram")
    return Aggregate(
        name=message.name,
        function=function,
        scope=scope,
        in_generation=message.in_generation,
        bounds=bounds,
        field=_split_pointer(message.field, limits, f"{field}.field"),
    )


def _split_pointer(pointer: str, limits: Limits, field: str) -> tuple[str, ...]:
    """Reference tokens of an RFC 6901 pointer."""
    if not pointer:
        return ()
    if not pointer.startswith("/") or "~" in pointer.replace("~0", "").replace("~1", ""):
        raise InvalidRequest(Reason.INVALID_FIELD, field, "must be a JSON pointer (RFC 6901)")
    tokens = pointer[1:].split("/")
    check_count(len(tokens), "json_depth_max", limits)
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


def _decode_gates(messages: Sequence[values_pb2.Gate], limits: Limits, field: str) -> tuple[Gate, ...]:
    if not messages:
        return ()
    gates = tuple(_decode_gate(message, limits, field) for message in messages)
    _check_unique([gate.name for gate in gates], field)
    if len(gates) > 1:
        raise InvalidRequest(Reason.INVALID_FIELD, field, "an environment holds at most one gate")
    return gates


def _decode_gate(message: values_pb2.Gate, limits: Limits, field: str) -> Gate:
    check_segment(message.name, limits, Reason.INVALID_FIELD, f"{field}.name")
    if message.all_live_members != bool(message.members_path):
        missing = "members_path" if message.all_live_members else "all_live_members"
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.{missing}", "goes together with the other of the two")
    if message.members_path:
        split_path(message.members_path, limits)
    if message.deadline_ms < 0:
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.deadline_ms", "must not be negative")
    return Gate(message.name, message.count_target, message.deadline_ms, members_path=message.members_path)


def _decode_grants(messages: Sequence[values_pb2.Grant], limits: Limits, field: str) -> tuple[Grant, ...]:
    if not messages:
        return ()
    check_count(len(messages), "grants_max", limits)
    for message in messages:
        if message.group != EVERY_GROUP:
            check_group(message.group, limits, f"{field}.group")
        if message.access not in (values_pb2.ACCESS_READ, values_pb2.ACCESS_WRITE):
            raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.access", "must be READ or WRITE")
    groups = [message.group for message in messages]
    if len(set(groups)) != len(groups):
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.group", "must be unique")
    return tuple(Grant(message.group, Access(message.access)) for message in messages)


def _check_unique(names: list[str], field: str) -> None:
    if len(set(names)) != len(names):
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.name", "must be unique")
