"""One exception for each single reason of the contract; `errors` draws the tree and holds the families.

Those of time are in `timeline_reasons`, those of space in `space_reasons`.
"""

from __future__ import annotations

from ecumene.client.errors import (
    AbortedError,
    AlreadyExistsError,
    ErrorDetails,
    Executed,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnavailableError,
    WrongStateError,
)


class MalformedMessageError(InvalidArgumentError):
    """The server could not decode a message."""


class InvalidPathError(InvalidArgumentError):
    """The path breaks the rules of paths."""


class InvalidKeyError(InvalidArgumentError):
    """The key breaks the rules of keys."""


class InvalidValueError(InvalidArgumentError):
    """The value cannot be kept: not a JSON document, not finite, beyond 64 bits, or of mixed kinds in a block."""


class InvalidFieldError(InvalidArgumentError):
    """A field is unset, unknown, or has no meaning here; `details.violations` names it."""


class InvalidArgumentsError(InvalidArgumentError):
    """The arguments do not fit the signature of the behaviour's operation."""


class SchemaMismatchError(InvalidArgumentError):
    """The value does not meet the environment's entry schema."""


class RequestIdReusedError(InvalidArgumentError):
    """A request id came again with another body."""


class LimitExceededError(InvalidArgumentError):
    """Something is larger than a named limit, in the limit's own unit."""

    @classmethod
    def of(cls, limit: str, maximum: int, actual: int) -> LimitExceededError:
        """The error for a limit that the SDK tests itself."""
        data = {"limit": limit, "max": str(maximum), "actual": str(actual)}
        return cls(ErrorDetails(reason="LIMIT_EXCEEDED", metadata=data, executed=Executed.NO))

    @property
    def limit(self) -> str:
        """The limit's name; its last words are its unit and side."""
        return self.metadata.get("limit", "")

    @property
    def max(self) -> int:
        """The most that is allowed."""
        return self.number("max")

    @property
    def actual(self) -> int:
        """What was asked."""
        return self.number("actual")

    def describe(self) -> str:
        return self.details.message or f"{self.actual} exceeds {self.limit} = {self.max}"


class WorldNotFoundError(NotFoundError):
    """No world of that name, or it was deleted under an open session."""


class EnvironmentNotFoundError(NotFoundError):
    """No environment at the path."""


class EntryNotFoundError(NotFoundError):
    """No entry under the key."""


class OperationNotFoundError(NotFoundError):
    """The environment's behaviour has no such operation."""


class KindNotFoundError(NotFoundError):
    """No behaviour of that kind is installed on the server."""


class AggregateNotFoundError(NotFoundError):
    """The environment declares no such aggregate."""


class GateNotFoundError(NotFoundError):
    """The environment declares no such gate."""


class WatchNotFoundError(NotFoundError):
    """Credit or cancellation for a watch that the session does not have."""


class WorldExistsError(AlreadyExistsError):
    """A world of that name exists."""


class EnvironmentExistsError(AlreadyExistsError):
    """An environment exists at the path."""


class EntryExistsError(AlreadyExistsError):
    """An entry exists under the key."""


class PreconditionFailedError(AbortedError):
    """A precondition did not hold; nothing happened."""

    @property
    def version(self) -> int:
        """Version that the op met; 0 = absent."""
        return self.number("version")

    @property
    def revision(self) -> int:
        """Revision of the world that the op met."""
        return self.number("revision")

    @property
    def precondition(self) -> str:
        """Name of the test that failed."""
        return self.metadata.get("precondition", "")


class KeysHeldError(AbortedError):
    """An operation in progress holds keys that this op would take away."""


class FencedError(AbortedError):
    """Someone newer took this one's place (another stream with the same client id, another owner)."""


class HasChildrenError(WrongStateError):
    """A deletion without `recursive` met children."""


class GateClosedError(WrongStateError):
    """The gate does not collect the generation named; a late report enters no aggregate."""

    @property
    def generation(self) -> int:
        """Generation that the gate is at."""
        return self.number("generation")

    @property
    def opened(self) -> bool:
        """Whether that generation has opened already."""
        return self.metadata.get("opened") == "true"


