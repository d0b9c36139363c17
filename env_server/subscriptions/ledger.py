"""What subscriptions need of the world around them: where what they do is written down, and the log that they read."""

from collections.abc import Callable
from typing import Protocol

from env_server.model.changes import FactKind
from env_server.model.values import Json


class Ledger(Protocol):
    """The running op, or none, and the open commit group."""

    @property
    def revision(self) -> int:
        """Of the last applied op; the running one will have the next."""

    @property
    def group_number(self) -> int:
        """Of the open group."""

    @property
    def journal(self) -> list[Callable[[], None]] | None:
        """What takes back the parts of the running transaction; None outside of one."""

    def note_fact(self, kind: FactKind, key: str, value: bytes | None) -> None:
        """Writes a fact, as part of the running op if there is one."""

    def tell_subscription(self, name: str, told: Json) -> None:
        """Writes the event SUBSCRIPTION_CHANGED of the running op."""


class HeldLog(Protocol):
    """The log, as far as subscriptions hold it."""

    @property
    def first_revision(self) -> int:
        """See ports.CommitLog."""

    @property
    def held(self) -> tuple[int, int]:
        """See ports.CommitLog."""

    def retain(self, revision: int | None) -> None:
        """See ports.CommitLog; only what subscriptions keep."""
