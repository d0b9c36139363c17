"""One call of a behaviour's method, whoever asked for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from env_server.behaviours.behaviour import Callee, Target
from env_server.key_queues.queues import Ticket
from env_server.model.changes import Changes
from env_server.model.frames import Outcome
from env_server.model.operations import Write
from env_server.pipeline.frames.origins import attribute_rows
from env_server.pipeline.operations.invocations import Invocation
from env_server.state_tree.nodes import Node

Settle = Callable[[Outcome, int | None], None]
"""Takes the outcome, and the call's first row in the open group, None when it wrote none: ends the op and says whose it
is.
"""


@dataclass(slots=True, eq=False)
class Call:
    """One call on its way: waiting for keys, waiting for a slot, running."""

    node: Node
    callee: Callee
    arguments: dict[str, Any]
    settle: Settle
    companions: tuple[Write, ...] = ()
    client_id: str = ""
    actor: str = ""
    cause: str = ""
    principal: str = ""
    check: Callable[[], None] | None = None
    """Raises when the call may not begin, once its keys are free."""
    check_writes: Callable[[tuple[Write, ...], int], None] | None = None
    """Raises when what it staged, of that many bytes, may not be written now."""
    may_call: bool = True
    outer: "Call | None" = None
    """The call that awaits this one, which runs in its slot."""
    targets: list[Target] = field(default_factory=list)
    ticket: Ticket | None = None
    use_slot: Callable[[], None] | None = None
    """What the call does once it has a slot: the name under which it waits for one."""
    has_slot: bool = False
    invocation: Invocation | None = None
    first_row: int | None = None
    """Of its rows in the open group, once it has written any."""

    @property
    def depth(self) -> int:
        """How many calls await it, directly or not."""
        return 0 if self.outer is None else self.outer.depth + 1


def attribute_call(changes: Changes, call: Call, first_row: int) -> None:
    """Says whose the rows from `first_row` on are: a call has no identity of its own, so no producer."""
    attribute_rows(changes, first_row, actor=call.actor, cause=call.cause, principal=call.principal)
