"""Snapshots: copies of worlds in a folder of their own, each with a manifest that says what it is.

    NAME/data.mdb         the world's data file, compact, as of one commit
    NAME/manifest.json    what was copied, when, and the checksum of the data file

A snapshot never changes. Everything here blocks; it belongs on a thread of its own, one call at a time.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any, Final, NamedTuple

from env_server.diagnostics import failpoints
from env_server.model.errors import AlreadyExists, Exhausted, NotFound, Reason, SnapshotDamaged
from env_server.model.names import is_snapshot
from env_server.model.ports import Origin
from env_server.storage import layout
from env_server.storage.copies import copy_file, give_history, hash_file, publish, remove_unfinished, unfinished
from env_server.storage.errors import StorageError
from env_server.storage.formats import upgrade_database
from env_server.storage.lmdb_log import LmdbCommitLog
from env_server.storage.read_only import look_into

MANIFEST_FILE: Final = "manifest.json"
SNAPSHOTS_MAX: Final = 1000
_DOOMED: Final = ".deleted-"
_MANIFEST_FORMAT: Final = 1


class Snapshot(NamedTuple):
    """What a manifest says."""

    name: str
    origin: Origin
    first_revision: int
    storage_format: int
    size_bytes: int
    wall_ns: int
    sha256: str


class Snapshots:
    """The snapshots in one folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def tidy(self) -> None:
        """Removes what copies and deletions that a crash cut short have left; for the start."""
        remove_unfinished(self._directory)
        for doomed in self._directory.glob(f"{_DOOMED}*"):
            shutil.rmtree(doomed)

    def find_all(self) -> tuple[list[Snapshot], list[str]]:
        """All snapshots, oldest first, and the names of those whose manifest cannot be read."""
        found: list[Snapshot] = []
        damaged: list[str] = []
        for name in self._names():
            try:
                found.append(self.find(name))
            except SnapshotDamaged:
                damaged.append(name)
            except NotFound:
                pass  # deleted meanwhile
        return sorted(found, key=lambda snapshot: (snapshot.wall_ns, snapshot.name)), damaged

    def find(self, name: str) -> Snapshot:
        """The snapshot of that name.

        Raises:
            NotFound: SNAPSHOT_NOT_FOUND.
            SnapshotDamaged: its manifest is unreadable.
        """
        directory = self._directory / name
        if not is_snapshot(name) or not directory.is_dir():
            raise NotFound(Reason.SNAPSHOT_NOT_FOUND, snapshot=name)
        try:
            return read_manifest(directory)
        except FileNotFoundError:
            if not directory.is_dir():  # deleted meanwhile
                raise NotFound(Reason.SNAPSHOT_NOT_FOUND, snapshot=name) from None
            raise SnapshotDamaged(name, f"there is no {MANIFEST_FILE}") from None

    def take(self, log: LmdbCommitLog, world: str, name: str, token: str, wall_ns: int) -> Snapshot:
        """Copies the world in an open log, while that goes on. The snapshot is whole and on the disk on return.

        `name` "" = the world's name, its revision and the beginning of `token`, which no other call has used.

        Raises:
            AlreadyExists: SNAPSHOT_EXISTS.
            Exhausted: SNAPSHOT_QUOTA; STORAGE_QUOTA: the disk has no room for the copy.
            StorageError, lmdb.Error, OSError: it cannot be copied.
        """
        self._check_free(name)
        if len(self._names()) >= SNAPSHOTS_MAX:
            problem = f"there are {SNAPSHOTS_MAX} snapshots, as many as may be"
            raise Exhausted.of(Reason.SNAPSHOT_QUOTA, "snapshots_max", SNAPSHOTS_MAX, problem)
        with unfinished(self._directory, token) as directory:
            data = directory / layout.DATA_FILE
            log.copy_to(data)
            copied = look_into(directory)
            revision = copied.head.revision
            snapshot = Snapshot(
                name or f"{world}-{revision}-{token[:6]}",
                Origin(world, copied.head.history, revision),
                copied.head.first_revision,
                copied.storage_format,
                data.stat().st_size,
                wall_ns,
                hash_file(data),
            )
            _write_manifest(directory, snapshot)
            self._check_free(snapshot.name)
            publish(directory, self._directory / snapshot.name)
        return snapshot

    def restore(self, name: str, directory: Path, history: str) -> None:
        """Makes a world's database from a snapshot, in a directory that is there already; durable on return.

        Raises:
            NotFound: SNAPSHOT_NOT_FOUND.
            SnapshotDamaged: it is not what was written.
            Exhausted: STORAGE_QUOTA: the disk has no room for it.
            StorageFormat: it was made by a newer version.
        """
        snapshot = self.find(name)
        data = directory / layout.DATA_FILE
        try:
            sha256 = copy_file(self._directory / name / layout.DATA_FILE, data)
        except FileNotFoundError:
            raise SnapshotDamaged(name, f"there is no {layout.DATA_FILE}") from None
        if data.stat().st_size != snapshot.size_bytes:
            raise SnapshotDamaged(name, f"{data.stat().st_size} bytes instead of {snapshot.size_bytes}")
        if sha256 != snapshot.sha256:
            raise SnapshotDamaged(name, f"the checksum of {layout.DATA_FILE} does not match")
        try:
            upgrade_database(directory)
            copied = look_into(directory)
        except StorageError as error:
            raise SnapshotDamaged(name, error.problem) from error
        if (copied.head.history, copied.head.revision) != snapshot.origin[1:]:
            raise SnapshotDamaged(name, "the manifest tells of another moment than the data")
        give_history(directory, history, snapshot.origin)

    def delete(self, name: str) -> None:
        """Deletes a snapshot, also a damaged one, for ever.

        Raises:
            NotFound: SNAPSHOT_NOT_FOUND.
        """
        directory = self._directory / name
        doomed = self._directory / f"{_DOOMED}{name}"
        if not is_snapshot(name):
            raise NotFound(Reason.SNAPSHOT_NOT_FOUND, snapshot=name)
        try:
            directory.rename(doomed)
        except FileNotFoundError:
            raise NotFound(Reason.SNAPSHOT_NOT_FOUND, snapshot=name) from None
        failpoints.reach("after_snapshot_doomed")
        shutil.rmtree(doomed)

    def _names(self) -> list[str]:
        if not self._directory.is_dir():
            return []
        return sorted(path.name for path in self._directory.iterdir() if path.is_dir() and is_snapshot(path.name))

    def _check_free(self, name: str) -> None:
        if name and (self._directory / name).exists():
            raise AlreadyExists(Reason.SNAPSHOT_EXISTS, snapshot=name)


