"""One world: ops are ordered, applied, committed, published, answered.

A frame is executed in one synchronous pass. Nothing else runs meanwhile, so its ops meet one state after the other
and their order is settled here, once; there is no task, future or lock per op. What the pass leaves behind is rows in
the open commit group and one answer in the queue behind it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from env_server.behaviours.registry import Behaviours
from env_server.events.history import ReadLog
from env_server.idempotency.requests import RequestIds
from env_server.key_queues.queues import KeyQueues
from env_server.key_queues.slots import Pool, Slots
from env_server.model.changes import Changes, EventType, FactKind
from env_server.model.errors import NotFound, Reason, Unavailable
from env_server.model.frames import Frame
from env_server.model.limits import Limits
from env_server.model.ports import Clock, CommitLog, Origin
from env_server.pipeline.clearing import Clearing
from env_server.pipeline.commits.admission import Admission
from env_server.pipeline.commits.commits import Commits, Deliver
from env_server.pipeline.commits.compaction import Compaction
from env_server.pipeline.commits.log_holds import LogHolds
from env_server.pipeline.commits.saving import Saving
from env_server.pipeline.frames.effects import Effects
from env_server.pipeline.frames.execution import Execution
from env_server.pipeline.frames.intake import Intake
from env_server.pipeline.frames.ready import Ready
from env_server.pipeline.gate_timers import GateTimers
from env_server.pipeline.initial_state import open_watches
from env_server.pipeline.leasing import Leasing
from env_server.pipeline.listeners.listening import Listening
from env_server.pipeline.operations.calls import Calls, find_concurrency_max
from env_server.pipeline.operations.invoking import Invoking
from env_server.pipeline.own_changes import OwnChanges
from env_server.pipeline.parts import Parts
from env_server.pipeline.reads.log_reads import ReadLogThen, Retained, read_at_once
from env_server.pipeline.reads.past_reads import PastReads
from env_server.pipeline.reads.slow_reads import SlowReads
from env_server.pipeline.recovery import Recovery, load_world
from env_server.pipeline.subscribing import open_subscriptions
from env_server.pipeline.timekeeping.timekeeping import Timekeeping
from env_server.state_tree.reads.pages import Pages
from env_server.state_tree.reads.reads import Reader

_SLICE_ITEMS: Final = 2048
"""Of a world that is dismantled, let go in one step."""


class WorldDescription(NamedTuple):
    """A world for people and listings."""

    name: str
    history: str
    revision: int
    first_retained_revision: int
    environments: int
    entries: int
    storage_bytes: int
    storage_bytes_max: int
    storage_low: bool = False
    restored_from: Origin | None = None
    is_open: bool = True

    @property
    def moment(self) -> Origin:
        """How far it has come."""
        return Origin(self.name, self.history, self.revision)


class Welcomed(NamedTuple):
    """Where a client and its world stand when a stream begins."""

    last_seq: int
    """The client's last frame of which the answer is kept; 0 = none."""
    position: int
    """No frame that is executed from now on is recorded below it; above 0."""


