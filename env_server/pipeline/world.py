"""One world: ops are ordered, applied, committed, published, answered.

A frame is executed in one synchronous pass. Nothing else runs meanwhile, so its ops meet one state after the other
and their order is settled here, once; there is no task, future or lock per op. What the pass leaves behind is rows in
the open commit group and one answer in the queue behind it.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from env_server.behaviours.registry import Behaviours
from env_server.events.history import ReadLog
from env_server.events.watches import WatchHub
from env_server.idempotency.producers import Producers
from env_server.idempotency.requests import RequestIds
from env_server.idempotency.sessions import Sessions
from env_server.key_queues.queues import KeyQueues, Ticket
from env_server.key_queues.slots import Slots
from env_server.model.changes import Changes, EventType
from env_server.model.errors import InvalidRequest, NotFound, Reason, WorldError
from env_server.model.frames import Answer, Frame, Listed
from env_server.model.limits import Limits
from env_server.model.operations import Code
from env_server.model.ports import Clock, CommitLog, Handle, Origin
from env_server.pipeline.admission import Admission
from env_server.pipeline.commits import Commits, Deliver
from env_server.pipeline.compaction import Compaction
from env_server.pipeline.effects import Effects
from env_server.pipeline.execution import Execution
from env_server.pipeline.frame_runs import FrameRun
from env_server.pipeline.initial_state import snapshot_of
from env_server.pipeline.invoking import Invoking
from env_server.pipeline.recovery import recover
from env_server.pipeline.saving import Saving
from env_server.state_tree.environment_writes import expire_gate
from env_server.state_tree.nodes import Node
from env_server.state_tree.pages import Pages
from env_server.state_tree.reads import Reader
from env_server.state_tree.tree import Tree


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


class World:
    """One tree with its own history. All methods belong to the world's thread and return at once.

    Made from what the log has stored; afterwards the log's `on_durable` must call `durable`.
    """

    def __init__(
        self, name: str, log: CommitLog, clock: Clock, limits: Limits, behaviours: Behaviours, read_log: ReadLog
    ) -> None:
        self.name = name
        self.limits = limits
        self.clock = clock
        self._log = log
        self._tree = tree = Tree(limits)
        self._producers = producers = Producers(limits)
        self._sessions = sessions = Sessions(limits)
        recovered = recover(log.load(), tree, producers, sessions)
        self.history = recovered.history
        saving = Saving(tree, producers, sessions, limits, recovered.changes_replayed, recovered.bytes_replayed)
        saving.note_facts(recovered.facts_replayed)
        self._commits = Commits(tree, log, clock, saving, self._publish, recovered.record_number)
        self._admission = Admission(name, log, self._commits, saving, limits)
        self._compaction = Compaction(log, self._commits)
        self._restored_from = recovered.restored_from
        self.watches = WatchHub(
            limits, read_log, lambda: log.first_revision, lambda matcher: snapshot_of(tree, matcher), head=tree.revision
        )
        self._ready: deque[Callable[[], None]] = deque()
        self._draining = self._executing = False
        self._queues = queues = KeyQueues(self._make_ready)
        slots = Slots(limits.concurrency_max, self._make_ready)
        self._effects = effects = Effects(tree, behaviours.check_kind)
        invoking = Invoking(tree, effects, behaviours, queues, slots, clock, limits, self._drain)
        self._execution = Execution(
            tree,
            effects,
            Reader(tree, Pages(limits, clock.monotonic_ns)),
            producers,
            RequestIds(producers, limits, clock.monotonic_ns),
            queues,
            invoking,
            limits,
        )
        self._waiting_runs: set[FrameRun] = set()
        self._waiting_frames: dict[tuple[str, int], FrameRun] = {}
        self._gate_timers: dict[int, Handle] = {}
        if not recovered.record_number:
            self._create_root()
        self._arm_gates()

    @property
    def revision(self) -> int:
        """Of the last applied op."""
        return self._tree.revision

    @property
    def durable_revision(self) -> int:
        """Up to which everything is on the disk."""
        return self._commits.durable_revision

    def execute(self, frame: Frame, deliver: Deliver) -> None:
        """Executes a frame. `deliver` gets each part of its answer, in order, once that is durable.

        A frame that this client has sent before is not executed again: its first outcome is returned, what is missing
        of it is executed, and its reads are run again. Never raises for what an op asks.
        """
        if frame.client_id and frame.seq and self._is_repeated(frame, deliver):
            return
        self._run(self._new_run(frame, deliver), None)

    def open_session(self, client_id: str) -> int:
        """The last frame of this client whose outcome is kept; 0 = none."""
        return self._sessions.use(client_id).last_seq

    def acknowledge(self, client_id: str, seq: int) -> None:
        """Forgets the kept answers of frames up to `seq`."""
        self._sessions.acknowledge(client_id, seq)

    def durable(self, number: int) -> None:
        """The log's word that everything up to this record is on the disk."""
        self._admission.look()
        self._commits.durable(number)
        self._compaction.look()

    def compact(self, revision: int, done: Callable[[int], None]) -> None:
        """Forgets the events below `revision` (0 = the durable one); `done` gets the oldest revision that is left.

        Raises:
            OutOfRange: REVISION_IN_FUTURE.
        """
        self._compaction.begin(revision, done)

    def describe(self) -> WorldDescription:
        """The world in numbers."""
        nodes = self._tree.nodes.by_number.values()
        return WorldDescription(
            self.name,
            self.history,
            self.durable_revision,
            self._log.first_revision,
            len(nodes),
            sum(len(node.entries) for node in nodes),
            self._log.storage_bytes(),
            self.limits.map_bytes,
            self._admission.is_low,
            self._restored_from,
        )

    def when_durable(self, call: Callable[[], None]) -> None:
        """Calls once everything applied by now is on the disk and answered; at once when it is."""
        self._commits.when_idle(call)

    def stop(self, stopped: Callable[[], None]) -> None:
        """Once everything applied is durable and answered: completes the state tables, then calls `stopped`."""

        def save() -> None:
            self._compaction.end()
            self._commits.save_everything()
            stopped()

        for timer in self._gate_timers.values():
            timer.cancel()
        self._commits.when_idle(save)

    def delete(self) -> None:
        """Ends every watch and every op that waits; the world takes no more calls."""
        gone = NotFound(Reason.WORLD_NOT_FOUND, world=self.name)
        self.watches.close_all(gone)
        for run in list(self._waiting_runs):
            run.abandon(gone)

    def _create_root(self) -> None:
        """Revision 1 of every world is its root; so revision 0 always means "none"."""
        root = self._tree.nodes.root
        root.created = root.modified = 1
        self._tree.unsaved.environment(root)
        self._tree.environment_row(root, EventType.ENVIRONMENT_REGISTERED)
        self._tree.advance()
        self._commits.touch()

    def _new_run(
        self, frame: Frame, deliver: Deliver, kept: Answer | None = None, again: set[int] | None = None
    ) -> FrameRun:
        return FrameRun(
            frame, deliver, self._tree, self._commits, self._producers, self._sessions, self.clock, kept, again
        )

    def _run(self, run: FrameRun, only: set[int] | None) -> None:
        self._executing = True
        self._execution.full = self._admission.refusal(len(run.frame.keys), run.frame.size_bytes)
        try:
            self._execution.run(run, only)
            run.finish()
        finally:
            self._executing = False
        if run.is_waiting:
            self._waiting_runs.add(run)
            if run.frame.client_id and run.frame.seq:
                self._waiting_frames[run.frame.client_id, run.frame.seq] = run
            run.when_ended(lambda: self._forget(run))
        self._drain()

    def _forget(self, run: FrameRun) -> None:
        self._waiting_runs.discard(run)
        self._waiting_frames.pop((run.frame.client_id, run.frame.seq), None)

    def _is_repeated(self, frame: Frame, deliver: Deliver) -> bool:
        waiting = self._waiting_frames.get((frame.client_id, frame.seq))
        try:
            kept = self._sessions.kept(frame.client_id, frame.seq) if waiting is None else waiting.answer
            if kept is not None and kept.count != len(frame.keys):
                problem = f"{frame.seq} was the number of another frame, of {kept.count} ops"
                raise InvalidRequest(Reason.REQUEST_ID_REUSED, "frame.seq", problem)
        except WorldError as error:
            self._refuse(frame, deliver, error)
            return True
        if waiting is not None:
            waiting.join(deliver)
            return True
        if kept is None:
            return False
        missing = set(kept.pending)
        missing.update(index for index, code in enumerate(frame.codes) if code == Code.QUERY)
        self._run(self._new_run(frame, deliver, kept, missing), missing)
        return True

    def _refuse(self, frame: Frame, deliver: Deliver, error: WorldError) -> None:
        everything = range(len(frame.keys))
        answer = Answer(frame.seq, len(frame.keys), self._tree.revision, revision=self._tree.revision)
        answer.without_revision = list(everything)
        answer.outcomes = [Listed(index, error) for index in everything]
        self._commits.answer(deliver, answer)

    def _make_ready(self, start: Callable[[], None]) -> None:
        """Its wait is over: it goes on in `_drain`, which whoever freed it calls, or else the next loop step."""
        self._ready.append(start)
        if not (self._draining or self._executing):
            self.clock.call_soon(self._drain)

    def _drain(self) -> None:
        """Lets ops have their effect whose wait is over; never within a frame's pass, whose revisions are in a row."""
        if self._draining or self._executing:
            return
        self._draining = True
        try:
            while self._ready:
                self._ready.popleft()()
        finally:
            self._draining = False
        self._arm_gates()

    def _publish(self, changes: Changes) -> None:
        self.watches.publish(changes)

    def _arm_gates(self) -> None:
        """Sets a timer for each gate that began a generation with a deadline."""
        timed, self._tree.timed = self._tree.timed, []
        for node in timed:
            gate = node.gate
            if gate is None or not gate.collecting or not gate.deadline_ms:
                continue
            old = self._gate_timers.pop(node.number, None)
            if old is not None:
                old.cancel()
            expire = partial(self._expire, node, gate.generation)
            self._gate_timers[node.number] = self.clock.call_later(gate.deadline_ms / 1000, expire)

    def _expire(self, node: Node, generation: int) -> None:
        """The deadline passed: opens the gate, behind whoever holds the environment."""
        self._gate_timers.pop(node.number, None)
        keys = [(node.number, "")]
        if not self._queues.blocked(keys):
            self._open_expired(node, generation)
            return

        def start() -> None:
            self._open_expired(node, generation)
            self._queues.leave(ticket)

        ticket = Ticket(keys, start)
        self._queues.enter(ticket)

    def _open_expired(self, node: Node, generation: int) -> None:
        if self._tree.nodes.by_number.get(node.number) is node and expire_gate(self._tree, node, generation):
            self._tree.advance()
            self._commits.touch()
