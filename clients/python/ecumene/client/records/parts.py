"""Part files: closed durably, named so that parts of several writers never meet."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ecumene.client.records.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

PART_NUMBER_MAX = 999_999
_SOURCE = re.compile(r"[a-z0-9][a-z0-9._]*(?:-[a-z0-9._]+)*")
_SOURCE_CHARS_MAX = 80
_PART = re.compile(r"(?P<source>.+)-(?P<number>\d{6})\.parquet")


class PartNameError(ValueError):
    """A source or number that cannot be part of a file name."""


def name_part(source: str, number: int) -> str:
    """The file name of a source's part.

    Raises PartNameError if the source is not lower-case letters, digits, `.`, `_` and inner `-`, at
    most 80 characters, or the number is not in [1, 999,999].
    """
    if len(source) > _SOURCE_CHARS_MAX or not _SOURCE.fullmatch(source):
        raise PartNameError(f"source {source[:100]!r} is no name of a writer: a-z, 0-9, '.', '_', inner '-'")
    if not 1 <= number <= PART_NUMBER_MAX:
        raise PartNameError(f"part {number} of {source}: numbers go from 1 to {PART_NUMBER_MAX}")
    return f"{source}-{number:06d}.parquet"


def list_parts(directory: Path, table: Table, source: str | None = None) -> dict[Path, int]:
    """The closed parts of a table in a run's directory, with their numbers; of one source or of all.

    In the order of names: by source, then oldest first. Empty if nothing was recorded.
    """
    folder = directory / table.name
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    matches = ((name, _PART.fullmatch(name)) for name in names)
    return {
        folder / name: int(match["number"]) for name, match in matches if match and source in (None, match["source"])
    }


def close_part(rows: pa.Table, target: Path, staging: Path) -> int:
    """Write rows to a Parquet file that appears whole, durably, or not at all; returns its bytes.

    Written in `staging` (an existing folder of the same file system, owned by this writer), synced,
    renamed to `target`, and the folder of `target` synced.

    Raises OSError as the disk gives it (the target then does not exist, unless only the last sync
    failed), FileExistsError if the target exists: a part is never overwritten.
    """
    import pyarrow.parquet as pq

    if target.exists():
        raise FileExistsError(f"{target} exists already: a part is never overwritten")
    temporary = staging / f"{target.parent.name}.{target.name}"
    try:
        with temporary.open("wb") as file:
            # Encodings by column, as measured: a dictionary for what repeats, nothing for what does not.
            repeating = [field.name for field in rows.schema if not _varies(field)]
            pq.write_table(rows, file, compression="lz4", use_dictionary=repeating, write_statistics=False)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        temporary.rename(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
    return size


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _varies(field: pa.Field) -> bool:
    import pyarrow as pa

    return field.type in (pa.string(), pa.float64(), pa.int64())
