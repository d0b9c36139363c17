"""Admission of behaviour operations: their keys, then a slot, then the operation itself."""

from collections.abc import Callable
from typing import Any

from env_server.behaviours.behaviour import Operation, Target
from env_server.behaviours.context import Context
from env_server.behaviours.registry import Behaviours
from env_server.key_queues.queues import Key, KeyQueues, Ticket
from env_server.key_queues.slots import Slots
from env_server.model.errors import Exhausted, NotFound, Reason, WorldError
from env_server.model.frames import Invoked, Outcome
from env_server.model.limits import Limits
from env_server.model.names import check_count
from env_server.model.operations import Code, Invoke, Write
from env_server.model.ports import Clock
from env_server.model.values import check_value, size_of
from env_server.pipeline.frame_runs import FrameRun
from env_server.pipeline.invocations import Invocation, TreeView, defect_of
from env_server.pipeline.transactions import apply_writes
from env_server.pipeline.write_sets import keys_of_writes
from env_server.state_tree.nodes import Node
from env_server.state_tree.preconditions import check_conditions
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
        try:
            targets = operation.targets(path, arguments)
        except Exception as error:  # noqa: BLE001 - the edge of foreign code, as in Invocation
            raise defect_of(operation, error) from None
        keys = [*self._keys(targets), *keys_of_writes(self._tree, asked.companions)]
        self.check_room()
        call = _Call(self, run, index, node, operation, arguments, targets, asked.companions, keys)
        run.waits(index, call.try_withdraw)
        if self._queues.enter(call.ticket):
            call.has_keys()

    def check_room(self) -> None:
        """Refuses an op that would have to wait while too many do, behind held keys or for a slot.

        Raises:
            Exhausted: QUEUE_FULL.
        """
        waiting = self._queues.waiting + self._slots.waiting
        if waiting >= self._limits.queue_ops_max:
            raise Exhausted(
                Reason.QUEUE_FULL,
                f"{waiting} ops wait already",
                metadata={"limit": "queue_ops_max", "max": str(self._limits.queue_ops_max)},
                retry_delay_ms=self._limits.retry_delay_ms,
            )

    def _keys(self, targets: list[Target]) -> list[Key]:
        by_path = self._tree.nodes.by_path
        return [(by_path[target.path].number, target.key) for target in targets if target.path in by_path]


def check_staged(writes: tuple[Write, ...], limits: Limits) -> None:
    """Accepts values that may be stored: a behaviour is no better than a client.

    Raises:
        InvalidRequest, LimitExceeded.
        TypeError: a value of a kind that entries do not have: a defect of the behaviour.
    """
    size = 0
    for write in writes:
        if write.code in (Code.SET, Code.APPEND, Code.ADD, Code.EMIT):
            check_value(write.argument, limits, write.key)  # type: ignore[arg-type]
            size += size_of(write.argument)  # type: ignore[arg-type]
    check_count(size, "transaction_bytes_max", limits)


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
        self._first_row: int | None = None
        self.ticket = Ticket(keys, self.has_keys, run.frame.client_id)

    def try_withdraw(self) -> bool:
        """Gives up waiting for keys or for a slot; declines once the operation has begun."""
        owner = self._owner
        if owner._slots.try_withdraw(self.has_slot):
            owner._queues.leave(self.ticket)
            return True
        return owner._queues.try_withdraw(self.ticket)

    def has_keys(self) -> None:
        """Its keys are free: checks the call's conditions, then takes a slot."""
        owner = self._owner
        node = self._node
        try:
            if owner._tree.nodes.by_number.get(node.number) is not node:  # deleted by what it waited for
                raise NotFound(Reason.ENVIRONMENT_NOT_FOUND, path=node.path)
            check_conditions(owner._tree, self._run.frame, self._index, node.path, "")
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
        check_staged(writes, owner._limits)
        self._first_row = len(owner._tree.changes)
        return apply_writes(owner._tree, owner.check_kind, (), writes)[1]

    def ended(self, outcome: Outcome) -> None:
        """The operation has its outcome: answers it and frees keys and slot."""
        owner = self._owner
        try:
            with self._run.late(self._index, self._first_row):
                if isinstance(outcome, WorldError):
                    raise outcome
                assert isinstance(outcome, Invoked)
                self._run.transacted(self._index, outcome)
        finally:
            owner._queues.leave(self.ticket)
            if self._has_slot:
                owner._slots.give_back(self._node.number)
            owner._drain()
