"""What can go wrong in a world.

    WorldError
      InvalidRequest         never succeeds as it is
        LimitExceeded        larger than a named limit
      NotFound               the thing named is absent
      AlreadyExists          the thing to be created is there
      PreconditionFailed     read again, then retry
      WrongState             the state must change first
        GateClosed           the report names a generation that no longer collects
        SessionExpired       what came of frames may have been forgotten
        HistoryMismatch      the caller means another line of revisions
        KindMismatch         the entry is of another kind than the op is for
        OperationRefused     a behaviour said no, in its own words
      OutOfRange             outside what is retained or allowed
        RevisionCompacted    below what the log still holds
        OutcomeNotKept       done before; what came of it is not kept
      Exhausted              retry after a delay
      Unavailable            retry after a delay, perhaps elsewhere
      DeadlineExceeded       too late
      NotSupported           in the contract, not in this server
      DeniedView             outside what the group may see or do
      Fenced                 another one has taken over
      SnapshotDamaged        a copy that is not what was written
      WorldUnreadable        a stored world that cannot be opened
      InternalError          a defect of ours

Errors carry a Reason (one for each in `env_api/v1/errors.proto`, same number), a line for people and metadata.
"""

from typing import Final, Self

from env_server.model.reasons import Executed as Executed
from env_server.model.reasons import Reason as Reason

QUOTA_RETRY_DELAY_MS: Final = 1000
"""Advice to callers who met a bound that falls only when somebody lets go of something."""


class WorldError(Exception):
    """Base of all errors that reach a caller.

    `metadata` values are strings as they go over the wire; `violations` pairs a field with what is wrong in it;
    `retry_delay_ms` of 0 gives no advice.
    """

    executed = Executed.NO

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        metadata: dict[str, str] | None = None,
        violations: tuple[tuple[str, str], ...] = (),
        retry_delay_ms: int = 0,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata = metadata or {}
        self.violations = violations
        self.retry_delay_ms = retry_delay_ms


class InvalidRequest(WorldError):
    """The request can never succeed as it is; `field` names the part at fault."""

    def __init__(self, reason: Reason, field: str, description: str) -> None:
        super().__init__(reason, f"{field}: {description}", violations=((field, description),))


class LimitExceeded(WorldError):
    """Something is larger than the limit `limit`; in the limit's own unit."""

    def __init__(self, limit: str, maximum: int, actual: int) -> None:
        super().__init__(
            Reason.LIMIT_EXCEEDED,
            f"{actual} exceeds {limit} = {maximum}",
            metadata={"limit": limit, "max": str(maximum), "actual": str(actual)},
            violations=((limit, f"{actual} > {maximum}"),),
        )


class NotFound(WorldError):
    """The named thing is absent in the state that the op met; `what` it is, where the reason has another name."""

    def __init__(self, reason: Reason, what: str = "", /, **names: str) -> None:
        what = what or reason.name.removesuffix("_NOT_FOUND").lower()
        super().__init__(reason, f"no such {what}: " + _naming(names), metadata=names)


class AlreadyExists(WorldError):
    """The thing to be created is there already."""

    def __init__(self, reason: Reason, **names: str) -> None:
        what = reason.name.removesuffix("_EXISTS").lower()
        super().__init__(reason, f"{what} exists already: " + _naming(names), metadata=names)


class PreconditionFailed(WorldError):
    """A precondition did not hold; carries the version and revision that it met (0 = absent)."""

    def __init__(self, test: str, *, version: int, revision: int, expected: str = "") -> None:
        detail = f", expected {expected}" if expected else ""
        super().__init__(
            Reason.PRECONDITION_FAILED,
            f"precondition {test} failed{detail}: the current version is {version}",
            metadata={"precondition": test, "version": str(version), "revision": str(revision)},
        )


class Fenced(WorldError):
    """Another one has taken over: the caller's lease, lock or term is not the current one."""

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(Reason.FENCED, message, metadata=metadata)


class FenceFallen(Fenced):
    """The fence that an op stands behind has fallen.

    That says nothing about the op: whoever holds the lock now may send the same one, under the same identity.
    """


class DeniedView(WorldError):
    """The group may not see, or not change, what is asked for; told before whether it exists."""

    def __init__(self, group: str, path: str, what: str) -> None:
        message = f"group {group or 'none'} may not {what} {path}"
        super().__init__(Reason.PERMISSION_DENIED, message, metadata={"group": group, "path": path})


class WrongState(WorldError):
    """The state must change before this can succeed."""


class GateClosed(WrongState):
    """The gate does not collect the generation that the report names."""

    def __init__(self, path: str, *, asked: int, generation: int, opened: bool) -> None:
        state = "opened" if opened else "collecting"
        super().__init__(
            Reason.GATE_CLOSED,
            f"the gate of {path} does not collect generation {asked}: it is at generation {generation}, {state}",
            metadata={"path": path, "asked": str(asked), "generation": str(generation), "opened": str(opened).lower()},
        )


