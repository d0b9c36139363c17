"""A sealed commit group on its way to a disk, whatever disk it is."""

from typing import NamedTuple

from env_server.model.changes import Changes
from env_server.model.ports import StateChunk
from env_server.storage import layout
from env_server.storage.records import encode_record


class Group(NamedTuple):
    """What one append gives to a commit."""

    number: int
    last_revision: int
    next_environment_number: int
    """One above the highest environment number ever used: none is used again, not even after a deletion."""
    wall_ns: int
    value: bytes
    """Of the log."""
    state: StateChunk | None


def seal_group(changes: Changes, state: StateChunk | None, next_environment_number: int) -> Group:
    """Encodes the record and sets `changes.size_bytes`; `next_environment_number` as it was before the group."""
    record = encode_record(changes)
    changes.size_bytes = len(record)
    for row, extra in changes.extras.items():
        if extra.declaration is not None:
            number = changes.places[changes.path[row]].number
            next_environment_number = max(next_environment_number, number + 1)
    if state is not None and state.environments:
        next_environment_number = max(next_environment_number, max(state.environments) + 1)
    return Group(
        changes.number,
        changes.last_revision,
        next_environment_number,
        changes.wall_ns,
        layout.seal_record(changes.wall_ns, changes.base_revision, record),
        state,
    )
