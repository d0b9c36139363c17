"""What can go wrong, as a caller sees it.

    EcumeneError
    ├── InvalidArgumentError          never succeeds as it is
    │   ├── MalformedMessageError · InvalidPathError · InvalidKeyError · InvalidValueError
    │   ├── InvalidFieldError · InvalidArgumentsError · SchemaMismatchError · RequestIdReusedError
    │   ├── InvalidPositionError          not a place of the space
    │   └── LimitExceededError            larger than a named limit
    ├── NotFoundError                 the thing named is absent
    │   ├── WorldNotFoundError · EnvironmentNotFoundError · EntryNotFoundError · KindNotFoundError
    │   ├── OperationNotFoundError · AggregateNotFoundError · GateNotFoundError · WatchNotFoundError
    │   ├── LeaseNotFoundError · SubscriptionNotFoundError · SnapshotNotFoundError
    │   ├── ClockNotFoundError · TimerNotFoundError · ParticipantNotFoundError
    │   └── SpaceNotFoundError · RegionNotFoundError
    ├── AlreadyExistsError
    │   ├── WorldExistsError · EnvironmentExistsError · EntryExistsError
    │   ├── SubscriptionExistsError · SnapshotExistsError
    │   └── ClockExistsError · SpaceExistsError
    ├── AbortedError                  read again, then retry
    │   └── PreconditionFailedError · KeysHeldError · FencedError
    ├── WrongStateError               the state must change first
    │   ├── HasChildrenError · GateClosedError · ClockPausedError · SessionExpiredError · LeaseExpiredError
    │   ├── NestedInvokeError · EntryKindMismatchError · OperationRefusedError · HistoryMismatchError
    │   └── ProtectedError · ClockOnItsWayError · ClockModeMismatchError · CellFullError · NotPlacedError
    ├── OutOfRangeError               outside what is retained or allowed
    │   ├── RevisionCompactedError · RevisionInFutureError · PageExpiredError · SequencePassedError
    │   ├── CounterOverflowError · SubscriptionLapsedError · OutcomeNotKeptError
    │   └── TimePassedError · UnreachableError
    ├── ResourceExhaustedError        retry after the delay
    │   ├── QueueFullError · StorageQuotaError · RateLimitedError
    │   ├── WatchQuotaError · WorldQuotaError · ProducerQuotaError
    │   ├── LeaseQuotaError · SubscriptionQuotaError · SnapshotQuotaError · StreamQuotaError
    │   └── TimerQuotaError · ParticipantQuotaError
    ├── UnavailableError              retry after the delay, here or elsewhere
    │   ├── DrainingError · RecoveringError · WrongOwnerError
    │   ├── ConnectionFailedError         no session could be had in time; carries the last cause
    │   └── InitialStateInterruptedError  the connection broke while a watch received its initial state
    ├── DeadlineExceededError         too late; `executed` says whether it may have had its effect
    ├── UnauthenticatedError · PermissionDeniedError
    ├── NotSupportedError             in the contract, not in this server
    ├── InternalError                 a defect of the server; its log has the rest
    │   └── SnapshotDamagedError · WorldUnreadableError   what is stored is not what was written
    └── ClosedError                   this handle was closed before the answer came

The families, and what the SDK itself raises, are here; a class for each single reason of the contract is in
`reasons`, `timeline_reasons` and `space_reasons`. All are names of `ecumene`.

Callers write:

    try:
        await room.set("mood", "calm", expect_version=entry.version)
    except ecumene.PreconditionFailedError as error:
        ...  # error.version is the current one
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Executed(enum.IntEnum):
    """Whether a failed op may have changed the world."""

    UNSPECIFIED = 0
    NO = 1
    UNKNOWN = 2


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """What the server said: one line, and data whose keys depend on the reason."""

    message: str = ""
    reason: str = ""
    """Name in `ErrorReason` without its prefix; "" = not from an Ecumene server."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    violations: tuple[tuple[str, str], ...] = ()
    """Field at fault and what is wrong with it."""
    violations_omitted: int = 0
    retry_delay_ms: int = 0
    """Wait this long before a retry; 0 = no advice."""
    executed: Executed = Executed.UNSPECIFIED