class HistoryMismatch(WrongState):
    """The caller expects the history `asked`; the world's line of revisions is another one."""

    def __init__(self, world: str, *, history: str, asked: str) -> None:
        super().__init__(
            Reason.HISTORY_MISMATCH,
            f"world {world} has history {history}, not the expected one",
            metadata={"history": history, "asked": asked},
        )


class SessionExpired(WrongState):
    """The client may have been forgotten, and with it the outcomes of frames that it sends again; nothing was done."""

    executed = Executed.UNKNOWN

    def __init__(self, client_id: str) -> None:
        super().__init__(
            Reason.SESSION_EXPIRED,
            f"client {client_id} may have been forgotten: what came of its unanswered frames is unknown",
            metadata={"client_id": client_id},
        )


class KindMismatch(WrongState):
    """The entry is a `kind`, and the op is for a `wanted`."""

    def __init__(self, path: str, key: str, *, kind: str, wanted: str) -> None:
        super().__init__(
            Reason.ENTRY_KIND_MISMATCH,
            f"entry {key!r} of {path} is a {kind}, and this is for a {wanted}",
            metadata={"path": path, "key": key, "kind": kind, "wanted": wanted},
        )


class OperationRefused(WrongState):
    """A behaviour refused an operation; `code` and `message` are the behaviour's own."""

    def __init__(self, code: str, message: str, **details: str) -> None:
        super().__init__(Reason.OPERATION_REFUSED, message, metadata={"code": code, **details})


class OutOfRange(WorldError):
    """A revision, page or number outside what is retained or allowed; metadata says what is."""


class RevisionCompacted(OutOfRange):
    """The log no longer holds `asked`; it begins with `first`."""

    def __init__(self, asked: int, first: int) -> None:
        super().__init__(
            Reason.REVISION_COMPACTED,
            f"revision {asked} is no longer retained, the oldest is {first}: read the state, then watch from there",
            metadata={"asked": str(asked), "compacted": str(first)},
        )


class OutcomeNotKept(OutOfRange):
    """The op of a repeated frame was done before; what came of it was too large to be kept."""

    executed = Executed.UNKNOWN

    def __init__(self) -> None:
        super().__init__(
            Reason.OUTCOME_NOT_KEPT,
            "the op was done before and is not done again; what came of it is not kept any more",
        )


class Exhausted(WorldError):
    """A bound was reached; nothing happened; retry after the delay, which every one of them advises."""

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        metadata: dict[str, str] | None = None,
        retry_delay_ms: int = QUOTA_RETRY_DELAY_MS,
    ) -> None:
        super().__init__(reason, message, metadata=metadata, retry_delay_ms=retry_delay_ms)

    @classmethod
    def of(
        cls,
        reason: Reason,
        limit: str,
        maximum: int,
        message: str,
        retry_delay_ms: int = QUOTA_RETRY_DELAY_MS,
        **metadata: str,
    ) -> Self:
        """The limit `limit`, which is `maximum`, is reached; metadata tells both."""
        told = {"limit": limit, "max": str(maximum), **metadata}
        return cls(reason, message, metadata=told, retry_delay_ms=retry_delay_ms)


class Unavailable(WorldError):
    """Not now, or not here; nothing happened."""


class ArrivalUnseen(Unavailable):
    """What was asked of the clock was done; whoever serves the world next tells of its arrival."""

    executed = Executed.UNKNOWN

    def __init__(self) -> None:
        problem = "the world is being closed while its clock is on its way: ask again, it goes on from where it is"
        super().__init__(Reason.DRAINING, problem, retry_delay_ms=1000)


class DeadlineExceeded(WorldError):
    """The deadline passed; `executed` says whether the op may have had its effect."""

    def __init__(self, message: str, executed: Executed) -> None:
        super().__init__(Reason.DEADLINE, message)
        self.executed = executed


class NotSupported(WorldError):
    """The contract has `field`, this server does not serve it."""

    def __init__(self, field: str) -> None:
        super().__init__(Reason.NOT_SUPPORTED, f"{field} is not supported by this server", metadata={"field": field})


class SnapshotDamaged(WorldError):
    """The snapshot is not what was written; nothing was made of it, and it is left as it is."""

    def __init__(self, snapshot: str, problem: str) -> None:
        super().__init__(Reason.SNAPSHOT_DAMAGED, f"snapshot {snapshot}: {problem}", metadata={"snapshot": snapshot})


class WorldUnreadable(WorldError):
    """What is stored of a world cannot be opened; it is left as it is, and the server's log says why."""

    def __init__(self, world: str) -> None:
        message = f"world {world} cannot be opened: the server's log says why"
        super().__init__(Reason.WORLD_UNREADABLE, message, metadata={"world": world})


class InternalError(WorldError):
    """A defect of ours; the log holds the rest under the incident id."""

    executed = Executed.UNKNOWN

    def __init__(self, incident: str) -> None:
        super().__init__(Reason.INTERNAL, f"internal error, incident {incident}", metadata={"incident": incident})


def _naming(names: dict[str, str]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in names.items())
