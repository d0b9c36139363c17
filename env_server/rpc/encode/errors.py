"""Errors on the wire: one table from reasons to gRPC codes, and the two forms an error takes.

Both forms stay within DETAILS_BYTES_MAX: larger trailers are dropped by gRPC at random sizes above 8 KiB, and with
them the error itself. What does not fit is left out and counted.
"""

from collections.abc import Iterable
from typing import Final

import grpc
from env_api.v1 import errors_pb2
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from env_server.model.errors import Executed, Reason, WorldError

DOMAIN: Final = "ecumene"
DETAILS_KEY: Final = "grpc-status-details-bin"
DETAILS_BYTES_MAX: Final = 2048
MESSAGE_BYTES_MAX: Final = 400
METADATA_BYTES_MAX: Final = 600
_TEXT_BYTES_MAX: Final = 300
"""Of one metadata value or violation."""

_REASONS: Final[dict[grpc.StatusCode, tuple[Reason, ...]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: (
        Reason.MALFORMED_MESSAGE,
        Reason.INVALID_PATH,
        Reason.INVALID_KEY,
        Reason.INVALID_VALUE,
        Reason.INVALID_FIELD,
        Reason.SCHEMA_MISMATCH,
        Reason.REQUEST_ID_REUSED,
        Reason.LIMIT_EXCEEDED,
        Reason.INVALID_ARGUMENTS,
        Reason.INVALID_POSITION,
    ),
    grpc.StatusCode.NOT_FOUND: (
        Reason.WORLD_NOT_FOUND,
        Reason.ENVIRONMENT_NOT_FOUND,
        Reason.ENTRY_NOT_FOUND,
        Reason.OPERATION_NOT_FOUND,
        Reason.KIND_NOT_FOUND,
        Reason.AGGREGATE_NOT_FOUND,
        Reason.GATE_NOT_FOUND,
        Reason.WATCH_NOT_FOUND,
        Reason.LEASE_NOT_FOUND,
        Reason.SUBSCRIPTION_NOT_FOUND,
        Reason.SNAPSHOT_NOT_FOUND,
        Reason.CLOCK_NOT_FOUND,
        Reason.TIMER_NOT_FOUND,
        Reason.SPACE_NOT_FOUND,
        Reason.REGION_NOT_FOUND,
        Reason.PARTICIPANT_NOT_FOUND,
    ),
    grpc.StatusCode.ALREADY_EXISTS: (
        Reason.WORLD_EXISTS,
        Reason.ENVIRONMENT_EXISTS,
        Reason.ENTRY_EXISTS,
        Reason.SUBSCRIPTION_EXISTS,
        Reason.SNAPSHOT_EXISTS,
        Reason.CLOCK_EXISTS,
        Reason.SPACE_EXISTS,
    ),
    grpc.StatusCode.ABORTED: (Reason.PRECONDITION_FAILED, Reason.KEYS_HELD, Reason.FENCED),
    grpc.StatusCode.FAILED_PRECONDITION: (
        Reason.HAS_CHILDREN,
        Reason.GATE_CLOSED,
        Reason.CLOCK_PAUSED,
        Reason.SESSION_EXPIRED,
        Reason.LEASE_EXPIRED,
        Reason.NESTED_INVOKE,
        Reason.ENTRY_KIND_MISMATCH,
        Reason.OPERATION_REFUSED,
        Reason.HISTORY_MISMATCH,
        Reason.PROTECTED,
        Reason.CLOCK_MODE_MISMATCH,
        Reason.CELL_FULL,
        Reason.NOT_PLACED,
        Reason.CLOCK_ON_ITS_WAY,
    ),
    grpc.StatusCode.OUT_OF_RANGE: (
        Reason.REVISION_COMPACTED,
        Reason.REVISION_IN_FUTURE,
        Reason.PAGE_EXPIRED,
        Reason.SEQUENCE_PASSED,
        Reason.COUNTER_OVERFLOW,
        Reason.SUBSCRIPTION_LAPSED,
        Reason.OUTCOME_NOT_KEPT,
        Reason.TIME_PASSED,
        Reason.UNREACHABLE,
    ),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (
        Reason.QUEUE_FULL,
        Reason.STORAGE_QUOTA,
        Reason.RATE_LIMITED,
        Reason.WATCH_QUOTA,
        Reason.WORLD_QUOTA,
        Reason.PRODUCER_QUOTA,
        Reason.LEASE_QUOTA,
        Reason.SUBSCRIPTION_QUOTA,
        Reason.SNAPSHOT_QUOTA,
        Reason.STREAM_QUOTA,
        Reason.TIMER_QUOTA,
        Reason.PARTICIPANT_QUOTA,
    ),
    grpc.StatusCode.UNAVAILABLE: (Reason.DRAINING, Reason.RECOVERING, Reason.WRONG_OWNER),
    grpc.StatusCode.DEADLINE_EXCEEDED: (Reason.DEADLINE,),
    grpc.StatusCode.UNAUTHENTICATED: (Reason.UNAUTHENTICATED,),
    grpc.StatusCode.PERMISSION_DENIED: (Reason.PERMISSION_DENIED,),
    grpc.StatusCode.UNIMPLEMENTED: (Reason.NOT_SUPPORTED,),
    grpc.StatusCode.INTERNAL: (Reason.INTERNAL,),
    grpc.StatusCode.DATA_LOSS: (Reason.SNAPSHOT_DAMAGED, Reason.WORLD_UNREADABLE),
}

CODE_OF: Final[dict[Reason, grpc.StatusCode]] = {
    reason: code for code, reasons in _REASONS.items() for reason in reasons
}
"""The gRPC code of every reason."""


def encode_error(error: WorldError) -> errors_pb2.Error:
    """The form inside frames, of watches and of sessions; at most DETAILS_BYTES_MAX."""
    message = errors_pb2.Error(
        code=number_of(CODE_OF[error.reason]),
        reason=int(error.reason),  # type: ignore[arg-type]
        message=shorten(error.message, MESSAGE_BYTES_MAX),
        metadata=_fit_metadata(error.metadata),
        retry_delay_ms=error.retry_delay_ms,
        executed=int(error.executed),  # type: ignore[arg-type]
    )
    for field, description in _shortened(error.violations):
        message.violations.add(field=field, description=description)
        if message.ByteSize() > DETAILS_BYTES_MAX - 4:  # the count below needs room
            del message.violations[-1]
            break
    message.violations_omitted = len(error.violations) - len(message.violations)
    return message


def encode_status(error: WorldError) -> bytes:
    """The form in the trailer of a call: a google.rpc.Status of at most DETAILS_BYTES_MAX."""
    metadata = _fit_metadata(error.metadata)
    if error.executed != Executed.UNSPECIFIED:
        metadata["executed"] = error.executed.name.lower()
    info = error_details_pb2.ErrorInfo(reason=error.reason.name, domain=DOMAIN, metadata=metadata)
    status = status_pb2.Status(code=number_of(CODE_OF[error.reason]), message=shorten(error.message, MESSAGE_BYTES_MAX))
    details: list[Message] = [info]
    if error.retry_delay_ms > 0:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(error.retry_delay_ms)
        details.append(retry)
    if CODE_OF[error.reason] in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ALREADY_EXISTS):
        details.append(_describe_resource(error))
    if error.violations:
        details.append(_fit_violations(error, info, sum(d.ByteSize() + 64 for d in details) + status.ByteSize()))
    for detail in details:
        packed = Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status.SerializeToString()


