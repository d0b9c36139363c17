"""The clocks of one world, joined to its tree: kept as facts, taken back with a transaction, told beside each row."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from env_server.model.changes import EventType, FactKind
from env_server.model.errors import NotFound, Reason
from env_server.model.timelines import ClockMode, ClockState
from env_server.pipeline.parts import Parts
from env_server.pipeline.timekeeping.loading import StoredTime
from env_server.pipeline.timekeeping.timers import Timers
from env_server.pipeline.timekeeping.told_times import ToldTimes
from env_server.state_tree.nodes import Node
from env_server.timeline import facts
from env_server.timeline.timeline import Saved, Timeline

_FACT_BYTES: Final = 64
"""Of the fact of a clock in a record, roughly."""


class Clocks:
    """See state_tree.timing.Timing. `stir` is called with a clock that may have something to do."""

    def __init__(self, parts: Parts, stir: Callable[[Timeline], None]) -> None:
        self._tree = tree = parts.tree
        self._clock = parts.clock
        self._commits = parts.commits
        self._admission = parts.admission
        self._stir = stir
        #: By the number of the environment that owns the clock.
        self.by_number: dict[int, Timeline] = {}
        self.timers = Timers(tree, stir)
        #: Realtime clocks that heed the one above.
        self._bounded: dict[int, Timeline] = {}
        #: The same by the number of each clock that they follow; None = to be found.
        self._followers: dict[int, list[Timeline]] | None = {}
        #: The numbers of the clocks whose followers were settled in this loop step.
        self._settled: set[int] = set()
        #: Clocks that wait for one above to go on, by that one's number.
        self._held: dict[int, dict[int, Timeline]] = {}
        #: The numbers of the clocks that each of those waits for.
        self._holders: dict[int, list[int]] = {}
        self._told = ToldTimes(tree, self.read)

    def load(self, stored: StoredTime) -> None:
        """Takes over what was stored. Realtime clocks go on from where they stood."""
        now_ns = self._clock.monotonic_ns()
        self.timers.load(stored)
        for timeline in stored.timelines.values():
            timeline.go_on_from(timeline.state.now_ns, now_ns)
            self._add(timeline)

    @property
    def any(self) -> bool:
        """See Timing."""
        return bool(self.by_number)

    def nearest(self, node: Node | None) -> Timeline | None:
        """The clock that the environment lives by."""
        timelines = self.by_number
        while node is not None:
            timeline = timelines.get(node.number)
            if timeline is not None:
                return timeline
            node = node.parent
        return None

    def find(self, path: str) -> Timeline:
        """The clock that the environment at `path` lives by.

        Raises:
            InvalidRequest: INVALID_PATH.
            NotFound: ENVIRONMENT_NOT_FOUND, CLOCK_NOT_FOUND.
        """
        timeline = self.nearest(self._tree.nodes.find(path))
        if timeline is None:
            raise NotFound(Reason.CLOCK_NOT_FOUND, path=path)
        return timeline

    def node_of(self, timeline: Timeline) -> Node:
        """The environment that owns the clock."""
        return self._tree.nodes.by_number[timeline.number]

    def path_of(self, number: int) -> str:
        """The path of the environment of that number."""
        return self._tree.nodes.by_number[number].path

    def lives(self, timeline: Timeline) -> bool:
        """Whether its environment is still there."""
        return self.by_number.get(timeline.number) is timeline

    def above(self, timeline: Timeline) -> Timeline | None:
        """The nearest clock above, if the clock heeds that."""
        return None if timeline.declaration.lookahead_ns is None else self.nearest(self.node_of(timeline).parent)

    def bound(self, timeline: Timeline) -> int | None:
        """How far the clock above lets it go now; None = as far as it likes."""
        above, lookahead_ns = self.above(timeline), timeline.declaration.lookahead_ns
        return None if above is None or lookahead_ns is None else self.read(above) + lookahead_ns

    def read(self, timeline: Timeline) -> int:
        """What the clock shows now."""
        return timeline.read(self._clock.monotonic_ns(), self.bound(timeline) if timeline.runs else None)

    def tell(self, timeline: Timeline) -> int:
        """What the clock shows now, for somebody who is told: kept with the open group, it never goes behind that.

        Without room on the disk to keep it, it is what was told last.
        """
        now_ns = self.read(timeline)
        if now_ns <= timeline.state.now_ns or self._admission.refusal(1, _FACT_BYTES) is not None:
            return timeline.state.now_ns
        self._note_told(timeline, now_ns)
        self._told.reenter(timeline)
        self._commits.touch()
        return now_ns

    def tell_at(self, node: Node | None) -> int | None:
        """See Timing."""
        timeline = self.nearest(node) if self.by_number else None
        return None if timeline is None else self.tell(timeline)

    def hold(self, timeline: Timeline) -> None:
        """The clock is looked at again when one changes that it heeds: the one above, or one that this heeds."""
        self._let_go(timeline)
        holders = self._holders[timeline.number] = [above.number for above in self._heeded(timeline)]
        for number in holders:
            self._held.setdefault(number, {})[timeline.number] = timeline

    def move(self, timeline: Timeline, now_ns: int) -> None:
        """The clock shows this time, as part of the running op; one that runs and has come there runs on."""
        state = timeline.state
        moved = ClockState(now_ns, state.rate, state.paused, state.target_ns, state.skipping, state.stepping)
        self.change(timeline, moved, rebase=not timeline.runs or now_ns > self.read(timeline))

    def change(self, timeline: Timeline, state: ClockState, *, rebase: bool = True) -> None:
        """The clock stands as `state` says from now on, as part of the running op, or of none."""
        self._settle_bounded(timeline)
        before = timeline.save()
        if rebase:
            timeline.restore(Saved(state, state.now_ns, self._clock.monotonic_ns()))
        else:
            timeline.state = state
        self._told.reenter(timeline)
        self._note(timeline)
        if self._tree.journal is not None:

            def undo() -> None:
                timeline.restore(before)
                self._told.reenter(timeline)

            self._tree.journal.append(undo)
        self._stir_held(timeline)

    def tell_change(self, timeline: Timeline) -> None:
        """Writes the row that says where the clock stands."""
        self._tree.row(self.node_of(timeline), EventType.CLOCK_CHANGED, "", facts.tell_clock(timeline), 0)

    def enter(self, node: Node) -> int | None:
        """See Timing."""
        timeline = self.nearest(node)
        return None if timeline is None else self._told.enter(node, timeline)

    def shown(self, node: Node) -> int | None:
        """See Timing."""
        timeline = self.nearest(node)
        return None if timeline is None else timeline.state.now_ns

    def settle(self) -> None:
        """See Timing."""
        for number, told_ns in self._told.all_told():
            timeline = self.by_number.get(number)
            if timeline is not None and timeline.runs and told_ns > timeline.state.now_ns:
                self._note_told(timeline, told_ns, self._tree.revision)

    def declared(self, node: Node) -> None:
        """See Timing."""
        assert node.declaration.clock is not None
        declaration = node.declaration.clock
        timeline = Timeline(node.number, declaration, facts.begin(declaration), self._clock.monotonic_ns())
        outer = self.nearest(node.parent)
        if outer is not None:
            self._settle_bounded(outer)
        self._keep_shown(node)
        self._add(timeline)
        self._note(timeline)
        self._told.reenter_below(node)
        if outer is not None:
            self._stir_held(outer)
        if self._tree.journal is not None:

            def undo() -> None:
                self._remove(timeline)
                self._told.reenter_below(node)

            self._tree.journal.append(undo)

    def gone(self, nodes: Sequence[Node]) -> tuple[Callable[[], None], list[Any]]:
        """See Timing."""
        timelines = [self.by_number[node.number] for node in nodes if node.number in self.by_number]
        undo_timers, held = self.timers.gone(nodes)
        for timeline in timelines:
            self._remove(timeline)
            self._tree.note_fact(FactKind.CLOCK, str(timeline.number), None)
            self._stir(timeline)

        def undo() -> None:
            for timeline in timelines:
                self._add(timeline)
            undo_timers()

        return undo, held

    def _add(self, timeline: Timeline) -> None:
        self.by_number[timeline.number] = timeline
        if timeline.declaration.mode is ClockMode.REALTIME and timeline.declaration.lookahead_ns is not None:
            self._bounded[timeline.number] = timeline
        self._followers = None if self._bounded else {}
        self._stir(timeline)

    def _remove(self, timeline: Timeline) -> None:
        del self.by_number[timeline.number]
        self._bounded.pop(timeline.number, None)
        self._followers = None if self._bounded else {}
        self._let_go(timeline)
        self._stir_held(timeline)  # bound to another clock now

    def _stir_held(self, timeline: Timeline) -> None:
        for held in list(self._held.get(timeline.number, {}).values()):
            self._let_go(held)
            self._stir(held)

    def _let_go(self, timeline: Timeline) -> None:
        for number in self._holders.pop(timeline.number, ()):
            waiting = self._held[number]
            del waiting[timeline.number]
            if not waiting:
                del self._held[number]

    def _heeded(self, timeline: Timeline) -> Iterator[Timeline]:
        """The clocks by which its bound follows, from the nearest one up."""
        above = self.above(timeline)
        while above is not None:
            yield above
            above = self.above(above)

    def _note(self, timeline: Timeline, revision: int = 0) -> None:
        self._tree.note_fact(FactKind.CLOCK, str(timeline.number), facts.encode_clock(timeline.state), revision)

    def _note_told(self, timeline: Timeline, now_ns: int, revision: int = 0) -> None:
        timeline.state = replace(timeline.state, now_ns=now_ns)
        self._note(timeline, revision)

    def _settle_bounded(self, above: Timeline) -> None:
        """Realtime clocks that stand because this one does have stood until now: once a loop step, as it begins."""
        if not self._bounded or above.number in self._settled:
            return
        if not self._settled:
            self._clock.call_soon(self._settled.clear)
        self._settled.add(above.number)
        if self._followers is None:
            self._followers = {}
            for timeline in self._bounded.values():
                for heeded in self._heeded(timeline):
                    self._followers.setdefault(heeded.number, []).append(timeline)
        moved = [timeline for timeline in self._followers.get(above.number, ()) if timeline.runs]
        for timeline, now_ns in [(timeline, self.read(timeline)) for timeline in moved]:
            timeline.go_on_from(now_ns, self._clock.monotonic_ns())

    def _keep_shown(self, node: Node) -> None:
        """Clocks below, whose bound may fall, do not go behind what rows of the open group tell."""
        if not self._bounded:
            return
        below = {clock.number: clock for one in self._told.entered_below(node) if (clock := self.nearest(one))}
        for number in below.keys() & self._bounded.keys():
            timeline = below[number]
            if timeline.runs and (shown := self._told.shown_of(timeline)) > timeline.state.now_ns:
                before = timeline.save()
                self._note_told(timeline, shown)
                if self._tree.journal is not None:
                    self._tree.journal.append(partial(timeline.restore, before))
