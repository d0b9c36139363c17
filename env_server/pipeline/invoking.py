"""Admission of behaviour operations: their keys, then a slot, then the operation itself."""

from collections.abc import Callable
from dataclasses import dataclass
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
from env_server.model.operations import Invoke, Write
from env_server.model.ports import Clock
from env_server.model.values import Json, check_document
from env_server.pipeline.effects import Effects
from env_server.pipeline.frame_runs import FrameRun
from env_server.pipeline.invocations import Invocation, TreeView, defect_of
from env_server.pipeline.transactions import apply_writes, check_staged
from env_server.pipeline.write_sets import keys_of_writes
from env_server.state_tree.nodes import Node
from env_server.state_tree.preconditions import check_conditions
from env_server.state_tree.tree import Tree


@dataclass(slots=True, eq=False)
class _Call:
    """One admitted call on its way: waiting for keys, waiting for a slot, running."""

    run: FrameRun
    index: int
    node: Node
    operation: Operation
    arguments: dict[str, Any]
    targets: list[Target]
    companions: tuple[Write, ...]
    ticket: Ticket
    use_slot: Callable[[], None]
    """What the call does once it has a slot: the name under which it waits for one."""
    has_slot: bool = False
    first_row: int | None = None
    """Of its rows in the open group, once it has written any."""


class Invoking:
    """Starts operations of one world when their turn has come. `drain` lets those go on that waited for one to end."""

    def __init__(
        self,
        tree: Tree,
        effects: Effects,
        behaviours: Behaviours,
        queues: KeyQueues,
        slots: Slots,
        clock: Clock,
        limits: Limits,
        drain: Callable[[], None],
    ) -> None:
        self._tree = tree
        self._effects = effects
        self._view = TreeView(tree)
        self._behaviours = behaviours
        self._queues = queues
        self._slots = slots
        self._clock = clock
        self._limits = limits
        self._drain = drain

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
        except BaseException as error:  # noqa: BLE001 - the edge of foreign code, as in Invocation
            raise defect_of(operation, error) from None
        keys = [*self._keys(targets), *keys_of_writes(self._tree, asked.companions)]
        self.check_room()
        ticket = Ticket(keys, lambda: self._take_slot(call), run.frame.client_id)
        call = _Call(run, index, node, operation, arguments, targets, asked.companions, ticket, lambda: self._run(call))
        run.waits(index, lambda: self._try_withdraw(call))
        if self._queues.enter(ticket):
            self._take_slot(call)

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

    def _try_withdraw(self, call: _Call) -> bool:
        """Gives up waiting for keys or for a slot; declines once the operation has begun."""
        if self._slots.try_withdraw(call.use_slot):
            self._queues.leave(call.ticket)
            return True
        return self._queues.try_withdraw(call.ticket)

    def _take_slot(self, call: _Call) -> None:
        """Its keys are free: checks the call's conditions, then takes a slot."""
        node = call.node
        try:
            if self._tree.nodes.by_number.get(node.number) is not node:  # deleted by what it waited for
                raise NotFound(Reason.ENVIRONMENT_NOT_FOUND, path=node.path)
            check_conditions(self._tree, call.run.frame, call.index, node.path, "")
        except WorldError as error:
            self._end(call, error)
            return
        maximum = self._behaviours.concurrency_max(node.declaration.kind)
        if self._slots.take(node.number, maximum, call.use_slot):
            self._run(call)

    def _run(self, call: _Call) -> None:
        """It has a slot: runs the operation."""
        call.has_slot = True
        operation = call.operation
        context = Context(call.node.path, self._view, call.targets)
        invocation = Invocation(
            operation,
            context,
            call.companions,
            self._clock,
            commit=lambda writes, result: self._commit(call, writes, result),
            ended=lambda outcome: self._end(call, outcome),
        )
        timeout_s = self._limits.operation_timeout_s if operation.timeout_s is None else operation.timeout_s
        invocation.start(call.arguments, timeout_s)

    def _commit(self, call: _Call, writes: tuple[Write, ...], result: Json) -> bool:
        """Applies what the operation staged, as one op; whether that changed anything."""
        check_document(result, self._limits, "result")
        self._tree.weigh(len(result.text))
        check_count(len(writes), "transaction_ops_max", self._limits)
        if not writes:
            return False
        self._tree.weigh(check_staged(writes, self._limits))
        call.first_row = len(self._tree.changes)
        return apply_writes(self._tree, self._effects, writes)[1]

    def _end(self, call: _Call, outcome: Outcome) -> None:
        """The operation has its outcome: answers it and frees keys and slot."""
        try:
            with call.run.late(call.index, call.first_row):
                if isinstance(outcome, WorldError):
                    raise outcome
                assert isinstance(outcome, Invoked)
                call.run.transacted(call.index, outcome)
        finally:
            self._queues.leave(call.ticket)
            if call.has_slot:
                self._slots.give_back(call.node.number)
            self._drain()

    def _keys(self, targets: list[Target]) -> list[Key]:
        by_path = self._tree.nodes.by_path
        return [(by_path[target.path].number, target.key) for target in targets if target.path in by_path]
