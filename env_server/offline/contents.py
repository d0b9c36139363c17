"""What is read of a stored world: its state brought into memory, and all that does not fit, with table and key."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import lmdb

from env_server.idempotency.producers import Producers
from env_server.idempotency.sessions import Sessions
from env_server.model.changes import Changes, EventType, Fact, FactKind
from env_server.model.limits import Limits
from env_server.model.ports import EnvironmentRow
from env_server.pipeline.recovery import Facts, replay_identities, take_over
from env_server.state_tree.replay import Replay
from env_server.state_tree.tree import Tree
from env_server.storage import layout, rows
from env_server.storage.errors import DataLoss
from env_server.storage.formats import TABLES_OF, read_row
from env_server.storage.lmdb_tables import Tables
from env_server.storage.rows import Pair

NONSENSE: Final = (ValueError, KeyError, TypeError, IndexError, AttributeError, AssertionError, struct.error)
"""What rows and records that contradict each other may lead to."""
PROBLEMS_MAX: Final = 100
"""Told in full; further ones are counted."""


class Problem(NamedTuple):
    """Something that is not as it was written, or contradicts the rest."""

    table: str
    key: str
    """Of the row, in words; of the log the number of the record."""
    what: str


@dataclass(slots=True)
class Problems:
    """All that was found."""

    told: list[Problem] = field(default_factory=list)
    count: int = 0

    def add(self, table: str, key: str, what: str) -> None:
        """One more."""
        self.count += 1
        if len(self.told) < PROBLEMS_MAX:
            self.told.append(Problem(table, key, what))


class State:
    """A world in memory, built up from rows and records."""

    def __init__(self) -> None:
        limits = Limits()
        self.tree = Tree(limits)
        self.producers = Producers(limits)
        self.sessions = Sessions(limits)
        self.facts: Facts = {kind: {} for kind in FactKind}
        self._replay = Replay(self.tree)
        #: Numbers of environments that a record deletes.
        self._deleted: set[str] = set()

    def record(self, changes: Changes) -> None:
        """Applies a record."""
        self._replay.record(changes)
        for row, type_ in enumerate(changes.types):
            if type_ == EventType.ENVIRONMENT_DELETED:
                self._deleted.add(str(changes.places[changes.path[row]].number))
        replay_identities(changes, self.producers, self.sessions)
        self.take_facts(changes.facts)

    def take_facts(self, found: list[Fact]) -> None:
        """Takes over facts, the last one of a name counts."""
        take_over(found, self.facts)

    def all_facts(self) -> list[Fact]:
        """Every fact there is."""
        return [Fact(kind, key, value) for kind, facts in self.facts.items() for key, value in facts.items()]

    def finish(self) -> None:
        """Counts aggregates, and lets timers go with the environments that were deleted; after the last record."""
        self._replay.finish()
        timers = self.facts[FactKind.TIMER]
        self.facts[FactKind.TIMER] = {
            key: fact for key, fact in timers.items() if key.partition("/")[0] not in self._deleted
        }

    def load_environment(self, row: EnvironmentRow) -> None:
        """A row of its table."""
        self._replay.environment(row)

    def load_entry(self, row: Any) -> None:
        """A row of its table."""
        self._replay.entry(*row)

    def load_item(self, row: Any) -> None:
        """A row of its table."""
        self._replay.item(*row)

    def load_producer(self, row: Any) -> None:
        """A row of its table."""
        self.producers.load(*row)


def load_tables(tables: Tables, storage_format: int, state: State, problems: Problems) -> dict[str, int]:
    """Reads every row of the state tables into `state`; returns how many rows there are in each that is there."""
    names = TABLES_OF[storage_format]
    dropping = {layout.NUMBER.unpack(key)[0] for key, _ in _pairs(tables, layout.DROPPED, problems)}
    loaders: dict[str, tuple[Callable[[Any], Iterator[Any]], Callable[[Any], None]]] = {
        layout.ENVIRONMENTS: (rows.decode_environments, state.load_environment),
        layout.ENTRIES: (rows.decode_entries, state.load_entry),
        layout.ITEMS: (rows.decode_items, state.load_item),
        layout.PRODUCERS: (rows.decode_producers, state.load_producer),
        layout.SESSIONS: (rows.decode_sessions, state.sessions.load),
        layout.FACTS: (rows.decode_facts, lambda fact: state.take_facts([fact])),
    }
    counts = {layout.DROPPED: len(dropping)}
    for table, (decode, load) in loaders.items():
        if table not in names:
            continue
        counts[table] = 0
        for pair in _pairs(tables, table, problems):
            counts[table] += 1
            if layout.owner_of(table, pair[0]) in dropping:
                load_row: Callable[[Any], None] = _leave_out  # its checksum is looked at all the same
            else:
                load_row = load
            _load_row(table, pair, storage_format, decode, load_row, problems)
    return counts


def name_key(table: str, key: bytes) -> str:
    """A row's key for people."""
    try:
        if table == layout.ENVIRONMENTS:
            return f"environment {layout.NUMBER.unpack(key)[0]}"
        if table == layout.ENTRIES:
            number, name = layout.split_entry_key(key)
            return f"environment {number}, key {name!r}"
        if table == layout.ITEMS:
            number, name, sequence = layout.split_item_key(key)
            return f"environment {number}, key {name!r}, item {sequence}"
        if table == layout.FACTS:
            kind, name = layout.split_fact_key(key)
            return f"kind {kind}, {name!r}"
        return repr(key.decode())
    except (ValueError, IndexError, struct.error):
        return repr(key)


def _load_row(
    table: str,
    pair: Pair,
    storage_format: int,
    decode: Callable[[Any], Iterator[Any]],
    load: Callable[[Any], None],
    problems: Problems,
) -> None:
    try:
        for row in decode([read_row(storage_format, table, pair)]):
            load(row)
    except DataLoss as damage:
        problems.add(table, name_key(table, pair[0]), damage.problem)
    except NONSENSE as error:
        problems.add(table, name_key(table, pair[0]), f"makes no sense ({type(error).__name__}: {error})")


def _leave_out(_row: Any) -> None:
    """A row of an environment that is deleted and still being removed."""


def _pairs(tables: Tables, table: str, problems: Problems) -> Iterator[Pair]:
    try:
        with tables.env.begin() as transaction:
            yield from transaction.cursor(tables[table])
    except lmdb.Error as error:
        problems.add(table, "", f"LMDB cannot read it ({error})")
