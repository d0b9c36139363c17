"""Whatever byte is damaged, and whatever does not fit together, is told with table and key; nothing is changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest

from env_server.model.changes import Fact, FactKind
from env_server.model.limits import MIB, Limits
from env_server.model.ports import Origin
from env_server.offline.comparison import compare
from env_server.offline.contents import Problems, State
from env_server.offline.upgrade import upgrade
from env_server.offline.verify import Report, verify
from env_server.state_tree.aggregates.accounts import SumAccount
from env_server.storage import layout, rows
from env_server.storage.errors import StorageInUse
from env_server.storage.lmdb_log import LmdbCommitLog
from env_server.storage.snapshots import Snapshots
from tests.stored_worlds import unpack_world

LIMITS = Limits(map_bytes=64 * MIB)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    world = unpack_world(1, "whole", tmp_path)
    upgrade(world)
    return world


def digest(directory: Path) -> str:
    return hashlib.sha256((directory / layout.DATA_FILE).read_bytes()).hexdigest()


def edit(world: Path, change: Callable[[Any, dict[str, Any]], object]) -> None:
    """Changes the database as no server would; `change` gets a transaction and the tables."""
    with lmdb.open(str(world), map_size=64 * MIB, max_dbs=16) as env:
        tables = {name: env.open_db(name.encode()) for name in layout.TABLES}
        with env.begin(write=True) as transaction:
            change(transaction, tables)


def told(report: Report) -> list[tuple[str, str]]:
    return [(problem.table, problem.key) for problem in report.problems.told]


def resealed(table: str, key: bytes, body: bytes) -> bytes:
    """A row with a right checksum, whatever it says."""
    return rows._crc(key + body, rows._SEEDS[table]).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (layout.ENVIRONMENTS, "environment "),
        (layout.ENTRIES, "key '"),
        (layout.ITEMS, "item "),
        (layout.PRODUCERS, "agent-"),
        (layout.SESSIONS, "client-"),
    ],
)
def test_a_damaged_row_is_told_with_its_key(world: Path, table: str, words: str) -> None:
    def damage(transaction: Any, tables: dict[str, Any]) -> None:
        cursor = transaction.cursor(tables[table])
        assert cursor.first()
        value = bytearray(cursor.value())
        value[-1] ^= 1
        transaction.put(cursor.key(), bytes(value), db=tables[table])

    edit(world, damage)
    before = digest(world)
    report = verify(world)
    assert [problem.table for problem in report.problems.told] == [table]
    assert words in report.problems.told[0].key
    assert "checksum" in report.problems.told[0].what
    assert digest(world) == before


def test_a_damaged_record_is_told_with_its_number_and_the_others_are_read(world: Path) -> None:
    def damage(transaction: Any, tables: dict[str, Any]) -> None:
        for number, (key, value) in enumerate(list(transaction.cursor(tables[layout.LOG])), 1):
            if number in (5, 9):
                transaction.put(key, value[:-1] + bytes((value[-1] ^ 8,)), db=tables[layout.LOG])

    edit(world, damage)
    report = verify(world)
    assert (layout.LOG, "5") in told(report)
    assert (layout.LOG, "9") in told(report)
    assert report.records == 37


def test_a_missing_record_is_told(world: Path) -> None:
    def damage(transaction: Any, tables: dict[str, Any]) -> None:
        keys = [key for key, _ in transaction.cursor(tables[layout.LOG])]
        transaction.delete(keys[20], db=tables[layout.LOG])

    edit(world, damage)
    report = verify(world)
    assert (layout.LOG, "22") in told(report)
    assert report.problems.told[0].table == layout.META, "the head counts the records too"


def test_a_clock_that_nobody_declares_is_told(world: Path) -> None:
    key, fact = layout.fact_key(FactKind.CLOCK, "1"), b'{"now":1}'
    row = resealed(layout.FACTS, key, fact)
    edit(world, lambda transaction, tables: transaction.put(key, row, db=tables[layout.FACTS]))
    found = [(problem.table, problem.key, problem.what) for problem in verify(world).problems.told]
    assert (layout.FACTS, "clock of environment 1", "is kept, and nobody declares it") in found


def test_a_timer_that_is_still_being_removed_with_its_environment_is_no_fault(world: Path) -> None:
    key, timer = layout.fact_key(FactKind.TIMER, "999/t"), b'{"clock":998,"due":5,"order":1}'

    def keep(transaction: Any, tables: dict[str, Any]) -> None:
        transaction.put(key, resealed(layout.FACTS, key, timer), db=tables[layout.FACTS])

    def mark(transaction: Any, tables: dict[str, Any]) -> None:
        transaction.put(layout.number_key(999), b"", db=tables[layout.DROPPED])

    edit(world, keep)
    assert verify(world).problems.told[0].what == "environment 999 is not there"
    edit(world, mark)
    assert verify(world).is_whole


def test_a_head_that_is_not_the_logs_is_told(world: Path) -> None:
    edit(
        world,
        lambda transaction, tables: transaction.put(
            layout.META_HEAD, layout.HEAD.pack(999, 39, 50), db=tables[layout.META]
        ),
    )
    assert told(verify(world))[0] == (layout.META, "")


def test_a_state_that_the_log_does_not_tell_is_found_although_every_checksum_is_right(world: Path) -> None:
    key = layout.entry_key(3, "v01")

    def change(transaction: Any, tables: dict[str, Any]) -> None:
        body = bytearray(transaction.get(key, db=tables[layout.ENTRIES])[4:])
        body[2] ^= 1  # the version
        transaction.put(key, resealed(layout.ENTRIES, key, bytes(body)), db=tables[layout.ENTRIES])

    edit(world, change)
    assert (layout.ENTRIES, "environment 3, key 'v01'") in told(verify(world))


def test_a_row_that_is_missing_is_found(world: Path) -> None:
    def change(transaction: Any, tables: dict[str, Any]) -> None:
        transaction.delete(layout.entry_key(3, "v01"), db=tables[layout.ENTRIES])
        cursor = transaction.cursor(tables[layout.PRODUCERS])
        assert cursor.first()
        transaction.delete(cursor.key(), db=tables[layout.PRODUCERS])

    edit(world, change)
    found = told(verify(world))
    assert (layout.ENTRIES, "environment 3, key 'v01'") in found
    assert any(table == layout.PRODUCERS for table, _ in found)


def test_an_item_that_is_missing_is_found_without_the_whole_log(tmp_path: Path) -> None:
    world = unpack_world(1, "trimmed", tmp_path)
    upgrade(world)

    def change(transaction: Any, tables: dict[str, Any]) -> None:
        cursor = transaction.cursor(tables[layout.ITEMS])
        assert cursor.first()
        assert cursor.next()
        transaction.delete(cursor.key(), db=tables[layout.ITEMS])

    assert verify(world).is_whole
    edit(world, change)
    report = verify(world)
    assert not report.is_replayed
    assert [table for table, _ in told(report)] == [layout.ITEMS]


def test_an_aggregate_that_is_not_exact_is_found(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aggregates are not stored: this is a server that would add up wrongly."""
    before = SumAccount.add
    monkeypatch.setattr(SumAccount, "add", lambda self, number: before(self, number + 1e-9))
    report = verify(world)
    assert {table for table, _ in told(report)} == {layout.ENVIRONMENTS}
    assert "is not the exact one" in report.problems.told[0].what
    assert report.aggregates == 11


