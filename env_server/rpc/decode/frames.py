"""Frames from the wire: rows and the block become the columns of a model.Frame. The hot path of the edge.

What is wrong with one op refuses that op (Code.REFUSED with its error); what is wrong with the columns, or too large,
refuses the frame. Keys are not looked at here: the engine checks a name when it creates something under it.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from env_api.v1 import session_pb2

from env_server.model.entries import MEMBER
from env_server.model.errors import InvalidRequest, LimitExceeded, Reason, WorldError
from env_server.model.frames import Frame
from env_server.model.limits import Limits
from env_server.model.names import ROOT, check_count, check_identity
from env_server.model.operations import Code, Precondition, RegisterEntry
from env_server.model.ports import Clock
from env_server.model.values import Json, Value
from env_server.rpc.decode.ops import (
    Decoded,
    decode_acknowledge,
    decode_delete,
    decode_invoke,
    decode_preconditions,
    decode_query,
    decode_register,
    decode_transact,
    decode_update,
    read_double,
)
from env_server.rpc.decode.values import check_null, decode_json, refuse_doubles, refuse_strings

_SET: Final = int(Code.SET)
_ADD: Final = int(Code.ADD)
_JOIN: Final = int(Code.REGISTER_ENTRY)
_REFUSED: Final = int(Code.REFUSED)
_IDENTITIES: Final = re.compile(r"[A-Za-z0-9._-]*")
_IDENTITY_BYTES_MAX: Final = 64
CAUSE_CHARACTERS_MAX: Final = 128
"""Of the id of an event ("world/revision.index"), or of another thing that led to an op."""

Refusals = dict[int, WorldError]


def decode_frame(
    message: session_pb2.OpFrame,
    size_bytes: int,
    limits: Limits,
    clock: Clock,
    *,
    client_id: str,
    principal: str = "",
    groups: tuple[str, ...] = (),
) -> Frame:
    """The frame in columns. `size_bytes` is that of the message as received; `groups` are the session's.

    Raises:
        LimitExceeded: frame_ops_max, frame_bytes_max.
        InvalidRequest: INVALID_FIELD for seq 0, columns that do not fit the ops, a negative deadline.
    """
    check_count(size_bytes, "frame_bytes_max", limits)
    block = message.block if message.HasField("block") else None
    count = len(message.ops) + (len(block.keys) if block is not None else 0)
    check_count(count, "frame_ops_max", limits)
    if message.seq == 0:
        raise InvalidRequest(Reason.INVALID_FIELD, "frame.seq", "must not be 0")
    if message.deadline_ms < 0:
        raise InvalidRequest(Reason.INVALID_FIELD, "frame.deadline_ms", "must not be negative")
    paths = list(message.paths)
    frame = Frame(paths, [], [], [], [], client_id=client_id, seq=message.seq, principal=principal)
    frame.size_bytes = size_bytes
    refusals: Refusals = {}
    if message.ops:
        _decode_rows(list(message.ops), frame, refusals, limits)
    if block is not None:
        _decode_block(block, frame, refusals, limits)
    if frame.path and max(frame.path) >= len(paths):
        _refuse_paths(frame, refusals)
    _decode_identities(message, count, frame, refusals)
    _decode_groups(message, count, frame, groups, refusals)
    frame.gate_generations = _spread(message.gate_generations, count, "gate_generations")
    frame.expect_versions = _spread(message.expect_versions, count, "expect_versions")
    frame.return_versions = message.return_versions
    if message.deadline_ms:
        frame.deadline_ns = clock.monotonic_ns() + message.deadline_ms * 1_000_000
    for index, error in refusals.items():
        frame.codes[index] = _REFUSED
        frame.arguments[index] = error
    return frame


def check_cause(cause: str) -> None:
    """Accepts the name of what led to an op.

    Raises:
        LimitExceeded: cause_characters_max.
    """
    if len(cause) > CAUSE_CHARACTERS_MAX:
        raise LimitExceeded("cause_characters_max", CAUSE_CHARACTERS_MAX, len(cause))


def _decode_rows(ops: list[session_pb2.Op], frame: Frame, refusals: Refusals, limits: Limits) -> None:
    frame.path += [op.path for op in ops]
    frame.keys += [op.key for op in ops]
    actions = [op.WhichOneof("action") for op in ops]
    action = actions[0]
    if action in _UNIFORM and actions.count(action) == len(ops):  # the usual frame: reports of one kind
        values = [getattr(op, action) for op in ops]
        code, refuse = _UNIFORM[action]
        frame.codes += [code] * len(ops)
        frame.arguments += values
        if refuse is not None:
            refusals.update(refuse(values, action, limits))
    else:
        _decode_mixed(ops, actions, frame, refusals, limits)
    if any([op.preconditions for op in ops]):  # noqa: C419 - a list is faster than a generator
        frame.preconditions = _decode_conditions(ops, refusals, limits)


def _decode_mixed(
    ops: list[session_pb2.Op], actions: Sequence[str | None], frame: Frame, refusals: Refusals, limits: Limits
) -> None:
    codes, arguments = frame.codes, frame.arguments
    for index, (op, action) in enumerate(zip(ops, actions, strict=True)):
        if action is None:
            refusals[index] = InvalidRequest(Reason.INVALID_FIELD, "op.action", "must be set")
            codes.append(_REFUSED)
            arguments.append(None)
            continue
        code, read = _ACTIONS[action]
        argument: object
        try:
            if code is not None:
                argument = getattr(op, action) if read is None else read(getattr(op, action), action, limits)
            else:
                code, argument = _OPERATIONS[action](getattr(op, action), op.key, limits)
                if action in _PLACELESS:
                    frame.path[index] = 0
                    frame.paths = frame.paths or [ROOT]
        except WorldError as error:
            refusals[index] = error
            code = _REFUSED
            argument = None
        codes.append(code)
        arguments.append(argument)


def _decode_conditions(
    ops: list[session_pb2.Op], refusals: Refusals, limits: Limits
) -> dict[int, tuple[Precondition, ...]]:
    conditions = {}
    for index, op in enumerate(ops):
        if op.preconditions:
            try:
                conditions[index] = decode_preconditions(op.preconditions, limits)
            except WorldError as error:
                refusals.setdefault(index, error)
    return conditions


def _decode_block(block: session_pb2.SetBlock, frame: Frame, refusals: Refusals, limits: Limits) -> None:
    keys = list(block.keys)
    count = len(keys)
    columns: list[tuple[str, Sequence[Any]]] = [
        ("doubles", block.doubles),
        ("ints", block.ints),
        ("strings", block.strings),
        ("json", block.json),
    ]
    given = [(name, column) for name, column in columns if column]
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
    offset = len(frame.keys)
    frame.keys += keys
    frame.path += [block.path] * count
    frame.codes += [_JOIN if block.join_lease_id else _ADD if block.add else _SET] * count
    values: list[Any] = list(column)
    refused: Refusals = {}
    if name == "doubles":
        refused = refuse_doubles(values, "block.doubles")
    elif name == "strings":
        refused = refuse_strings(values, limits)
    elif name == "json":
        values, refused = _decode_documents(values, limits)
    frame.arguments += _join_all(values, block.join_lease_id) if block.join_lease_id else values
    for index, error in refused.items():
        refusals[offset + index] = error


def _join_all(values: list[Any], lease: int) -> list[RegisterEntry]:
    """Registrations of members; one object for all where they tell the same about themselves."""
    first = values[0]
    if type(first) is not float and first == values[-1] and values.count(first) == len(values):
        return [RegisterEntry(MEMBER, first, if_absent=True, lease=lease)] * len(values)
    return [RegisterEntry(MEMBER, value, if_absent=True, lease=lease) for value in values]


def _decode_documents(texts: Sequence[bytes], limits: Limits) -> tuple[list[Json | None], Refusals]:
    documents: list[Json | None] = []
    refused: Refusals = {}
    for index, text in enumerate(texts):
        try:
            documents.append(decode_json(text, limits, "block.json"))
        except WorldError as error:
            refused[index] = error
            documents.append(None)
    return documents, refused


def _refuse_paths(frame: Frame, refusals: Refusals) -> None:
    count = len(frame.paths)
    for index, path in enumerate(frame.path):
        if path >= count:
            problem = f"index {path} is outside the path table of {count}"
            refusals[index] = InvalidRequest(Reason.INVALID_FIELD, "op.path", problem)
            frame.path[index] = 0
    frame.paths = frame.paths or [ROOT]  # the refused ops still point somewhere


def _decode_identities(message: session_pb2.OpFrame, count: int, frame: Frame, refusals: Refusals) -> None:
    producers = _spread(message.producers, count, "producers")
    seqs = _spread(message.producer_seqs, count, "producer_seqs")
    if (producers is None) != (seqs is None):
        raise InvalidRequest(Reason.INVALID_FIELD, "frame.producers", "producers and producer_seqs go together")
    if producers is not None and seqs is not None:
        _check_identities(producers, "producers", refusals)
        if 0 in seqs:
            for index, seq in enumerate(seqs):
                if seq == 0 and producers[index]:
                    problem = "must not be 0 beside a producer"
                    refusals[index] = InvalidRequest(Reason.INVALID_FIELD, "producer_seqs", problem)
        frame.producers, frame.producer_seqs = producers, seqs
    frame.actors = _spread(message.actors, count, "actors")
    if frame.actors is not None:
        _check_identities(frame.actors, "actors", refusals)
    frame.causes = _spread(message.causes, count, "causes")
    if frame.causes is not None and max(map(len, frame.causes)) > CAUSE_CHARACTERS_MAX:
        for index, cause in enumerate(frame.causes):
            try:
                check_cause(cause)
            except WorldError as error:
                refusals[index] = error


def _decode_groups(
    message: session_pb2.OpFrame, count: int, frame: Frame, groups: tuple[str, ...], refusals: Refusals
) -> None:
    """The group of each op, when the session has any: then an op without one is denied, not let through."""
    column = _spread(message.groups, count, "groups")
    if column is None:
        frame.groups = [""] * count if groups else None
        return
    for number in set(column):
        if number > len(groups):
            problem = f"{number} is the number of no group of hello.groups, which has {len(groups)}"
            error = InvalidRequest(Reason.INVALID_FIELD, "frame.groups", problem)
            refusals.update((index, error) for index, asked in enumerate(column) if asked == number)
    if groups:
        paths = ["", *groups]
        frame.groups = [paths[number] if number < len(paths) else "" for number in column]


def _check_identities(names: list[str], field: str, refusals: Refusals) -> None:
    """Refuses the ops whose name is not acceptable; two passes in C when all are."""
    if max(map(len, names)) <= _IDENTITY_BYTES_MAX and _IDENTITIES.fullmatch("".join(names)):
        return
    for index, name in enumerate(names):
        if name:
            try:
                check_identity(name, field)
            except WorldError as error:
                refusals[index] = error


def _spread(column: Sequence[Any], count: int, name: str) -> list[Any] | None:
    """A column in full length; None when it is empty, or when there is no op to describe."""
    length = len(column)
    if length == 0 or count == 0:
        return None
    if length == count:
        return list(column)
    if length == 1:
        return [column[0]] * count
    problem = f"has {length} elements for {count} ops: must have none, one, or one an op"
    raise InvalidRequest(Reason.INVALID_FIELD, f"frame.{name}", problem)


def _read_null(value: Any, field: str, limits: Limits) -> Value:
    check_null(value, field)
    return None


def _read_text(value: Any, field: str, limits: Limits) -> Value:
    for error in refuse_strings((value,), limits).values():
        raise error
    return value


def _read_bytes(value: Any, field: str, limits: Limits) -> Value:
    check_count(len(value), "value_bytes_max", limits)
    return value


_Read = Callable[[Any, str, Limits], Value]

# Of each action: its code and how its value is read (None: as it is); no code: an operation of the table below.
_ACTIONS: Final[dict[str, tuple[int | None, _Read | None]]] = {
    "set_null": (_SET, _read_null),
    "set_bool": (_SET, None),
    "set_int": (_SET, None),
    "set_double": (_SET, lambda value, field, limits: read_double(value, field)),
    "set_string": (_SET, _read_text),
    "set_bytes": (_SET, _read_bytes),
    "set_json": (_SET, lambda value, field, limits: decode_json(value, limits, field)),
    "add_int": (_ADD, None),
    "add_double": (_ADD, lambda value, field, limits: read_double(value, field)),
    "register": (None, None),
    "query": (None, None),
    "update": (None, None),
    "delete": (None, None),
    "invoke": (None, None),
    "transact": (None, None),
    "acknowledge": (None, None),
}

# Actions whose values are read and checked in one pass when all ops of a frame have the same.
_UNIFORM: Final[dict[str, tuple[int, Callable[[Sequence[Any], str, Limits], Refusals] | None]]] = {
    "set_bool": (_SET, None),
    "set_int": (_SET, None),
    "set_double": (_SET, lambda values, field, limits: refuse_doubles(values, field)),
    "set_string": (_SET, lambda values, field, limits: refuse_strings(values, limits)),
    "add_int": (_ADD, None),
    "add_double": (_ADD, lambda values, field, limits: refuse_doubles(values, field)),
}

# What names no place of its own: the path index of such an op is not looked at.
_PLACELESS: Final = ("transact", "acknowledge")

_OPERATIONS: Final[dict[str, Callable[[Any, str, Limits], Decoded]]] = {
    "register": decode_register,
    "query": decode_query,
    "update": decode_update,
    "delete": decode_delete,
    "invoke": decode_invoke,
    "transact": decode_transact,
    "acknowledge": decode_acknowledge,
}
