"""The state of a world from its events alone, and from its answers: both must be the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import grpc
from env_api.v1 import events_pb2, queries_pb2, values_pb2

from tests.event_rows import read_log
from tests.faults.random_frames import AGGREGATES
from tests.raw_client import Failure, call


class Seen(NamedTuple):
    """What events and answers both tell of an entry. Of a stream the value is the number of its last item."""

    kind: int
    value: Any
    version: int
    created: int
    modified: int


@dataclass
class Environment:
    entries: dict[str, Seen] = field(default_factory=dict)
    generation: int = 0
    begun: int = 0
    aggregates: dict[str, values_pb2.AggregateValue] = field(default_factory=dict)
    reported: int = 0


State = dict[str, Environment]


async def replay(channel: grpc.aio.Channel, name: str, through: int) -> State:
    """The state that the events up to a revision tell, from the first one on."""
    state: State = {"/": Environment()}
    for row in await read_log(channel, name, through):
        _apply(state, *row[:6])
    return state


async def read(channel: grpc.aio.Channel, path: str = "/", world: str = "") -> State:
    """The state that queries tell, in small pages, of an environment and all below it."""

    async def ask(**query: Any) -> Any:
        answer = await call(channel, "query", world=world, path=path, query=queries_pb2.Query(**query))
        assert not isinstance(answer, Failure), answer
        return answer.result

    environment = Environment()
    token = ""
    while True:
        page = (await ask(list_entries=queries_pb2.ListEntries(page_size=5, page_token=token))).entries
        for entry in page.entries:
            value = entry.stream_next - 1 if entry.kind == values_pb2.ENTRY_KIND_STREAM else _value_of(entry.value)
            versions = (entry.version, entry.create_revision, entry.modify_revision)
            environment.entries[entry.key] = Seen(entry.kind, value, *versions)
        if not (token := page.next_page_token):
            break
    told = (await ask(aggregates=queries_pb2.ReadAggregates())).aggregates
    environment.aggregates = {value.name: value for value in told.values}
    for gate in told.gates:
        environment.generation, environment.begun = gate.generation, gate.begin_revision
        environment.reported = gate.reported
    state = {path: environment}
    for child in (await ask(list_children=queries_pb2.ListChildren())).environments.environments:
        state |= await read(channel, child.path, world)
    return state


def check_equal(told: State, replayed: State) -> None:
    """Both ways agree, and aggregates and reports follow from the entries, in exact arithmetic."""
    assert set(told) == set(replayed)
    for path, environment in told.items():
        mine, theirs = environment.entries, replayed[path].entries
        differing = [(key, mine.get(key), theirs.get(key)) for key in mine | theirs if mine.get(key) != theirs.get(key)]
        assert not differing[:3], path
        if environment.generation:
            assert environment.generation == replayed[path].generation
            assert environment.begun == replayed[path].begun
        reports = [entry for entry in environment.entries.values() if entry.modified > environment.begun]
        if environment.generation:
            assert environment.reported == len(reports), path
        for name, value in environment.aggregates.items():
            covered = reports if AGGREGATES[name].in_generation else list(environment.entries.values())
            _check_aggregate(value, [_number(entry, AGGREGATES[name].field) for entry in covered], path)


def _check_aggregate(told: values_pb2.AggregateValue, found: list[int | float | None], where: str) -> None:
    numbers = [Fraction(number) for number in found if number is not None]
    assert (told.entries, told.numbers) == (len(found), len(numbers)), (where, told)
    kind = told.value.WhichOneof("kind")
    if not numbers or told.function == values_pb2.AGGREGATE_FUNCTION_COUNT:
        return
    wanted = {
        values_pb2.AGGREGATE_FUNCTION_SUM: sum(numbers),
        values_pb2.AGGREGATE_FUNCTION_MEAN: sum(numbers) / len(numbers),
        values_pb2.AGGREGATE_FUNCTION_MIN: min(numbers),
        values_pb2.AGGREGATE_FUNCTION_MAX: max(numbers),
    }[told.function]
    assert kind is not None, (where, told)
    assert float(getattr(told.value, kind)) == float(wanted), (where, told)


def _number(entry: Seen, pointer: str) -> int | float | None:
    if entry.kind == values_pb2.ENTRY_KIND_STREAM:
        return None
    kind, value = entry.value
    if pointer:
        document = json.loads(value) if kind == "json_value" else None
        value = document.get(pointer[1:]) if isinstance(document, dict) else None
        if type(value) is int and not -(2**63) <= value < 2**63:
            value = float(value)
    elif kind not in ("int_value", "double_value"):
        return None
    return value if type(value) in (int, float) else None


def _value_of(value: values_pb2.Value) -> tuple[str, Any]:
    kind = value.WhichOneof("kind")
    assert kind is not None
    return kind, None if kind == "null_value" else getattr(value, kind)


def _apply(state: State, revision: int, type_: int, path: str, key: str, value: Any, version: int) -> None:
    if type_ == events_pb2.EVENT_TYPE_ENVIRONMENT_REGISTERED:
        state[path] = Environment()
    elif type_ == events_pb2.EVENT_TYPE_ENVIRONMENT_DELETED:
        del state[path]
    elif type_ == events_pb2.EVENT_TYPE_GATE_BEGUN:
        state[path].generation, state[path].begun = json.loads(value[1])["generation"], revision
    elif type_ == events_pb2.EVENT_TYPE_ENTRY_DELETED:
        del state[path].entries[key]
    elif events_pb2.EVENT_TYPE_ENTRY_SET <= type_ <= events_pb2.EVENT_TYPE_ENTRY_APPENDED:
        old = state[path].entries.get(key)
        kind = type_ - events_pb2.EVENT_TYPE_ENTRY_SET + values_pb2.ENTRY_KIND_VALUE
        if kind == values_pb2.ENTRY_KIND_STREAM:
            value = (old.value if old is not None else 0) + (value is not None)
        created = revision if old is None or version == 1 else old.created
        state[path].entries[key] = Seen(kind, value, version, created, revision)
