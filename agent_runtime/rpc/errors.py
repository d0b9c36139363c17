"""Errors on the wire: one table from reasons to gRPC codes, and the trailer that carries them."""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2, status_pb2

from agent_runtime.model.refusals import NodeError, Refusal

DOMAIN: Final = "ecumene"
DETAILS_KEY: Final = "grpc-status-details-bin"
MESSAGE_BYTES_MAX: Final = 400
METADATA_BYTES_MAX: Final = 600
_TEXT_BYTES_MAX: Final = 300

_Code = grpc.StatusCode
_REASONS: Final[dict[grpc.StatusCode, tuple[Refusal, ...]]] = {
    _Code.INVALID_ARGUMENT: (
        Refusal.MALFORMED_MESSAGE,
        Refusal.INVALID_FIELD,
        Refusal.LIMIT_EXCEEDED,
        Refusal.LAUNCH_REFUSED,
    ),
    _Code.NOT_FOUND: (Refusal.RUN_NOT_FOUND, Refusal.AGENT_NOT_FOUND, Refusal.PART_NOT_FOUND),
    _Code.ALREADY_EXISTS: (Refusal.RUN_EXISTS, Refusal.SEAT_TAKEN),
    _Code.FAILED_PRECONDITION: (Refusal.RUN_ACTIVE, Refusal.TURN_OVER),
    _Code.RESOURCE_EXHAUSTED: (Refusal.CAPACITY_EXCEEDED,),
    _Code.UNAVAILABLE: (Refusal.DRAINING, Refusal.WORKER_UNAVAILABLE, Refusal.WORLD_UNAVAILABLE),
    _Code.ABORTED: (Refusal.WORLD_REFUSED,),
    _Code.DEADLINE_EXCEEDED: (Refusal.DEADLINE,),
    _Code.INTERNAL: (Refusal.INTERNAL,),
}

CODE_OF: Final[dict[Refusal, grpc.StatusCode]] = {
    reason: code for code, reasons in _REASONS.items() for reason in reasons
}
"""The gRPC code of every reason."""


def encode_status(error: NodeError) -> bytes:
    """The trailer of a call: a google.rpc.Status, well below what the transport carries."""
    room, metadata = METADATA_BYTES_MAX, {}
    for name, value in error.metadata.items():
        short = shorten(value, _TEXT_BYTES_MAX)
        room -= len(name.encode()) + len(short.encode()) + 8
        if room < 0:
            break
        metadata[name] = short
    code = int(CODE_OF[error.reason].value[0])
    status = status_pb2.Status(code=code, message=shorten(error.message, MESSAGE_BYTES_MAX))
    _pack(status, error_details_pb2.ErrorInfo(reason=error.reason.name, domain=DOMAIN, metadata=metadata))
    if error.retry_delay_ms > 0:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(error.retry_delay_ms)
        _pack(status, retry)
    return status.SerializeToString()


def shorten(text: str, bytes_max: int) -> str:
    """The text, cut at a character so that it fits, with an ellipsis."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= bytes_max:
        return encoded.decode()
    return encoded[: bytes_max - 3].decode("utf-8", "ignore") + "…"


def _pack(status: status_pb2.Status, detail: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> None:
    packed = Any()
    packed.Pack(detail)
    status.details.append(packed)