class SessionExpiredError(WrongStateError):
    """The connection was gone so long that the server may have forgotten this client.

    Whether the op was executed is unknown; it is not sent again. The session goes on.
    """


class LeaseExpiredError(WrongStateError):
    """The lease ended; a new one is needed."""


class NestedInvokeError(WrongStateError):
    """An operation that holds keys tried to invoke another."""


class EntryKindMismatchError(WrongStateError):
    """The op does not fit the entry's kind (set on a counter, append to a value, ...)."""


class OperationRefusedError(WrongStateError):
    """A behaviour said no, in its own words."""

    @property
    def refusal_code(self) -> str:
        """The behaviour's own code."""
        return self.metadata.get("code", "")


class HistoryMismatchError(WrongStateError):
    """The world is on another line of revisions (restored or forked); cursors into the old one mean nothing."""


class RevisionCompactedError(OutOfRangeError):
    """A watch asked for events that are no longer kept: read the state anew, then watch from there."""

    @property
    def requested_revision(self) -> int:
        """The revision asked for."""
        return self.number("asked")

    @property
    def first_retained_revision(self) -> int:
        """The oldest revision from which a watch can still begin."""
        return self.number("first") or self.number("compacted")


class RevisionInFutureError(OutOfRangeError):
    """A read asked for a revision that the world has not reached."""


class PageExpiredError(OutOfRangeError):
    """A page token is no longer kept: list from the start."""


class SequencePassedError(OutOfRangeError):
    """The producer's number lies below the last one whose outcome is kept."""

    @property
    def last_seq(self) -> int:
        """The last number whose outcome is kept."""
        return self.number("last_seq")


class OutcomeNotKeptError(OutOfRangeError):
    """The op was done before and is not done again; what came of it was too large for the server to keep."""


class CounterOverflowError(OutOfRangeError):
    """The counter would leave 64 bits or the range of a double."""


class QueueFullError(ResourceExhaustedError):
    """Too many ops wait already, in the server or in this client."""


class StorageQuotaError(ResourceExhaustedError):
    """The world's storage is nearly full; deletions still work."""


class RateLimitedError(ResourceExhaustedError):
    """Too many ops in too short a time."""


class WatchQuotaError(ResourceExhaustedError):
    """Too many watches in this session."""


class WorldQuotaError(ResourceExhaustedError):
    """Too many worlds on this server."""


class ProducerQuotaError(ResourceExhaustedError):
    """Too many producers in this world."""


class DrainingError(UnavailableError):
    """The server is about to stop."""


class RecoveringError(UnavailableError):
    """The server is still loading the world."""


class WrongOwnerError(UnavailableError):
    """Another server owns the world."""

    @property
    def owner(self) -> str:
        """Address of the owner, if the server knows it."""
        return self.metadata.get("owner", "")


class LeaseNotFoundError(NotFoundError):
    """There never was a lease with this id."""


class SubscriptionNotFoundError(NotFoundError):
    """The subscription does not exist, or was deleted while it was consumed."""


class SnapshotNotFoundError(NotFoundError):
    """The snapshot does not exist."""


class SubscriptionExistsError(AlreadyExistsError):
    """A subscription of that name exists."""


class SnapshotExistsError(AlreadyExistsError):
    """A snapshot of that name exists."""


class ProtectedError(WrongStateError):
    """The world main, and the root of every world, cannot be deleted."""


class SubscriptionLapsedError(OutOfRangeError):
    """The subscription stayed further behind than its max_lag; seek to go on."""


class LeaseQuotaError(ResourceExhaustedError):
    """The world holds as many leases as it may."""


class SubscriptionQuotaError(ResourceExhaustedError):
    """The world holds as many subscriptions as it may."""


class SnapshotQuotaError(ResourceExhaustedError):
    """The server holds as many snapshots as it may."""


class StreamQuotaError(ResourceExhaustedError):
    """As many sessions, monitors and consumers live as may."""


class WorldUnreadableError(InternalError):
    """What is stored of the world cannot be opened; it is left as it is, and the server's log says why."""


class SnapshotDamagedError(InternalError):
    """What is stored of the snapshot is not what was written; nothing was restored or changed."""
