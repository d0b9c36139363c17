"""Listening: events run the listeners of behaviours, each event once in effect, in order, one at a time an environment.

    group durable ──► audiences (who has to hear what) ──► a call (keys, slot, method) ──► one revision:
                                                            what it staged, and the fact how far it has heard

Nothing waits for a listener. Positions are kept in two kinds of facts: `number/listener` with each effect, and for all
environments of a kind together, now and then, how far at least each has come, so that the log may go although nothing
matches.
"""

import json
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from env_server.behaviours.behaviour import Listener
from env_server.behaviours.event import Event
from env_server.behaviours.registry import BehaviourError, Behaviours
from env_server.events.history import History
from env_server.model.changes import Changes, EventType, FactKind
from env_server.model.errors import Exhausted, LimitExceeded, Unavailable, WorldError
from env_server.model.frames import Invoked, Outcome
from env_server.model.limits import MIB, Limits
from env_server.model.operations import Code, Write
from env_server.model.ports import Clock
from env_server.model.values import Json
from env_server.pipeline.admission import Admission
from env_server.pipeline.audiences import Audience, Audiences, ReadLogThen
from env_server.pipeline.calls import Call, Calls
from env_server.pipeline.commits import Commits
from env_server.pipeline.depths import deepen
from env_server.pipeline.ears import Ear, Gap, Position, make_ear
from env_server.pipeline.log_holds import LogHold
from env_server.pipeline.origins import pad_origins
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree

_STARTS_MAX: Final = 64
"""Events heard in one loop step."""
_FLOOR_REVISIONS: Final = 10_000
_FLOOR_BYTES_MAX: Final = 16 * MIB
"""So much later at the latest it is noted how far all have heard, so that the log may go up to there."""
_RETRY_MS_MAX: Final = 5_000
_MESSAGE_CHARS_MAX: Final = 1_000
_DELETIONS: Final = (Code.DELETE_ENTRY, Code.DELETE_ENVIRONMENT)


