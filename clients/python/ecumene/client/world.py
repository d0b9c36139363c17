"""A world as a program holds it: one session, and handles of what is inside."""

from __future__ import annotations

import random
import uuid
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self

from env_api.v1 import events_pb2, session_pb2

from ecumene.client.addresses import check_address
from ecumene.client.environment import Environment
from ecumene.client.frames import Frame, FrameWriter
from ecumene.client.model import EventFilter
from ecumene.client.session import Session, SessionStatistics
from ecumene.client.settings import ClientSettings
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

    def __init__(self, session: Session) -> None:
        self.session = session
        self.frames = FrameWriter(session)
        """Whole frames with one future each, for speed."""

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

    def environment(self, path: str, *, timeout_s: float | None = None) -> Environment:
        """The handle of the environment at `path` ("/" = the root); asks the server nothing.

        `timeout_s` bounds each awaited op of the handle; None = as long as the session lives.
        """
        return Environment(self, path, timeout_s)

    def transaction(self) -> Transaction:
        """Writes that commit together."""
        return Transaction(self.session)

    def writes(self) -> Writes:
        """A list of writes, for the companions of an operation."""
        return Writes()

    def frame(self, *, return_versions: bool = False, deadline_ms: int = 0) -> Frame:
        """A new frame of rows; send it with `world.frames.send` or `submit`."""
        return Frame(return_versions=return_versions, deadline_ms=deadline_ms)

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
    ) -> FrameWatch:
        """Events in batches, beginning with this call: what this session issues after it is seen.

        `from_revision`: 0 = now; up to the world's revision = replay from there, inclusive; above = wait for it.
        `history`: the line that `from_revision` belongs to, if it was kept from an earlier session.
        `initial_state`: the matching entries first, then all that follows; without `from_revision`.
        `conflate`: a slow reader gets the latest event of each key instead of all.
        """
        wanted = event_filter or EventFilter()
        message = events_pb2.EventFilter(
            path_prefix=wanted.path_prefix,
            path_glob=wanted.path_glob,
            key_glob=wanted.key_glob,
            labels=dict(wanted.labels),
            actor=wanted.actor,
            exclude_own=wanted.exclude_own,
            region=wanted.region,
        )
        message.types.extend(int(kind) for kind in wanted.types)  # type: ignore[misc]
        policy = session_pb2.SLOW_POLICY_CONFLATE if conflate else session_pb2.SLOW_POLICY_RESUME_FROM_LOG
        start = session_pb2.WatchStart(
            filter=message,
            from_revision=from_revision,
            initial_state=initial_state,
            slow_policy=policy,
            history=history,
        )
        settings = self.session.settings
        window = Credit(settings.watch_events_max, settings.watch_bytes_max)
        return FrameWatch(self.session, WatchFeed(start, window))

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
    address: str,
    world: str = "main",
    *,
    client_id: str | None = None,
    create: bool = False,
    timeout_s: float = 10.0,
    settings: ClientSettings | None = None,
    chance: random.Random | None = None,
) -> Connecting:
    """Open a world: `world = await connect(...)`, or `async with connect(...) as world`.

    `address` is host:port. `client_id` (1-64 bytes of [A-Za-z0-9._-]) is chosen at random by default; give one of
    your own only if a program that starts again shall go on in the same session: a newer session with the id
    ends the older. `create` makes the world first if it is absent. `chance` decides the waits between attempts.

    Raises:
        InvalidFieldError: `address` names no port.

    Raises (when awaited):
        ConnectionFailedError: no server answered at the address within `timeout_s`; carries the last cause.
        WorldNotFoundError: the server has no such world.
        EcumeneError: the server refused the session; the class says why.
    """
    identity = client_id or f"py-{uuid.uuid4().hex}"
    session = Session(check_address(address), world, identity, settings or ClientSettings(), chance or random.Random())
    return Connecting(session, timeout_s, create)
