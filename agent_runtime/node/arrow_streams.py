"""Whether an Arrow IPC stream takes more room when it is read than it took on its way here."""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

_VERSION: Final = pa.ipc.MetadataVersion.V5
_MESSAGE_HEADER: Final = 2
_DICTIONARY_DATA: Final = 1
_BATCH_COMPRESSION: Final = 3
"""Numbers of fields in the tables of Arrow's Message.fbs."""


def is_compressed(stream: pa.Buffer) -> bool:
    """Whether a batch of it, or one of a dictionary, is compressed, or of a version that may say so elsewhere.

    Raises:
        pa.ArrowException, OSError: it is no such stream.
    """
    # The reader unpacks whatever it finds, without a bound: 64 MiB may become terabytes. So this is asked of the heads.
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream)):
        if message.type == "schema":
            continue
        if message.metadata_version != _VERSION:
            return True
        try:
            if _has_compression(message.metadata.to_pybytes(), in_dictionary=message.type == "dictionary"):
                return True
        except (struct.error, IndexError) as error:
            raise pa.ArrowInvalid("a message without a head") from error
    return False


def _has_compression(head: bytes, *, in_dictionary: bool) -> bool:
    batch = _follow(head, _find_field(head, _follow(head, 0), _MESSAGE_HEADER))
    if in_dictionary:
        batch = _follow(head, _find_field(head, batch, _DICTIONARY_DATA))
    return _find_field(head, batch, _BATCH_COMPRESSION) != 0


def _find_field(head: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffers table is, 0 if it is left out. Raises struct.error."""
    fields = table - int(struct.unpack_from("<i", head, table)[0])
    size = int(struct.unpack_from("<H", head, fields)[0])
    place = 4 + 2 * number
    offset = int(struct.unpack_from("<H", head, fields + place)[0]) if place < size else 0
    return table + offset if offset else 0


def _follow(head: bytes, at: int) -> int:
    """The table that an offset leads to. Raises struct.error."""
    return at + int(struct.unpack_from("<I", head, at)[0])
