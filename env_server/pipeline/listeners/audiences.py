"""Audiences: the ears of each environment, found by what a group changed, filled in the order of revisions.

One cursor goes over the history for all of them: live with the ring, after a restart through the log. What is routed is
in some ear, or was matched by none, or lies behind an ear that was full; such an ear finds it again by itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from env_server.behaviours.behaviour import Listener
from env_server.behaviours.event import Event
from env_server.events.history import History
from env_server.events.routing import Routes
from env_server.model.changes import Changes, EventType
from env_server.model.errors import OutOfRange
from env_server.model.limits import Limits
from env_server.model.ports import Clock, CommitLog
from env_server.pipeline.listeners.ears import Ear, Gap, Position, make_ear, make_event
from env_server.state_tree.nodes import Node, Nodes

ReadLogThen = Callable[[int, int, Callable[[list[Changes] | BaseException], None]], None]
"""(from_revision, bytes_max, then): reads as ReadLog does and hands the groups, or what went wrong, to `then` later."""

_READ_BYTES: Final = 1024 * 1024
_READS_MAX: Final = 4
"""Ears that read the log for themselves at a time."""
_GROUPS_MAX: Final = 256
"""Groups looked through in one loop step."""
_RETRY_S: Final = 1.0


class Audience:
    """The ears of one environment: one of them hears at a time."""

    __slots__ = ("ears", "is_busy", "is_queued", "node", "retries")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.ears: list[Ear] = []
        self.is_busy = False
        self.is_queued = False
        #: How often its next event was put off.
        self.retries = 0


class Audiences:
    """All ears of one world."""

    def __init__(
        self,
        world: str,
        nodes: Nodes,
        listeners: Mapping[str, tuple[Listener, ...]],
        history: History,
        read_log_then: ReadLogThen,
        first_revision: Callable[[], int],
        has_work: Callable[[Audience], None],
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._world = world
        self._nodes = nodes
        self._listeners = listeners
        self._history = history
        self._read_log_then = read_log_then
        self._first_revision = first_revision
        self._has_work = has_work
        self._clock = clock
        self._limits = limits
        self._routes: Routes[Ear] = Routes()
        self._audiences: dict[int, Audience] = {}
        self._lagging: dict[Ear, None] = {}
        self._made = 0
        self._reads = 0
        self._waiting: dict[Ear, None] = {}
        #: Every event up to this revision was routed.
        self.routed = history.head
        self._is_going_on = False
        self.is_stopped = False
        #: The group whose rows were sorted last.
        self._sorted: Changes | None = None
        self._by_path: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._audiences)

    def get(self, number: int) -> Audience | None:
        """The audience in the environment of that number."""
        return self._audiences.get(number)

    def begin(self, position_of: Callable[[Node, Listener], Position]) -> None:
        """After a restart: every environment goes on from its own position."""
        first = self._first_revision()
        start = self.routed
        for node in list(self._nodes.by_number.values()):
            for ear in self._make(node, lambda listener, node=node: position_of(node, listener)):  # type: ignore[misc]
                if ear.heard[0] < first and ear.heard[0] <= self.routed:
                    self._skip(ear, first - 1)
                else:
                    start = min(start, ear.heard[0] - 1)
        self.routed = max(start, first - 1)
        self._go_on()

    def publish(self, changes: Changes) -> None:
        """Routes a group that is durable and in the ring, unless the cursor has not come so far."""
        if self.routed != changes.base_revision:
            return
        if not self._audiences and not changes.extras:  # the common case costs nothing
            self.routed = changes.last_revision
            return
        self._route(changes)

    def lowest(self) -> int:
        """Everything up to this revision was heard by all."""
        return min((ear.heard[0] - 1 for ear in self._lagging), default=self.routed)

    def refill(self, ear: Ear) -> None:
        """Fills an ear that is behind, from the ring at once or from the log later."""
        groups = 0
        ring = self._history.ring
        while ear.heard[0] <= self.routed:
            position = ring.find(ear.heard[0])
            if position is None:
                self._read_for(ear)
                return
            while position < ring.end and groups < _GROUPS_MAX and ear.heard[0] <= self.routed:
                changes = ring.get(position)
                assert changes is not None
                if not self._fill(ear, changes):
                    return
                position += 1
                groups += 1
            if ear.events or groups >= _GROUPS_MAX:
                break
        if ear.heard[0] > self.routed:
            ear.is_behind = False
            self.settle(ear)
        self._wake(ear)

    def settle(self, ear: Ear) -> None:
        """It has dealt with something: perhaps it has nothing left to hear."""
        if not ear.is_lagging:
            self._lagging.pop(ear, None)

    def drop(self, audience: Audience) -> None:
        """Its environment is gone."""
        self._audiences.pop(audience.node.number, None)
        for ear in audience.ears:
            self._routes.remove(ear)
            self._lagging.pop(ear, None)
            self._waiting.pop(ear, None)

    # -- the cursor of all --

    def _go_on(self) -> None:
        """Routes what the ring or the log holds and nobody has routed, a stretch in a loop step."""
        if self._is_going_on or self.is_stopped or self.routed >= self._history.head:
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
        if self.is_stopped:
            return
        if isinstance(found, OutOfRange):
            last = self._first_revision() - 1
            for audience in self._audiences.values():
                for ear in audience.ears:
                    if ear.heard[0] <= last:
                        self._skip(ear, last)
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
        if self._audiences:
            events: dict[int, Event] = {}
            for ear in self._routes.find(changes):
                self._offer(ear, changes, events)
        self.routed = changes.last_revision

    def _hire(self, changes: Changes) -> None:
        """Makes the ears of environments that the group registered and that are there still."""
        for row, extra in changes.extras.items():
            declared = extra.declaration
            if declared is None or changes.types[row] != EventType.ENVIRONMENT_REGISTERED:
                continue
            node = self._nodes.by_number.get(changes.places[changes.path[row]].number)
            if node is not None and node.number not in self._audiences:
                position = changes.revisions[row], 0
                for _ in self._make(node, lambda listener, position=position: position):  # type: ignore[misc]
                    pass

    def _make(self, node: Node, position_of: Callable[[Listener], Position]) -> Iterable[Ear]:
        listeners = self._listeners.get(node.declaration.kind, ())
        if not listeners:
            return
        audience = self._audiences[node.number] = Audience(node)
        for listener in listeners:
            self._made += 1
            ear = make_ear(self._made, node, listener, position_of(listener), self._limits)
            audience.ears.append(ear)
            self._routes.add(ear)
            yield ear

    def _offer(self, ear: Ear, changes: Changes, events: dict[int, Event]) -> None:
        if ear.is_behind:
            return
        if not ear.is_lagging:
            ear.heard = max(ear.heard, (changes.base_revision + 1, 0))
        for row in ear.select(changes, self._rows_of(changes)):
            if ear.is_full:
                ear.is_behind = True
                break
            event = events.get(row)
            if event is None:
                event = events[row] = make_event(self._world, changes, row)
            ear.take(event)
        self._wake(ear)

    # -- ears that find for themselves --

    def _fill(self, ear: Ear, changes: Changes) -> bool:
        """Lets it take what it wants of a group; whether it took all."""
        for row in ear.select(changes, self._rows_of(changes)):
            if ear.is_full:
                self._wake(ear)
                return False
            ear.take(make_event(self._world, changes, row))
        if ear.events:
            return self._look_past(ear, changes)
        ear.heard = max(ear.heard, (changes.last_revision + 1, 0))
        return True

    def _rows_of(self, changes: Changes) -> Callable[[str], Sequence[int]]:
        """The rows of each path in a group, found once for all ears."""
        if self._sorted is not changes:
            self._sorted = changes
            by_place: dict[int, list[int]] = {}
            for row, place in enumerate(changes.path):
                by_place.setdefault(place, []).append(row)
            self._by_path = {}
            for place, rows in by_place.items():
                path = changes.places[place].path
                known = self._by_path.get(path)  # twice in the group when its labels changed
                self._by_path[path] = rows if known is None else sorted([*known, *rows])
        return lambda path: self._by_path.get(path, ())

    def _look_past(self, ear: Ear, changes: Changes) -> bool:
        """It holds events, which it hears before it looks further, unless this was the last group."""
        if changes.last_revision >= self.routed:
            ear.is_behind = False
        self._wake(ear)
        return False

    def _read_for(self, ear: Ear) -> None:
        if ear.is_reading:
            return
        if self._reads >= _READS_MAX:
            self._waiting[ear] = None
            return
        self._reads += 1
        ear.is_reading = True
        self._read_log_then(ear.heard[0], _READ_BYTES, partial(self._read, ear))

    def _read(self, ear: Ear, found: list[Changes] | BaseException) -> None:
        self._reads -= 1
        ear.is_reading = False
        if self.is_stopped:
            return
        for other in list(self._waiting)[: _READS_MAX - self._reads]:
            del self._waiting[other]
            self._read_for(other)
        if ear.node.number not in self._audiences:
            return
        if isinstance(found, OutOfRange):
            self._skip(ear, self._first_revision() - 1)
        elif isinstance(found, BaseException):
            self._clock.call_later(_RETRY_S, lambda: self._read_for(ear))
        else:
            for changes in found:
                if changes.last_revision >= ear.heard[0] and not self._fill(ear, changes):
                    break
            if ear.heard[0] > self.routed:
                ear.is_behind = False
                self.settle(ear)
            self._wake(ear)

    def _skip(self, ear: Ear, last: int) -> None:
        message = f"events up to revision {last} are no longer retained: the listener has not heard them"
        ear.skip(Gap(ear.heard[0], last, "REVISION_COMPACTED", message))
        self._wake(ear)

    def _wake(self, ear: Ear) -> None:
        if ear.is_lagging:
            self._lagging[ear] = None
            audience = self._audiences.get(ear.node.number)
            if audience is not None:
                self._has_work(audience)


def read_at_once(log: CommitLog, clock: Clock) -> ReadLogThen:
    """Reads in a loop step of the world's own, as befits a log in memory."""

    def read(from_revision: int, bytes_max: int, then: Callable[[list[Changes] | BaseException], None]) -> None:
        def call() -> None:
            try:
                found: list[Changes] | BaseException = log.read(from_revision, bytes_max)
            except OutOfRange as error:
                found = error
            then(found)

        clock.call_soon(call)

    return read
