"""Frames from the wire: rows and the block become the columns of a model.Frame. The hot path of the edge.

What is wrong with one op refuses that op (Code.REFUSED with its error); what is wrong with the columns, or too large,
refuses the frame. Keys are not looked at here: the engine checks a name when it creates something under it.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from env_api.v1 import session_pb2

from env_server.model.errors import InvalidRequest, LimitExceeded, Reason, WorldError
from env_server.model.frames import Frame
from env_server.model.limits import Limits
from env_server.model.names import ROOT, check_count, check_identity, check_producer
from env_server.model.operations import Code
from env_server.model.ports import Clock
from env_server.rpc.decode.blocks import decode_block
from env_server.rpc.decode.fences import decode_fence
from env_server.rpc.decode.rows import decode_rows
from env_server.rpc.decode.values import Refusals

_REFUSED: Final = int(Code.REFUSED)
_IDENTITIES: Final = re.compile(r"[A-Za-z0-9._-]*")
_IDENTITY_BYTES_MAX: Final = 64
CAUSE_CHARACTERS_MAX: Final = 128
"""Of the id of an event ("world/revision.index"), or of another thing that led to an op."""


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
        decode_rows(list(message.ops), frame, refusals, limits)
    if block is not None:
        decode_block(block, frame, refusals, limits)
    if frame.path and max(frame.path) >= len(paths):
        _refuse_paths(frame, refusals)
    _decode_identities(message, count, frame, refusals)
    _decode_groups(message, count, frame, groups, refusals)
    frame.gate_generations = _spread(message.gate_generations, count, "gate_generations")
    frame.expect_versions = _spread(message.expect_versions, count, "expect_versions")
    if message.fences:
        _decode_fences(message, count, frame, refusals, limits)
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
        _check_identities(producers, "producers", refusals, check_producer)
        if 0 in seqs:
            for index, seq in enumerate(seqs):
                if seq == 0 and producers[index]:
                    problem = "must not be 0 beside a producer"
                    refusals[index] = InvalidRequest(Reason.INVALID_FIELD, "producer_seqs", problem)
        frame.producers, frame.producer_seqs = producers, seqs
    frame.actors = _spread(message.actors, count, "actors")
    if frame.actors is not None and not _are_identities(message.actors):  # mostly one for all
        _check_identities(frame.actors, "actors", refusals, check_identity)
    frame.causes = _spread(message.causes, count, "causes")
    if frame.causes is not None and max(map(len, message.causes)) > CAUSE_CHARACTERS_MAX:
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


def _decode_fences(message: session_pb2.OpFrame, count: int, frame: Frame, refusals: Refusals, limits: Limits) -> None:
    check_count(len(message.fences), "frame_ops_max", limits)
    frame.fences = tuple(map(decode_fence, message.fences))
    frame.fence = _spread(message.fence, count, "fence")
    if frame.fence is None:
        return
    for index, number in enumerate(frame.fence):
        if number > len(frame.fences):
            problem = f"{number} is the number of no fence of the frame, which has {len(frame.fences)}"
            refusals[index] = InvalidRequest(Reason.INVALID_FIELD, "frame.fence", problem)
            frame.fence[index] = 0


def _are_identities(names: Sequence[str]) -> bool:
    """Whether all names are acceptable; empty ones are."""
    return max(map(len, names)) <= _IDENTITY_BYTES_MAX and _IDENTITIES.fullmatch("".join(names)) is not None


def _check_identities(names: list[str], field: str, refusals: Refusals, check: Callable[[str, str], None]) -> None:
    """Refuses the ops whose name is not acceptable; two passes in C when all are."""
    if _are_identities(names):
        return
    for index, name in enumerate(names):
        if name:
            try:
                check(name, field)
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
