"""What an op does, as wire messages: the same for rows of a frame, writes of a transaction, and companions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from env_api.v1 import operations_pb2, values_pb2

from ecumene.client import space_actions, timeline_actions
from ecumene.client.clocks import Clock, refusing
from ecumene.client.model import Aggregate, EntryKind, Gate, Grant, Json, Value
from ecumene.client.spaces import Position, Proximity, Region, Space, as_position
from ecumene.client.values import INT_MAX, INT_MIN, encode_object, fill_value, refuse_value


class Conditions(TypedDict, total=False):
    """What must hold in the step in which a write takes effect; otherwise it has no effect.

    A failed one ends in PreconditionFailedError, but where another error is named.
    """

    expect_version: int
    """The entry (without a key: the environment) has this version; 0 = it is absent."""
    expect_value: Value
    exists: bool
    """True: the entry is there."""
    absent: bool
    """True: the entry is not there."""
    gate_generation: int
    """The environment's gate collects this generation; 0 = no condition."""
    lease_owner: int
    """The entry lives under the lease with this id; otherwise FencedError. 0 = no condition."""
    created_revision: int
    """The entry is the one created at this revision, a lock's token; otherwise FencedError. 0 = no condition."""


class WriteOptions(Conditions, total=False):
    """Conditions of a write, and who sends it."""

    producer: str
    """Own identity, with `seq`: a repetition returns the first outcome, for ever. Without it the op is known by
    its place in this session's frames, which covers reconnects, not restarts of this program."""
    seq: int
    """Numbers of a producer rise."""
    actor: str
    """Claim about who acts; recorded with the events."""
    cause: str
    """Id of the event that led to this."""


def add_condition(condition: operations_pb2.Precondition, name: str, value: object) -> None:
    """Fill one condition of a write; `name` is a key of Conditions.

    Raises:
        TypeError: there is no such condition.
        InvalidValueError: `expect_value` is no value.
        InvalidFieldError: a number that is none.
    """
    if name == "expect_version":
        if value:
            with refusing(name):
                condition.version = value  # type: ignore[assignment]
        else:
            condition.absent = True
    elif name == "expect_value":
        fill_value(condition.value, value)  # type: ignore[arg-type]
    elif name == "exists":
        condition.exists = True
    elif name == "absent":
        condition.absent = True
    elif name in ("gate_generation", "lease_owner", "created_revision"):
        with refusing(name):
            setattr(condition, name, value)
    else:
        raise TypeError(f"{name!r} is not a condition of a write")


def is_condition(name: str, value: object) -> bool:
    """Whether an option restricts anything: `absent=False` and numbers that are 0 do not."""
    return bool(value) or name in ("expect_version", "expect_value")


def set_value(value: Value) -> operations_pb2.Update:
    """Replace an entry's value, creating the entry when it is absent."""
    update = operations_pb2.Update()
    fill_value(update.set, value)
    return update


def merge(patch: Mapping[str, Json]) -> operations_pb2.Update:
    """RFC 7396 merge patch on a JSON value; an absent entry counts as {}.

    Raises:
        InvalidValueError: it is no mapping.
    """
    what = "merge: give the fields to change as a dict such as {'mood': 'calm'}, or replace the value with set"
    return operations_pb2.Update(merge_json=encode_object(patch, what))


def append(item: Value) -> operations_pb2.Update:
    """One more item of a stream, created by its first append."""
    update = operations_pb2.Update()
    fill_value(update.append, item)
    return update


def increment(amount: int | float) -> operations_pb2.Update:
    """Add to a counter, created by its first increment; the type of `amount` is the counter's."""
    if isinstance(amount, float):
        return operations_pb2.Update(add_double=amount)
    return operations_pb2.Update(add_int=check_amount(amount))


def check_amount(amount: int) -> int:
    """An int that fits the wire.

    Raises:
        InvalidValueError: it is none, or does not fit 64 bits.
    """
    if not isinstance(amount, int):
        raise refuse_value(f"increment: give an int or a float, not {type(amount).__name__}")
    if not INT_MIN <= amount <= INT_MAX:
        raise refuse_value(f"{amount} does not fit 64 bits")
    return amount


def register_entry(
    kind: EntryKind,
    value: Value,
    *,
    if_absent: bool,
    items_max: int = 0,
    has_value: bool = True,
    lease_id: int = 0,
    position: Position | None = None,
) -> operations_pb2.Register:
    """Create an entry; `has_value` False leaves the first value to the server (0, or an empty stream)."""
    with refusing("items_max or lease_id"):
        register = operations_pb2.Register(if_absent=if_absent, stream_items_max=items_max, lease_id=lease_id)
    if position is not None:
        register.position.extend(as_position(position))
    register.entry_kind = int(kind)  # type: ignore[assignment]
    if has_value:
        fill_value(register.value, value)
    return register


def register_environment(
    *,
    kind: str,
    labels: Mapping[str, str],
    config: Mapping[str, Json] | None,
    entry_schema: Mapping[str, Json] | None,
    aggregates: Sequence[Aggregate],
    gates: Sequence[Gate],
    grants: Sequence[Grant],
    lease_id: int,
    if_absent: bool,
    clock: Clock | None,
    space: Space | None,
    regions: Sequence[Region],
    proximities: Sequence[Proximity],
) -> operations_pb2.Register:
    """Create an environment."""
    return operations_pb2.Register(
        if_absent=if_absent,
        kind=kind,
        labels=dict(labels),
        config_json=encode_object(config, "config: give a dict") if config else b"",
        entry_schema_json=encode_object(entry_schema, "entry_schema: give a JSON schema as a dict")
        if entry_schema
        else b"",
        aggregates=[fill_aggregate(aggregate) for aggregate in aggregates],
        gates=[fill_gate(gate) for gate in gates],
        grants=[fill_grant(grant) for grant in grants],
        lease_id=lease_id,
        clock=None if clock is None else timeline_actions.fill_clock(clock),
        space=space_actions.fill_space(space, regions, proximities),
    )


def update_environment(change: operations_pb2.EnvironmentUpdate) -> operations_pb2.Update:
    """Change an environment's own declarations."""
    return operations_pb2.Update(environment=change)


def fill_aggregate(aggregate: Aggregate) -> values_pb2.Aggregate:
    """A declaration of an aggregate."""
    message = values_pb2.Aggregate(
        name=aggregate.name,
        in_generation=aggregate.in_generation,
        bounds=aggregate.bounds,
        field=aggregate.field,
    )
    message.function = int(aggregate.function)  # type: ignore[assignment]
    message.scope = int(aggregate.scope)  # type: ignore[assignment]
    return message


def fill_gate(gate: Gate) -> values_pb2.Gate:
    """A declaration of a gate."""
    return values_pb2.Gate(
        name=gate.name,
        count_target=gate.count_target,
        deadline_ms=gate.deadline_ms,
        all_live_members=gate.all_live_members,
        members_path=gate.members_path,
    )


def fill_grant(grant: Grant) -> values_pb2.Grant:
    """A declaration of a grant."""
    message = values_pb2.Grant(group=grant.group)
    message.access = int(grant.access)  # type: ignore[assignment]
    return message


def acknowledge(subscription: str, term: int, revision: int) -> operations_pb2.Acknowledge:
    """Move a subscription's cursor."""
    return operations_pb2.Acknowledge(subscription=subscription, term=term, revision=revision)
