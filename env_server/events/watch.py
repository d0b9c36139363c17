"""One client's cursor on the history of a world.

    INITIAL ──synced──► CATCHING_UP ──at the head──► LIVE
                             ▲                         │
                             └──── too much pending ───┘

A live watch keeps only positions in the ring of the groups that may concern it. When it keeps too many, or the ring
drops one, it forgets them all and goes back to its cursor: it then walks the ring, or the log below it, until it
stands at the head. Both turns happen in one loop step, so that no group can fall between.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from env_server.events.alternatives import AnyMatcher
from env_server.events.history import History
from env_server.events.initial_state import InitialState
from env_server.events.portions import Portion, plan_portions
from env_server.events.routing import Routes
from env_server.events.statistics import WatchState, WatchStatistics
from env_server.model.changes import Changes
from env_server.model.errors import NotFound, Reason, WorldError
from env_server.model.watching import Delivery, WatchSpec

_SCAN_GROUPS_MAX = 256
"""Groups looked through in one loop step in search of a match."""
_UNINTERRUPTED_EVENTS_MAX = 32_768
"""Events given to a reader that never waits before others have their turn."""


class Watch:
    """Opened by a WatchHub, read by one task. Ordered, gap-free, duplicate-free, whole revisions."""

    # Ten thousand of them stand in one session: no dicts, and no deques that are mostly empty.
    __slots__ = (
        "_announces_scan",
        "_backlog",
        "_counts",
        "_cursor",
        "_error",
        "_history",
        "_initial",
        "_is_reading",
        "_on_end",
        "_pending",
        "_pending_groups_max",
        "_portions",
        "_routes",
        "_state",
        "_told",
        "_uninterrupted",
        "_waiter",
        "matcher",
        "number",
        "spec",
    )

    def __init__(
        self,
        number: int,
        spec: WatchSpec,
        matcher: AnyMatcher,
        history: History,
        routes: "Routes[Watch]",
        on_end: Callable[["Watch"], None],
        pending_groups_max: int,
    ) -> None:
        self.number = number
        self.spec = spec
        self.matcher = matcher
        self._history = history
        self._routes = routes
        self._on_end = on_end
        self._pending_groups_max = pending_groups_max
        self._state = WatchState.CATCHING_UP
        self._cursor = 0
        """Every match up to this revision was delivered."""
        self._portions: list[Portion] = []
        """What is being delivered, the next one last; the cursor stands before it."""
        self._pending: deque[int] = deque()
        """Live: positions after the portions."""
        self._backlog: list[Changes] = []
        """Catching up: groups read from the log, after the portions, the next one last."""
        self._announces_scan = False
        self._told = 0
        """Through this revision the reader knows that there is nothing more."""
        self._initial: InitialState | None = None
        self._error: WorldError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_reading = False
        self._uninterrupted = 0
        self._counts = WatchStatistics()

    @property
    def state(self) -> WatchState:
        """Where the next step comes from."""
        return self._state

    def start(self, initial: InitialState | None) -> None:
        """Places the cursor. Called once, by the hub, in the loop step that opens the watch."""
        if initial is not None:
            self._initial = initial
            self._state = WatchState.INITIAL
            if initial.revision > self._history.head:
                self._history.call_at(initial.revision, self._wake)
            return
        asked = self.spec.from_revision
        self._cursor = self._told = self._history.head if asked == 0 else asked - 1
        self._go_live_at_head()

    async def next(self, events_max: int) -> Delivery:
        """The next step, waiting for it if need be: at most `events_max` events, but at least one revision.

        Cancelling it loses nothing. One call at a time.

        Raises:
            WorldError: why the watch ended; again on every further call. OutOfRange / REVISION_COMPACTED: what comes
                next is no longer retained.
        """
        if self._is_reading:
            raise RuntimeError(f"watch {self.number} is being read by another task")
        self._is_reading = True
        try:
            if self._uninterrupted > _UNINTERRUPTED_EVENTS_MAX:
                await self._give_way()
            while True:
                if self._error is not None:
                    # The same error ends many watches: without this each raise would add to its traceback.
                    raise self._error.with_traceback(None)
                delivery = self._take(events_max)
                if delivery is not None:
                    return delivery
                await self._wait()
        finally:
            self._is_reading = False

    def mark(self) -> int | None:
        """The revision up to which everything that matches was delivered, if it may be announced now.

        None while anything is pending, so that no mark overtakes an event; also below a start in the future.
        """
        if self._state is not WatchState.LIVE or self._portions or self._pending:
            return None
        return self._history.head if self._history.head >= self._cursor else None

    def reached(self) -> int:
        """The revision up to which everything that matches was delivered, known at any time."""
        return self.mark() or self._cursor

    def end(self, error: WorldError) -> None:
        """Ends the watch: its reader gets `error` next, whatever was pending. Only the first call has an effect."""
        if self._error is not None:
            return
        self._error = error
        self._routes.remove(self)
        self._state = WatchState.ENDED
        self._portions.clear()
        self._pending.clear()
        self._drop_backlog()
        self._initial = None
        self._wake()
        self._on_end(self)

    def close(self) -> None:
        """Ends the watch for its owner, who no longer wants it."""
        self.end(NotFound(Reason.WATCH_NOT_FOUND, watch=str(self.number)))

    def statistics(self) -> WatchStatistics:
        """The numbers of now."""
        counts = self._counts
        counts.state = self._state
        counts.pending_groups = len(self._pending)
        mark = self.mark()
        counts.delivered_revision = self._cursor if mark is None else mark
        counts.behind_revisions = max(0, self._history.head - counts.delivered_revision)
        return counts

    def offer(self, position: int, changes: Changes) -> None:
        """Notes a group just published that may concern the watch. Called by the hub; costs the same for any group."""
        if self._state is not WatchState.LIVE or changes.last_revision <= self._cursor:
            return
        if not self._pending and not self._portions:
            self._cursor = max(self._cursor, changes.base_revision)
        self._pending.append(position)
        if len(self._pending) > self._pending_groups_max:
            self._fall_back()
        self._wake()

    # -- choosing the next step; nothing here waits, so that a cancelled reader finds everything as it was --

    def _take(self, events_max: int) -> Delivery | None:
        if self._initial is not None:
            return self._take_initial(self._initial, events_max)
        if not self._portions:
            self._plan()
            if not self._portions:
                return self._take_scan_mark()
        portion = self._portions[-1]
        rows, self._cursor = portion.take(events_max)
        self._told = self._cursor
        if portion.is_done:
            self._portions.pop()
            if not self._portions and self._state is WatchState.CATCHING_UP:
                self._go_live_at_head()
        self._announces_scan = self._announces_scan and self._cursor > self._told
        self._count(len(portion.changes) if rows is None else len(rows))
        return Delivery(portion.changes, rows, self._cursor, conflated=portion.conflated)

    def _take_initial(self, initial: InitialState, events_max: int) -> Delivery | None:
        if self._history.head < initial.revision:
            return None  # nothing leaves before it is durable
        if not initial.is_done:
            rows = initial.take(events_max)
            if rows is None:
                return None
            self._count(len(rows))
            return Delivery(rows, None, 0)
        self._initial = None
        self._cursor = self._told = initial.revision
        self._state = WatchState.CATCHING_UP
        self._go_live_at_head()
        return Delivery(None, None, self._cursor, synced_revision=self._cursor)

    def _take_scan_mark(self) -> Delivery | None:
        """After a stretch without a match: lets the client resume behind it, or know that it has caught up."""
        if not self._announces_scan or self._backlog:
            return None
        self._announces_scan = False
        self._told = self._cursor
        return Delivery(None, None, self._cursor)

    def _plan(self) -> None:
        """Fills the portions from what is at hand; leaves them empty when nothing at hand matches."""
        if self._state is WatchState.LIVE:
            self._plan_pending()
        if self._state is WatchState.CATCHING_UP and not self._portions:
            if self._backlog:
                self._plan_backlog()
            else:
                self._plan_ring()
            if not self._portions:
                self._go_live_at_head()

    def _plan_pending(self) -> None:
        ring = self._history.ring
        while self._pending:
            if self._pending[0] < ring.first:
                self._fall_back()
                return
            for _ in range(self._plan_groups(map(ring.get, self._pending))):
                self._pending.popleft()
            if self._portions:
                return
        self._cursor = max(self._cursor, self._history.head)

    def _plan_backlog(self) -> None:
        for _ in range(self._plan_groups(reversed(self._backlog))):
            self._history.statistics.backlog_bytes -= self._backlog.pop().size_bytes

    def _plan_ring(self) -> None:
        ring, cursor = self._history.ring, self._cursor
        position = ring.find(cursor + 1) if cursor < self._history.head else ring.end
        if position is not None:
            self._plan_groups(map(ring.get, range(position, min(ring.end, position + _SCAN_GROUPS_MAX))))

    def _plan_groups(self, groups: Iterable[Changes | None]) -> int:
        """Plans the first of these groups that matches, or all for a conflating watch; returns how many it dealt with.

        Those without a match move the cursor at once.
        """
        plan = plan_portions(groups, self.matcher, self._cursor, conflating=self.spec.conflate)
        self._portions = plan.portions
        self._cursor = plan.cursor
        self._counts.conflated_events += plan.left_out
        return plan.groups

    # -- turns --

    def _go_live_at_head(self) -> None:
        if self._cursor >= self._history.head and not self._backlog:
            self._state = WatchState.LIVE
            self._routes.add(self)
            self._announces_scan = self._cursor > self._told

    def _fall_back(self) -> None:
        self._pending.clear()
        self._routes.remove(self)
        self._state = WatchState.CATCHING_UP
        self._counts.fallbacks += 1

    # -- waiting --

    async def _wait(self) -> None:
        """Until there may be a next step."""
        if self._initial is not None:
            if self._initial.revision <= self._history.head:
                await self._give_way()  # a stretch of the snapshot without a match
                return
        elif self._state is WatchState.CATCHING_UP:
            if not self._backlog and self._history.needs_log(self._cursor):
                await self._read()
            else:
                await self._give_way()
            return
        self._uninterrupted = 0
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def _read(self) -> None:
        try:
            groups = await self._history.read(self._cursor)
        except WorldError as error:
            self.end(error)
            return
        if self._error is not None:
            return
        size = sum(changes.size_bytes for changes in groups)
        self._backlog = groups[::-1]
        self._history.statistics.backlog_bytes += size
        self._counts.log_reads += 1
        self._counts.log_bytes += size
        self._announces_scan = True
        self._uninterrupted = 0

    async def _give_way(self) -> None:
        self._uninterrupted = 0
        await asyncio.sleep(0)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _drop_backlog(self) -> None:
        self._history.statistics.backlog_bytes -= sum(changes.size_bytes for changes in self._backlog)
        self._backlog.clear()

    def _count(self, events: int) -> None:
        self._counts.events += events
        self._counts.steps += 1
        self._uninterrupted += events
