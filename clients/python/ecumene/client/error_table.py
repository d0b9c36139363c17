"""Every reason of the contract with its gRPC code and its exception, and the ways an error reaches a client."""

from __future__ import annotations

from typing import cast

import grpc
from env_api.v1 import errors_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from ecumene.client import errors, reasons, space_reasons, timeline_reasons
from ecumene.client.errors import EcumeneError, ErrorDetails, Executed

DOMAIN = "ecumene"
STATUS_TRAILER = "grpc-status-details-bin"

_Code = grpc.StatusCode
Row = tuple[grpc.StatusCode, type[EcumeneError]]

REASONS: dict[str, Row] = {
    "MALFORMED_MESSAGE": (_Code.INVALID_ARGUMENT, reasons.MalformedMessageError),
    "INVALID_PATH": (_Code.INVALID_ARGUMENT, reasons.InvalidPathError),
    "INVALID_KEY": (_Code.INVALID_ARGUMENT, reasons.InvalidKeyError),
    "INVALID_VALUE": (_Code.INVALID_ARGUMENT, reasons.InvalidValueError),
    "INVALID_FIELD": (_Code.INVALID_ARGUMENT, reasons.InvalidFieldError),
    "SCHEMA_MISMATCH": (_Code.INVALID_ARGUMENT, reasons.SchemaMismatchError),
    "REQUEST_ID_REUSED": (_Code.INVALID_ARGUMENT, reasons.RequestIdReusedError),
    "LIMIT_EXCEEDED": (_Code.INVALID_ARGUMENT, reasons.LimitExceededError),
    "INVALID_ARGUMENTS": (_Code.INVALID_ARGUMENT, reasons.InvalidArgumentsError),
    "INVALID_POSITION": (_Code.INVALID_ARGUMENT, space_reasons.InvalidPositionError),
    "WORLD_NOT_FOUND": (_Code.NOT_FOUND, reasons.WorldNotFoundError),
    "ENVIRONMENT_NOT_FOUND": (_Code.NOT_FOUND, reasons.EnvironmentNotFoundError),
    "ENTRY_NOT_FOUND": (_Code.NOT_FOUND, reasons.EntryNotFoundError),
    "OPERATION_NOT_FOUND": (_Code.NOT_FOUND, reasons.OperationNotFoundError),
    "KIND_NOT_FOUND": (_Code.NOT_FOUND, reasons.KindNotFoundError),
    "AGGREGATE_NOT_FOUND": (_Code.NOT_FOUND, reasons.AggregateNotFoundError),
    "GATE_NOT_FOUND": (_Code.NOT_FOUND, reasons.GateNotFoundError),
    "WATCH_NOT_FOUND": (_Code.NOT_FOUND, reasons.WatchNotFoundError),
    "LEASE_NOT_FOUND": (_Code.NOT_FOUND, reasons.LeaseNotFoundError),
    "SUBSCRIPTION_NOT_FOUND": (_Code.NOT_FOUND, reasons.SubscriptionNotFoundError),
    "SNAPSHOT_NOT_FOUND": (_Code.NOT_FOUND, reasons.SnapshotNotFoundError),
    "CLOCK_NOT_FOUND": (_Code.NOT_FOUND, timeline_reasons.ClockNotFoundError),
    "TIMER_NOT_FOUND": (_Code.NOT_FOUND, timeline_reasons.TimerNotFoundError),
    "SPACE_NOT_FOUND": (_Code.NOT_FOUND, space_reasons.SpaceNotFoundError),
    "REGION_NOT_FOUND": (_Code.NOT_FOUND, space_reasons.RegionNotFoundError),
    "PARTICIPANT_NOT_FOUND": (_Code.NOT_FOUND, timeline_reasons.ParticipantNotFoundError),
    "WORLD_EXISTS": (_Code.ALREADY_EXISTS, reasons.WorldExistsError),
    "ENVIRONMENT_EXISTS": (_Code.ALREADY_EXISTS, reasons.EnvironmentExistsError),
    "ENTRY_EXISTS": (_Code.ALREADY_EXISTS, reasons.EntryExistsError),
    "SUBSCRIPTION_EXISTS": (_Code.ALREADY_EXISTS, reasons.SubscriptionExistsError),
    "SNAPSHOT_EXISTS": (_Code.ALREADY_EXISTS, reasons.SnapshotExistsError),
    "CLOCK_EXISTS": (_Code.ALREADY_EXISTS, timeline_reasons.ClockExistsError),
    "SPACE_EXISTS": (_Code.ALREADY_EXISTS, space_reasons.SpaceExistsError),
    "PRECONDITION_FAILED": (_Code.ABORTED, reasons.PreconditionFailedError),
    "KEYS_HELD": (_Code.ABORTED, reasons.KeysHeldError),
    "FENCED": (_Code.ABORTED, reasons.FencedError),
    "HAS_CHILDREN": (_Code.FAILED_PRECONDITION, reasons.HasChildrenError),
    "GATE_CLOSED": (_Code.FAILED_PRECONDITION, reasons.GateClosedError),
    "CLOCK_PAUSED": (_Code.FAILED_PRECONDITION, timeline_reasons.ClockPausedError),
    "CLOCK_ON_ITS_WAY": (_Code.FAILED_PRECONDITION, timeline_reasons.ClockOnItsWayError),
    "SESSION_EXPIRED": (_Code.FAILED_PRECONDITION, reasons.SessionExpiredError),
    "LEASE_EXPIRED": (_Code.FAILED_PRECONDITION, reasons.LeaseExpiredError),
    "NESTED_INVOKE": (_Code.FAILED_PRECONDITION, reasons.NestedInvokeError),
    "ENTRY_KIND_MISMATCH": (_Code.FAILED_PRECONDITION, reasons.EntryKindMismatchError),
    "OPERATION_REFUSED": (_Code.FAILED_PRECONDITION, reasons.OperationRefusedError),
    "HISTORY_MISMATCH": (_Code.FAILED_PRECONDITION, reasons.HistoryMismatchError),
    "PROTECTED": (_Code.FAILED_PRECONDITION, reasons.ProtectedError),
    "CLOCK_MODE_MISMATCH": (_Code.FAILED_PRECONDITION, timeline_reasons.ClockModeMismatchError),
    "CELL_FULL": (_Code.FAILED_PRECONDITION, space_reasons.CellFullError),
    "NOT_PLACED": (_Code.FAILED_PRECONDITION, space_reasons.NotPlacedError),
    "REVISION_COMPACTED": (_Code.OUT_OF_RANGE, reasons.RevisionCompactedError),
    "REVISION_IN_FUTURE": (_Code.OUT_OF_RANGE, reasons.RevisionInFutureError),
    "PAGE_EXPIRED": (_Code.OUT_OF_RANGE, reasons.PageExpiredError),
    "SEQUENCE_PASSED": (_Code.OUT_OF_RANGE, reasons.SequencePassedError),
    "COUNTER_OVERFLOW": (_Code.OUT_OF_RANGE, reasons.CounterOverflowError),
    "OUTCOME_NOT_KEPT": (_Code.OUT_OF_RANGE, reasons.OutcomeNotKeptError),
    "SUBSCRIPTION_LAPSED": (_Code.OUT_OF_RANGE, reasons.SubscriptionLapsedError),
    "TIME_PASSED": (_Code.OUT_OF_RANGE, timeline_reasons.TimePassedError),
    "UNREACHABLE": (_Code.OUT_OF_RANGE, space_reasons.UnreachableError),
    "QUEUE_FULL": (_Code.RESOURCE_EXHAUSTED, reasons.QueueFullError),
    "STORAGE_QUOTA": (_Code.RESOURCE_EXHAUSTED, reasons.StorageQuotaError),
    "RATE_LIMITED": (_Code.RESOURCE_EXHAUSTED, reasons.RateLimitedError),
    "WATCH_QUOTA": (_Code.RESOURCE_EXHAUSTED, reasons.WatchQuotaError),
    "WORLD_QUOTA": (_Code.RESOURCE_EXHAUSTED, reasons.WorldQuotaError),
    "PRODUCER_QUOTA": (_Code.RESOURCE_EXHAUSTED, reasons.ProducerQuotaError),
    "LEASE_QUOTA": (_Code.RESOURCE_EXHAUSTED, reasons.LeaseQuotaError),
    "SUBSCRIPTION_QUOTA": (_Code.RESOURCE_EXHAUSTED, reasons.SubscriptionQuotaError),
    "SNAPSHOT_QUOTA": (_Code.RESOURCE_EXHAUSTED, reasons.SnapshotQuotaError),
    "STREAM_QUOTA": (_Code.RESOURCE_EXHAUSTED, reasons.StreamQuotaError),
    "TIMER_QUOTA": (_Code.RESOURCE_EXHAUSTED, timeline_reasons.TimerQuotaError),
    "PARTICIPANT_QUOTA": (_Code.RESOURCE_EXHAUSTED, timeline_reasons.ParticipantQuotaError),
    "DRAINING": (_Code.UNAVAILABLE, reasons.DrainingError),
    "RECOVERING": (_Code.UNAVAILABLE, reasons.RecoveringError),
    "WRONG_OWNER": (_Code.UNAVAILABLE, reasons.WrongOwnerError),
    "DEADLINE": (_Code.DEADLINE_EXCEEDED, errors.DeadlineExceededError),
    "UNAUTHENTICATED": (_Code.UNAUTHENTICATED, errors.UnauthenticatedError),
    "PERMISSION_DENIED": (_Code.PERMISSION_DENIED, errors.PermissionDeniedError),
    "NOT_SUPPORTED": (_Code.UNIMPLEMENTED, errors.NotSupportedError),
    "INTERNAL": (_Code.INTERNAL, errors.InternalError),
    "SNAPSHOT_DAMAGED": (_Code.DATA_LOSS, reasons.SnapshotDamagedError),
    "WORLD_UNREADABLE": (_Code.DATA_LOSS, reasons.WorldUnreadableError),
}