class Listening:
    """The listeners of one world."""

    def __init__(
        self,
        world: str,
        tree: Tree,
        behaviours: Behaviours,
        calls: Calls,
        commits: Commits,
        admission: Admission,
        history: History,
        read_log_then: ReadLogThen,
        log: LogHold,
        clock: Clock,
        limits: Limits,
    ) -> None:
        """Raises BehaviourError: a listener's globs are malformed."""
        self._tree = tree
        self._listeners = behaviours.listeners
        self._calls = calls
        self._commits = commits
        self._admission = admission
        self._log = log
        self._clock = clock
        self._limits = limits
        self._running_max = max(1, min(limits.listeners_running_max, limits.concurrency_max // 2))
        self._audiences = Audiences(
            *(world, tree.nodes, behaviours.listeners, history, read_log_then, lambda: log.first_revision),
            *(self._has_work, clock, limits),
        )
        self._queue: deque[Audience] = deque()
        self._running = 0
        self._is_pumping = False
        #: What all have heard for certain after a restart.
        self._floor = self._durable_floor = 0
        #: The same for each listener; one that is new may have begun above the others.
        self._floors: dict[str, int] = {}
        self._bytes_since = 0
        self._floor_bytes = min(_FLOOR_BYTES_MAX, limits.log_bytes_max // 16)
        #: Groups that note a higher floor.
        self._rising: deque[tuple[int, int]] = deque()
        self._settling: deque[tuple[int, Callable[[], None]]] = deque()
        #: Ears that heard something without an effect, which no fact tells.
        self._unnoted: dict[Ear, None] = {}
        self._noted: set[str] = set()
        for listeners in self._listeners.values():
            for listener in listeners:
                _check(listener, tree.nodes.root, limits)

    def begin(self, facts: dict[str, bytes]) -> None:
        """Goes on where the facts say; listeners that are new begin at the head."""
        if not self._listeners:
            return
        head = self._tree.revision
        floors: dict[str, int] = {}
        for kind, listeners in self._listeners.items():
            for listener in listeners:
                key = _floor_key(kind, listener)
                if key in facts:
                    floors[key] = json.loads(facts[key])
                else:
                    floors[key] = head
                    self._note(key, head)
        self._floors = floors
        self._floor = self._durable_floor = min(floors.values())
        own: dict[str, Position] = {}
        for key, value in facts.items():
            number, _, _ = key.partition("/")
            if not number.isdigit():
                continue
            if int(number) in self._tree.nodes.by_number:
                self._noted.add(key)
                revision, index = json.loads(value)
                own[key] = (revision, index)
            else:  # its environment is gone, and the server was before it could say so
                self._note(key, None)

        def position_of(node: Node, listener: Listener) -> Position:
            floor = floors[_floor_key(node.declaration.kind, listener)]
            return max((node.created, 0), (floor + 1, 0), own.get(f"{node.number}/{listener.name}", (0, 0)))

        self._audiences.begin(position_of)
        self._hold()

    def publish(self, changes: Changes) -> None:
        """A group is durable and in the ring; each once, in order."""
        while self._rising and self._rising[0][0] <= changes.number:
            self._durable_floor = self._rising.popleft()[1]
            self._hold()
        while self._settling and self._settling[0][0] <= changes.number:
            self._settling.popleft()[1]()
        if not self._listeners or changes.last_revision == changes.base_revision:
            return
        had_none = not len(self._audiences)
        self._audiences.publish(changes)
        self._forget_deleted(changes)
        if len(self._audiences):
            if had_none:
                self._hold()
            self._bytes_since += changes.size_bytes
            is_far = self._bytes_since >= self._floor_bytes
            if had_none or is_far or self._audiences.routed - self._floor >= _FLOOR_REVISIONS:
                self._raise_floor()

    def settle(self, then: Callable[[], None]) -> None:
        """Notes how far all have heard, so that the log may go up to there; `then` once that is durable."""
        if not len(self._audiences) or not self._raise_floor():
            if self._rising:
                self._settling.append((self._rising[-1][0], then))
            else:
                then()
            return
        self._settling.append((self._tree.changes.number, then))

    def stop(self) -> None:
        """Begins nothing more, and notes what was heard."""
        self._audiences.is_stopped = True
        for ear in list(self._unnoted):
            self._note_heard(ear)
        if len(self._audiences):
            self._raise_floor()

    # -- whose turn it is --

    def _has_work(self, audience: Audience) -> None:
        if not (audience.is_queued or audience.is_busy):
            audience.is_queued = True
            self._queue.append(audience)
            self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._is_pumping and self._queue and self._running < self._running_max:
            self._is_pumping = True
            self._clock.call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pumping = False
        for _ in range(_STARTS_MAX):
            if self._audiences.is_stopped or not self._queue or self._running >= self._running_max:
                return
            audience = self._queue.popleft()
            audience.is_queued = False
            if not audience.is_busy and self._audiences.get(audience.node.number) is audience:
                self._hear_next(audience)
        self._pump_soon()

    def _hear_next(self, audience: Audience) -> None:
        """Lets the ear hear whose next event is the first; ears that are behind look for theirs before."""
        for ear in audience.ears:
            self._look_after(ear)
        ready = [ear for ear in audience.ears if ear.next_position is not None]
        if not ready or self._tree.nodes.by_number.get(audience.node.number) is not audience.node:
            return
        ear = min(ready, key=lambda one: (one.next_position, one.number))
        if ear.gap is not None:
            self._tell_gap(ear, ear.gap)
            self._go_on(audience)
        else:
            self._hear(audience, ear, ear.events[0])

    def _look_after(self, ear: Ear) -> None:
        maximum = self._limits.listener_lag_revisions_max
        if ear.is_lagging and self._audiences.routed - ear.heard[0] > maximum and ear.gap is None:
            message = (
                f"the listener is further behind than listener_lag_revisions_max = {maximum}: it goes on at the head"
            )
            ear.skip(Gap(ear.heard[0], self._audiences.routed, "LIMIT_EXCEEDED", message))
        elif ear.is_behind and not ear.events and ear.gap is None:
            self._audiences.refill(ear)

    def _hear(self, audience: Audience, ear: Ear, event: Event) -> None:
        maximum = self._limits.listener_depth_max
        if event.depth >= maximum:
            self._cut(ear, event, LimitExceeded("listener_depth_max", maximum, event.depth + 1))
            self._go_on(audience)
            return
        call = Call(
            audience.node,
            ear.listener,
            {"event": event},
            partial(self._end, audience, ear, event),
            cause=event.id,
            check_writes=self._check_writes,
            may_call=False,
        )
        if 2 * self._calls.waiting >= self._limits.queue_ops_max:  # clients come first
            self._retry(audience, self._limits.retry_delay_ms)
            return
        try:
            self._calls.prepare(call)
        except WorldError as error:
            self._fail(ear, event, error)
            self._go_on(audience)
            return
        audience.is_busy = True
        self._running += 1
        self._calls.enter(call)

    def _check_writes(self, writes: tuple[Write, ...], size_bytes: int) -> None:
        if any(write.code not in _DELETIONS for write in writes):
            refusal = self._admission.refusal(len(writes), size_bytes)
            if refusal is not None:
                raise refusal

    # -- what came of it --

    def _end(self, audience: Audience, ear: Ear, event: Event, outcome: Outcome, first_row: int | None) -> None:
        audience.is_busy = False
        self._running -= 1
        is_transient = isinstance(outcome, Exhausted | Unavailable) or (
            isinstance(outcome, WorldError) and outcome.retry_delay_ms > 0
        )
        if isinstance(outcome, WorldError) and is_transient:
            self._retry(audience, outcome.retry_delay_ms or self._limits.retry_delay_ms)
            self._pump_soon()
            return
        if isinstance(outcome, WorldError):
            self._fail(ear, event, outcome)
        else:
            assert isinstance(outcome, Invoked)
            self._succeed(ear, event, outcome.changed, first_row)
        self._go_on(audience)

    def _succeed(self, ear: Ear, event: Event, changed: bool, first_row: int | None) -> None:
        changes = self._tree.changes
        ear.has_heard(event)
        if changed:
            assert first_row is not None
            self._tree.advance()
            deepen(changes, first_row, event.depth + 1)
            pad_origins(changes, first_row)
            pad_origins(changes, len(changes), cause=event.id)
        if changed or len(changes) or changes.facts:
            self._note_heard(ear)
        else:  # worth no commit of its own: heard again after a crash, it may as well have no effect again
            self._unnoted[ear] = None

    def _fail(self, ear: Ear, event: Event, error: WorldError) -> None:
        ear.has_heard(event)
        told: dict[str, str | int] = {"cause": event.id, "reason": error.reason.name, "message": error.message}
        told |= {name: error.metadata[name] for name in ("incident", "code") if name in error.metadata}
        self._tell(ear, told, event.id, event.depth + 1)

    def _cut(self, ear: Ear, event: Event, error: WorldError) -> None:
        """A chain has become too long. That is told once: a failure that is too deep is not heard, and that is all."""
        if event.type == EventType.LISTENER_FAILED:
            self._succeed(ear, event, changed=False, first_row=None)
        else:
            self._fail(ear, event, error)

    def _tell_gap(self, ear: Ear, gap: Gap) -> None:
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
        pad_origins(tree.changes, row)
        pad_origins(tree.changes, len(tree.changes), cause=cause)
        self._note_heard(ear)

    def _retry(self, audience: Audience, delay_ms: int) -> None:
        """Puts the next event off: nothing of it happened."""
        audience.is_busy = True
        delay_ms = min(delay_ms << min(audience.retries, 10), _RETRY_MS_MAX)
        audience.retries += 1

        def again() -> None:
            audience.is_busy = False
            self._has_work(audience)

        self._clock.call_later(delay_ms / 1000, again)

    def _go_on(self, audience: Audience) -> None:
        audience.retries = 0
        for ear in audience.ears:
            self._audiences.settle(ear)
        if any(ear.is_lagging for ear in audience.ears):
            self._has_work(audience)
        self._pump_soon()

    # -- positions --

    def _note_heard(self, ear: Ear) -> None:
        """Notes how far it has heard, in the open group."""
        self._unnoted.pop(ear, None)
        if self._tree.nodes.by_number.get(ear.node.number) is ear.node:
            self._noted.add(ear.fact_key)
            self._note(ear.fact_key, list(ear.heard))

    def _forget_deleted(self, changes: Changes) -> None:
        if not len(self._audiences) or EventType.ENVIRONMENT_DELETED not in changes.types:
            return
        for row, type_ in enumerate(changes.types):
            if type_ != EventType.ENVIRONMENT_DELETED:
                continue
            audience = self._audiences.get(changes.places[changes.path[row]].number)
            if audience is None:
                continue
            self._audiences.drop(audience)
            for ear in audience.ears:
                self._unnoted.pop(ear, None)
                if ear.fact_key in self._noted:
                    self._noted.discard(ear.fact_key)
                    self._note(ear.fact_key, None)

    def _raise_floor(self) -> bool:
        """Notes how far all have heard, when that is further than noted."""
        floor = self._audiences.lowest()
        if floor <= self._floor:
            return False
        self._floor = floor
        self._bytes_since = 0
        for key, noted in self._floors.items():
            if noted < floor:
                self._floors[key] = floor
                self._note(key, floor)
        self._rising.append((self._tree.changes.number, floor))
        return True

    def _hold(self) -> None:
        self._log.retain(self._durable_floor + 1 if len(self._audiences) else None)

    def _note(self, key: str, value: int | list[int] | None) -> None:
        text = None if value is None else json.dumps(value, separators=(",", ":")).encode()
        self._tree.note_fact(FactKind.LISTENER, key, text)
        self._commits.touch()


def _floor_key(kind: str, listener: Listener) -> str:
    return f"kind:{kind}/{listener.name}"


def _clean(text: str) -> str:
    """Text that can be stored, whatever a behaviour wrote."""
    return text[:_MESSAGE_CHARS_MAX].encode("utf-8", "replace").decode()


def _check(listener: Listener, root: Node, limits: Limits) -> None:
    try:
        make_ear(0, root, listener, (0, 0), limits)
    except WorldError as error:
        raise BehaviourError(f"listener {listener.name!r}: {error.message}") from None
