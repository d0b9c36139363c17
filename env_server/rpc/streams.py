"""The streams that live, sessions, monitors and consumers of all worlds: told, ended and counted."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from env_server.model.errors import Exhausted, NotFound, Reason, Unavailable, WorldError
from env_server.model.limits import Limits
from env_server.pipeline import World

RECONNECT_AFTER_MS = 500


class LiveStream(Protocol):
    """A stream in the registry."""

    world: World
    client_id: str
    """Of a session; "" for a monitor."""

    def go_away(self, reason: str, reconnect_after_ms: int) -> None:
        """Tells the client, in band, that the server is about to stop."""

    def end(self, error: WorldError) -> None:
        """Ends the stream with the error's status, soon; calls after the first change nothing."""


class Streams:
    """Registry of the living streams of one server, bounded for each world and in all."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: Calls that stream, also those that have not said yet what they want.
        self._calls = 0
        self._of_world: Counter[str] = Counter()
        self._streams: set[LiveStream] = set()
        self._when_drained: list[Callable[[], None]] = []
        self._sessions: dict[tuple[str, str], LiveStream] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._streams)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around a call that streams, from its first moment to its last.

        Raises:
            Exhausted: STREAM_QUOTA: the server has as many as it may.
        """
        _check_room("server_streams_max", self._limits.server_streams_max, self._calls, "the server")
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    @contextmanager
    def living(self, stream: LiveStream) -> Iterator[None]:
        """Around the life of a stream, which keeps its world open.

        A living session with the same world and client id is ended, FENCED.

        Raises:
            Exhausted: STREAM_QUOTA: the world has as many as it may.
        """
        world, name = stream.world, (stream.world.name, stream.client_id)
        replaced = self._sessions.get(name)
        if replaced is None:  # else it takes the place of the other one
            _check_room("streams_max", world.limits.streams_max, self._of_world[world.name], f"the world {world.name}")
        self._add(stream)
        if replaced is not None:
            problem = "a newer stream with the same client_id has replaced this one"
            replaced.end(WorldError(Reason.FENCED, problem, metadata={"client_id": stream.client_id}))
        try:
            yield
        finally:
            self._discard(stream)

    def end_world(self, name: str) -> None:
        """Ends every stream of a world that is gone."""
        for stream in [stream for stream in self._streams if stream.world.name == name]:
            stream.end(NotFound(Reason.WORLD_NOT_FOUND, world=name))

    def when_drained(self, call: Callable[[], None]) -> None:
        """Calls when every stream is told to go away: for calls that wait as long as streams live."""
        self._when_drained.append(call)

    async def drain(self, reason: str, grace_s: float) -> None:
        """Tells every stream to go away, waits until all have gone, and ends those that have not after `grace_s`."""
        for call in self._when_drained:
            call()
        for stream in list(self._streams):
            stream.go_away(reason, RECONNECT_AFTER_MS)
        try:
            await asyncio.wait_for(self._empty.wait(), grace_s)
        except TimeoutError:
            pass
        for stream in list(self._streams):
            stream.end(Unavailable(Reason.DRAINING, reason, retry_delay_ms=RECONNECT_AFTER_MS))

    def _add(self, stream: LiveStream) -> None:
        stream.world.users += 1
        self._of_world[stream.world.name] += 1
        if stream.client_id:
            self._sessions[stream.world.name, stream.client_id] = stream
        self._streams.add(stream)
        self._empty.clear()

    def _discard(self, stream: LiveStream) -> None:
        world = stream.world
        world.users -= 1
        self._of_world[world.name] -= 1
        if not self._of_world[world.name]:
            del self._of_world[world.name]
        self._streams.discard(stream)
        if self._sessions.get((world.name, stream.client_id)) is stream:
            del self._sessions[world.name, stream.client_id]
        if not self._streams:
            self._empty.set()


def _check_room(limit: str, maximum: int, count: int, what: str) -> None:
    if count >= maximum:
        problem = f"{what} has {count} streams, as many as it may"
        raise Exhausted.of(Reason.STREAM_QUOTA, limit, maximum, problem)
