"""Terms: numbers of consumers, of which none is ever given twice in a world, whatever is killed when."""

from typing import Final

from env_server.model.changes import FactKind
from env_server.subscriptions.ledger import Ledger

KEY: Final = "/terms"
"""Of the fact; no subscription has such a name."""
_RESERVED: Final = 1024


class Terms:
    """Draws terms from a range that is reserved by a fact; what is left of it is lost with the process.

    A term must not be told before what is in the open group now is durable: its reservation may be in it.
    """

    def __init__(self, ledger: Ledger, stored: bytes | None) -> None:
        self._ledger = ledger
        self._last = self._reserved = int(stored or b"0")

    def draw(self) -> int:
        """A term higher than all before."""
        if self._last == self._reserved:
            self._reserved += _RESERVED
            self._ledger.note_fact(FactKind.SUBSCRIPTION, KEY, b"%d" % self._reserved)
        self._last += 1
        return self._last