# For statuses without a reason of ours (a proxy's, the transport's), and for reasons newer than this client.
CODES: dict[grpc.StatusCode, type[EcumeneError]] = {
    _Code.INVALID_ARGUMENT: errors.InvalidArgumentError,
    _Code.NOT_FOUND: errors.NotFoundError,
    _Code.ALREADY_EXISTS: errors.AlreadyExistsError,
    _Code.ABORTED: errors.AbortedError,
    _Code.FAILED_PRECONDITION: errors.WrongStateError,
    _Code.OUT_OF_RANGE: errors.OutOfRangeError,
    _Code.RESOURCE_EXHAUSTED: errors.ResourceExhaustedError,
    _Code.UNAVAILABLE: errors.UnavailableError,
    _Code.CANCELLED: errors.UnavailableError,
    _Code.DEADLINE_EXCEEDED: errors.DeadlineExceededError,
    _Code.UNAUTHENTICATED: errors.UnauthenticatedError,
    _Code.PERMISSION_DENIED: errors.PermissionDeniedError,
    _Code.UNIMPLEMENTED: errors.NotSupportedError,
    _Code.INTERNAL: errors.InternalError,
    _Code.DATA_LOSS: errors.InternalError,
    _Code.UNKNOWN: errors.InternalError,
}

