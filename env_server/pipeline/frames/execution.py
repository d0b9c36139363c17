"""Execution: takes the ops of a frame one after the other and lets each have its effect.

The loop in `run` is the hot path. It knows two kinds of ops: writes to entries that nothing holds, which it hands to
one function each, and all others, which go through `_other`. An op that fails raises; the others go on.
"""

from collections.abc import Callable
from typing import Any

from env_server.idempotency.producers import Producers
from env_server.idempotency.requests import RequestIds
from env_server.key_queues.queues import Key, KeyQueues, Ticket
from env_server.model.errors import Fenced, GateClosed, PreconditionFailed, Reason, WorldError
from env_server.model.frames import Read, Transacted, Written
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_producer
from env_server.model.operations import Code, Query, ReadPast, Transact
from env_server.pipeline.frames.effects import Effects
from env_server.pipeline.frames.frame_runs import FrameRun
from env_server.pipeline.frames.transactions import apply_writes
from env_server.pipeline.frames.write_sets import keys_of, keys_of_writes
from env_server.pipeline.operations.invoking import Invoking
from env_server.pipeline.reads.past_reads import PastReads
from env_server.pipeline.reads.slow_reads import SlowReads
from env_server.state_tree import entry_writes
from env_server.state_tree.nodes import Node
from env_server.state_tree.preconditions import (
    all_fences_hold,
    check_conditions,
    check_preconditions,
    check_version,
    gate_closed,
)
from env_server.state_tree.reads.listings import SlowRead
from env_server.state_tree.reads.reads import Reader, check_revision
from env_server.state_tree.tree import Tree
from env_server.state_tree.visibility import allows_all, check_visible, view_of_op

LAST_ENTRY_WRITE = Code.PLACE
_MAKING_ROOM = (
    Code.DELETE_ENTRY,
    Code.DELETE_ENVIRONMENT,
    Code.CANCEL_TIMER,
    Code.REVOKE_LEASE,
    Code.ACKNOWLEDGE,
    Code.SEEK_SUBSCRIPTION,
    Code.DELETE_SUBSCRIPTION,
)
"""Let in also when there is no room, also together: they are small, and some only they can make the log let go."""
_STRUCTURAL = (Code.REGISTER_ENVIRONMENT, Code.DELETE_ENVIRONMENT, Code.TRANSACT, Code.INVOKE)