class EcumeneError(Exception):
    """Root of everything that the SDK raises on purpose; `str()` is one line."""

    def __init__(self, details: ErrorDetails | str = "") -> None:
        self.details = ErrorDetails(message=details) if isinstance(details, str) else details
        super().__init__(self.describe())

    def describe(self) -> str:
        """The one-line message, built from the data that the error carries."""
        line = self.details.message or self.details.reason.lower().replace("_", " ") or type(self).__name__
        if self.details.violations_omitted:
            line += f" (and {self.details.violations_omitted} more violations)"
        return " ".join(line.split())

    @property
    def reason(self) -> str:
        """Name in the contract's `ErrorReason` without its prefix; "" for errors made by the SDK itself."""
        return self.details.reason

    @property
    def metadata(self) -> Mapping[str, str]:
        """The data that came with the error, as it came."""
        return self.details.metadata

    @property
    def executed(self) -> Executed:
        """Whether the op may have had its effect."""
        return self.details.executed

    @property
    def retry_delay_s(self) -> float:
        """Seconds to wait before a retry; 0 = no advice."""
        return self.details.retry_delay_ms / 1000

    def number(self, key: str, default: int = 0) -> int:
        """A whole number of the metadata; `default` when it is missing or not a number."""
        text = self.details.metadata.get(key, "")
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() else default


class InvalidArgumentError(EcumeneError):
    """The request can never succeed as it is."""


class NotFoundError(EcumeneError):
    """The thing named is absent in the state that the op met."""

    @property
    def path(self) -> str:
        """Path of the environment, as far as it applies."""
        return self.metadata.get("path", "")

    @property
    def key(self) -> str:
        """Key of the entry, as far as it applies."""
        return self.metadata.get("key", "")


class AlreadyExistsError(EcumeneError):
    """The thing to be created is there already."""


class AbortedError(EcumeneError):
    """The state moved on: read again, then decide again."""


class WrongStateError(EcumeneError):
    """The state must change before this can succeed."""


class OutOfRangeError(EcumeneError):
    """A revision, page or number outside what is retained or allowed."""


class ResourceExhaustedError(EcumeneError):
    """A bound was reached; nothing happened; retry after `retry_delay_s`."""


class UnavailableError(EcumeneError):
    """Not now, or not here."""


class ConnectionFailedError(UnavailableError):
    """No session could be had within the time allowed; unanswered writes may have had their effect."""

    def __init__(self, address: str, waited_s: float, cause: EcumeneError) -> None:
        self.address = address
        self.waited_s = waited_s
        self.cause = cause
        details = ErrorDetails(
            message=f"cannot reach {address} for {waited_s:.1f} s: {cause}",
            reason=cause.reason,
            executed=Executed.UNKNOWN,
        )
        super().__init__(details)
        self.__cause__ = cause


class InitialStateInterruptedError(UnavailableError):
    """The connection broke after a part of a watch's initial state had been read: forget it and watch anew."""

    def __init__(self) -> None:
        super().__init__("the connection broke within the initial state of a watch; start the watch anew")


class DeadlineExceededError(EcumeneError):
    """The deadline passed; see `executed`."""


class UnauthenticatedError(EcumeneError):
    """No token, or a bad one."""


class PermissionDeniedError(EcumeneError):
    """The token does not allow this."""


class NotSupportedError(EcumeneError):
    """The contract has it, this server does not serve it."""


class InternalError(EcumeneError):
    """A defect of the server; its log holds the rest under `incident`."""

    @property
    def incident(self) -> str:
        """Id of the incident in the server's log."""
        return self.metadata.get("incident", "")


class ClosedError(EcumeneError):
    """The handle was closed before the answer came; what was sent may have had its effect."""

    def __init__(self, message: str = "the connection was closed by this program") -> None:
        super().__init__(ErrorDetails(message=message, executed=Executed.UNKNOWN))


def forget_frames(error: BaseException) -> None:
    """Let an error that is kept for later hold its data alone: frames would keep calls, and those their connections."""
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
