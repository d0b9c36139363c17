"""The block of a frame: many ops alike, in one place, as columns already."""

from collections.abc import Sequence
from typing import Any, Final

from env_api.v1 import session_pb2

from env_server.model.entries import MEMBER
from env_server.model.errors import InvalidRequest, Reason, WorldError
from env_server.model.frames import Frame
from env_server.model.limits import Limits
from env_server.model.operations import Code, Placed, RegisterEntry
from env_server.model.spaces import Position
from env_server.model.values import Json
from env_server.rpc.decode.values import Refusals, decode_json, refuse_doubles, refuse_strings

_SET: Final = int(Code.SET)
_ADD: Final = int(Code.ADD)
_JOIN: Final = int(Code.REGISTER_ENTRY)
_MOVE: Final = int(Code.MOVE)
_PLACE: Final = int(Code.PLACE)


def decode_block(block: session_pb2.SetBlock, frame: Frame, refusals: Refusals, limits: Limits) -> None:
    """Adds the block's ops to the columns of a frame, behind those that came one by one.

    Raises:
        InvalidRequest: INVALID_FIELD when not exactly one column has an element a key, or what it asks for excludes it.
    """
    keys = list(block.keys)
    count = len(keys)
    columns: list[tuple[str, Sequence[Any]]] = [
        ("doubles", block.doubles),
        ("ints", block.ints),
        ("strings", block.strings),
        ("json", block.json),
    ]
    given = [(name, column) for name, column in columns if column]
    positions = _decode_positions(block, count)
    if positions and not given:
        _move_all(block, positions, frame)
        return
    if sum(len(column) for _, column in given) != count or len(given) > 1:
        problem = f"exactly one column must have one element a key, here {count}"
        raise InvalidRequest(Reason.INVALID_FIELD, "frame.block", problem)
    if not given:
        return
    name, column = given[0]
    if block.add and name not in ("doubles", "ints"):
        raise InvalidRequest(Reason.INVALID_FIELD, "frame.block.add", "adds ints or doubles only")
    if block.add and block.join_lease_id:
        raise InvalidRequest(Reason.INVALID_FIELD, "frame.block.join_lease_id", "excludes add")
    if block.add and positions:
        raise InvalidRequest(Reason.INVALID_FIELD, "frame.block.coordinates", "excludes add")
    offset = len(frame.keys)
    frame.keys += keys
    frame.path += [block.path] * count
    code = _JOIN if block.join_lease_id else _ADD if block.add else _PLACE if positions else _SET
    frame.codes += [code] * count
    values: list[Any] = list(column)
    refused: Refusals = {}
    if name == "doubles":
        refused = refuse_doubles(values, "block.doubles")
    elif name == "strings":
        refused = refuse_strings(values, limits)
    elif name == "json":
        values, refused = _decode_documents(values, limits)
    if block.join_lease_id:
        frame.arguments += _join_all(values, block.join_lease_id, positions)
    elif positions:
        frame.arguments += map(Placed, values, positions)
    else:
        frame.arguments += values
    for index, error in refused.items():
        refusals[offset + index] = error


def _decode_positions(block: session_pb2.SetBlock, count: int) -> list[Position]:
    """A position a key; [] when there are none.

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    dimensions, coordinates = block.dimensions, block.coordinates
    if not dimensions and not coordinates:
        return []
    if dimensions not in (1, 2):
        raise InvalidRequest(Reason.INVALID_FIELD, "frame.block.dimensions", "must be 1 or 2 beside coordinates")
    if len(coordinates) != dimensions * count:
        problem = f"{len(coordinates)} are not {dimensions} a key, of {count} keys"
        raise InvalidRequest(Reason.INVALID_FIELD, "frame.block.coordinates", problem)
    return list(zip(*[iter(coordinates)] * dimensions, strict=True))


def _move_all(block: session_pb2.SetBlock, positions: list[Position], frame: Frame) -> None:
    if block.add or block.join_lease_id:
        raise InvalidRequest(Reason.INVALID_FIELD, "frame.block", "moves alone exclude add and join_lease_id")
    count = len(positions)
    frame.keys += block.keys
    frame.path += [block.path] * count
    frame.codes += [_MOVE] * count
    frame.arguments += positions


def _join_all(values: list[Any], lease: int, positions: list[Position]) -> list[RegisterEntry]:
    """Registrations of members; one object for all where they tell the same about themselves."""
    if positions:
        return [
            RegisterEntry(MEMBER, value, if_absent=True, lease=lease, position=position)
            for value, position in zip(values, positions, strict=True)
        ]
    first = values[0]
    if type(first) is not float and first == values[-1] and values.count(first) == len(values):
        return [RegisterEntry(MEMBER, first, if_absent=True, lease=lease)] * len(values)
    return [RegisterEntry(MEMBER, value, if_absent=True, lease=lease) for value in values]


def _decode_documents(texts: Sequence[bytes], limits: Limits) -> tuple[list[Json | None], Refusals]:
    """The documents, each looked at once however often it is there, and what is wrong with some."""
    known: dict[bytes, Json | WorldError] = {}
    for text in texts:
        if text not in known:
            try:
                known[text] = decode_json(text, limits, "block.json")
            except WorldError as error:
                known[text] = error
    found = [known[text] for text in texts]
    refused = {index: one for index, one in enumerate(found) if isinstance(one, WorldError)}
    return [None if isinstance(one, WorldError) else one for one in found], refused
