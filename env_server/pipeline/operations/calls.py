"""Calls of behaviours: first their keys, then a slot, then the method, then what it staged, as one op.

Clients call operations (invoking), operations call one another (here), events call listeners (listening).
"""

from collections.abc import Callable
from functools import partial

from env_server.behaviours.behaviour import Target
from env_server.behaviours.context import CallOperation, Context
from env_server.behaviours.registry import Behaviours
from env_server.key_queues.queues import Key, KeyQueues, Ticket
from env_server.key_queues.slots import Slots
from env_server.model.errors import Exhausted, LimitExceeded, NotFound, Reason, WorldError, WrongState
from env_server.model.frames import Invoked, Outcome
from env_server.model.limits import Limits
from env_server.model.names import check_count
from env_server.model.operations import Write
from env_server.model.ports import Clock
from env_server.model.values import Json, check_document
from env_server.pipeline.frames.effects import Effects
from env_server.pipeline.frames.transactions import apply_writes, check_staged
from env_server.pipeline.frames.write_sets import keys_of_writes
from env_server.pipeline.operations.call import Call, attribute_call
from env_server.pipeline.operations.invocations import Invocation, defect_of
from env_server.pipeline.operations.tree_view import TreeView
from env_server.state_tree.tree import Tree


class Calls:
    """Runs calls of one world when their turn has come. `drain` lets those go on that waited for one to end."""

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

    @property
    def waiting(self) -> int:
        """Ops and calls that wait for keys or for a slot."""
        return self._queues.waiting + self._slots.waiting

    def check_room(self) -> None:
        """Refuses an op that would have to wait while too many do, behind held keys or for a slot.

        Raises:
            Exhausted: QUEUE_FULL.
        """
        if self.waiting >= self._limits.queue_ops_max:
            raise Exhausted.of(
                Reason.QUEUE_FULL,
                "queue_ops_max",
                self._limits.queue_ops_max,
                f"{self.waiting} ops wait already",
                self._limits.retry_delay_ms,
            )

    def prepare(self, call: Call) -> None:
        """Finds the keys that the call may write.

        Raises:
            InternalError: its behaviour does not tell them.
        """
        try:
            call.targets = call.callee.targets(call.node.path, call.arguments)
            keys = [*self._keys(call.targets), *keys_of_writes(self._tree, call.companions)]
        except BaseException as error:  # noqa: BLE001 - the edge of foreign code, as in Invocation
            raise defect_of(call.callee, error) from None
        call.ticket = Ticket(keys, lambda: self._take_slot(call), call.client_id)
        call.use_slot = partial(self._run, call)

    def enter(self, call: Call) -> None:
        """Puts a prepared call into the queues of its keys; it may end before this returns."""
        assert call.ticket is not None
        if self._queues.enter(call.ticket):
            self._take_slot(call)

    def try_withdraw(self, call: Call) -> bool:
        """Gives up waiting for keys or for a slot; declines once the method has begun."""
        assert call.ticket is not None and call.use_slot is not None
        if self._slots.try_withdraw(call.use_slot):
            self._queues.leave(call.ticket)
            return True
        return self._queues.try_withdraw(call.ticket)

    def _take_slot(self, call: Call) -> None:
        """Its keys are free: checks the call's conditions, then takes a slot."""
        node = call.node
        try:
            if self._tree.nodes.by_number.get(node.number) is not node:  # deleted by what it waited for
                raise NotFound(Reason.ENVIRONMENT_NOT_FOUND, path=node.path)
            if call.check is not None:
                call.check()
        except WorldError as error:
            self._end(call, error)
            return
        if call.outer is not None:
            self._run(call)
            return
        assert call.use_slot is not None
        if self._slots.take(node.number, call.use_slot):
            self._run(call)

    def _run(self, call: Call) -> None:
        """It has a slot: runs the method."""
        call.has_slot = call.outer is None
        callee = call.callee
        call.invocation = Invocation(
            callee,
            Context(call.node.path, self._view, call.targets, self._clock.monotonic_ns, reads_only=callee.reads_only),
            call.companions,
            self._clock,
            commit=lambda writes, result: self._commit(call, writes, result),
            ended=lambda outcome: self._end(call, outcome),
            nest=lambda asked, resume: self._nest(call, asked, resume),
        )
        timeout_s = self._limits.operation_timeout_s if callee.timeout_s is None else callee.timeout_s
        call.invocation.start(call.arguments, timeout_s)

    def _commit(self, call: Call, writes: tuple[Write, ...], result: Json) -> bool:
        """Applies what the call staged, as one op; whether that changed anything."""
        check_document(result, self._limits, "result")
        self._tree.weigh(len(result.text))
        check_count(len(writes), "transaction_ops_max", self._limits)
        if not writes:
            return False
        size = check_staged(writes, self._limits)
        if call.check_writes is not None:
            call.check_writes(writes, size)
        self._tree.weigh(size)
        call.first_row = len(self._tree.changes)
        return apply_writes(self._tree, self._effects, writes)[1]

    def _end(self, call: Call, outcome: Outcome) -> None:
        """The call has its outcome: tells it and frees keys and slot."""
        try:
            call.settle(outcome, call.first_row)
        finally:
            self._free(call)
            self._drain()

    def _free(self, call: Call) -> None:
        assert call.ticket is not None
        self._queues.leave(call.ticket)
        if call.has_slot:
            self._slots.give_back(call.node.number)

    def _nest(self, outer: Call, asked: CallOperation, resume: Callable[[Outcome], None]) -> Callable[[], None]:
        """Runs an operation for another one that awaits it; returns what ends it early, rolled back.

        Raises:
            WrongState: NESTED_INVOKE.
            LimitExceeded: call_depth_max.
            NotFound, InvalidRequest, InternalError.
            Exhausted: QUEUE_FULL.
        """
        assert outer.ticket is not None
        if outer.ticket.keys or outer.targets or not outer.may_call or outer.callee.reads_only:
            why = "it reads only" if outer.callee.reads_only else "it holds keys"
            why = why if outer.may_call else "it is a listener"
            raise WrongState(
                Reason.NESTED_INVOKE,
                f"{outer.callee.name} of {outer.node.path} may not call {asked.operation} of {asked.path}: {why}",
                metadata={"path": asked.path, "operation": asked.operation},
            )
        check_depth = outer.depth + 1
        if check_depth > self._limits.call_depth_max:
            raise LimitExceeded("call_depth_max", self._limits.call_depth_max, check_depth)
        node = self._tree.nodes.find(asked.path)
        operation = self._behaviours.find(node.declaration.kind, asked.operation)

        def settle(outcome: Outcome, first_row: int | None) -> None:
            if isinstance(outcome, Invoked) and outcome.changed:
                self._tree.advance()
                assert first_row is not None
                attribute_call(self._tree.changes, call, first_row)
            resume(outcome)

        call = Call(
            node,
            operation,
            operation.parse(Json.of(dict(asked.arguments))),
            settle,
            actor=outer.actor,
            cause=outer.cause,
            principal=outer.principal,
            outer=outer,
        )
        call.check_writes = outer.check_writes
        self.prepare(call)
        self.check_room()
        self.enter(call)
        return lambda: self._cancel(call)

    def _cancel(self, call: Call) -> None:
        """Ends a nested call, whose caller no longer awaits it."""
        if call.invocation is None:
            self.try_withdraw(call)
        elif call.invocation.try_cancel():
            self._free(call)
            self._drain()

    def _keys(self, targets: list[Target]) -> list[Key]:
        by_path = self._tree.nodes.by_path
        return [(by_path[target.path].number, target.key) for target in targets if target.path in by_path]


def find_concurrency_max(tree: Tree, behaviours: Behaviours, environment: int) -> int:
    """Operations that may run in an environment at a time: as its config says, else its behaviour; 0 = unbounded."""
    node = tree.nodes.by_number.get(environment)
    if node is None:
        return 0
    return node.concurrency_max or behaviours.concurrency_max(node.declaration.kind)
