"""The world as it is with writes that are staged and have not taken effect yet."""

from collections.abc import Iterable, Mapping
from typing import Any

from env_server.behaviours.view import View
from env_server.model.entries import COUNTER, STREAM, VALUE, Entry, StreamEnds, StreamItem
from env_server.model.environments import AggregateValue, EnvironmentState
from env_server.model.operations import Code, Nearby, Placed, Write


class Overlay:
    """A View that shows staged writes of entries over another one.

    Declarations, aggregates, gates and who is near are those of the world before: they follow when the writes take
    effect. Versions and revisions of what was staged mean nothing yet.
    """

    def __init__(self, under: View) -> None:
        self._under = under
        self._entries: dict[str, dict[str, Entry | None]] = {}
        self._items: dict[tuple[str, str], list[StreamItem]] = {}

    def take(self, writes: Iterable[Write]) -> None:
        """Show these writes, too. Such as could not take effect are left for when they are to."""
        for write in writes:
            changed = self._entries.setdefault(write.path, {})
            if write.code == Code.SET:
                known = self.entry(write.path, write.key)
                position = known.position if known is not None else None
                changed[write.key] = Entry(write.argument, 1, 0, 0, VALUE, position=position)  # type: ignore[arg-type]
            elif write.code == Code.PLACE:
                placed = write.argument
                assert isinstance(placed, Placed)
                changed[write.key] = Entry(placed.value, 1, 0, 0, VALUE, position=placed.position)
            elif write.code == Code.MOVE:
                known = self.entry(write.path, write.key)
                if known is not None:
                    changed[write.key] = known._replace(position=write.argument or None)  # type: ignore[arg-type]
            elif write.code == Code.DELETE_ENTRY:
                changed[write.key] = None
                self._items.pop((write.path, write.key), None)
            elif write.code == Code.ADD:
                known = self.entry(write.path, write.key)
                before = known.value if known is not None else 0
                position = known.position if known is not None else None
                total: Any = before + write.argument  # type: ignore[operator]
                changed[write.key] = Entry(total, 1, 0, 0, COUNTER, position=position)
            elif write.code == Code.APPEND:
                self._append(write)

    def entry(self, path: str, key: str) -> Entry | None:
        """The entry, None when it or its environment is absent."""
        changed = self._entries.get(path)
        return changed[key] if changed is not None and key in changed else self._under.entry(path, key)

    def entries(self, path: str) -> Mapping[str, Entry]:
        """A snapshot of all entries of an environment; empty when it is absent."""
        below, changed = self._under.entries(path), self._entries.get(path)
        if not changed:
            return below
        return {key: entry for key, entry in (dict(below) | changed).items() if entry is not None}

    def environment(self, path: str) -> EnvironmentState | None:
        """The environment as it is."""
        return self._under.environment(path)

    def time(self, path: str) -> int | None:
        """See View."""
        return self._under.time(path)

    def near(self, path: str, key: str, asked: Nearby) -> list[str]:
        """See View."""
        return self._under.near(path, key, asked)

    def aggregates(self, path: str) -> dict[str, AggregateValue]:
        """The environment's aggregates as they are."""
        return self._under.aggregates(path)

    def items(self, path: str, key: str, from_sequence: int, limit: int) -> list[StreamItem]:
        """Items of a stream from a sequence number on, at most `limit` (0 = all); none when it is absent."""
        added = self._items.get((path, key))
        if not added:
            return self._under.items(path, key, from_sequence, limit) if self.entry(path, key) is not None else []
        found = [*self._under.items(path, key, from_sequence, 0), *(one for one in added if one[0] >= from_sequence)]
        return found[:limit] if limit else found

    def _append(self, write: Write) -> None:
        known = self.entry(write.path, write.key)
        ends = known.value if known is not None and isinstance(known.value, StreamEnds) else StreamEnds(1, 1, 0)
        item = StreamItem(ends.next, write.argument, 0)  # type: ignore[arg-type]
        self._items.setdefault((write.path, write.key), []).append(item)
        position = known.position if known is not None else None
        grown = ends._replace(next=ends.next + 1)
        self._entries[write.path][write.key] = Entry(grown, 1, 0, 0, STREAM, position=position)
