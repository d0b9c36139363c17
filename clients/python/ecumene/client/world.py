"""A world as a program holds it: one session, and handles of what is inside."""

from __future__ import annotations

import random
import uuid
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Any, Self

from env_api.v1 import session_pb2

from ecumene.client.addresses import find_address
from ecumene.client.clocks import refusing
from ecumene.client.environment import Environment
from ecumene.client.errors import ErrorDetails, Executed
from ecumene.client.filters import fill_filter
from ecumene.client.frames import Frame, FrameWriter
from ecumene.client.kinds import KindInfo, describe_kinds
from ecumene.client.leases import Lease, LeaseInfo, Leasing, OnLost, list_leases
from ecumene.client.locks import Lock
from ecumene.client.model import EventFilter, Value
from ecumene.client.reasons import InvalidFieldError
from ecumene.client.server_info import ServerInfo, ask_server_info
from ecumene.client.session import Session, SessionStatistics
from ecumene.client.settings import ClientSettings
from ecumene.client.stamps import Fence, Stamp
from ecumene.client.subscriptions import Subscription, SubscriptionInfo, list_subscriptions
from ecumene.client.transaction import Transaction, Writes
from ecumene.client.watch_feed import Credit, WatchFeed
from ecumene.client.watches import FrameWatch, Watch
from ecumene.client.worlds import Worlds


class World:
    """An open world. Get one from `ecumene.connect`; close it, or use it with `async with`.

    All ops, frames and watches share one stream, which is made anew when it breaks: what was not answered is sent
    again under its old number and executed once, watches go on where they stood. A stream that stays broken for
    ClientSettings.reconnect_timeout_s ends the world: everything that waits gets ConnectionFailedError.
    """

    def __init__(self, session: Session, group: str = "", fence: Fence | None = None) -> None:
        self.session = session
        self.group: str = group
        """Path of the group whose view every op and watch of this handle takes; "" = none."""
        self.stamp: Stamp = Stamp(session.groups.index(group) + 1 if group else 0, fence)
        """What stands on every op of this handle."""
        self.frames: FrameWriter = FrameWriter(session, self.stamp)
        """Whole frames with one future each, for speed."""

    def __repr__(self) -> str:
        view = f" seen by {self.group}" if self.group else ""
        return f"<World {self.name} at {self.session.address}{view}>"

    @property
    def name(self) -> str:
        """The world's name."""
        return self.session.world

    @property
    def history(self) -> str:
        """The line of revisions that this session is on; a revision means something only together with it."""
        return self.session.history

    @property
    def revision(self) -> int:
        """The newest revision that the server told this session of."""
        return self.session.revision

    @property
    def client_id(self) -> str:
        """Identity of this session for idempotency."""
        return self.session.client_id

    def statistics(self) -> SessionStatistics:
        """How the session is doing."""
        return self.session.statistics()

    def as_group(self, path: str) -> World:
        """The same connection, with the view of a group: its subtree, its ancestors, and what grants it access.

        The group must be one of those that the connection was made with. What the group may not see or do raises
        PermissionDeniedError, whether it exists or not. Closing it closes the connection.

        Raises:
            InvalidFieldError: the connection was not made with this group.
        """
        if path not in self.session.groups:
            message = f"{path!r} is not among the groups of this connection: connect(..., groups=[{path!r}])"
            raise InvalidFieldError(ErrorDetails(message=message, reason="INVALID_FIELD", executed=Executed.NO))
        return World(self.session, path, self.stamp.fence)

    def fenced(self, path: str, key: str, token: int) -> World:
        """The same connection, behind a fence: whatever goes through it has an effect only while the entry is the one
        created at revision `token`, as a lock's is while it is held; else FencedError.

        Reads are stopped by it too, and so is what is reported to a clock that waits; watches, leases and unary calls
        are not. Closing it closes the connection.
        """
        return World(self.session, self.group, Fence(path, key, token))

    def environment(self, path: str, *, timeout_s: float | None = None) -> Environment:
        """The handle of the environment at `path` ("/" = the root); asks the server nothing.

        `timeout_s` bounds each awaited op of the handle; None = as long as the session lives.
        """
        return Environment(self, path, timeout_s)

    def transaction(self) -> Transaction:
        """Writes that commit together."""
        return Transaction(self.session, self.stamp)

    def writes(self) -> Writes:
        """A list of writes, for the companions of an operation."""
        return Writes()

    def frame(self, *, return_versions: bool = False, deadline_ms: int = 0) -> Frame:
        """A new frame of rows; send it with `world.frames.send` or `submit`."""
        return Frame(return_versions=return_versions, deadline_ms=deadline_ms, stamp=self.stamp)

    def watch(
        self,
        event_filter: EventFilter | None = None,
        *,
        from_revision: int = 0,
        history: str = "",
        initial_state: bool = False,
        conflate: bool = False,
    ) -> Watch:
        """Events one by one; `watch_frames` has the arguments."""
        return Watch(
            self.watch_frames(
                event_filter,
                from_revision=from_revision,
                history=history,
                initial_state=initial_state,
                conflate=conflate,
            )
        )

    def watch_frames(
        self,
        event_filter: EventFilter | None = None,
        *,
        from_revision: int = 0,
        history: str = "",
        initial_state: bool = False,
        conflate: bool = False,
        also: Sequence[EventFilter] = (),
    ) -> FrameWatch:
        """Events in batches, beginning with this call: what this session issues after it is seen.

        If the connection breaks before the server could say what "now" is, it begins behind the newest revision that
        was known at this call: events that are a little older may come, none is left out.

        `from_revision`: 0 = now; up to the world's revision = replay from there, inclusive; above = wait for it.
        `history`: the line that `from_revision` belongs to, if it was kept from an earlier session.
        `initial_state`: the matching entries first, then all that follows; without `from_revision`.
        `conflate`: a slow reader gets the latest that each key's events tell (value, position, borders, and that it was
        deleted, also where it was made anew) instead of all.
        `also`: what any of these filters lets through comes, too, each event once and all in one order; at most 15.
        """
        policy = session_pb2.SLOW_POLICY_CONFLATE if conflate else session_pb2.SLOW_POLICY_RESUME_FROM_LOG
        with refusing("watch"):
            start = session_pb2.WatchStart(
                filter=fill_filter(event_filter or EventFilter()),
                from_revision=from_revision,
                initial_state=initial_state,
                slow_policy=policy,
                history=history,
                group=self.stamp.group_index,
                also=map(fill_filter, also),
            )
        settings = self.session.settings
        window = Credit(settings.watch_events_max, settings.watch_bytes_max)
        return FrameWatch(self.session, WatchFeed(start, window, self.session.revision))

    def lease(self, ttl_s: float, *, holder: str = "", on_lost: OnLost | None = None) -> Leasing:
        """A lease of `ttl_s` (1 to 86,400 s): await it, or enter it with `async with`; it is kept alive meanwhile.

        `holder`: whose it is, for people. `on_lost` is called when it has ended without having been given back.

        Raises (when awaited):
            LeaseQuotaError: the world has too many.
            ConnectionFailedError: no answer in time.
        """
        return Leasing(self.session, self.stamp, ttl_s, holder, on_lost)

    async def leases(self) -> list[LeaseInfo]:
        """The living leases by id."""
        return await list_leases(self.session)

    def lock(self, path: str, key: str, lease: Lease, *, value: Value = None, timeout_s: float | None = None) -> Lock:
        """A lock at an entry's place: `async with world.lock("/bank", "till", lease) as token:`.

        `value`: what the entry holds meanwhile, for people. `timeout_s` bounds the wait for it; None = as long as it
        takes.
        """
        return Lock(self, path, key, lease, value, timeout_s)

    def subscription(self, name: str) -> Subscription:
        """The handle of a subscription; asks the server nothing."""
        return Subscription(self.session, name, self.group, self.stamp)

    async def subscriptions(self) -> list[SubscriptionInfo]:
        """All subscriptions, by name."""
        return await list_subscriptions(self.session)

    async def describe_kind(self, kind: str) -> KindInfo:
        """What environments of a kind offer: operations with their schemas, and listeners.

        Raises:
            KindNotFoundError: no such behaviour is installed.
        """
        (found,) = await describe_kinds(self.session, kind)
        return found

    async def kinds(self) -> list[KindInfo]:
        """All kinds of environments that the server offers, by name."""
        return await describe_kinds(self.session, "")

    async def server_info(self) -> ServerInfo:
        """What the server is, what it promises, and its bounds.

        Raises:
            ConnectionFailedError: no answer in time.
        """
        return await ask_server_info(self.session.calls)

    async def close(self) -> None:
        """Wait for what is unanswered, at most ClientSettings.flush_timeout_s, then end the session.

        Whatever still waits gets ClosedError; closing twice does nothing.
        """
        await self.session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Connecting:
    """What `connect` returns: await it for a World, or enter it with `async with`."""

    def __init__(self, session: Session, timeout_s: float, create: bool) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._create = create
        self._world: World | None = None

    def __await__(self) -> Generator[Any, None, World]:
        return self._connect().__await__()

    async def __aenter__(self) -> World:
        self._world = await self._connect()
        return self._world

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._world is not None:
            await self._world.close()

    async def _connect(self) -> World:
        session = self._session
        if self._create:
            async with Worlds(session.address, session.settings, self._timeout_s) as worlds:
                await worlds.create(session.world, if_absent=True)
        await session.start(self._timeout_s)
        return World(session)


