"""Messages of the contract as raw bytes, for load that must cost its sender little and for the bare limits."""

from __future__ import annotations

from collections.abc import Sequence

from env_api.v1 import environment_service_pb2, events_pb2, operations_pb2, session_pb2, values_pb2

FRAMES_METHOD = "/lean/Frames"
EVENTS_METHOD = "/lean/Events"
UPDATE_METHOD = "/env_api.v1.EnvironmentService/Update"
MESSAGE_BYTES_MAX = 64 * 1024 * 1024


def encode_frame(
    seq: int,
    path: str,
    keys: Sequence[str],
    values: Sequence[float],
    producers: Sequence[str] | None,
    producer_seq: int,
    gate_generation: int = 0,
) -> bytes:
    """A frame of one block that sets doubles."""
    frame = session_pb2.OpFrame(seq=seq, paths=[path], block=session_pb2.SetBlock(keys=keys, doubles=values))
    if producers is not None:
        frame.producers.extend(producers)
        frame.producer_seqs.append(producer_seq)
    if gate_generation:
        frame.gate_generations.append(gate_generation)
    return frame.SerializeToString()


def read_done(answer: bytes) -> tuple[int, int]:
    """Number of a frame, and how many of its ops were done."""
    message = session_pb2.FrameAnswer.FromString(answer)
    return message.seq, message.count - len(message.outcomes)


def read_events(message: bytes) -> tuple[int, int, list[str], list[float], list[int]]:
    """First revision, number, keys, values and versions of events that are one a revision."""
    frame = events_pb2.EventFrame.FromString(message)
    return frame.first_revision, frame.count, list(frame.keys), list(frame.doubles), list(frame.versions)


def encode_update(path: str, key: str, value: float) -> bytes:
    """A unary request that sets one double."""
    change = operations_pb2.Update(set=values_pb2.Value(double_value=value))
    return environment_service_pb2.UpdateRequest(path=path, key=key, update=change).SerializeToString()
