"""Answers of frames to messages: nothing per op when all succeeded, and no message above message_bytes_max."""

from collections.abc import Iterator
from typing import Final

from env_api.v1 import operations_pb2, session_pb2

from env_server.model.errors import LimitExceeded, WorldError
from env_server.model.frames import Answer, Invoked, Listed, NearbyPage, NeighbourTable, Outcome, Transacted, Written
from env_server.model.limits import Limits
from env_server.rpc.encode.errors import encode_error
from env_server.rpc.encode.spaces import fill_nearby, fill_neighbours
from env_server.rpc.encode.values import encode_read, encode_value
from env_server.rpc.encode.wire import ANSWER, wrap

_OUTCOME_OVERHEAD_BYTES: Final = 8
"""Tag and length around an outcome in its list."""


def encode_answer(answer: Answer, limits: Limits) -> Iterator[bytes]:
    """The answer as SessionResponses, one after the other: usually one, more when it is long.

    Lazy, so that a reader that stops reading keeps at most one of them in memory. An outcome that fits in no message
    (a page of large values) becomes LIMIT_EXCEEDED, which a smaller page avoids.
    """
    message = session_pb2.FrameAnswer(
        seq=answer.seq,
        part=answer.part,
        pending=answer.pending,
        base_revision=answer.base_revision,
        count=answer.count,
        without_revision=answer.without_revision,
        versions=answer.versions,
        revision=answer.revision,
    )
    if not answer.outcomes:
        yield wrap(ANSWER, message.SerializeToString())
        return
    room = limits.message_bytes_max - message.ByteSize() - 64
    used = 0
    for listed in answer.outcomes:
        outcome = message.outcomes.add()  # made where it will be: a table of neighbours is not copied
        size = _fill_listed(outcome, listed, limits) + _OUTCOME_OVERHEAD_BYTES
        if used and used + size > room:
            next_message = session_pb2.FrameAnswer(
                seq=answer.seq, part=answer.part, count=answer.count, revision=answer.revision, outcomes=[outcome]
            )
            del message.outcomes[-1]
            message.more = True
            yield wrap(ANSWER, message.SerializeToString())
            message = next_message
            room, used = limits.message_bytes_max - 64, 0
        used += size
    yield wrap(ANSWER, message.SerializeToString())


def encode_refusal(seq: int, count: int, error: WorldError) -> bytes:
    """The answer of a frame that was refused as a whole: one outcome, with index = count, for every op."""
    outcome = operations_pb2.OpOutcome(index=count, error=encode_error(error))
    message = session_pb2.FrameAnswer(seq=seq, count=count, outcomes=[outcome])
    return wrap(ANSWER, message.SerializeToString())


def _fill_listed(message: operations_pb2.OpOutcome, listed: Listed, limits: Limits) -> int:
    """One outcome, no larger than a message can carry beside the columns of a full frame; returns its bytes."""
    outcome = listed.outcome
    if isinstance(outcome, NearbyPage):
        fill_nearby(message.query.nearby, outcome)
    elif isinstance(outcome, NeighbourTable):
        fill_neighbours(message.query.neighbours, outcome)
    else:
        message.CopyFrom(_encode_outcome(outcome))
    message.index = listed.index
    if listed.duplicate:
        message.duplicate = True
    size = message.ByteSize()
    room = limits.message_bytes_max - 16 * limits.frame_ops_max - 1024
    if size <= room:
        return size
    error = LimitExceeded("message_bytes_max", limits.message_bytes_max, size)
    message.CopyFrom(operations_pb2.OpOutcome(index=listed.index, error=encode_error(error)))
    return message.ByteSize()


def encode_written(written: Written) -> operations_pb2.Written:
    """What a write did; the value is a counter's new sum."""
    return operations_pb2.Written(
        revision=written.revision,
        version=written.version,
        value=None if written.value is None else encode_value(written.value),
        sequence=written.sequence,
        changed=written.changed,
    )


def encode_invoked(invoked: Invoked) -> operations_pb2.InvokeResult:
    """What an operation returned."""
    return operations_pb2.InvokeResult(
        revision=invoked.revision, result_json=invoked.result.text, changed=invoked.changed
    )


def encode_transacted(transacted: Transacted) -> operations_pb2.TransactResult:
    """What a transaction did."""
    return operations_pb2.TransactResult(
        revision=transacted.revision,
        written=[encode_written(written) for written in transacted.written],
        otherwise=transacted.otherwise,
    )


def _encode_outcome(outcome: Outcome) -> operations_pb2.OpOutcome:
    if isinstance(outcome, WorldError):
        return operations_pb2.OpOutcome(error=encode_error(outcome))
    if isinstance(outcome, Written):
        return operations_pb2.OpOutcome(written=encode_written(outcome))
    if isinstance(outcome, Invoked):
        return operations_pb2.OpOutcome(invoke=encode_invoked(outcome))
    if isinstance(outcome, Transacted):
        return operations_pb2.OpOutcome(transact=encode_transacted(outcome))
    return operations_pb2.OpOutcome(query=encode_read(outcome))
