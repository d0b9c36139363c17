"""All that a stored world holds, as plain JSON: the same for the same world, whatever its storage looks like.

Fields are named one by one, so that what later versions add does not change what an older world tells.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple

from env_server.idempotency.producers import Producers
from env_server.idempotency.sessions import Sessions
from env_server.model.changes import Changes
from env_server.model.entries import COUNTER, MEMBER, STREAM, VALUE, Entry
from env_server.model.environments import Declaration
from env_server.model.frames import Answer, Outcome
from env_server.model.limits import Limits
from env_server.model.ports import CommitLog
from env_server.model.values import Json
from env_server.pipeline.recovery import recover
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree
from env_server.storage.outcomes import answer_form, encode_outcome

_KINDS = {VALUE: "value", COUNTER: "counter", STREAM: "stream", MEMBER: "member"}


class Loaded(NamedTuple):
    """A world brought into memory, as a server would."""

    tree: Tree
    producers: Producers
    sessions: Sessions
    history: str


def load_world(log: CommitLog) -> Loaded:
    """Recovers what an unstarted log holds."""
    limits = Limits()
    tree, producers, sessions = Tree(limits), Producers(limits), Sessions(limits)
    recovered = recover(log.load(), tree, producers, sessions)
    return Loaded(tree, producers, sessions, recovered.history)


def tell_world(log: CommitLog) -> dict[str, Any]:
    """State, identities and events of the world in an unstarted log."""
    world = load_world(log)
    first = log.first_revision
    records = log.read(first, 1 << 62) if first <= world.tree.revision else []
    return {
        "revision": world.tree.revision,
        "first_revision": first,
        **tell_state(world.tree),
        "producers": {
            name: [mark[0], _outcome(world.producers.repeated(name, mark[0], mark))]
            for name, mark in sorted(world.producers.marks.items())
        },
        "sessions": [
            [mark.client_id, mark.last_seq, mark.acknowledged, [_answer(answer) for answer in mark.answers]]
            for mark in sorted(log.load().sessions)
        ],
        "events": [event for changes in records for event in tell_events(changes)],
    }


def tell_state(tree: Tree) -> dict[str, Any]:
    """The environments with all that is in them."""
    return {
        "next_environment_number": tree.nodes.next_number,
        "environments": {path: _environment(node) for path, node in sorted(tree.nodes.by_path.items())},
    }


def tell_events(changes: Changes) -> Iterable[list[Any]]:
    """Rows of a record."""
    for row in range(len(changes)):
        place = changes.places[changes.path[row]]
        yield [
            changes.revisions[row],
            int(changes.types[row]),
            place.path,
            changes.keys[row],
            _value(changes.values[row]),
            changes.versions[row],
            changes.producers[row],
            changes.actors[row],
        ]


def _environment(node: Node) -> dict[str, Any]:
    tally = node.tally
    return {
        "number": node.number,
        "version": node.version,
        "created": node.created,
        "modified": node.modified,
        "declaration": _declaration(node.declaration),
        "entries": {key: _entry(entry) for key, entry in sorted(node.entries.items())},
        "items": {
            key: [[item.sequence, _value(item.value), item.revision] for item in stream.items]
            for key, stream in sorted(node.streams.items())
        },
        "aggregates": [
            [told.name, told.entries, told.numbers, told.value, list(told.buckets)] for told in tally.values()
        ]
        if tally is not None
        else [],
        "reported": tally.reported if tally is not None else 0,
    }


def _declaration(declaration: Declaration) -> dict[str, Any]:
    return {
        "kind": declaration.kind,
        "labels": declaration.labels,
        "config": declaration.config.text.decode(),
        "schema": declaration.schema and declaration.schema.text.decode(),
        "aggregates": [
            [part.name, int(part.function), int(part.scope), part.in_generation, list(part.bounds), list(part.field)]
            for part in declaration.aggregates
        ],
        "gates": [
            [gate.name, gate.count_target, gate.deadline_ms, gate.generation, gate.opened, int(gate.cause)]
            for gate in declaration.gates
        ],
        "gate_revisions": [[gate.begin_revision, gate.open_revision] for gate in declaration.gates],
    }


def _entry(entry: Entry) -> list[Any]:
    value = list(entry.value) if entry.kind == STREAM else _value(entry.value)  # type: ignore[arg-type]
    return [_KINDS.get(entry.kind, entry.kind), value, entry.version, entry.created, entry.modified]


def _value(value: object) -> Any:
    """Tagged where JSON would not tell one from the other."""
    if isinstance(value, Json):
        return {"json": value.text.decode()}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, float):
        return {"double": value.hex()}
    if value is None or isinstance(value, bool | int | str):
        return value
    return {"nothing": True}


def _outcome(outcome: Outcome) -> str:
    return encode_outcome(outcome).decode()


def _answer(answer: Answer) -> dict[str, Any]:
    return answer_form(answer)
