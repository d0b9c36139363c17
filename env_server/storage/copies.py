"""Copies of a world's data file: made whole, given a history of their own, and shown by a rename.

A copy is made in a directory whose name begins with UNFINISHED; when all of it is on the disk, the directory gets its
name. So there is never half a copy under a name, and what a crash leaves behind is told apart and may be removed.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb

from env_server.diagnostics import failpoints
from env_server.model.errors import Exhausted, Reason
from env_server.model.limits import MIB
from env_server.model.ports import Origin
from env_server.storage import layout
from env_server.storage.errors import StorageUnreadable

UNFINISHED: Final = ".unfinished-"
ROOM_LEFT_BYTES: Final = 64 * MIB
"""What a copy leaves free on the disk: worlds go on committing while it is made."""
_SLACK_BYTES: Final = MIB
_PART_BYTES: Final = 4 * MIB
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def unfinished(parent: Path, token: str) -> Iterator[Path]:
    """A new directory to make a copy in. It is removed, with what is in it, unless it was published."""
    directory = parent / f"{UNFINISHED}{token}"
    directory.mkdir(mode=0o700, parents=True)
    try:
        yield directory
    except OSError as error:
        if error.errno in _FULL:
            raise no_room(directory, 0) from error
        raise
    except lmdb.DiskError as error:
        raise no_room(directory, 0) from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def publish(directory: Path, target: Path) -> None:
    """Gives a finished copy its name, durably. `target` must not exist."""
    sync_directory(directory)
    failpoints.reach("before_copy_rename")
    directory.rename(target)
    failpoints.reach("after_copy_rename")
    sync_directory(target.parent)


def remove_unfinished(parent: Path) -> None:
    """Removes what copies that a crash cut short have left in `parent`."""
    for directory in parent.glob(f"{UNFINISHED}*"):
        shutil.rmtree(directory)


def copy_environment(env: Any, target: Path, used_bytes: int) -> None:
    """Writes what an LMDB environment holds, as of its last commit, into a new file; it is on the disk on return.

    Others go on reading and writing meanwhile. The room is taken before the first byte is written.

    Raises:
        Exhausted: STORAGE_QUOTA: the disk has no room for it.
    """
    size_bytes = used_bytes + _SLACK_BYTES
    with _reserved(target, size_bytes) as descriptor:
        failpoints.reach("during_copy")
        try:
            env.copyfd(descriptor, compact=True)
        except lmdb.IncompatibleError:  # it holds pages that nobody uses: copy them too
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
            env.copyfd(descriptor)


def copy_file(source: Path, target: Path) -> str:
    """Copies a file that nobody writes to; it is on the disk on return. Returns its SHA-256.

    Raises:
        Exhausted: STORAGE_QUOTA: the disk has no room for it.
    """
    digest = hashlib.sha256()
    with source.open("rb") as file, _reserved(target, source.stat().st_size) as descriptor:
        while part := file.read(_PART_BYTES):
            digest.update(part)
            _write_all(descriptor, part)
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def give_history(directory: Path, history: str, origin: Origin) -> None:
    """Makes the database in `directory` one of its own; durable on return. Nothing else may have it open.

    Raises:
        StorageUnreadable: LMDB cannot read it.
    """
    data = directory / layout.DATA_FILE
    try:
        with lmdb.open(
            str(directory), map_size=data.stat().st_size + _SLACK_BYTES, max_dbs=len(layout.TABLES), mode=0o600
        ) as env:
            meta = env.open_db(layout.META.encode(), create=False)
            with env.begin(write=True) as transaction:
                transaction.put(layout.META_HISTORY, history.encode(), db=meta)
                transaction.put(layout.META_ORIGIN, json.dumps(origin._asdict()).encode(), db=meta)
                transaction.delete(layout.META_AHEAD, db=meta)
    except lmdb.DiskError:
        raise  # the caller knows what for
    except lmdb.Error as error:
        raise StorageUnreadable(str(directory), f"LMDB cannot read it ({error})") from error
    (directory / layout.LOCK_FILE).unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Makes the names in a directory durable: fsync of a file does not cover them."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def no_room(directory: Path, size_bytes: int) -> Exhausted:
    """The error of a disk that has no room for a copy."""
    disk = os.statvfs(directory)
    free = disk.f_bavail * disk.f_frsize
    what = f"a copy of {size_bytes} bytes" if size_bytes else "the copy"
    return Exhausted(
        Reason.STORAGE_QUOTA,
        f"the disk has {free} bytes free, no room for {what} beside the {ROOM_LEFT_BYTES} that worlds need",
        metadata={"limit": "disk", "free": str(free), "needed": str(size_bytes)},
        retry_delay_ms=1000,
    )


@contextmanager
def _reserved(target: Path, size_bytes: int) -> Iterator[int]:
    """A new file with that much room, to write from its beginning; it ends where writing ended, on the disk."""
    disk = os.statvfs(target.parent)
    if disk.f_bavail * disk.f_frsize < size_bytes + ROOM_LEFT_BYTES:
        raise no_room(target.parent, size_bytes)
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, max(1, size_bytes))
        yield descriptor
        os.ftruncate(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, part: bytes) -> None:
    view = memoryview(part)
    while view:
        view = view[os.write(descriptor, view) :]
