"""Snapshots: whole or not there, restored as they were taken, refused when a byte is not what was written."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from env_server.diagnostics import failpoints
from env_server.model.changes import Changes
from env_server.model.errors import AlreadyExists, Exhausted, NotFound, Reason, SnapshotDamaged
from env_server.model.limits import MIB, Limits
from env_server.model.ports import Origin
from env_server.offline.verify import verify
from env_server.storage import copies, layout, snapshots
from env_server.storage.copies import UNFINISHED, give_history
from env_server.storage.errors import StorageClosed
from env_server.storage.lmdb_log import LmdbCommitLog
from env_server.storage.snapshots import MANIFEST_FILE, Snapshot, Snapshots
from tests.contracts.commit_log import empty_chunk, make_chunk, make_group
from tests.stored_worlds import unpack_world
from tests.unit.env_server.storage.stands import LmdbStand

LIMITS = Limits(map_bytes=64 * MIB)


class Stand:
    """A world that goes on, and a folder of snapshots."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lmdb = LmdbStand(directory / "world")
        self.log = self.lmdb.open(LIMITS)
        self.lmdb.start(self.log)
        self.groups: list[Changes] = []
        self.folder = directory / "snapshots"
        self.snapshots = Snapshots(self.folder)

    def write(self, groups: int) -> None:
        for _ in range(groups):
            self.groups.append(make_group(self.groups, rows=3))
            self.log.append(self.groups[-1], make_chunk(self.groups[-1].number) if len(self.groups) == 2 else None)
        self.lmdb.wait(len(self.groups))

    def take(self, name: str = "one", token: str = "0123456789") -> Snapshot:
        return self.snapshots.take(self.log, "main", name, token, 17)

    def restore(self, name: str = "one") -> LmdbCommitLog:
        target = self.directory / "restored"
        target.mkdir()
        self.snapshots.restore(name, target, "history-2")
        return LmdbCommitLog.open(target, LIMITS, lambda: "wrong")


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    stand = Stand(tmp_path)
    stand.write(5)
    yield stand
    stand.log.close()


def test_a_snapshot_is_restored_as_it_was_taken(stand: Stand) -> None:
    snapshot = stand.take()
    assert snapshot.origin == Origin("main", "history-1", 15)
    assert (snapshot.name, snapshot.first_revision, snapshot.wall_ns) == ("one", 1, 17)
    assert stand.snapshots.find_all() == ([snapshot], [])
    then = list(stand.groups)
    stand.write(4)
    restored = stand.restore()
    loaded = restored.load()
    assert (loaded.head.history, loaded.head.restored_from) == ("history-2", snapshot.origin)
    assert (loaded.head.revision, loaded.head.record_number) == (15, 5)
    assert list(loaded.records) == then[2:]
    assert restored.read(1, 1 << 30) == then
    assert {(number, key) for number, key, _ in loaded.entries} == set(make_chunk(2).entries)
    restored.close()


def test_a_snapshot_without_a_name_gets_one(stand: Stand) -> None:
    assert stand.take("", "abcdefghij").name == "main-15-abcdef"
    assert stand.take("", "bbcdefghij").name == "main-15-bbcdef"


def test_the_world_goes_on_while_it_is_copied_and_the_copy_is_of_one_commit(stand: Stand) -> None:
    """Commits all the while, from another thread; each copy ends with a whole record and all before it."""
    done = threading.Event()
    failures: list[BaseException] = []

    def copy() -> None:
        try:
            for index in range(8):
                stand.take(f"s{index}", f"token-{index}")
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    copier = threading.Thread(target=copy, name="copier of a test")
    copier.start()
    while not done.is_set():
        stand.write(3)
    copier.join()
    assert not failures
    found, damaged = stand.snapshots.find_all()
    assert (len(found), damaged) == (8, [])
    for snapshot in found:
        target = stand.directory / f"restored-{snapshot.name}"
        target.mkdir()
        stand.snapshots.restore(snapshot.name, target, "history-2")
        log = LmdbCommitLog.open(target, LIMITS, lambda: "wrong")
        records = log.read(1, 1 << 30)
        assert records == stand.groups[: len(records)]
        assert records[-1].last_revision == snapshot.origin.revision
        log.close()
    assert len({snapshot.origin.revision for snapshot in found}) > 1, "the world stood still: this shows nothing"


def test_names_are_taken_once_and_deleted_for_ever(stand: Stand) -> None:
    stand.take()
    with pytest.raises(AlreadyExists) as refused:
        stand.take()
    assert refused.value.reason is Reason.SNAPSHOT_EXISTS
    stand.snapshots.delete("one")
    for name in ("one", "never", "../world", ""):
        with pytest.raises(NotFound):
            stand.snapshots.delete(name)
        with pytest.raises(NotFound):
            stand.snapshots.find(name)
    assert list(stand.folder.iterdir()) == []
    stand.take()


