"""The hosts of a world, as they come and go."""

from __future__ import annotations

from collections.abc import Callable

from ecumene.client import EcumeneError, EventBatch, EventFilter, EventType, FrameWatch, Value, World
from ecumene.workflows.background import Background
from ecumene.workflows.callers import Caller
from ecumene.workflows.messages import HOSTS, host_of
from ecumene.workflows.targets import HostInfo

_EVENTS = (
    EventType.MEMBER_JOINED,
    EventType.MEMBER_LEFT,
    EventType.MEMBER_EXPIRED,
    EventType.ENVIRONMENT_DELETED,
)


class HostsWatch:
    """Tells callers of hosts. One a connection."""

    def __init__(self, world: World, on_end: Callable[[EcumeneError], None]) -> None:
        self._world = world
        self._on_end = on_end
        self._hosts: dict[str, HostInfo] = {}
        self._callers: set[Caller] = set()
        self._watch: FrameWatch | None = None
        self._tasks = Background(lambda error: on_end(EcumeneError(f"the hosts are not known any more: {error!r}")))

    async def start(self) -> None:
        """Learn which there are, and watch.

        Raises:
            EcumeneError: the world refused.
        """
        watch = self._watch = self._world.watch_frames(EventFilter(path_prefix=HOSTS, types=_EVENTS))
        async for entry in self._world.environment(HOSTS).entries():
            self._add(entry.key, entry.create_revision, entry.value)
        self._tasks.begin(self._read(watch), "workflow hosts")

    def add(self, caller: Caller) -> None:
        """Tell a caller of what is there and what comes."""
        self._callers.add(caller)
        for info in self._hosts.values():
            caller.placing.add_host(info)

    def discard(self, caller: Caller) -> None:
        """Tell it no more."""
        self._callers.discard(caller)

    async def close(self) -> None:
        """End the watch."""
        if self._watch is not None:
            await self._watch.aclose()
        await self._tasks.close()

    async def _read(self, watch: FrameWatch) -> None:
        try:
            async for batch in watch:
                self._take(batch)
        except EcumeneError as error:
            self._on_end(error)

    def _take(self, batch: EventBatch) -> None:
        for event in batch:
            place = event.path.rpartition("/")[2]
            name = event.key or host_of(place)
            if event.type == EventType.MEMBER_JOINED:
                self._add(name, event.revision, event.value)
                continue
            known = self._hosts.get(name)
            if known is not None and known.created_revision <= event.revision:
                del self._hosts[name]
            for caller in list(self._callers):
                caller.placing.remove_host(name, event.revision)
                if event.type == EventType.ENVIRONMENT_DELETED:
                    caller.lose_host(place)

    def _add(self, name: str, revision: int, value: Value) -> None:
        known = self._hosts.get(name)
        if known is not None and known.created_revision >= revision:
            return
        details = value if isinstance(value, dict) else {}
        info = self._hosts[name] = HostInfo(name, str(details.get("place", name)), revision, details)
        for caller in list(self._callers):
            caller.placing.add_host(info)
