"""The clocks of one world, joined to its tree: kept as facts, taken back with a transaction, told beside each row."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from env_server.model.changes import EventType, FactKind
from env_server.model.errors import NotFound, Reason
from env_server.model.ports import Clock
from env_server.model.timelines import ClockMode, ClockState, Timer
from env_server.pipeline.commits.admission import Admission
from env_server.pipeline.commits.commits import Commits
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree
from env_server.timeline import facts
from env_server.timeline.line import Saved, Timeline, TimerKey

_FACT_BYTES: Final = 64
"""Of the fact of a clock in a record, roughly."""


class Clocks:
    """See state_tree.timing.Timing. `stir` is called with a clock that may have something to do."""

    def __init__(
        self, tree: Tree, clock: Clock, commits: Commits, admission: Admission, stir: Callable[[Timeline], None]
    ) -> None:
        self._tree = tree
        self._clock = clock
        self._commits = commits
        self._admission = admission
        self._stir = stir
        #: By the number of the environment that owns the clock.
        self.lines: dict[int, Timeline] = {}
        #: The clock of each timer, by the environment's number and its name.
        self.timers: dict[int, dict[str, Timeline]] = {}
        self.timer_count = 0
        self._last_order = 0
        #: Realtime clocks that heed the one above.
        self._bounded: dict[int, Timeline] = {}
        #: Clocks that wait for one above to go on, by that one's number.
        self._held: dict[int, dict[int, Timeline]] = {}
        #: The numbers of the clocks that each of those waits for.
        self._holders: dict[int, list[int]] = {}
        #: Nodes in the path table of the open group, by the number of their clock; and what running ones show there.
        self._entered: dict[int, list[Node]] = {}
        self._shown: dict[int, int] = {}
        #: What rows of the open group told of clocks that show another time since.
        self._told: dict[int, int] = {}
        self._group = 0

    def load(self, clocks: Mapping[str, bytes], timers: Mapping[str, bytes]) -> None:
        """Takes over what was stored. Realtime clocks go on from where they stood."""
        now_ns, by_number = self._clock.monotonic_ns(), self._tree.nodes.by_number
        for key, fact in sorted(clocks.items(), key=lambda item: int(item[0])):
            node = by_number.get(int(key))
            if node is not None and node.declaration.clock is not None:
                self._add(Timeline(node.number, node.declaration.clock, facts.decode_clock(fact), now_ns))
        for key, fact in timers.items():
            owner, name, timer = facts.decode_timer(key, fact)
            line = self.lines.get(owner)
            if line is not None and name[0] in by_number:
                self._put(line, name, timer)
                self._last_order = max(self._last_order, timer.order)

    @property
    def any(self) -> bool:
        """See Timing."""
        return bool(self.lines)

    def nearest(self, node: Node | None) -> Timeline | None:
        """The clock that the environment lives by."""
        lines = self.lines
        while node is not None:
            line = lines.get(node.number)
            if line is not None:
                return line
            node = node.parent
        return None

    def find(self, path: str) -> Timeline:
        """The clock that the environment at `path` lives by.

        Raises:
            InvalidRequest: INVALID_PATH.
            NotFound: ENVIRONMENT_NOT_FOUND, CLOCK_NOT_FOUND.
        """
        line = self.nearest(self._tree.nodes.find(path))
        if line is None:
            raise NotFound(Reason.CLOCK_NOT_FOUND, path=path)
        return line

    def node_of(self, line: Timeline) -> Node:
        """The environment that owns the clock."""
        return self._tree.nodes.by_number[line.number]

    def path_of(self, number: int) -> str:
        """The path of the environment of that number."""
        return self._tree.nodes.by_number[number].path

    def lives(self, line: Timeline) -> bool:
        """Whether its environment is still there."""
        return self.lines.get(line.number) is line

    def above(self, line: Timeline) -> Timeline | None:
        """The nearest clock above, if the clock heeds that."""
        return None if line.declaration.lookahead_ns is None else self.nearest(self.node_of(line).parent)

    def bound(self, line: Timeline) -> int | None:
        """How far the clock above lets it go now; None = as far as it likes."""
        above, lookahead_ns = self.above(line), line.declaration.lookahead_ns
        return None if above is None or lookahead_ns is None else self.read(above) + lookahead_ns

    def read(self, line: Timeline) -> int:
        """What the clock shows now."""
        return line.read(self._clock.monotonic_ns(), self.bound(line) if line.runs else None)

    def tell(self, line: Timeline) -> int:
        """What the clock shows now, for somebody who is told: kept with the open group, it never goes behind that.

        Without room on the disk to keep it, it is what was told last.
        """
        now_ns = self.read(line)
        if now_ns <= line.state.now_ns or self._admission.refusal(1, _FACT_BYTES) is not None:
            return line.state.now_ns
        self._note_told(line, now_ns)
        self._reenter(line)
        self._commits.touch()
        return now_ns

    def tell_at(self, node: Node | None) -> int | None:
        """See Timing."""
        line = self.nearest(node) if self.lines else None
        return None if line is None else self.tell(line)

    def hold(self, line: Timeline) -> None:
        """The clock is looked at again when one changes that it heeds: the one above, or one that this heeds."""
        self._let_go(line)
        holders = self._holders[line.number] = [above.number for above in self._heeded(line)]
        for number in holders:
            self._held.setdefault(number, {})[line.number] = line

    def move(self, line: Timeline, now_ns: int) -> None:
        """The clock shows this time, as part of the running op; one that runs and has come there runs on."""
        state = line.state
        moved = ClockState(now_ns, state.rate, state.paused, state.target_ns, state.skipping, state.stepping)
        self.change(line, moved, rebase=not line.runs or now_ns > self.read(line))

    def change(self, line: Timeline, state: ClockState, *, rebase: bool = True) -> None:
        """The clock stands as `state` says from now on, as part of the running op, or of none."""
        self._settle_bounded(line)
        before = line.save()
        if rebase:
            line.restore(Saved(state, state.now_ns, self._clock.monotonic_ns()))
        else:
            line.state = state
        self._reenter(line)
        self._note(line)
        if self._tree.journal is not None:

            def undo() -> None:
                line.restore(before)
                self._reenter(line)

            self._tree.journal.append(undo)
        self._stir_held(line)

    def tell_change(self, line: Timeline) -> None:
        """Writes the row that says where the clock stands."""
        self._tree.row(self.node_of(line), EventType.CLOCK_CHANGED, "", facts.tell_clock(line), 0)

    def next_order(self) -> int:
        """The rank of a timer that is set now."""
        self._last_order += 1
        return self._last_order

    def set_timer(self, line: Timeline, key: TimerKey, timer: Timer) -> None:
        """A timer waits on the clock, as part of the running op, instead of one of this name."""
        before = self._get(key)
        if before is not None:
            self._drop(key)
        self._put(line, key, timer)
        self._tree.note_fact(FactKind.TIMER, facts.key_of(key), facts.encode_timer(line.number, timer))
        self._journal_timer(key, before)

    def drop_timer(self, key: TimerKey) -> None:
        """A timer waits no more, as part of the running op."""
        before = self._get(key)
        self._drop(key)
        self._tree.note_fact(FactKind.TIMER, facts.key_of(key), None)
        self._journal_timer(key, before)

    def enter(self, node: Node) -> int | None:
        """See Timing."""
        line = self.nearest(node)
        if line is None:
            return None
        if self._group != self._tree.changes.number:
            self._group = self._tree.changes.number
            self._entered.clear()
            self._shown.clear()
            self._told.clear()
        entered = self._entered.setdefault(line.number, [])
        entered.append(node)
        if not line.runs:
            return line.state.now_ns
        shown = self._shown.get(line.number)
        if shown is None:
            shown = self._shown[line.number] = self.read(line)
        return shown

    def shown(self, node: Node) -> int | None:
        """See Timing."""
        line = self.nearest(node)
        return None if line is None else line.state.now_ns

    def settle(self) -> None:
        """See Timing."""
        if self._group != self._tree.changes.number:
            return
        for number, shown in (*self._told.items(), *self._shown.items()):
            line = self.lines.get(number)
            if line is not None and line.runs and shown > line.state.now_ns:
                self._note_told(line, shown, self._tree.revision)

    def declared(self, node: Node) -> None:
        """See Timing."""
        assert node.declaration.clock is not None
        declaration = node.declaration.clock
        line = Timeline(node.number, declaration, facts.begin(declaration), self._clock.monotonic_ns())
        outer = self.nearest(node.parent)
        self._keep_shown()
        self._add(line)
        self._note(line)
        self._reenter_below(node)
        if outer is not None:
            self._stir_held(outer)
        if self._tree.journal is not None:

            def undo() -> None:
                self._remove(line)
                self._reenter_below(node)

            self._tree.journal.append(undo)

    def gone(self, nodes: Sequence[Node]) -> Callable[[], None]:
        """See Timing."""
        lines = [self.lines[node.number] for node in nodes if node.number in self.lines]
        timers = [timer for node in nodes if node.number in self.timers for timer in self._drop_all(node.number)]
        self._tree.note_facts_gone(FactKind.TIMER, [facts.key_of(key) for _, key, _ in timers])
        for line in lines:
            self._remove(line)
            self._tree.note_fact(FactKind.CLOCK, str(line.number), None)
            self._stir(line)

        def undo() -> None:
            for line in lines:
                self._add(line)
            for line, key, timer in timers:
                self._put(line, key, timer)

        return undo

    def _add(self, line: Timeline) -> None:
        self.lines[line.number] = line
        if line.declaration.mode is ClockMode.REALTIME and line.declaration.lookahead_ns is not None:
            self._bounded[line.number] = line
        self._stir(line)

    def _remove(self, line: Timeline) -> None:
        del self.lines[line.number]
        self._bounded.pop(line.number, None)
        self._let_go(line)
        self._stir_held(line)  # bound to another clock now

    def _stir_held(self, line: Timeline) -> None:
        for held in list(self._held.get(line.number, {}).values()):
            self._let_go(held)
            self._stir(held)

    def _let_go(self, line: Timeline) -> None:
        for number in self._holders.pop(line.number, ()):
            waiting = self._held[number]
            del waiting[line.number]
            if not waiting:
                del self._held[number]

    def _heeded(self, line: Timeline) -> Iterator[Timeline]:
        """The clocks by which its bound follows, from the nearest one up."""
        above = self.above(line)
        while above is not None:
            yield above
            above = self.above(above)

    def _get(self, key: TimerKey) -> tuple[Timeline, Timer] | None:
        line = self.timers.get(key[0], {}).get(key[1])
        return None if line is None else (line, line.timers[key])

    def _put(self, line: Timeline, key: TimerKey, timer: Timer) -> None:
        line.put(key, timer)
        self.timers.setdefault(key[0], {})[key[1]] = line
        self.timer_count += 1
        self._stir(line)

    def _drop(self, key: TimerKey) -> None:
        names = self.timers[key[0]]
        line = names.pop(key[1])
        if not names:
            del self.timers[key[0]]
        line.drop(key)
        self.timer_count -= 1

    def _drop_all(self, number: int) -> list[tuple[Timeline, TimerKey, Timer]]:
        """No timer of an environment waits any more; returns them. There may be very many."""
        names = self.timers.pop(number)
        self.timer_count -= len(names)
        return [(line, key, line.drop(key)) for name, line in names.items() for key in [(number, name)]]

    def _journal_timer(self, key: TimerKey, before: tuple[Timeline, Timer] | None) -> None:
        if self._tree.journal is None:
            return

        def undo() -> None:
            if self._get(key) is not None:
                self._drop(key)
            if before is not None:
                self._put(before[0], key, before[1])

        self._tree.journal.append(undo)

    def _note(self, line: Timeline, revision: int = 0) -> None:
        self._tree.note_fact(FactKind.CLOCK, str(line.number), facts.encode_clock(line.state), revision)

    def _note_told(self, line: Timeline, now_ns: int, revision: int = 0) -> None:
        line.state = replace(line.state, now_ns=now_ns)
        self._note(line, revision)

    def _settle_bounded(self, above: Timeline) -> None:
        """Realtime clocks that stand because this one does have stood until now."""
        moved = [line for line in self._bounded.values() if line.runs and above in self._heeded(line)]
        for line, now_ns in [(line, self.read(line)) for line in moved]:
            line.go_on_from(now_ns, self._clock.monotonic_ns())

    def _keep_shown(self) -> None:
        """Of clocks whose bound may fall: they do not go behind what rows of the open group tell."""
        if self._group != self._tree.changes.number:
            return
        for line in self._bounded.values():
            if line.runs and (shown := self._shown.get(line.number, line.state.now_ns)) > line.state.now_ns:
                before = line.save()
                self._note_told(line, shown)
                if self._tree.journal is not None:
                    self._tree.journal.append(partial(line.restore, before))

    def _reenter(self, line: Timeline) -> None:
        """Rows that are written from now on tell another time of this clock."""
        if self._group == self._tree.changes.number:
            _leave(self._entered.pop(line.number, ()))
            if (shown := self._shown.pop(line.number, None)) is not None:
                self._told[line.number] = shown

    def _reenter_below(self, node: Node) -> None:
        """Rows of an environment, and of those below it, tell the time of another clock from now on."""
        places = self._tree.changes.places
        reached = [node]
        for one in reached:
            if len(reached) + len(one.children) > len(places) + 1:
                break
            reached += one.children.values()
        else:  # fewer than the group touches, so that a frame that declares many clocks looks at each of few places
            _leave(reached)
            return
        by_number, prefix = self._tree.nodes.by_number, node.path.rstrip("/") + "/"
        entered = (by_number.get(place.number) for place in places)
        _leave(one for one in entered if one is not None and (one is node or one.path.startswith(prefix)))


def _leave(nodes: Iterable[Node]) -> None:
    for node in nodes:
        node.group = 0