class World:
    """One tree with its own history. All methods belong to the world's thread and return at once.

    Made from what the log has stored; afterwards the log's `on_durable` must call `durable`. `read_log_then` serves
    listeners that are behind; without it they read in a loop step, as a memory log allows. Worlds that are given the
    same `pool` share its slots. `recovery` is what the log has stored, if that was brought into memory elsewhere.
    `start_mark` differs from one start of the world to the next.
    """

    #: Streams and copies that need the world open.
    users = 0

    def __init__(
        self,
        name: str,
        log: CommitLog,
        clock: Clock,
        limits: Limits,
        behaviours: Behaviours,
        read_log: ReadLog,
        read_log_then: ReadLogThen | None = None,
        recovery: Recovery | None = None,
        start_mark: str = "",
        pool: Pool | None = None,
    ) -> None:
        self.name, self.limits, self.clock, self._log = name, limits, clock, log
        tree, producers, sessions, recovered = recovery or load_world(log, limits)
        self._tree, self._producers, self._sessions = tree, producers, sessions
        self.history, self._restored_from = recovered.history, recovered.restored_from
        saving = Saving(tree, producers, sessions, limits, recovered.changes_replayed, recovered.bytes_replayed)
        saving.note_facts(recovered.facts_replayed)
        self._commits = Commits(tree, log, clock, saving, self._publish, recovered.record_number, limits.ahead_ms_max)
        self._admission = Admission(name, log, self._commits, saving, limits)
        self._compaction = Compaction(log, self._commits)
        self.watches = open_watches(tree, log, limits, read_log)
        ready = Ready(clock, after=self._after_pass)
        self._queues = queues = KeyQueues(ready.add)
        pool = pool or Pool(limits.concurrency_max)
        self._slots = slots = Slots(pool, ready.add, partial(find_concurrency_max, tree, behaviours))
        self._effects = effects = Effects(tree, behaviours.check_kind)
        calls = Calls(tree, effects, behaviours, queues, slots, clock, limits, ready.drain)
        invoking = Invoking(tree, behaviours, calls, limits)
        self._pages = pages = Pages(limits, clock.monotonic_ns, tree.remains.drop, start_mark)
        reader = Reader(tree, pages)
        requests = RequestIds(producers, limits, clock.monotonic_ns)
        read_then = read_log_then or read_at_once(log, clock)
        self._slow = slow = SlowReads(clock, limits)
        past = PastReads(tree, log, self._commits, read_then, slow, limits)
        execution = Execution(tree, effects, reader, producers, requests, queues, invoking, slow, past, limits)
        self._intake = Intake(tree, self._commits, producers, sessions, clock, self._admission, execution, ready)
        self._own, self._clearing = OwnChanges(tree, queues, self._commits), Clearing(tree.remains, clock)
        self._gate_timers = GateTimers(tree, clock, self._own, self._commits, recovered)
        holds = LogHolds(log)
        facts = recovered.facts[FactKind.SUBSCRIPTION]
        self.subscriptions = open_subscriptions(
            tree, holds.hold("subscriptions"), limits, clock, facts, effects, self.watches, self._commits, self._own
        )
        parts = Parts(tree, self._commits, self._admission, self._own, clock, limits)
        self.timekeeping = Timekeeping(parts, effects, recovered.time, self._is_quiet)
        self.leasing = Leasing(parts, effects, recovered.facts[FactKind.LEASE])
        retained = Retained(self.watches.history, read_then, lambda: log.first_revision)
        self._listening = Listening(name, parts, behaviours, calls, retained, holds.hold("listeners"))
        if not recovered.record_number:
            self._create_root()
        self._listening.begin(recovered.facts[FactKind.LISTENER])
        self._after_pass()

    @property
    def revision(self) -> int:
        """Of the last applied op."""
        return self._tree.revision

    @property
    def durable_revision(self) -> int:
        """Up to which everything is on the disk."""
        return self._commits.durable_revision

    @property
    def must_stay(self) -> bool:
        """Whether somebody uses the world, or something in it goes on, or ends, without being asked."""
        return (
            self.users > 0
            or self.leasing.any_living
            or self._gate_timers.any_due
            or self._listening.is_behind
            or self._pages.any_open
            or self.timekeeping.is_under_way
        )

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is under way: no op waits or runs, all is durable and answered."""
        self._clearing.look()  # listings that nobody reads on expire without an op
        return self._commits.is_idle and self._queues.is_empty and not self._slow.under_way and not self._tree.remains

    def execute(self, frame: Frame, deliver: Deliver) -> None:
        """Executes a frame. `deliver` gets each part of its answer, in order, once that is durable.

        A frame that this client has sent before is not executed again: its first outcome is returned, what is missing
        of it is executed, and its reads are run again. Never raises for what an op asks.
        """
        self._intake.take(frame, deliver)

    def open_session(self, client_id: str, since: int | None = None) -> Welcomed:
        """A stream of this client begins; `close_session` follows. Until then the client is not forgotten.

        `since` is the `position` of the stream on which the oldest of the frames that it will send again was sent
        first, 0 = it will send none again; None = it does not say.

        Raises:
            SessionExpired: what came of those frames may have been forgotten.
        """
        return Welcomed(self._sessions.open(client_id, since), self._commits.durable_number + 1)

    def close_session(self, client_id: str) -> None:
        """A stream of this client has ended."""
        self._sessions.close(client_id)

    def acknowledge(self, client_id: str, seq: int) -> None:
        """Forgets the kept answers of frames up to `seq`."""
        self._sessions.acknowledge(client_id, seq)

    def durable(self, number: int) -> None:
        """The log's word that everything up to this record is on the disk."""
        self._admission.look()
        self._commits.durable(number)
        self.subscriptions.durable(number)
        self._compaction.look()

    def compact(self, revision: int, done: Callable[[int], None]) -> None:
        """Forgets the events below `revision` (0 = the durable one); `done` gets the oldest revision that is left.

        Raises:
            OutOfRange: REVISION_IN_FUTURE.
        """
        self._compaction.check(revision)
        begin = partial(self._compaction.begin, revision, done)
        self._listening.settle(lambda: self.subscriptions.settle(begin))

    def describe(self) -> WorldDescription:
        """The world in numbers, as applied: tell them only when all of it is durable."""
        nodes = self._tree.nodes.by_number.values()
        return WorldDescription(
            self.name,
            self.history,
            self.revision,
            self._log.first_revision,
            len(nodes),
            sum(len(node.entries) for node in nodes),
            self._log.storage_bytes(),
            self.limits.map_bytes,
            self._admission.is_low,
            self._restored_from,
        )

    def when_seen(self, call: Callable[[], None]) -> None:
        """Calls once everything applied by now is on the disk, in the order of answers; at once when it is."""
        self._commits.when_seen(call)

    def stop(self, stopped: Callable[[], None]) -> None:
        """Once everything applied is durable and answered: completes the state tables, then calls `stopped`."""

        def save() -> None:
            self._compaction.end()
            self._commits.save_everything()
            stopped()

        self._gate_timers.stop()
        self.timekeeping.stop()
        self._listening.stop()
        self.leasing.stop()
        self.subscriptions.end_all(Unavailable(Reason.DRAINING, "the world is being closed"))
        self._commits.when_idle(save)

    def delete(self) -> None:
        """Ends every watch and every op that waits; the world takes no more calls."""
        gone = NotFound(Reason.WORLD_NOT_FOUND, world=self.name)
        self.timekeeping.abandon(gone)
        self._listening.stop()
        self.leasing.stop()
        self.watches.close_all(gone)
        self.subscriptions.end_all(gone)
        self._slots.end()
        self._intake.abandon(gone)

    def dismantle(self) -> Iterator[None]:
        """Lets go, in slices, of all that a world holds that was stopped and that nobody has.

        Its parts refer to one another, and the collector does not look at what has become old.
        """
        nodes, remains = self._tree.nodes, self._tree.remains
        remains.add(list(nodes.by_number.values()), [])
        large = [nodes.by_path, nodes.by_number, self._producers.marks, *self.timekeeping.list_containers()]
        for container in large:
            remains.drop(container)
        while remains:
            remains.let_go(_SLICE_ITEMS)
            yield
        self.timekeeping.let_go()
        for name, part in list(vars(self).items()):
            if hasattr(part, "__dict__") and name not in ("clock", "limits"):
                vars(part).clear()

    def _create_root(self) -> None:
        """Revision 1 of every world is its root; so revision 0 always means "none"."""
        root = self._tree.nodes.root
        root.created = root.modified = 1
        self._tree.unsaved.environment(root)
        self._tree.environment_row(root, EventType.ENVIRONMENT_REGISTERED)
        self._tree.advance()
        self._commits.touch()

    def _after_pass(self) -> None:
        """Ops have had their effect: sets the timers that they ask for, clears up what they left."""
        self._clearing.look()
        self._gate_timers.arm()
        self.timekeeping.go_on()

    def _publish(self, changes: Changes) -> None:
        if self._tree.grants.was_withdrawn(changes.number):
            self.watches.end_denied()  # before they are told of anything that came later
            self.timekeeping.end_denied()
        self.watches.publish(changes)
        self.timekeeping.publish(changes)
        self._listening.publish(changes)

    def _is_quiet(self) -> bool:
        """Whether nothing goes on that may still change something, and nothing is to be told that a clock waits for.

        What is not on the disk yet does not matter where nobody hears it for whom a clock waits, nor a listener: the
        jump is recorded behind it, and goes with it if it is lost.
        """
        commits = self._commits
        if not self._queues.is_empty or self._listening.is_behind or self.leasing.is_clearing:
            return False
        if commits.is_durable:
            return True
        if self._listening.any_listens or self._tree.owes_aggregates:
            return False
        return not self.timekeeping.concerns(commits.list_under_way(), commits.durable_number)
