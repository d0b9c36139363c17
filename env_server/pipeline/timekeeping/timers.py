"""The timers of one world, by their environments: kept as facts, taken back with a transaction.

What is kept of the timers of an environment goes with it: its deletion says so, and no fact is written for any of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from env_server.model.changes import FactKind
from env_server.model.timelines import Timer
from env_server.pipeline.timekeeping.loading import StoredTime
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree
from env_server.timeline import facts
from env_server.timeline.timeline import Timeline, TimerKey
from env_server.timeline.timer_queue import TimerQueue


class Timers:
    """Each waits on the clock that was the nearest when it was set. `stir` is called with the clock that gets one."""

    def __init__(self, tree: Tree, stir: Callable[[Timeline], None]) -> None:
        self._tree = tree
        self._stir = stir
        #: The clocks on which an environment has timers, by its number.
        self._timelines: dict[int, list[Timeline]] = {}
        self._last_order = 0
        #: How many wait in the whole world.
        self.count = 0

    def load(self, stored: StoredTime) -> None:
        """Takes over what was stored."""
        self._timelines, self._last_order = stored.by_environment, stored.last_order
        self.count = sum(timeline.timer_count for timeline in stored.timelines.values())

    def next_order(self) -> int:
        """The rank of a timer that is set now."""
        self._last_order += 1
        return self._last_order

    def of(self, number: int) -> Mapping[str, Timer]:
        """The timers of an environment, by name."""
        found = [timeline.timers[number].by_name for timeline in self._timelines.get(number, ())]
        return found[0] if len(found) == 1 else {name: timer for one in found for name, timer in one.items()}

    def has(self, key: TimerKey) -> bool:
        """Whether this timer waits."""
        return self._find(key) is not None

    def set(self, timeline: Timeline, key: TimerKey, timer: Timer) -> None:
        """A timer waits on the clock, as part of the running op, instead of one of this name."""
        before = self._find(key)
        if before is not None and before[0] is not timeline:
            self._drop(before[0], key)
        self._put(timeline, key, timer)
        self._tree.note_fact(FactKind.TIMER, facts.key_of(key), facts.encode_timer(timeline.number, timer))
        self._journal(key, before)

    def drop(self, key: TimerKey) -> None:
        """A timer that waits does so no more, as part of the running op."""
        before = self._find(key)
        assert before is not None
        self._drop(before[0], key)
        self._tree.note_fact(FactKind.TIMER, facts.key_of(key), None)
        self._journal(key, before)

    def gone(self, nodes: Sequence[Node]) -> tuple[Callable[[], None], list[Any]]:
        """No timer of these environments waits any more; returns what takes that back, and what to let go of if not."""
        taken = list(self._drop_all(nodes))

        def undo() -> None:
            for timeline, number, queue in taken:
                timeline.put_all(number, queue)
                self._timelines.setdefault(number, []).append(timeline)
                self.count += len(queue)
                self._stir(timeline)

        return undo, [container for _, _, queue in taken for container in queue.containers]

    @property
    def containers(self) -> Iterator[Any]:
        """All that holds timers, for whoever lets go of it in slices."""
        for number, timelines in self._timelines.items():
            for timeline in timelines:
                yield from timeline.timers[number].containers

    def _find(self, key: TimerKey) -> tuple[Timeline, Timer] | None:
        for timeline in self._timelines.get(key[0], ()):
            timer = timeline.get(key)
            if timer is not None:
                return timeline, timer
        return None

    def _put(self, timeline: Timeline, key: TimerKey, timer: Timer) -> None:
        self.count -= timeline.timer_count
        if key[0] not in timeline.timers:
            self._timelines.setdefault(key[0], []).append(timeline)
        timeline.put(key, timer)
        self.count += timeline.timer_count
        self._stir(timeline)

    def _drop(self, timeline: Timeline, key: TimerKey) -> None:
        number = key[0]
        timeline.drop(key)
        self.count -= 1
        if number not in timeline.timers:
            self._leave(timeline, number)

    def _drop_all(self, nodes: Sequence[Node]) -> Iterator[tuple[Timeline, int, TimerQueue]]:
        for node in nodes:
            for timeline in self._timelines.pop(node.number, ()):
                queue = timeline.drop_all(node.number)
                self.count -= len(queue)
                yield timeline, node.number, queue

    def _leave(self, timeline: Timeline, number: int) -> None:
        timelines = self._timelines[number]
        timelines.remove(timeline)
        if not timelines:
            del self._timelines[number]

    def _journal(self, key: TimerKey, before: tuple[Timeline, Timer] | None) -> None:
        if self._tree.journal is None:
            return

        def undo() -> None:
            now = self._find(key)
            if now is not None:
                self._drop(now[0], key)
            if before is not None:
                self._put(before[0], key, before[1])

        self._tree.journal.append(undo)
