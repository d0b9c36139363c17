"""Admission of behaviour operations: their keys, then a slot, then the operation itself."""

from collections.abc import Callable
from typing import Any

from env_server.behaviours.behaviour import Operation, Target
from env_server.behaviours.context import Context
from env_server.behaviours.registry import Behaviours
from env_server.key_queues.queues import Key, KeyQueues, Ticket
from env_server.key_queues.slots import Slots
from env_server.model.errors import Exhausted, Reason, WorldError
from env_server.model.frames import Invoked, Outcome
from env_server.model.limits import Limits
from env_server.model.names import check_count
from env_server.model.operations import Invoke, Write
from env_server.model.ports import Clock
from env_server.pipeline.frame_runs import FrameRun
from env_server.pipeline.invocations import Invocation, TreeView
from env_server.pipeline.transactions import apply_writes
from env_server.pipeline.write_sets import keys_of_writes
from env_server.state_tree.nodes import Node
from env_server.state_tree.preconditions import check_preconditions
from env_server.state_tree.tree import Tree


class Invoking:
    """Starts operations of one world when their turn has come. `ready` runs what may go on after a wait."""

    def __init__(
        self,
        tree: Tree,
        behaviours: Behaviours,
        queues: KeyQueues,
        slots: Slots,
        clock: Clock,
        limits: Limits,
        drain: Callable[[], None],
    ) -> None:
        self._tree = tree
        self._view = TreeView(tree)
        self._behaviours = behaviours
        self._queues = queues
        self._slots = slots
        self._clock = clock
        self._limits = limits
        self._drain = drain

    def check_kind(self, kind: str) -> None:
        """See Behaviours.check_kind."""
        self._behaviours.check_kind(kind)

    def admit(self, run: FrameRun, index: int, path: str, asked: Invoke) -> None:
        """Checks the call and puts it into the queues of all keys that it may write.

        Raises:
            NotFound, InvalidRequest, LimitExceeded.
            Exhausted: QUEUE_FULL.
        """
        node = self._tree.nodes.find(path)
        kind = node.declaration.kind
        operation = self._behaviours.find(kind, asked.operation)
        check_count(len(asked.companions), "companions_max", self._limits)
        arguments = operation.parse(asked.arguments)
        targets = operation.targets(path, arguments)
        keys = [*self._keys(targets), *keys_of_writes(self._tree, asked.companions)]
        if self._queues.waiting >= self._limits.queue_ops_max:
            raise Exhausted(
                Reason.QUEUE_FULL,
                f"{self._queues.waiting} ops wait already",
                metadata={"limit": "queue_ops_max", "max": str(self._limits.queue_ops_max)},
                retry_delay_ms=self._limits.retry_delay_ms,
            )
        call = _Call(self, run, index, node, operation, arguments, targets, asked.companions, keys)
        run.waits(index, call.ticket, self._queues)
        if self._queues.enter(call.ticket):
            call.has_keys()

    def _keys(self, targets: list[Target]) -> list[Key]:
        by_path = self._tree.nodes.by_path
        return [(by_path[target.path].number, target.key) for target in targets if target.path in by_path]


class _Call:
    """One admitted call on its way: waiting for keys, waiting for a slot, running."""

    def __init__(
        self,
        owner: Invoking,
        run: FrameRun,
        index: int,
        node: Node,
        operation: Operation,
        arguments: dict[str, Any],
        targets: list[Target],
        companions: tuple[Write, ...],
        keys: list[Key],
    ) -> None:
        self._owner = owner
        self._run = run
        self._index = index
        self._node = node
        self._operation = operation
        self._arguments = arguments
        self._targets = targets
        self._companions = companions
        self._has_slot = False
        self.ticket = Ticket(keys, self.has_keys)

    def has_keys(self) -> None:
        """Its keys are free: checks the call's conditions, then takes a slot."""
        owner = self._owner
        frame = self._run.frame
        if frame.preconditions is not None and self._index in frame.preconditions:
            try:
                check_preconditions(owner._tree, self._node.path, "", frame.preconditions[self._index])
            except WorldError as error:
                self.ended(error)
                return
        maximum = owner._behaviours.concurrency_max(self._node.declaration.kind)
        if owner._slots.take(self._node.number, maximum, self.has_slot):
            self.has_slot()

    def has_slot(self) -> None:
        """Runs the operation."""
        self._has_slot = True
        owner = self._owner
        context = Context(self._node.path, owner._view, self._targets)
        invocation = Invocation(self._operation, context, self._companions, owner._clock, self.commit, self.ended)
        timeout_s = self._operation.timeout_s
        invocation.start(self._arguments, owner._limits.operation_timeout_s if timeout_s is None else timeout_s)

    def commit(self, writes: tuple[Write, ...]) -> bool:
        """Applies what the operation staged, as one op; whether that changed anything."""
        owner = self._owner
        check_count(len(writes), "transaction_ops_max", owner._limits)
        if not writes:
            return False
        return apply_writes(owner._tree, owner.check_kind, (), writes)[1]

    def ended(self, outcome: Outcome) -> None:
        """The operation has its outcome: answers it and frees keys and slot."""
        owner = self._owner
        try:
            with self._run.late(self._index):
                if isinstance(outcome, WorldError):
                    raise outcome
                assert isinstance(outcome, Invoked)
                self._run.transacted(self._index, outcome)
        finally:
            owner._queues.leave(self.ticket)
            if self._has_slot:
                owner._slots.give_back(self._node.number)
            owner._drain()
