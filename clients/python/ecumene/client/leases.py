"""Leases, and the members that live under them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from env_api.v1 import lease_service_pb2, lease_service_pb2_grpc

from ecumene.client.errors import EcumeneError
from ecumene.client.frames import Frame, FrameWriter
from ecumene.client.model import Value
from ecumene.client.reasons import FencedError, LeaseExpiredError, LeaseNotFoundError
from ecumene.client.spaces import Position
from ecumene.client.stamps import Stamp
from ecumene.client.unary_calls import identify

if TYPE_CHECKING:
    from ecumene.client.session import Session

OnLost = Callable[[EcumeneError], None]

_FRAME_OPS = 1000
"""Members that join or leave in one frame: as many as the server takes away in one revision."""


@dataclass(frozen=True, slots=True)
class LeaseInfo:
    """A lease as its server lists it."""

    lease_id: int
    ttl_s: float
    holder: str
    remaining_s: float
    """Until it ends, unless it is kept alive."""
    entry_count: int
    """Entries, members and environments under it."""


class Lease:
    """A lease, kept alive in the background while the session lives; what was put under it goes when it ends.

    As a block, `async with world.lease(10) as lease:`, it is given back at the end; when it is lost inside, the block
    is cancelled and ends with LeaseExpiredError (or why the session ended). Otherwise ask `is_ended`, or have `on_lost`
    called.
    """

    def __init__(
        self, session: Session, stamp: Stamp, lease_id: int, ttl_s: float, asked_at: float, on_lost: OnLost | None
    ) -> None:
        self._session = session
        self._frames = FrameWriter(session, stamp)
        self._on_lost = on_lost
        self._confirmed_at = asked_at
        self._failure: EcumeneError | None = None
        self._block: asyncio.Task[Any] | None = None
        self._cancelled = False
        self.id: int = lease_id
        """The revision of its grant; never used again."""
        self.ttl_s: float = ttl_s
        session.leases.add(self)

    def __repr__(self) -> str:
        return f"<Lease {self.id}{', ended' if self.is_ended else ''}>"

    @property
    def is_ended(self) -> bool:
        """Whether it is known to have ended, or was given back."""
        return self._failure is not None

    @property
    def is_certain(self) -> bool:
        """Whether the server has confirmed it within the last `ttl_s`, so that it cannot have ended."""
        return not self.is_ended and asyncio.get_running_loop().time() < self._confirmed_at + self.ttl_s

    async def join(
        self,
        path: str,
        members: Iterable[str] | Mapping[str, Value],
        *,
        value: Value = 1,
        positions: Mapping[str, Position] | Iterable[Position] | None = None,
    ) -> int:
        """Register members under this lease, each with its value of the mapping, or with `value`.

        `positions`: where they are at first, by member, or in the order of the members. One that is there under this
        lease already stays as it is. Returns how many are members now. In frames of 1,000; when one fails, those
        before it have joined.

        Raises:
            LeaseExpiredError: the lease has ended.
            EntryExistsError: a member of that name lives under another lease.
            EcumeneError: the server refused; the class says why.
        """
        joined, ids = 0, iter(members)
        places = None if positions is None or isinstance(positions, Mapping) else iter(positions)
        while keys := list(islice(ids, _FRAME_OPS)):
            values: Sequence[Value] = (
                [members[key] for key in keys] if isinstance(members, Mapping) else [value] * len(keys)
            )
            part: Any = [positions[key] for key in keys] if isinstance(positions, Mapping) else None
            if places is not None:
                part = list(islice(places, len(keys)))
            result = await self._frames.send_block(path, keys, values, join_lease_id=self.id, positions=part)
            joined += result.raise_failure().count
        return joined

    async def leave(self, path: str, ids: Iterable[str]) -> int:
        """Delete members that live under this lease, in frames of 1,000; returns how many those were.

        Who is gone already, or is a member under another lease now, is left alone.
        """
        left, rest = 0, iter(ids)
        while keys := list(islice(rest, _FRAME_OPS)):
            frame = Frame(stamp=self._frames.stamp)
            for key in keys:
                frame.delete(path, key, lease_owner=self.id)
            result = await self._frames.send(frame)
            failures = [error for _, error in result.failures if not isinstance(error, FencedError)]
            if failures:
                raise failures[0]
            left += result.ok_count
        return left

    async def revoke(self) -> None:
        """End it now; what lived under it goes. Without effect when it has ended.

        Raises:
            ConnectionFailedError: no answer in time; it ends by itself when its time is over.
        """
        self._session.leases.discard(self)
        if self._failure is None:
            self._failure = LeaseExpiredError(f"lease {self.id} was given back")
            calls = self._session.calls
            stub: Any = lease_service_pb2_grpc.LeaseServiceStub(calls.channel)
            request = lease_service_pb2.RevokeLeaseRequest(
                world=self._session.world, lease_id=self.id, caller=identify(self._session.client_id)
            )
            try:
                await calls.call(stub.RevokeLease, request, repeatable=True)
            except (LeaseExpiredError, LeaseNotFoundError):
                pass

    def confirm(self, asked_at: float) -> None:
        """The server has given it its full time; for the session."""
        self._confirmed_at = max(self._confirmed_at, asked_at)

    def lose(self, error: EcumeneError) -> None:
        """It has ended; for the session."""
        if self._failure is None:
            self._failure = error
            if self._block is not None and not self._block.done():
                self._cancelled = self._block.cancel()
            if self._on_lost is not None:
                self._on_lost(error)

    async def __aenter__(self) -> Self:
        self._block = asyncio.current_task()
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lost, block, self._block = self._failure, self._block, None
        if lost is None:
            await self.revoke()
            return
        if self._cancelled and block is not None:
            block.uncancel()
        if error is None or (self._cancelled and isinstance(error, asyncio.CancelledError)):
            raise lost.with_traceback(None) from error


class Leasing:
    """What `World.lease` returns: await it for a Lease, or enter it with `async with`."""

    def __init__(self, session: Session, stamp: Stamp, ttl_s: float, holder: str, on_lost: OnLost | None) -> None:
        self._session = session
        self._stamp = stamp
        self._ttl_s = ttl_s
        self._holder = holder
        self._on_lost = on_lost
        self._lease: Lease | None = None

    def __await__(self) -> Generator[Any, None, Lease]:
        return self._grant().__await__()

    async def __aenter__(self) -> Lease:
        self._lease = await self._grant()
        return await self._lease.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(kind, error, trace)

    async def _grant(self) -> Lease:
        session = self._session
        calls = session.calls
        stub: Any = lease_service_pb2_grpc.LeaseServiceStub(calls.channel)
        request = lease_service_pb2.GrantLeaseRequest(
            world=session.world,
            ttl_ms=round(self._ttl_s * 1000),
            holder=self._holder,
            caller=identify(session.client_id),
        )
        asked_at = asyncio.get_running_loop().time()
        answer: lease_service_pb2.GrantLeaseResponse = await calls.call(stub.GrantLease, request, repeatable=True)
        return Lease(session, self._stamp, answer.lease_id, self._ttl_s, asked_at, self._on_lost)


async def list_leases(session: Session) -> list[LeaseInfo]:
    """The living leases by id, each as it stood when its page was asked for."""
    stub: Any = lease_service_pb2_grpc.LeaseServiceStub(session.calls.channel)
    request = lease_service_pb2.ListLeasesRequest(world=session.world)
    found: list[LeaseInfo] = []
    while True:
        answer: lease_service_pb2.ListLeasesResponse = await session.calls.call(
            stub.ListLeases, request, repeatable=True
        )
        found += [
            LeaseInfo(lease.lease_id, lease.ttl_ms / 1000, lease.holder, lease.remaining_ms / 1000, lease.entry_count)
            for lease in answer.leases
        ]
        if not answer.next_page_token:
            return found
        request.page_token = answer.next_page_token