class Execution:
    """Executes frames against one tree."""

    def __init__(
        self,
        tree: Tree,
        effects: Effects,
        reader: Reader,
        producers: Producers,
        requests: RequestIds,
        queues: KeyQueues,
        invoking: Invoking,
        slow: SlowReads,
        past: PastReads,
        limits: Limits,
    ) -> None:
        self._tree = tree
        self._effects = effects
        self._reader = reader
        self._producers = producers
        self._requests = requests
        self._queues = queues
        self._invoking = invoking
        self._slow = slow
        self._past = past
        self._limits = limits
        self._writes = [entry_writes.BY_CODE.get(code, _not_an_entry_write) for code in range(max(Code) + 1)]
        #: Why writes that need room are refused; None = there is room.
        self.full: WorldError | None = None

    def run(self, run: FrameRun, only: set[int] | None = None) -> None:
        """Executes all ops of the frame, or `only` some; what they did stands in the run's answer."""
        frame, tree = run.frame, self._tree
        nodes = self._resolve(frame.paths)
        writes, held = self._writes, self._queues.environments
        producers, seqs, gates, versions = (
            frame.producers,
            frame.producer_seqs,
            frame.gate_generations,
            frame.expect_versions,
        )
        marks, unsaved_marks = self._producers.marks, self._producers.unsaved
        plain = frame.preconditions is None and self.full is None and only is None and not frame.is_request
        is_repeated = self._is_repeated_request if frame.is_request else self._is_repeated
        if frame.groups is not None:
            plain = plain and allows_all(tree.grants, frame)  # else each op is looked at by itself
            is_repeated = self._is_allowed_and_repeated
        if frame.fence is not None:
            plain = plain and all_fences_hold(tree, frame)
        if tree.schemas.in_use:
            plain = plain and all(node is None or node.schema is None for node in nodes)
        producer, is_stale = "", False
        for index, (place, key, code, argument) in enumerate(
            zip(frame.path, frame.keys, frame.codes, frame.arguments, strict=True)
        ):
            if only is not None and index not in only:
                continue
            try:
                if producers is not None:
                    producer = producers[index]
                    if producer and is_repeated(run, index, producer, seqs[index]):  # type: ignore[index]
                        continue
                if code <= LAST_ENTRY_WRITE and plain and not held:
                    node = nodes[place] or tree.nodes.find(frame.paths[place])
                    if gates is not None and gates[index] and gates[index] != node.open_generation:
                        raise gate_closed(node, gates[index])
                    if versions is not None and versions[index]:
                        check_version(tree, node, key, versions[index])
                    written = writes[code](tree, node, key, argument)
                    if written is None:
                        tree.advance()
                        if producer:
                            marks[producer] = (seqs[index], tree.revision, node.entries[key][1])  # type: ignore[index]
                            unsaved_marks[producer] = None
                    else:
                        run.wrote(index, written)
                else:
                    self._other(run, index, frame.paths[place], key, code, argument)
                    if code in _STRUCTURAL and not is_stale:
                        nodes, is_stale = [None] * len(nodes), True  # from here on each op looks its node up
                        plain = plain and not tree.schemas.in_use
            except WorldError as error:
                run.failed(index, error)
        self._reader.forget()

    def _resolve(self, paths: list[str]) -> list[Node | None]:
        by_path = self._tree.nodes.by_path
        return [by_path.get(path) for path in paths]

    def _is_repeated(self, run: FrameRun, index: int, producer: str, seq: int) -> bool:
        """Whether the op needs no execution: it repeats another one, or its identity is refused."""
        mark = self._producers.marks.get(producer)
        if self._producers.in_flight and run.joins(index):
            return True
        if mark is not None and mark[0] < seq:
            return False
        try:
            if mark is None:
                check_producer(producer, "producer")
                self._producers.check_room()
                return False
            run.repeated(index, self._producers.repeated(producer, seq, mark))
        except WorldError as error:
            run.refused(index, error)
        return True

    def _is_allowed_and_repeated(self, run: FrameRun, index: int, producer: str, seq: int) -> bool:
        """As `_is_repeated`, for a frame with groups: what a group may not see it does not learn by repeating it.

        Raises:
            DeniedView.
        """
        if run.frame.codes[index] != Code.REFUSED:
            check_visible(self._tree.grants, run.frame, index)
        is_repeated = self._is_repeated_request if run.frame.is_request else self._is_repeated
        return is_repeated(run, index, producer, seq)

    def _is_repeated_request(self, run: FrameRun, index: int, name: str, digest: int) -> bool:
        try:
            mark = self._requests.recognise(name, digest)
        except WorldError as error:
            run.refused(index, error)
            return True
        if mark is None:
            return run.joins(index)
        run.repeated(index, self._producers.repeated(name, digest, mark))
        return True

    def _other(self, run: FrameRun, index: int, path: str, key: str, code: int, argument: Any) -> None:
        """An op that is no plain write, or a write when something is held or conditional."""
        if code == Code.REFUSED:
            raise argument
        if run.frame.groups is not None:
            check_visible(self._tree.grants, run.frame, index)
        if code == Code.QUERY:
            self._query(run, index, path, key, argument)
            return
        if self.full is not None and not _makes_room(code, argument):
            raise self.full
        if code == Code.INVOKE:
            self._invoking.admit(run, index, path, argument)
            return
        keys: list[Key] = []
        if not self._queues.environments:
            pass  # nothing is held at all
        elif code == Code.TRANSACT:
            keys = keys_of_writes(self._tree, (*argument.writes, *argument.otherwise))
        else:
            keys = keys_of(self._tree, path, key, code)
        if keys and self._queues.blocked(keys):
            self._refuse_recursion(path, code, argument)
            self._wait(run, index, keys, lambda: self._write(run, index, path, key, code, argument))
        else:
            self._write(run, index, path, key, code, argument)

    def _refuse_recursion(self, path: str, code: int, argument: Any) -> None:
        """A recursive deletion does not wait for who holds what it deletes, nor does a transaction with one.

        Raises:
            WorldError: KEYS_HELD.
        """
        if code == Code.TRANSACT:
            for write in (*argument.writes, *argument.otherwise):
                self._refuse_recursion(write.path, write.code, write.argument)
            return
        if code == Code.DELETE_ENVIRONMENT and argument.recursive:
            keys = keys_of(self._tree, path, "", code)
            if self._queues.blocked(keys):
                raise self._keys_held(path)

    def _keys_held(self, path: str) -> WorldError:
        node = self._tree.nodes.by_path.get(path)
        version, revision = (0, self._tree.revision) if node is None else (node.version, node.modified)
        return WorldError(
            Reason.KEYS_HELD,
            f"keys at or below {path} are held",
            metadata={"path": path, "version": str(version), "revision": str(revision)},
            retry_delay_ms=self._limits.retry_delay_ms,
        )

    def _query(self, run: FrameRun, index: int, path: str, key: str, query: Query) -> None:
        """Reads do not wait, except behind the session's own waiting write on that key."""
        node = self._tree.nodes.by_path.get(path)
        client_id = run.frame.client_id
        if node is None or not client_id or not self._queues.of_client(client_id, node.number, key):
            seen = self._look(run, index, path, key, query)
            if seen is not None:
                run.read(index, seen)
            return
        self._invoking.check_room()

        def start() -> None:
            self._queues.leave(ticket)  # it holds nothing
            try:
                seen = self._look(run, index, path, key, query)
            except WorldError as error:
                with run.late(index):
                    raise error
            if seen is not None:
                with run.late(index):
                    run.read(index, seen)

        ticket = Ticket([(node.number, key)], start, client_id)
        run.waits(index, lambda: self._queues.try_withdraw(ticket))
        self._queues.enter(ticket)

    def _look(self, run: FrameRun, index: int, path: str, key: str, query: Query) -> Read | None:
        """What a query sees; None = that takes several steps, and the op waits for it."""
        check_conditions(self._tree, run.frame, index, path, key)
        if isinstance(query.ask, ReadPast):
            check_revision(self._tree, query.min_revision)
            self._past.begin(run, index, path, key, query.ask)
            return None
        seen = self._reader.answer(path, key, query, view_of_op(self._tree.grants, run.frame, index))
        if isinstance(seen, SlowRead):
            self._slow.begin(run, index, seen)
            return None
        return seen

    def _wait(self, run: FrameRun, index: int, keys: list[Key], effect: Callable[[], None]) -> None:
        """Puts the op into its queues; when its turn comes it has its effect and lets the next one on."""
        self._invoking.check_room()

        def start() -> None:
            with run.late(index):
                effect()
            self._queues.leave(ticket)

        ticket = Ticket(keys, start, run.frame.client_id)
        run.waits(index, lambda: self._queues.try_withdraw(ticket))
        self._queues.enter(ticket)

    def _write(self, run: FrameRun, index: int, path: str, key: str, code: int, argument: Any) -> None:
        """A write with all its conditions, at the moment at which it has its effect."""
        check_conditions(self._tree, run.frame, index, path, key)
        match code:
            case Code.TRANSACT:
                run.transacted(index, self._transact(argument))
            case Code.UPDATE_ENVIRONMENT:
                with self._tree.all_or_nothing():
                    written = self._effects.apply(path, key, code, argument)
                run.wrote(index, written)
            case _:
                run.wrote(index, self._effects.apply(path, key, code, argument))

    def _transact(self, asked: Transact) -> Transacted:
        check_count(len(asked.writes), "transaction_ops_max", self._limits)
        check_count(len(asked.otherwise), "transaction_ops_max", self._limits)
        tree, writes, otherwise = self._tree, asked.writes, False
        try:
            check_preconditions(tree, "", "", asked.preconditions)
        except (PreconditionFailed, Fenced, GateClosed):
            if not asked.otherwise:
                raise
            writes, otherwise = asked.otherwise, True
        written, changed = apply_writes(tree, self._effects, writes)
        return Transacted(tree.revision + 1 if changed else tree.revision, written, otherwise)


def _not_an_entry_write(tree: Tree, node: Node, key: str, argument: Any) -> Written:
    raise AssertionError("only entry writes are dispatched here")


def _makes_room(code: int, argument: Any) -> bool:
    """Whether an op, with all its writes, needs no room; a transaction without writes only tests and needs none."""
    if code == Code.TRANSACT:
        return all(write.code in _MAKING_ROOM for write in (*argument.writes, *argument.otherwise))
    return code in _MAKING_ROOM
