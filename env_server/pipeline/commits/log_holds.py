"""Who needs the log from where on: several rooms may each keep a part of it, and the lowest one counts."""

from env_server.model.ports import CommitLog


class LogHolds:
    """All holds on one log."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._needed: dict[str, int] = {}

    def hold(self, name: str) -> "LogHold":
        """A hold of that name, which keeps nothing yet."""
        return LogHold(self, name)

    @property
    def first_revision(self) -> int:
        """See CommitLog."""
        return self._log.first_revision

    @property
    def held(self) -> tuple[int, int]:
        """See CommitLog."""
        return self._log.held

    def retain(self, name: str, revision: int | None) -> None:
        """Keeps everything from this revision on for the sake of `name`; None = nothing any more."""
        if revision is None:
            self._needed.pop(name, None)
        else:
            self._needed[name] = revision
        self._log.retain(min(self._needed.values(), default=None))


class LogHold:
    """The log as one room sees it that needs a part of it."""

    def __init__(self, holds: LogHolds, name: str) -> None:
        self._holds = holds
        self._name = name

    @property
    def first_revision(self) -> int:
        """See CommitLog."""
        return self._holds.first_revision

    @property
    def held(self) -> tuple[int, int]:
        """See CommitLog; the revision may be what another room needs."""
        return self._holds.held

    def retain(self, revision: int | None) -> None:
        """See CommitLog; only what this room keeps."""
        self._holds.retain(self._name, revision)
