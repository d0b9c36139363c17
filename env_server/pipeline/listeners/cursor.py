"""The one cursor that goes over the history for all ears: live with the ring, after a restart through the log.

What is routed is in some ear, or was matched by none, or lies behind an ear that was full; such an ear finds it again
by itself (`catching_up`).
"""

from collections.abc import Callable
from typing import Final

from env_server.behaviours.behaviour import Listener
from env_server.behaviours.event import Event
from env_server.model.changes import Changes, EventType
from env_server.model.errors import OutOfRange
from env_server.model.ports import Clock
from env_server.pipeline.listeners.audiences import Audiences
from env_server.pipeline.listeners.ears import Ear, Position, RowsByPath, make_event
from env_server.pipeline.reads.log_reads import Retained
from env_server.state_tree.nodes import Node, Nodes

_READ_BYTES: Final = 1024 * 1024
_GROUPS_MAX: Final = 256
"""Groups routed in one loop step."""
_RETRY_S: Final = 1.0


class Cursor:
    """Fills the ears of one world, in the order of revisions."""

    def __init__(
        self,
        world: str,
        nodes: Nodes,
        audiences: Audiences,
        rows: RowsByPath,
        retained: Retained,
        clock: Clock,
    ) -> None:
        self._world = world
        self._nodes = nodes
        self._audiences = audiences
        self._rows = rows
        self._history, self._read_log_then, self._first_revision = retained
        self._clock = clock
        self._is_going_on = self._is_stopped = False
        #: Every event up to this revision was routed.
        self.routed = retained.history.head

    @property
    def is_behind(self) -> bool:
        """Whether there are events that nobody has routed yet."""
        return self._is_going_on or self.routed < self._history.head

    def begin(self, position_of: Callable[[Node, Listener], Position]) -> None:
        """After a restart: every environment goes on from its own position."""
        first = self._first_revision()
        start = self.routed
        for node in list(self._nodes.by_number.values()):
            for ear in self._audiences.make(node, lambda listener, node=node: position_of(node, listener)):  # type: ignore[misc]
                if ear.heard[0] < first and ear.heard[0] <= self.routed:
                    self._audiences.lose(ear, first - 1)
                else:
                    start = min(start, ear.heard[0] - 1)
        self.routed = max(start, first - 1)
        self._go_on()

    def publish(self, changes: Changes) -> None:
        """Routes a group that is durable and in the ring, unless the cursor has not come so far."""
        if self.routed != changes.base_revision:
            return
        if not len(self._audiences) and not changes.extras:  # the common case costs nothing
            self.routed = changes.last_revision
            return
        self._route(changes)

    def stop(self) -> None:
        """Goes no further."""
        self._is_stopped = True

    def _go_on(self) -> None:
        """Routes what the ring or the log holds and nobody has routed, a stretch in a loop step."""
        if self._is_going_on or self._is_stopped or self.routed >= self._history.head:
            return
        ring = self._history.ring
        position = ring.find(self.routed + 1)
        self._is_going_on = True
        if position is None:
            self._read_log_then(self.routed + 1, _READ_BYTES, self._routed_from_log)
            return
        for at in range(position, min(ring.end, position + _GROUPS_MAX)):
            changes = ring.get(at)
            assert changes is not None
            self._route(changes)
        self._clock.call_soon(self._still_going_on)

    def _still_going_on(self) -> None:
        self._is_going_on = False
        self._go_on()

    def _routed_from_log(self, found: list[Changes] | BaseException) -> None:
        self._is_going_on = False
        if self._is_stopped:
            return
        if isinstance(found, OutOfRange):
            last = self._first_revision() - 1
            for ear in self._audiences.ears():
                if ear.heard[0] <= last:
                    self._audiences.lose(ear, last)
            self.routed = max(self.routed, last)
        elif isinstance(found, BaseException):
            self._clock.call_later(_RETRY_S, self._go_on)
            return
        else:
            for changes in found:
                if changes.last_revision > self.routed:
                    self._route(changes)
        self._go_on()

    def _route(self, changes: Changes) -> None:
        if changes.extras:
            self._hire(changes)
        if len(self._audiences):
            events: dict[int, Event] = {}
            for ear in self._audiences.routes.find(changes):
                self._offer(ear, changes, events)
        self.routed = changes.last_revision

    def _hire(self, changes: Changes) -> None:
        """Makes the ears of environments that the group registered and that are there still."""
        for row, extra in changes.extras.items():
            declared = extra.declaration
            if declared is None or changes.types[row] != EventType.ENVIRONMENT_REGISTERED:
                continue
            node = self._nodes.by_number.get(changes.places[changes.path[row]].number)
            if node is not None and self._audiences.get(node.number) is None:
                position = changes.revisions[row], 0
                self._audiences.make(node, lambda listener, position=position: position)  # type: ignore[misc]

    def _offer(self, ear: Ear, changes: Changes, events: dict[int, Event]) -> None:
        if ear.is_behind:
            return
        if not ear.is_lagging:
            ear.heard = max(ear.heard, (changes.base_revision + 1, 0))
        for row in ear.select(changes, self._rows.of(changes)):
            if ear.is_full:
                ear.is_behind = True
                break
            event = events.get(row)
            if event is None:
                event = events[row] = make_event(self._world, changes, row)
            ear.take(event)
        self._audiences.wake(ear)