_PREFIX = "ERROR_REASON_"
_CODES_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


def from_message(error: errors_pb2.Error) -> EcumeneError:
    """The exception for an error inside a frame, of a watch, or of a session."""
    reason = name_reason(error.reason)
    details = ErrorDetails(
        message=error.message,
        reason=reason,
        metadata=dict(error.metadata),
        violations=tuple((violation.field, violation.description) for violation in error.violations),
        violations_omitted=error.violations_omitted,
        retry_delay_ms=error.retry_delay_ms,
        executed=_EXECUTED_BY_NUMBER.get(error.executed, Executed.UNKNOWN),
    )
    return find_class(reason, _CODES_BY_NUMBER.get(error.code, _Code.UNKNOWN))(details)


def from_rpc_error(error: grpc.aio.AioRpcError) -> EcumeneError:
    """The exception for a status that ended an RPC: by its trailer if it has ours, else by its code."""
    details = _read_trailer(error) or ErrorDetails(message=_describe_status(error))
    return find_class(details.reason, error.code())(details)


def find_class(reason: str, code: grpc.StatusCode) -> type[EcumeneError]:
    """The exception of a reason; for one that this client does not know, that of its code."""
    return REASONS[reason][1] if reason in REASONS else CODES.get(code, EcumeneError)


def name_reason(number: int) -> str:
    """A reason's name without its prefix; "" for the unset and for numbers newer than this client."""
    if number == errors_pb2.ERROR_REASON_UNSPECIFIED or number not in errors_pb2.ErrorReason.values():
        return ""
    return errors_pb2.ErrorReason.Name(cast(errors_pb2.ErrorReason.ValueType, number)).removeprefix(_PREFIX)


def _read_trailer(error: grpc.aio.AioRpcError) -> ErrorDetails | None:
    trailer = next((value for key, value in error.trailing_metadata() or () if key == STATUS_TRAILER), None)
    if not isinstance(trailer, bytes):
        return None
    try:
        status = status_pb2.Status.FromString(trailer)
    except DecodeError:
        return None
    info, violations, delay_ms = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), 0
    for packed in status.details:
        if packed.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            packed.Unpack(retry)
            delay_ms = retry.retry_delay.ToMilliseconds()
        elif not packed.Unpack(info):
            packed.Unpack(violations)
    if info.domain != DOMAIN:
        return None
    metadata = dict(info.metadata)
    omitted = metadata.pop("violations_omitted", "")
    return ErrorDetails(
        message=status.message,
        reason=info.reason,
        metadata=metadata,
        violations=tuple((v.field, v.description) for v in violations.field_violations),
        violations_omitted=int(omitted) if omitted.isdecimal() else 0,
        retry_delay_ms=delay_ms,
        executed=_EXECUTED.get(metadata.get("executed", "").lower(), Executed.UNSPECIFIED),
    )


_EXECUTED_BY_NUMBER = {int(member): member for member in Executed}
_EXECUTED = {"no": Executed.NO, "unknown": Executed.UNKNOWN}


def _describe_status(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {error.details() or 'no details'}"
