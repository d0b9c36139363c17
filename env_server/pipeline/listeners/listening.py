"""Listening: events run the listeners of behaviours, each event once in effect, in order, one at a time an environment.

    group durable ──► cursor (who has to hear what)  ──► a call (keys, slot, method) ──► one revision:
                                                            what it staged, and the fact how far it has heard

Nothing waits for a listener. `audiences` knows who hears, `cursor` brings each what it has to hear, `catching_up` helps
those that are behind, `outcomes` writes what came of it and `positions` how far each has heard.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from env_server.behaviours.behaviour import Listener
from env_server.behaviours.event import Event
from env_server.behaviours.registry import BehaviourError, Behaviours
from env_server.model.changes import Changes, EventType
from env_server.model.errors import Exhausted, LimitExceeded, Unavailable, WorldError
from env_server.model.frames import Invoked, Outcome
from env_server.model.limits import Limits
from env_server.model.operations import Code, Write
from env_server.pipeline.commits.log_holds import LogHold
from env_server.pipeline.listeners.audiences import Audience, Audiences
from env_server.pipeline.listeners.catching_up import CatchingUp
from env_server.pipeline.listeners.cursor import Cursor
from env_server.pipeline.listeners.ears import Ear, Gap, RowsByPath, make_ear
from env_server.pipeline.listeners.outcomes import Outcomes
from env_server.pipeline.listeners.positions import Positions
from env_server.pipeline.operations.call import Call
from env_server.pipeline.operations.calls import Calls
from env_server.pipeline.parts import Parts
from env_server.pipeline.reads.log_reads import Retained
from env_server.state_tree.nodes import Node

_STARTS_MAX: Final = 64
"""Events heard in one loop step."""
_RETRY_MS_MAX: Final = 5_000
_DELETIONS: Final = (Code.DELETE_ENTRY, Code.DELETE_ENVIRONMENT)


class Listening:
    """The listeners of one world."""

    def __init__(
        self,
        world: str,
        parts: Parts,
        behaviours: Behaviours,
        calls: Calls,
        retained: Retained,
        log: LogHold,
    ) -> None:
        """Raises BehaviourError: a listener's globs are malformed."""
        self._tree = tree = parts.tree
        clock, limits = parts.clock, parts.limits
        self._listeners = behaviours.listeners
        self._calls = calls
        self._admission = parts.admission
        self._clock = clock
        self._limits = limits
        self._running_max = max(1, min(limits.listeners_running_max, limits.concurrency_max // 2))
        self._audiences = audiences = Audiences(behaviours.listeners, self._has_work, limits)
        rows = RowsByPath()
        self._cursor = Cursor(world, tree.nodes, audiences, rows, retained, clock)
        self._catching_up = CatchingUp(world, audiences, rows, self._cursor, retained, clock)
        self._queue: deque[Audience] = deque()
        self._running = 0
        self._is_pumping = self._is_stopped = False
        self._positions = Positions(tree, parts.commits, log, behaviours.listeners, self._lowest, limits)
        self._outcomes = Outcomes(tree, self._positions)
        for listeners in self._listeners.values():
            for listener in listeners:
                _check(listener, tree.nodes.root, limits)

    def begin(self, facts: dict[str, bytes]) -> None:
        """Goes on where the facts say; listeners that are new begin at the head."""
        if not self._listeners:
            return
        position_of = self._positions.load(facts)
        self._cursor.begin(position_of)
        self._positions.hold()

    def publish(self, changes: Changes) -> None:
        """A group is durable and in the ring; each once, in order."""
        self._positions.durable(changes.number)
        if not self._listeners or changes.last_revision == changes.base_revision:
            return
        had_none = not len(self._audiences)
        self._cursor.publish(changes)
        self._forget_deleted(changes)
        if len(self._audiences):
            if had_none:
                self._positions.raise_floor()
                self._positions.hold()
            self._positions.passed(changes)
        elif not had_none:
            self._positions.hold()

    @property
    def any_listens(self) -> bool:
        """Whether there are listeners that would hear what happens."""
        return bool(self._listeners) and len(self._audiences) > 0

    @property
    def is_behind(self) -> bool:
        """Whether a listener runs, or has not heard all that it has to."""
        if not self._listeners or not len(self._audiences):
            return False
        return self._running > 0 or self._cursor.is_behind or self._audiences.any_lagging

    def settle(self, then: Callable[[], None]) -> None:
        """Notes how far all have heard, so that the log may go up to there; `then` once that is durable."""
        self._positions.settle(then)

    def stop(self) -> None:
        """Begins nothing more, and notes what was heard."""
        self._is_stopped = True
        self._cursor.stop()
        self._catching_up.stop()
        if self._listeners:
            self._positions.note_all()

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
            if self._is_stopped or not self._queue or self._running >= self._running_max:
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
            self._outcomes.tell_gap(ear, ear.gap)
            self._go_on(audience)
        else:
            self._hear(audience, ear, ear.events[0])

    def _look_after(self, ear: Ear) -> None:
        maximum = self._limits.listener_lag_revisions_max
        if ear.is_lagging and self._cursor.routed - ear.heard[0] > maximum and ear.gap is None:
            message = (
                f"the listener is further behind than listener_lag_revisions_max = {maximum}: it goes on at the head"
            )
            ear.skip(Gap(ear.heard[0], self._cursor.routed, "LIMIT_EXCEEDED", message))
        elif ear.is_behind and not ear.events and ear.gap is None:
            self._catching_up.refill(ear)

    def _hear(self, audience: Audience, ear: Ear, event: Event) -> None:
        maximum = self._limits.listener_depth_max
        if event.depth >= maximum:
            self._outcomes.cut(ear, event, LimitExceeded("listener_depth_max", maximum, event.depth + 1))
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
            self._outcomes.fail(ear, event, error)
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
            self._outcomes.fail(ear, event, outcome)
        else:
            assert isinstance(outcome, Invoked)
            self._outcomes.succeed(ear, event, outcome.changed, first_row)
        self._go_on(audience)

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

    def _lowest(self) -> int | None:
        return self._audiences.lowest(self._cursor.routed) if len(self._audiences) else None

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
                self._catching_up.forget(ear)
                self._positions.forget(ear)


def _check(listener: Listener, root: Node, limits: Limits) -> None:
    try:
        make_ear(0, root, listener, (0, 0), limits)
    except WorldError as error:
        raise BehaviourError(f"listener {listener.name!r}: {error.message}") from None
