"""The streams that live: sessions and monitors of all worlds, so that they can be told and ended."""

import asyncio
from typing import Protocol

from env_server.model.errors import NotFound, Reason, Unavailable, WorldError

RECONNECT_AFTER_MS = 500


class LiveStream(Protocol):
    """A stream in the registry."""

    world_name: str
    client_id: str
    """Of a session; "" for a monitor."""

    def go_away(self, reason: str, reconnect_after_ms: int) -> None:
        """Tells the client, in band, that the server is about to stop."""

    def end(self, error: WorldError) -> None:
        """Ends the stream with the error's status, soon; calls after the first change nothing."""


class Streams:
    """Registry of the living streams of one server."""

    def __init__(self) -> None:
        self._streams: set[LiveStream] = set()
        self._sessions: dict[tuple[str, str], LiveStream] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: LiveStream) -> None:
        """Enters a stream; a living session with the same world and client id is ended, FENCED."""
        if stream.client_id:
            name = (stream.world_name, stream.client_id)
            replaced = self._sessions.get(name)
            if replaced is not None:
                problem = "a newer stream with the same client_id has replaced this one"
                replaced.end(WorldError(Reason.FENCED, problem, metadata={"client_id": stream.client_id}))
            self._sessions[name] = stream
        self._streams.add(stream)
        self._empty.clear()

    def discard(self, stream: LiveStream) -> None:
        """Takes a stream out; without effect when it is not in."""
        self._streams.discard(stream)
        name = (stream.world_name, stream.client_id)
        if self._sessions.get(name) is stream:
            del self._sessions[name]
        if not self._streams:
            self._empty.set()

    def end_world(self, name: str) -> None:
        """Ends every stream of a world that is gone."""
        for stream in [stream for stream in self._streams if stream.world_name == name]:
            stream.end(NotFound(Reason.WORLD_NOT_FOUND, world=name))

    async def drain(self, reason: str, grace_s: float) -> None:
        """Tells every stream to go away, waits until all have gone, and ends those that have not after `grace_s`."""
        for stream in list(self._streams):
            stream.go_away(reason, RECONNECT_AFTER_MS)
        try:
            await asyncio.wait_for(self._empty.wait(), grace_s)
        except TimeoutError:
            pass
        for stream in list(self._streams):
            stream.end(Unavailable(Reason.DRAINING, reason, retry_delay_ms=RECONNECT_AFTER_MS))
