"""All watches of one world: where the pipeline publishes, and where clients begin to watch."""

from collections.abc import Callable
from dataclasses import replace

from env_server.events.alternatives import compile_filters, join
from env_server.events.history import History, ReadLog
from env_server.events.initial_state import InitialState
from env_server.events.routing import Routes
from env_server.events.statistics import HubStatistics, WatchState
from env_server.events.watch import Watch
from env_server.model.changes import Changes
from env_server.model.errors import DeniedView, WorldError
from env_server.model.limits import Limits
from env_server.model.names import ROOT
from env_server.model.views import View
from env_server.model.watching import EntryMatcher, Snapshot, WatchSpec


class WatchHub:
    """Publishes groups to watches. Used in the world's loop only."""

    def __init__(
        self,
        limits: Limits,
        read_log: ReadLog,
        first_revision: Callable[[], int],
        snapshot: Callable[[EntryMatcher], Snapshot],
        head: int = 0,
        pending_groups_max: int = 1024,
        view_of: Callable[[str], View] | None = None,
    ) -> None:
        """Begins at the durable revision `head`.

        `read_log(from_revision, bytes_max)` gives durable groups that hold that revision or later ones, in order, at
        least one if there is any. `first_revision()` is the oldest revision in the log, head + 1 when it is empty.
        `snapshot` gives the applied state of the present loop step. A live watch with more than `pending_groups_max`
        groups that its reader did not take goes back to its cursor. `view_of` gives what a group may see as of now;
        without it no watch may name one.
        """
        self._limits = limits
        self._history = History(limits.ring_bytes_max, read_log, first_revision, head)
        self._snapshot = snapshot
        self._routes: Routes[Watch] = Routes()
        self._watches: dict[int, Watch] = {}
        self._pending_groups_max = pending_groups_max
        self._view_of = view_of
        self._resting: dict[int, tuple[str, tuple[str, ...]]] = {}
        """By watch: its group, and the subtrees that it sees by grants alone."""
        self._opened = 0
        self._closed_by: WorldError | None = None

    @property
    def head(self) -> int:
        """The last published revision: everything up to it is durable."""
        return self._history.head

    @property
    def history(self) -> History:
        """What it has published, for others that go over it with cursors of their own."""
        return self._history

    def publish(self, changes: Changes) -> None:
        """Tells watches of a group that has become durable. Each group once, in order; waits for nobody.

        Takes time in the places of the group and in the watches that may match, not in those that cannot.

        Raises:
            ValueError: the group does not follow the last one.
        """
        if changes.last_revision == changes.base_revision:
            return  # only outcomes were kept
        position = self._history.append(changes)
        found = self._routes.find(changes)
        for watch in found:
            watch.offer(position, changes)
        counts = self._history.statistics
        counts.groups += 1
        counts.events += len(changes.keys)
        counts.offers += len(found)

    def open(self, spec: WatchSpec) -> Watch:
        """A watch that delivers from its start on, whatever is published after this loop step.

        A start below what is retained, like a closed hub, ends it at once: the reader learns why from `next`, as it
        does for every other end.

        Raises:
            InvalidRequest: the filter cannot be compiled.
            DeniedView: the group may not see what it asks for.
        """
        view = self._find_view(spec.group)
        matchers = compile_filters(spec.filter, spec.also, self._limits, view)
        matcher = join(matchers)
        self._opened += 1
        watch = Watch(self._opened, spec, matcher, self._history, self._routes, self._forget, self._pending_groups_max)
        self._watches[watch.number] = watch
        if view is not None:
            rests_on = tuple({path: None for one in matchers for path in view.rests_on(one.root)})
            if rests_on:
                self._resting[watch.number] = spec.group, rests_on
        if self._closed_by is not None:
            watch.end(self._closed_by)
            return watch
        try:
            if not spec.initial_state and 0 < spec.from_revision <= self.head:
                self._history.check_retained(spec.from_revision)
        except WorldError as error:
            watch.end(error)
            return watch
        watch.start(InitialState(self._snapshot(matchers[0]), matchers[0]) if spec.initial_state else None)
        return watch

    def end_denied(self) -> None:
        """Ends the watches whose group no longer sees all that they were promised at their start."""
        for number, (group, rests_on) in list(self._resting.items()):
            view = self._find_view(group)
            if view is not None and (lost := view.loses(rests_on)):
                self._watches[number].end(DeniedView(group, lost, "see"))

    def close_all(self, error: WorldError) -> None:
        """Ends every watch, and every one still to be opened, with `error`."""
        self._closed_by = error
        for watch in list(self._watches.values()):
            watch.end(error)

    def statistics(self) -> HubStatistics:
        """The numbers of now; counting live watches takes time in their number."""
        ring = self._history.ring
        return replace(
            self._history.statistics,
            watches=len(self._watches),
            watches_live=sum(watch.state is WatchState.LIVE for watch in self._watches.values()),
            ring_groups=ring.end - ring.first,
            ring_bytes=ring.size_bytes,
        )

    def _forget(self, watch: Watch) -> None:
        self._watches.pop(watch.number, None)
        self._resting.pop(watch.number, None)

    def _find_view(self, group: str) -> View | None:
        if not group:
            return None
        if self._view_of is None:
            raise DeniedView(group, ROOT, "see")
        return self._view_of(group)
