"""Files that appear whole, durably, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ecumene.client.records.parts import sync_folder


@contextmanager
def replace_whole(target: Path) -> Iterator[Path]:
    """Gives a path to write; when the block ends well, what is there takes the place of `target`, on the disk.

    Whoever reads `target` meanwhile finds the older file or the new one, after a crash, too. Whatever ends the block
    otherwise, nothing is left beside it. Raises OSError.
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield unfinished
        descriptor = os.open(unfinished, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(target.parent)


def write_whole(target: Path, text: str) -> None:
    """Write a file of text in UTF-8. Raises OSError, UnicodeEncodeError: half of a pair is no text."""
    with replace_whole(target) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
