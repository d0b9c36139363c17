"""The world as a turn may read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecumene.client import AggregateValue, Box, Entry, EntryNotFoundError, Json, Nearby, Position, StreamItem, Value

from agent_runtime.model.actions import Action
from agent_runtime.model.errors import ActionRefusedError

if TYPE_CHECKING:
    from agent_runtime.turns.part_context import PartContext

ENTRIES_MAX = 1_000


class Reading:
    """Reads see at least the revision that woke the agent. What is returned is bounded."""

    __slots__ = ("_context",)

    def __init__(self, context: PartContext) -> None:
        self._context = context

    async def get(self, path: str, key: str) -> Entry:
        """An entry. Raises EcumeneError, for instance EntryNotFoundError."""
        return await self._context.world.environment(path).get(key)

    async def value(self, path: str, key: str, default: Value = None) -> Value:
        """An entry's value, or `default` when there is no such entry. Raises EcumeneError."""
        return await self._context.world.environment(path).value(key, default)

    async def entries(self, path: str, prefix: str = "", *, limit: int = 100) -> list[Entry]:
        """The first entries in key order, at most `limit` (up to 1,000). Raises EcumeneError."""
        bound = min(limit, ENTRIES_MAX)
        found: list[Entry] = []
        async for entry in self._context.world.environment(path).entries(prefix, page_size=bound):
            if len(found) >= bound:
                break
            found.append(entry)
        return found

    async def latest(self, path: str, key: str, *, limit: int = 20) -> list[StreamItem]:
        """The newest items of a stream, the oldest of them first, at most `limit` (up to 1,000).

        None of a stream that does not exist. Raises EcumeneError.
        """
        place = self._context.world.environment(path)
        try:
            ends = await place.read_stream(key, limit=1)
            begin = max(ends.first_kept, ends.next_sequence - min(limit, ENTRIES_MAX))
            return list((await place.read_stream(key, from_sequence=begin, limit=min(limit, ENTRIES_MAX))).items)
        except EntryNotFoundError:
            return []

    async def near(
        self,
        path: str,
        who: str | Position | None = None,
        *,
        radius: float | None = None,
        nearest: int | None = None,
        adjacent: bool = False,
        box: Box | None = None,
        limit: int = 100,
    ) -> Nearby:
        """Entries near an entry or a position, the nearest first: at most `limit` (up to 1,000).

        Exactly one way to say how near, as in Environment.near. Raises EcumeneError.
        """
        place = self._context.world.environment(path)
        bound = min(limit, ENTRIES_MAX)
        return await place.near(who, radius=radius, nearest=nearest, adjacent=adjacent, box=box, limit=bound)

    async def aggregates(self, path: str) -> dict[str, AggregateValue]:
        """The aggregates of an environment by name. Raises EcumeneError."""
        return dict((await self._context.world.environment(path).aggregates()).values)

    async def call(self, path: str, operation: str, /, **arguments: Json) -> Json:
        """Run an operation that only reads, now; returns its result.

        Raises:
            ActionRefusedError: there is no such operation, it takes other arguments, or it may change something: that
                is decided with `turn.invoke`, and done with the other effects of the turn.
            EcumeneError: for instance OperationRefusedError.
        """
        action = Action(operation, path, operation, arguments, "invoke")
        places = self._context.places
        await places.check(action)
        place = await places.find(operation, path)
        if not place.find_operation(operation, operation).info.reads_only:
            raise ActionRefusedError(operation, f"{operation} of {path} may change the world: invoke it")
        return (await self._context.world.environment(path).run(operation, arguments)).result