@pytest.mark.parametrize("length", [0, 4096, 8192, 20_000])
def test_a_file_that_was_cut_off_is_told(world: Path, length: int) -> None:
    data = world / layout.DATA_FILE
    data.write_bytes(data.read_bytes()[:length])
    assert told(verify(world)) == [(layout.DATA_FILE, "")]
    assert data.stat().st_size == length


def test_a_world_that_a_server_has_open_is_refused(world: Path) -> None:
    log = LmdbCommitLog.open(world, LIMITS, lambda: "h")
    with pytest.raises(StorageInUse, match="stop that server"):
        verify(world)
    log.close()
    assert verify(world).is_whole


def test_a_snapshot_is_checked_against_its_manifest(world: Path, tmp_path: Path) -> None:
    log = LmdbCommitLog.open(world, LIMITS, lambda: "h")
    snapshot = Snapshots(tmp_path / "snapshots").take(log, "main", "s", "token", 1)
    log.close()
    assert snapshot.origin == Origin("main", "history-of-format-1", 177)
    directory = tmp_path / "snapshots" / "s"
    assert verify(directory).is_whole
    assert sorted(path.name for path in directory.iterdir()) == ["data.mdb", "manifest.json"]
    data = directory / layout.DATA_FILE
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    assert (layout.DATA_FILE, "") in told(verify(directory))


def test_facts_that_differ_are_named_and_their_order_tells_nothing() -> None:
    # As they were written, and as the table sorts them: 10 before 9.
    facts = [Fact(FactKind.LEASE, str(number), b"{}") for number in (8, 9, 10, 11)]
    stored, replayed, problems = State(), State(), Problems()
    replayed.take_facts(facts)
    stored.take_facts(sorted(facts, key=lambda fact: fact.key))
    compare(stored, replayed, problems)
    assert not problems.told
    stored.take_facts([Fact(FactKind.LEASE, "9", b"[]")])
    compare(stored, replayed, problems)
    assert [(problem.table, "'9'" in problem.key) for problem in problems.told] == [(layout.FACTS, True)]