def connect(
    address: str | None = None,
    world: str = "main",
    *,
    client_id: str | None = None,
    groups: Sequence[str] = (),
    create: bool = False,
    timeout_s: float = 10.0,
    settings: ClientSettings | None = None,
    chance: random.Random | None = None,
) -> Connecting:
    """Open a world: `world = await connect(...)`, or `async with connect(...) as world`.

    `address` is host:port; None = that in the environment variable ECUMENE_SERVER, else 127.0.0.1:7170. `client_id`
    (1-64 bytes of [A-Za-z0-9._-]) is chosen at random by default; give one of your own only if a program that starts
    again shall go on in the same session: a newer session with the id ends the older. `groups`: paths of group
    environments, see World.as_group; with them, only what names one of them is allowed. `create` makes the world first
    if it is absent. `chance` decides the waits between attempts.

    Raises:
        InvalidFieldError: `address` names no port.

    Raises (when awaited):
        ConnectionFailedError: no server answered at the address within `timeout_s`; carries the last cause.
        WorldNotFoundError: the server has no such world.
        EcumeneError: the server refused the session; the class says why.
    """
    identity = client_id or f"py-{uuid.uuid4().hex}"
    session = Session(
        find_address(address), world, identity, settings or ClientSettings(), chance or random.Random(), groups
    )
    return Connecting(session, timeout_s, create)
