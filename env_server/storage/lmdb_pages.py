"""Whether a data file that ends before its last page has lost anything.

LMDB numbers pages when it takes them and writes them at the commit. Pages that a transaction took at the file's end and
gave back are never written: they are free, and the file ends before them. A file that was cut off ends before pages
that are in use. So the missing pages are looked up among the free ones, of which LMDB keeps lists in a B-tree.

    meta page     two of them, the one of the later transaction counts; names the root of the free pages' tree
    branch, leaf  a header, then an array of the nodes' offsets
    leaf's value  a count, then that many page numbers; long ones lie in pages of their own
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

_META: Final = struct.Struct("<16xIIQQ I HH QQQQ Q 48x QQ")
"""After the page's header: magic, version, address, map size, page size, flags, depth, counts, root, last page, txn."""
_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<QHHHH")
"""Page number, padding, flags, end of the offsets."""
_NODE: Final = struct.Struct("<HHHH")
"""Size or page number in three parts, key size."""
_NUMBER: Final = struct.Struct("<Q")
_BRANCH, _LEAF, _OVERFLOW = 0x01, 0x02, 0x04
_IN_OWN_PAGES: Final = 0x01
_NO_PAGE: Final = 2**64 - 1
_DEPTH_MAX: Final = 32
_PAGE_BYTES_MAX: Final = 65_536


class _Meta(NamedTuple):
    page_bytes: int
    root: int
    last_page: int
    transaction: int


class _Damaged(Exception):
    """The tree of the free pages cannot be read."""


def lacks_only_free_pages(path: Path) -> bool:
    """Whether every page that the data file is too short for is free. Reads the file alone; False when in doubt."""
    data_bytes = path.stat().st_size
    with path.open("rb") as file:
        try:
            reader = _Reader(file)
            missing = set(range(data_bytes // reader.meta.page_bytes, reader.meta.last_page + 1))
            return missing <= set(reader.free_pages())
        except (_Damaged, struct.error):
            return False


class _Reader:
    """Reads pages of one data file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        beginning = file.read(2 * _PAGE_BYTES_MAX)
        first = _read_meta(beginning, 0)
        second = _read_meta(beginning, first.page_bytes)
        self.meta = max(first, second, key=lambda meta: meta.transaction)

    def free_pages(self) -> Iterator[int]:
        """Numbers of the free pages."""
        root = self.meta.root
        if root != _NO_PAGE:
            yield from self._free_below(root, _DEPTH_MAX)

    def _free_below(self, number: int, depth: int) -> Iterator[int]:
        page = self._pages(number, 1)
        found, _, flags, end, _ = _HEADER.unpack_from(page)
        if found != number or not flags & (_BRANCH | _LEAF) or not depth:
            raise _Damaged
        for place in range(_HEADER.size, end, 2):
            at = int.from_bytes(page[place : place + 2], "little")
            low, high, more, key_bytes = _NODE.unpack_from(page, at)
            if flags & _BRANCH:
                yield from self._free_below(low | high << 16 | more << 32, depth - 1)
                continue
            value = page[at + _NODE.size + key_bytes :]
            if more & _IN_OWN_PAGES:
                value = self._value_in_own_pages(_NUMBER.unpack_from(value)[0], low | high << 16)
            count = _NUMBER.unpack_from(value)[0]
            yield from struct.unpack_from(f"<{count}Q", value, _NUMBER.size)

    def _value_in_own_pages(self, number: int, value_bytes: int) -> bytes:
        page_bytes = self.meta.page_bytes
        pages = self._pages(number, (_HEADER.size + value_bytes + page_bytes - 1) // page_bytes)
        if not _HEADER.unpack_from(pages)[2] & _OVERFLOW:
            raise _Damaged
        return pages[_HEADER.size :]

    def _pages(self, number: int, count: int) -> bytes:
        page_bytes = self.meta.page_bytes
        self._file.seek(number * page_bytes)
        pages = self._file.read(count * page_bytes)
        if len(pages) < count * page_bytes:
            raise _Damaged
        return pages


def _read_meta(data: bytes, at: int) -> _Meta:
    magic, version, _, _, page_bytes, _, _, *_, root, last_page, transaction = _META.unpack_from(data, at)
    if magic != _MAGIC or version != _VERSION or not page_bytes:
        raise _Damaged
    return _Meta(page_bytes, root, last_page, transaction)
