"""Files that end early: what LMDB leaves behind by itself is opened, what was cut off is refused and left as it is."""

import os
from pathlib import Path

import pytest

from env_server.model.limits import MIB, Limits
from env_server.storage import layout
from env_server.storage.errors import DataLoss
from env_server.storage.lmdb_pages import lacks_only_free_pages
from env_server.storage.lmdb_tables import Tables, open_tables

LIMITS = Limits(map_bytes=64 * MIB)
PAGE_BYTES = 4096


def leave_short(tables: Tables, rows: int) -> None:
    """Frees pages, then takes more at the file's end and gives them back at once: LMDB never writes those."""
    entries = tables[layout.ENTRIES]
    for round_ in range(3):
        with tables.env.begin(write=True) as transaction:
            for number in range(rows):
                transaction.put(b"%d-%d" % (round_, number), b"x" * 3000, db=entries)
        with tables.env.begin(write=True) as transaction:
            transaction.drop(entries, delete=False)
    with tables.env.begin(write=True) as transaction:
        transaction.put(b"larger than any hole", b"x" * 30 * MIB, db=entries)
        transaction.delete(b"larger than any hole", db=entries)


@pytest.mark.parametrize("rows", [40, 2000])
def test_a_file_without_pages_that_nobody_uses_is_opened(tmp_path: Path, rows: int) -> None:
    """With a list of free pages that fits its leaf, and one that needs pages of its own."""
    tables = open_tables(tmp_path / "world", LIMITS, lambda: "history")
    leave_short(tables, rows)
    last_page = tables.env.info()["last_pgno"]
    tables.close()
    data = tmp_path / "world" / layout.DATA_FILE
    assert data.stat().st_size < (last_page + 1) * PAGE_BYTES, "LMDB has written all pages: this test tests nothing"
    assert lacks_only_free_pages(data)
    open_tables(tmp_path / "world", LIMITS, lambda: "another").close()


@pytest.mark.parametrize("pages", [4, 100, 250])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, pages: int) -> None:
    tables = open_tables(tmp_path / "world", LIMITS, lambda: "history")
    leave_short(tables, 40)
    with tables.env.begin(write=True) as transaction:
        transaction.put(b"kept", b"x" * 30 * MIB, db=tables[layout.ENTRIES])
    tables.close()
    data = tmp_path / "world" / layout.DATA_FILE
    os.truncate(data, data.stat().st_size - pages * PAGE_BYTES)
    before = data.read_bytes()
    assert not lacks_only_free_pages(data)
    with pytest.raises(DataLoss, match="cut off"):
        open_tables(tmp_path / "world", LIMITS, lambda: "another")
    assert data.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\0" * 3 * PAGE_BYTES])
def test_what_is_no_data_file_lacks_more(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.mdb").write_bytes(content)
    assert not lacks_only_free_pages(tmp_path / "data.mdb")
