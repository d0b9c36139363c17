"""Rows come back as they were, and a flipped byte anywhere in them is found."""

import random
import time
import zlib
from collections.abc import Callable, Iterable

import pytest

from env_server.model.entries import COUNTER, VALUE, Entry
from env_server.model.ports import StateChunk
from env_server.model.values import NOTHING, Json
from env_server.storage import layout, rows
from env_server.storage.errors import DataLoss
from env_server.storage.rows import Pair, TableWrites, encode_chunk
from tests.contracts.commit_log import empty_chunk, make_chunk

DECODERS: dict[str, Callable[[Iterable[Pair]], Iterable[object]]] = {
    layout.ENVIRONMENTS: rows.decode_environments,
    layout.ENTRIES: rows.decode_entries,
    layout.ITEMS: rows.decode_items,
    layout.PRODUCERS: rows.decode_producers,
    layout.SESSIONS: rows.decode_sessions,
    layout.FACTS: rows.decode_facts,
}


BARE_LOOPS_MAX = 60.0
"""Five times what it takes: 9 to 18 on the machines it was measured on."""


def full_chunk() -> StateChunk:
    """A row of every table."""
    return make_chunk(None)._replace(facts={(1, "7"): b'{"ttl_ms": 1000}', (2, "s"): b"{}"})


def write_tables(chunk: StateChunk) -> dict[str, TableWrites]:
    return {writes.table: writes for writes in encode_chunk(chunk)}


@pytest.mark.parametrize(
    "value", [None, True, False, 7, -(2**63), 2**63 - 1, 0.5, -0.0, "", "ä", b"", b"\0\xff", Json(b"[ ]"), NOTHING]
)
def test_entries_keep_value_and_type(value: object) -> None:
    entry = Entry(value, 2**63, 2**62, 2**61, COUNTER)  # type: ignore[arg-type]
    writes = write_tables(empty_chunk()._replace(entries={(2**63, "schlüssel"): entry}))
    ((number, key, returned),) = rows.decode_entries(writes[layout.ENTRIES].puts)
    assert (number, key, returned) == (2**63, "schlüssel", entry)
    assert type(returned.value) is type(value)
    assert repr(returned.value) == repr(value)


@pytest.mark.parametrize("value", [0.5, -0.0, 7, None])
@pytest.mark.parametrize("place", [None, (3.0,), (-0.5, 7.25)])
@pytest.mark.parametrize(("lease", "written"), [(0, 0), (0, 2**60), (9, 0), (9, 2**60)])
def test_entries_keep_where_they_are(value: object, place: tuple[float, ...] | None, lease: int, written: int) -> None:
    entry = Entry(value, 3, 2, 2**61, VALUE, lease, place, written)  # type: ignore[arg-type]
    writes = write_tables(empty_chunk()._replace(entries={(5, "k"): entry}))
    ((_, _, returned),) = rows.decode_entries(writes[layout.ENTRIES].puts)
    assert returned == entry and repr(returned.value) == repr(value)


def test_a_whole_chunk_comes_back() -> None:
    chunk = make_chunk(None)
    writes = write_tables(chunk)
    assert {(number, key): entry for number, key, entry in rows.decode_entries(writes[layout.ENTRIES].puts)} == (
        chunk.entries
    )
    items = rows.decode_items(writes[layout.ITEMS].puts)
    assert {(number, key, item.sequence): item for number, key, item in items} == chunk.items
    environments = rows.decode_environments(writes[layout.ENVIRONMENTS].puts)
    assert {row.number: row for row in environments} == chunk.environments
    assert {mark.client_id: mark for mark in rows.decode_sessions(writes[layout.SESSIONS].puts)} == chunk.sessions
    producers = dict(rows.decode_producers(writes[layout.PRODUCERS].puts))
    assert producers["worker-1"] == chunk.producers["worker-1"]
    assert str(producers["worker-2"][1]) == str(chunk.producers["worker-2"][1])  # type: ignore[index]


def test_none_deletes_and_slices_are_sorted() -> None:
    entries: dict[tuple[int, str], Entry | None] = {
        (number % 7, f"key-{number}"): None if number % 3 else Entry(1.0, 1, 1, 1, VALUE)
        for number in range(rows.SLICE_ROWS * 2 + 5)
    }
    slices = list(encode_chunk(empty_chunk()._replace(entries=entries)))
    assert len(slices) == 3
    for writes in slices:
        assert writes.puts == sorted(writes.puts)
        assert writes.deletes == sorted(writes.deletes)
    keys = {key for writes in slices for key in writes.deletes}
    assert keys == {layout.entry_key(*name) for name, entry in entries.items() if entry is None}


@pytest.mark.parametrize("table", DECODERS)
def test_a_flipped_byte_is_found(table: str, seed: int) -> None:
    rng = random.Random(seed)
    for pair in write_tables(full_chunk())[table].puts:
        for part in (0, 1):
            damaged = bytearray(pair[part])
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            with pytest.raises(DataLoss, match="checksum"):
                list(DECODERS[table]([(bytes(damaged), pair[1]) if part == 0 else (pair[0], bytes(damaged))]))


def test_a_row_of_another_table_is_found() -> None:
    written = {table: writes.puts for table, writes in write_tables(full_chunk()).items() if writes.puts}
    assert set(written) >= set(DECODERS)
    for table, decode in DECODERS.items():
        for other, pairs in written.items():
            for pair in pairs:
                if other == table:
                    assert list(decode([pair]))
                else:
                    with pytest.raises(DataLoss, match=f"in table {table}"):
                        list(decode([pair]))


def test_a_row_of_an_earlier_format_is_sealed_again_unless_it_is_damaged(seed: int) -> None:
    rng = random.Random(seed)
    for table, writes in write_tables(full_chunk()).items():
        for key, row in writes.puts:
            before = zlib.crc32(key + row[4:]).to_bytes(4, "little") + row[4:]
            assert rows.seal_again(table, key, before) == row
            damaged = bytearray(before)
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            with pytest.raises(DataLoss, match="checksum"):
                rows.seal_again(table, key, bytes(damaged))


def test_a_chunk_is_encoded_between_two_commits() -> None:
    """Beside a bare loop over the same rows, in turn: only a much slower form breaks it, not a slower machine."""
    entries: dict[tuple[int, str], Entry | None] = {
        (number % 1000, f"agent-{number}"): Entry(number / 7, 3, 10, 20, VALUE) for number in range(65_536)
    }
    ratios = []
    for _ in range(3):
        start = time.thread_time()
        bare = [number.to_bytes(8, "big") + key.encode() for number, key in entries]
        bare_s = time.thread_time() - start
        start = time.thread_time()
        written = sum(len(writes.puts) for writes in encode_chunk(empty_chunk()._replace(entries=entries)))
        ratios.append((time.thread_time() - start) / bare_s)
        assert written == len(bare) == 65_536
    assert min(ratios) < BARE_LOOPS_MAX, ratios
