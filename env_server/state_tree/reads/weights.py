"""Weights: how many bytes rows take in an answer. They may be too many and never too few, as pages are cut by them."""

from typing import Final

from env_server.model.entries import Entry, StreamItem
from env_server.model.environments import Declaration, EnvironmentState
from env_server.model.values import Json

_ROW_BYTES: Final = 256
"""What an entry or an item costs besides its value and path: a name of at most 128 bytes and some numbers."""
_ENVIRONMENT_BYTES: Final = 128
_PART_BYTES: Final = 32
"""Of a label, a grant, an aggregate: its numbers, and what frames it."""
_GATE_BYTES: Final = 128
_BOUND_BYTES: Final = 8
_CLOCK_BYTES: Final = 64


def weigh_value(value: object) -> int:
    """A row with this value and a name of its own, without a path."""
    if type(value) is Json:
        return _ROW_BYTES + len(value.text)
    if type(value) is str:
        return _ROW_BYTES + 4 * len(value)
    return _ROW_BYTES + (len(value) if type(value) is bytes else 0)


def weigh_entry(row: tuple[str, Entry]) -> int:
    """An entry with its key, without the path of its environment."""
    return weigh_value(row[1].value)


def weigh_item(item: StreamItem) -> int:
    """An item of a stream."""
    return weigh_value(item.value)


def weigh_environment(state: EnvironmentState) -> int:
    """An environment with all that it declares."""
    declaration = state.declaration
    weight = _ENVIRONMENT_BYTES + weigh_text(state.path) + len(declaration.config.text)
    if declaration.schema is not None:
        weight += len(declaration.schema.text)
    if declaration.clock is not None:
        weight += _CLOCK_BYTES
    if declaration.space is not None:
        weight += sum(declaration.space.weight)
    return weight + _weigh_parts(declaration)


def weigh_text(text: str) -> int:
    """A text as it is sent."""
    return len(text) if text.isascii() else 4 * len(text)


def _weigh_parts(declaration: Declaration) -> int:
    weight = weigh_text(declaration.kind)
    for name, label in declaration.labels.items():
        weight += _PART_BYTES + weigh_text(name) + weigh_text(label)
    for grant in declaration.grants:
        weight += _PART_BYTES + weigh_text(grant.group)
    for aggregate in declaration.aggregates:
        # In a pointer "/" and "~" take two bytes each, and a token is led by one.
        pointer = sum(2 * weigh_text(token) + 1 for token in aggregate.field)
        weight += _PART_BYTES + weigh_text(aggregate.name) + pointer + _BOUND_BYTES * len(aggregate.bounds)
    for gate in declaration.gates:
        weight += _GATE_BYTES + weigh_text(gate.name) + weigh_text(gate.members_path)
    return weight