def test_snapshots_are_bounded(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SNAPSHOTS_MAX", 1)
    stand.take()
    with pytest.raises(Exhausted) as refused:
        stand.take("two")
    assert refused.value.reason is Reason.SNAPSHOT_QUOTA


def test_every_flipped_byte_is_refused_and_nothing_is_made(stand: Stand, seed: int) -> None:
    stand.take()
    data = stand.folder / "one" / layout.DATA_FILE
    whole = data.read_bytes()
    rng = random.Random(seed)
    for _ in range(25):
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        data.write_bytes(content)
        with copies.unfinished(stand.directory, "target") as target, pytest.raises(SnapshotDamaged, match="checksum"):
            stand.snapshots.restore("one", target, "history-2")
        assert data.read_bytes() == content, "left as it is"
    data.write_bytes(whole[:-1])
    with copies.unfinished(stand.directory, "target") as target, pytest.raises(SnapshotDamaged, match="bytes instead"):
        stand.snapshots.restore("one", target, "history-2")
    data.unlink()
    with copies.unfinished(stand.directory, "target") as target, pytest.raises(SnapshotDamaged, match="there is no"):
        stand.snapshots.restore("one", target, "history-2")


@pytest.mark.parametrize(
    ("field", "value"),
    [("sha256", "0" * 64), ("origin", {"world": "main", "history": "history-1", "revision": 14}), ("size_bytes", 1)],
)
def test_a_manifest_of_something_else_is_refused(stand: Stand, field: str, value: object) -> None:
    stand.take()
    manifest = stand.folder / "one" / MANIFEST_FILE
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {field: value}))
    with copies.unfinished(stand.directory, "target") as target, pytest.raises(SnapshotDamaged):
        stand.snapshots.restore("one", target, "history-2")


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"manifest_format": 2}', "\xff", '{"manifest_format": 1, "name": 1}']
)
def test_an_unreadable_manifest_is_listed_as_damaged_and_can_be_deleted(stand: Stand, text: str) -> None:
    stand.take()
    other = stand.take("two")
    (stand.folder / "one" / MANIFEST_FILE).write_bytes(text.encode("latin-1"))
    assert stand.snapshots.find_all() == ([other], ["one"])
    with pytest.raises(SnapshotDamaged):
        stand.snapshots.find("one")
    stand.snapshots.delete("one")
    assert stand.snapshots.find_all() == ([other], [])


def test_a_snapshot_of_an_earlier_format_is_brought_up_to_date_in_the_copy(stand: Stand) -> None:
    old = unpack_world(1, "whole", stand.folder)
    data = old / layout.DATA_FILE
    before = copies.hash_file(data)
    origin = Origin("main", "history-of-format-1", 177)
    snapshots._write_manifest(old, Snapshot("whole", origin, 1, 1, data.stat().st_size, 17, before))
    restored = stand.restore("whole")
    assert restored.load().head.restored_from == origin
    restored.close()
    assert copies.hash_file(data) == before
    assert verify(stand.directory / "restored").is_whole


def test_a_disk_without_room_is_told_before_anything_is_written(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "ROOM_LEFT_BYTES", 1 << 60)
    with pytest.raises(Exhausted) as refused:
        stand.take()
    assert refused.value.reason is Reason.STORAGE_QUOTA
    assert stand.snapshots.find_all() == ([], [])
    assert not list(stand.folder.glob(f"{UNFINISHED}*"))
    stand.write(1)
    monkeypatch.undo()
    stand.take()
    monkeypatch.setattr(copies, "ROOM_LEFT_BYTES", 1 << 60)
    with copies.unfinished(stand.directory, "target") as target, pytest.raises(Exhausted):
        stand.snapshots.restore("one", target, "history-2")


def test_a_disk_that_fills_up_meanwhile_leaves_no_copy_and_the_world_goes_on(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways in which it may show: the room cannot be taken, or a write fails in the middle."""
    for function in ("posix_fallocate", "ftruncate"):
        before = getattr(copies.os, function)

        def fail(*arguments: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(copies.os, function, fail)
        with pytest.raises(Exhausted) as refused:
            stand.take()
        assert refused.value.reason is Reason.STORAGE_QUOTA
        monkeypatch.setattr(copies.os, function, before)
        assert list(stand.folder.iterdir()) == []
        stand.write(1)
    stand.take()


def test_what_a_crash_leaves_is_never_listed_and_removed_at_the_next_start(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(name: str) -> None:
        if name == "before_copy_rename":
            raise SystemExit(name)

    monkeypatch.setattr(failpoints, "reach", stop)
    monkeypatch.setattr(copies.shutil, "rmtree", lambda directory, ignore_errors=False: None)  # as a kill would
    with pytest.raises(SystemExit):
        stand.take()
    monkeypatch.undo()
    assert [path.name for path in stand.folder.iterdir()] == [f"{UNFINISHED}0123456789"]
    assert stand.snapshots.find_all() == ([], [])
    stand.snapshots.tidy()
    assert list(stand.folder.iterdir()) == []


def test_a_closed_world_cannot_be_copied_and_closing_waits_for_a_copy(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying, go_on = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "during_copy":
            copying.set()
            assert go_on.wait(30)

    monkeypatch.setattr(failpoints, "reach", hold)
    taken: list[Snapshot] = []
    copier = threading.Thread(target=lambda: taken.append(stand.take()), name="copier of a test")
    copier.start()
    assert copying.wait(30)
    closer = threading.Thread(target=stand.log.close, name="closer of a test")
    closer.start()
    closer.join(0.2)
    assert closer.is_alive(), "it waits for the copy"
    go_on.set()
    closer.join()
    copier.join()
    assert stand.snapshots.find_all() == (taken, [])
    monkeypatch.undo()
    with pytest.raises(StorageClosed):
        stand.take("two")


def test_a_full_chunk_and_a_new_history_survive_together(stand: Stand) -> None:
    """give_history leaves everything but the history as it is."""
    stand.log.append(make_group(stand.groups), empty_chunk())
    stand.log.close()
    give_history(stand.directory / "world", "history-3", Origin("main", "history-1", 16))
    log = LmdbCommitLog.open(stand.directory / "world", LIMITS, lambda: "wrong")
    head = log.load().head
    assert (head.history, head.restored_from, head.revision) == ("history-3", Origin("main", "history-1", 16), 16)
    log.close()