def number_of(code: grpc.StatusCode) -> int:
    """The number of a gRPC code."""
    return int(code.value[0])


def shorten(text: str, bytes_max: int) -> str:
    """The text, cut at a character so that it fits, with an ellipsis."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= bytes_max:
        return encoded.decode()
    return encoded[: bytes_max - 3].decode("utf-8", "ignore") + "…"


def _fit_metadata(metadata: dict[str, str]) -> dict[str, str]:
    fitting: dict[str, str] = {}
    room = METADATA_BYTES_MAX
    for name, value in metadata.items():
        short = shorten(value, _TEXT_BYTES_MAX)
        room -= len(name.encode()) + len(short.encode()) + 8
        if room < 0:
            break
        fitting[name] = short
    return fitting


def _shortened(violations: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    for field, description in violations:
        yield shorten(field, _TEXT_BYTES_MAX), shorten(description, _TEXT_BYTES_MAX)


def _describe_resource(error: WorldError) -> error_details_pb2.ResourceInfo:
    kind = error.reason.name.removesuffix("_NOT_FOUND").removesuffix("_EXISTS").lower()
    name = " ".join(error.metadata.values())
    return error_details_pb2.ResourceInfo(resource_type=kind, resource_name=shorten(name, _TEXT_BYTES_MAX))


def _fit_violations(
    error: WorldError, info: error_details_pb2.ErrorInfo, used_bytes: int
) -> error_details_pb2.BadRequest:
    bad = error_details_pb2.BadRequest()
    room = DETAILS_BYTES_MAX - used_bytes - 128  # the Any around it, and the count of what is left out
    for field, description in _shortened(error.violations):
        bad.field_violations.add(field=field, description=description)
        if bad.ByteSize() > room:
            del bad.field_violations[-1]
            break
    omitted = len(error.violations) - len(bad.field_violations)
    if omitted:
        info.metadata["violations_omitted"] = str(omitted)
    return bad
