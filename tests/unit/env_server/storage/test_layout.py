"""Keys sort as what they stand for, fit into LMDB, and log values notice damage."""

import random

import pytest

from env_server.storage import layout
from env_server.storage.errors import DataLoss

LMDB_KEY_BYTES_MAX = 511


def test_log_keys_sort_by_revision_then_number() -> None:
    names = [(0, 1), (0, 2), (255, 3), (256, 4), (2**63, 5)]
    assert sorted(layout.log_key(*name) for name in names) == [layout.log_key(*name) for name in names]
    assert layout.log_key(255, 2) < layout.log_key(256, 0) < layout.log_key(256, 4)


def test_entry_keys_sort_by_environment_then_key_and_split_again() -> None:
    names = sorted((number, key) for number in (0, 1, 256, 2**63) for key in ("a", "a b", "ab", "ä", "\U0001f600"))
    keys = [layout.entry_key(*name) for name in names]
    assert keys == sorted(keys)
    assert [layout.split_entry_key(key) for key in keys] == names


def test_item_keys_of_one_stream_stand_together() -> None:
    names = [(1, "a", sequence) for sequence in (1, 255, 256, 2**40)] + [(1, "a b", 1), (1, "ab", 1), (2, "a", 1)]
    keys = [layout.item_key(*name) for name in names]
    assert keys == sorted(keys)
    assert [layout.split_item_key(key) for key in keys] == names


def test_the_longest_keys_fit() -> None:
    assert len(layout.item_key(2**64 - 1, "x" * 128, 2**64 - 1)) <= LMDB_KEY_BYTES_MAX


def test_a_record_is_opened_as_it_was_sealed() -> None:
    value = layout.seal_record(-5, 2**40, b"record")
    header, record = layout.open_record(layout.log_key(7, 3), value)
    assert (header.wall_ns, header.base_revision, record) == (-5, 2**40, b"record")


def test_a_flipped_byte_is_found_wherever_it_is(seed: int) -> None:
    rng = random.Random(seed)
    value = layout.seal_record(1, 2, b"record")
    for position in range(len(value)):
        damaged = bytearray(value)
        damaged[position] ^= 1 << rng.randrange(8)
        with pytest.raises(DataLoss, match="record 3"):
            layout.open_record(layout.log_key(7, 3), bytes(damaged))
    for length in range(len(value)):
        with pytest.raises(DataLoss):
            layout.open_record(layout.log_key(7, 3), value[:length])
