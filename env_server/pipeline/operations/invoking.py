"""Invocations by clients: an operation of an environment's behaviour, as an op of a frame."""

from functools import partial

from env_server.behaviours.registry import Behaviours
from env_server.model.errors import WorldError
from env_server.model.frames import Invoked, Outcome
from env_server.model.limits import Limits
from env_server.model.names import check_count
from env_server.model.operations import Invoke
from env_server.pipeline.frames.frame_runs import FrameRun
from env_server.pipeline.operations.call import Call
from env_server.pipeline.operations.calls import Calls
from env_server.state_tree.preconditions import check_allowed, check_conditions
from env_server.state_tree.tree import Tree


class Invoking:
    """Admits invocations of one world."""

    def __init__(self, tree: Tree, behaviours: Behaviours, calls: Calls, limits: Limits) -> None:
        self._tree = tree
        self._behaviours = behaviours
        self._calls = calls
        self._limits = limits

    def admit(self, run: FrameRun, index: int, path: str, asked: Invoke) -> None:
        """Checks the call and puts it into the queues of all keys that it may write.

        Raises:
            NotFound, InvalidRequest, LimitExceeded.
            Exhausted: QUEUE_FULL.
        """
        frame = run.frame
        node = self._tree.nodes.find(path)
        operation = self._behaviours.find(node.declaration.kind, asked.operation)
        check_count(len(asked.companions), "companions_max", self._limits)
        call = Call(
            node,
            operation,
            operation.parse(asked.arguments),
            partial(_settle, run, index),
            asked.companions,
            frame.client_id,
            frame.actors[index] if frame.actors is not None else "",
            frame.causes[index] if frame.causes is not None else "",
            frame.principal,
            check=lambda: check_conditions(self._tree, frame, index, node.path, ""),
        )
        if frame.groups is not None or frame.fence is not None:  # a right or a lock may be lost while it runs
            call.check_writes = lambda writes, size: check_allowed(self._tree, frame, index)
        self._calls.prepare(call)
        self.check_room()
        run.waits(index, lambda: self._calls.try_withdraw(call))
        self._calls.enter(call)

    def check_room(self) -> None:
        """See Calls."""
        self._calls.check_room()


def _settle(run: FrameRun, index: int, outcome: Outcome, first_row: int | None) -> None:
    with run.late(index, first_row):
        if isinstance(outcome, WorldError):
            raise outcome
        assert isinstance(outcome, Invoked)
        run.transacted(index, outcome)
