"""The place of a participant among those for whom an event-driven clock waits: an entry, made and taken away.

Whoever enters or leaves may be cancelled at any moment. What was issued by then is answered all the same, and a place
that was entered and is not wanted is taken away as soon as that is known, whether or not anybody waits for it: a ghost
would hold the clock, one without a lease for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from env_api.v1 import operations_pb2, session_pb2

from ecumene.client import actions
from ecumene.client.errors import EcumeneError
from ecumene.client.leases import Lease
from ecumene.client.model import EntryKind, Outcome, Value, Written
from ecumene.client.op_calls import OpCalls
from ecumene.client.reasons import EntryExistsError, EntryNotFoundError, PreconditionFailedError
from ecumene.client.values import OP_FIELDS, convert_value

if TYPE_CHECKING:
    from ecumene.client.world import World


class ParticipantPlace:
    """One entry of the environment at `path`, under a lease that is kept, or under none."""

    def __init__(
        self,
        world: World,
        path: str,
        name: str,
        value: Value,
        ttl_s: float | None,
        on_lost: Callable[[EcumeneError], None],
    ) -> None:
        """`ttl_s`: of the lease, whose loss `on_lost` is told; None = without one."""
        self._world = world
        self._path = path
        self._ops = OpCalls(world.session, path, None, world.stamp)
        self._name = name
        self._value = value
        self._ttl_s = ttl_s
        self._on_lost = on_lost
        self._granted: asyncio.Task[Lease] | None = None
        self._entered: asyncio.Future[Outcome] | None = None
        self._left: asyncio.Future[None] | None = None

    async def enter(self) -> int:
        """Be there; returns the revision. `leave` has to follow, also when this failed or was cancelled.

        Raises:
            EntryExistsError: somebody has the place under another lease.
            EcumeneError: the server refused; the class says why.
        """
        lease_id = 0
        if self._ttl_s is not None:
            name = f"ecumene participant {self._name} asks for its lease"
            self._granted = asyncio.get_running_loop().create_task(self._grant(self._ttl_s), name=name)
            lease_id = (await asyncio.shield(self._granted)).id
        self._entered = self._issue(lease_id)
        try:
            return (await self._ops.answer(asyncio.shield(self._entered), Written)).revision
        except EntryExistsError as error:
            raise self._say_who_is_there(error) from None

    async def leave(self) -> None:
        """Be there no more, if it is still this one's place. Cancelling the wait takes nothing back.

        Raises:
            EcumeneError: it is not known to have gone; it may be asked for again.
        """
        if self._left is None:
            self._left = self._begin_leaving()
        try:
            await asyncio.shield(self._left)
        except EcumeneError:
            self._left = None
            raise

    async def _grant(self, ttl_s: float) -> Lease:
        return await self._world.lease(ttl_s, on_lost=self._on_lost)

    def _issue(self, lease_id: int) -> asyncio.Future[Outcome]:
        if lease_id:
            register = actions.register_entry(EntryKind.MEMBER, self._value, if_absent=False, lease_id=lease_id)
            return self._ops.write(session_pb2.Op(key=self._name, register=register), {})
        kind, wire = convert_value(self._value)
        return self._ops.write(session_pb2.Op(key=self._name, **{OP_FIELDS[kind]: wire}), {})

    def _say_who_is_there(self, error: EntryExistsError) -> EntryExistsError:
        """For whoever begins a program again that was killed: its lease outlives it."""
        lease = error.metadata.get("lease", "0")
        text = (
            f"{self._name!r} takes part already, as an entry of {self._path} under lease {lease}: if its program is "
            "gone, that ends with its time to live; begin again then, or take part without a lease, ttl_s=None"
        )
        return EntryExistsError(replace(error.details, message=text))

    def _begin_leaving(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        if self._granted is not None:
            return loop.create_task(self._give_back(self._granted), name=f"ecumene participant {self._name} leaves")
        left: asyncio.Future[None] = loop.create_future()
        # Not by a task, which whoever ends all tasks would end too: the answer itself issues the next op.
        if self._entered is None:
            left.set_result(None)
        elif self._entered.done():
            self._withdraw(self._entered, left)
        else:
            self._entered.add_done_callback(lambda entered: self._withdraw(entered, left))
        return left

    async def _give_back(self, granted: asyncio.Task[Lease]) -> None:
        """With the lease goes what is under it."""
        try:
            lease = await asyncio.shield(granted)
        except EcumeneError:
            return  # there is none
        await lease.revoke()

    def _withdraw(self, entered: asyncio.Future[Outcome], left: asyncio.Future[None]) -> None:
        if entered.exception() is not None:
            left.set_result(None)
            return
        written = entered.result()
        assert isinstance(written, Written)
        delete = session_pb2.Op(key=self._name, delete=operations_pb2.Delete())
        try:
            deleted = self._ops.write(delete, {"expect_version": written.version})
        except EcumeneError as error:
            left.set_exception(error)
            return
        deleted.add_done_callback(lambda answer: _pass_on(answer, left))


def _pass_on(answer: asyncio.Future[Outcome], left: asyncio.Future[None]) -> None:
    """The answer to a deletion, as the end of leaving."""
    error = answer.exception()
    if error is None or isinstance(error, EntryNotFoundError | PreconditionFailedError):
        left.set_result(None)  # what is there now is somebody else's
    else:
        left.set_exception(error)
