"""Saving rounds: what the state tables lack, in chunks that ride along with commits (see state_tree.unsaved).

A chunk is as large as its group asks for: a commit of one op carries so little that nobody notices, one of thousands
so much that the round ends long before the next must begin.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from env_server.idempotency.producers import Producers
from env_server.idempotency.sessions import Sessions
from env_server.model.changes import Fact, FactKind
from env_server.model.limits import MIB, Limits
from env_server.model.ports import StateChunk
from env_server.state_tree.tree import Tree

_MAP_SHARE: Final = 16
"""A round begins before what it has to write exceeds this part of the map, so that there is room for it at the end."""
_ROUND_BYTES_MAX: Final = 256 * MIB
_KEYS_A_CHANGE: Final = 4
"""A round holds up to `replay_ops_max / 2` changes, each of an entry and perhaps a producer, and has as many to end."""
_CHUNK_KEYS_MIN: Final = 256
"""A commit takes about 0.5 ms longer for them."""
_CHUNK_KEYS_MAX: Final = 32_768
_CHUNK_KEYS: Final = 8192
"""When nobody waits for the commit, or there is no room for anything else."""


class Saving:
    """Decides when a round begins and hands out its chunks."""

    def __init__(
        self,
        tree: Tree,
        producers: Producers,
        sessions: Sessions,
        limits: Limits,
        changes_unsaved: int = 0,
        bytes_unsaved: int = 0,
    ) -> None:
        """`changes_unsaved` counts those that recovery has replayed, in records of `bytes_unsaved`."""
        self._tree = tree
        self._producers = producers
        self._sessions = sessions
        self._round_every = limits.replay_ops_max // 2
        self._round_every_bytes = min(limits.log_bytes_max // 2, limits.map_bytes // _MAP_SHARE, _ROUND_BYTES_MAX)
        self._changes_since = changes_unsaved
        self._bytes_since = bytes_unsaved
        #: Of the round that is under way.
        self._bytes_saving = 0
        self._urged = self._hurried = False
        self._chunk_keys = _CHUNK_KEYS
        self._round: Iterator[StateChunk] | None = None
        self._facts: dict[tuple[int, str], bytes | None] = {}

    @property
    def bytes_owed(self) -> int:
        """Bytes of records whose changes are not in the tables yet: as much as saving them may take, roughly."""
        return self._bytes_since + self._bytes_saving

    @property
    def is_behind(self) -> bool:
        """Whether the tables lack anything."""
        return self._round is not None or self._changes_since > 0

    def note_bytes(self, size_bytes: int) -> None:
        """The record of the group that was asked for last has this size."""
        self._bytes_since += size_bytes

    def note_facts(self, facts: Iterable[Fact]) -> None:
        """The tables lack these facts; newer ones replace older ones of the same name."""
        self._facts.update(((int(kind), key), value) for kind, key, value in facts)

    def urge(self) -> None:
        """Begins the next round at once; the one under way, or else that one, goes on in large chunks."""
        self._urged = self._hurried = True

    def next_chunk(self, changes: int, number: int) -> StateChunk | None:
        """What goes with commit group `number`, which holds that many changes; None = nothing."""
        if self._round is None:
            is_due = self._changes_since >= self._round_every or self._bytes_since >= self._round_every_bytes
            if not is_due and not (self._urged and self._changes_since):
                self._changes_since += changes
                return None
            self._urged = False
            self._bytes_saving, self._bytes_since = self._bytes_since, 0
            # The group itself is not sealed yet: what it holds counts as unsaved after this round too.
            self._changes_since = changes
            self._round = self._chunks(number - 1)
        else:
            self._changes_since += changes
        asked = min(max(_KEYS_A_CHANGE * changes, _CHUNK_KEYS_MIN), _CHUNK_KEYS_MAX)
        self._chunk_keys = max(asked, _CHUNK_KEYS) if self._hurried else asked
        chunk = next(self._round, None)
        if chunk is None:
            self._round = None
            self._bytes_saving = 0
            self._hurried = self._urged
        return chunk

    def everything(self, number: int) -> Iterator[StateChunk]:
        """All chunks that complete the tables through record `number`, for a clean stop."""
        self._chunk_keys = _CHUNK_KEYS
        if self._round is not None:
            yield from self._round
            self._round = None
        yield from self._chunks(number)
        self._changes_since = self._bytes_since = self._bytes_saving = 0

    def _chunks(self, through: int) -> Iterator[StateChunk]:
        yield from self._tree.unsaved.round(self._ask_keys)
        taken, self._facts = self._facts, {}
        facts = iter(taken.items())
        while part := list(islice(facts, self._chunk_keys)):
            yield _EMPTY._replace(facts={name: value for name, value in part if self._has_place(name)})
        for marks in self._producers.round(self._ask_keys):
            yield _EMPTY._replace(producers=marks)
        yield _EMPTY._replace(sessions=self._sessions.round(), applied_through=through)

    def _has_place(self, name: tuple[int, str]) -> bool:
        """Timers of an environment that was deleted are dropped with it: nothing more may come of them."""
        kind, key = name
        return kind != FactKind.TIMER or int(key.partition("/")[0]) in self._tree.nodes.by_number

    def _ask_keys(self) -> int:
        return self._chunk_keys


_EMPTY = StateChunk({}, {}, {}, {}, {}, (), None)