def read_manifest(directory: Path) -> Snapshot:
    """The manifest of the snapshot in `directory`.

    Raises:
        FileNotFoundError: there is none.
        SnapshotDamaged: it cannot be read, or it is that of another snapshot.
    """
    text = (directory / MANIFEST_FILE).read_bytes()
    try:
        form = json.loads(text)
        if form.pop("manifest_format") != _MANIFEST_FORMAT:
            raise SnapshotDamaged(directory.name, "its manifest was written by another version")
        snapshot = Snapshot(**{**form, "origin": Origin(**form["origin"])})
        if not all(type(getattr(snapshot, field)) is kind for field, kind in _KINDS.items()):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotDamaged(directory.name, f"{MANIFEST_FILE} cannot be read") from error
    if snapshot.name != directory.name:
        raise SnapshotDamaged(directory.name, f"its manifest is that of snapshot {snapshot.name}")
    return snapshot


_KINDS: Final[dict[str, type[Any]]] = {
    "name": str,
    "first_revision": int,
    "storage_format": int,
    "size_bytes": int,
    "wall_ns": int,
    "sha256": str,
}


def _write_manifest(directory: Path, snapshot: Snapshot) -> None:
    form = {"manifest_format": _MANIFEST_FORMAT, **snapshot._asdict(), "origin": snapshot.origin._asdict()}
    with (directory / MANIFEST_FILE).open("x", encoding="utf-8") as file:
        file.write(json.dumps(form, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
