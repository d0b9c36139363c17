"""What came of an event for the one who heard it: a revision of its effects, or one that says what went wrong.

Either moves the ear's position on, in the same record.
"""

from typing import Final

from env_server.behaviours.event import Event
from env_server.model.changes import EventType
from env_server.model.errors import WorldError
from env_server.model.values import Json
from env_server.pipeline.frames.origins import attribute_rows
from env_server.pipeline.listeners.depths import deepen
from env_server.pipeline.listeners.ears import Ear, Gap
from env_server.pipeline.listeners.positions import Positions
from env_server.state_tree.tree import Tree

_MESSAGE_CHARS_MAX: Final = 1_000


class Outcomes:
    """Writes into the open group how listeners of one world ended."""

    def __init__(self, tree: Tree, positions: Positions) -> None:
        self._tree = tree
        self._positions = positions

    def succeed(self, ear: Ear, event: Event, changed: bool, first_row: int | None) -> None:
        """It is over; what it changed, from `first_row` of the open group on, becomes its revision."""
        changes = self._tree.changes
        ear.has_heard(event)
        if changed:
            assert first_row is not None
            self._tree.advance()
            deepen(changes, first_row, event.depth + 1)
            attribute_rows(changes, first_row, cause=event.id)
        self._positions.heard(ear, had_effect=changed)

    def fail(self, ear: Ear, event: Event, error: WorldError) -> None:
        """Nothing of it happened; that is told, and the ear goes on."""
        ear.has_heard(event)
        told: dict[str, str | int] = {"cause": event.id, "reason": error.reason.name, "message": error.message}
        told |= {name: error.metadata[name] for name in ("incident", "code") if name in error.metadata}
        self._tell(ear, told, event.id, event.depth + 1)

    def cut(self, ear: Ear, event: Event, error: WorldError) -> None:
        """A chain has become too long. That is told once: a failure that is too deep is not heard, and that is all."""
        if event.type == EventType.LISTENER_FAILED:
            self.succeed(ear, event, changed=False, first_row=None)
        else:
            self.fail(ear, event, error)

    def tell_gap(self, ear: Ear, gap: Gap) -> None:
        """There are events that it never hears; that is told, and the ear goes on behind them."""
        told: dict[str, str | int] = {"cause": "", "reason": gap.reason, "message": gap.message}
        ear.has_skipped()
        self._tell(ear, told | {"from_revision": gap.first, "to_revision": gap.last}, "", 1)

    def _tell(self, ear: Ear, told: dict[str, str | int], cause: str, depth: int) -> None:
        """Says that a listener failed, in a revision of its own; its position moves on in it."""
        tree, node = self._tree, ear.node
        if tree.nodes.by_number.get(node.number) is not node:
            return
        clean = {name: _clean(value) if isinstance(value, str) else value for name, value in told.items()}
        row = len(tree.changes)
        tree.row(node, EventType.LISTENER_FAILED, ear.listener.name, Json.of(clean), 0)
        tree.advance()
        deepen(tree.changes, row, depth)
        attribute_rows(tree.changes, row, cause=cause)
        self._positions.heard(ear, had_effect=True)


def _clean(text: str) -> str:
    """Text that can be stored, whatever a behaviour wrote."""
    return text[:_MESSAGE_CHARS_MAX].encode("utf-8", "replace").decode()
