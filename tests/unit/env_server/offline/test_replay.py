"""The state is built again from the log alone, up to any revision, whole or not at all."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from env_server.idempotency.producers import Producers
from env_server.idempotency.sessions import Sessions
from env_server.model.changes import Changes, FactKind
from env_server.model.limits import MIB, Limits
from env_server.model.ports import Origin
from env_server.offline.replay import rebuild
from env_server.offline.upgrade import upgrade
from env_server.offline.verify import verify
from env_server.pipeline.recovery import Facts, recover
from env_server.state_tree.tree import Tree
from env_server.storage.copies import UNFINISHED
from env_server.storage.errors import StorageError, StorageInUse
from env_server.storage.lmdb_log import LmdbCommitLog
from env_server.storage.writer import Writer
from env_server.subscriptions.facts import decode_subscriptions
from env_server.subscriptions.terms import KEY as TERMS
from tests.engine import Stand, add, drop, new_environment, put
from tests.leased import grant, hold, revoke
from tests.stored_worlds import told_then, unpack_world
from tests.subscribing import Taker, ack, ack_with, subscribe
from tests.told_world import tell_state, tell_world

LIMITS = Limits(map_bytes=64 * MIB)
REVISION = 177


@pytest.fixture
def world(tmp_path: Path) -> Path:
    world = unpack_world(1, "whole", tmp_path)
    upgrade(world)
    return world


class Ids:
    """Ids that a test can foresee."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self) -> str:
        self.drawn += 1
        return f"id-{self.drawn}"


def tell(directory: Path) -> dict[str, Any]:
    log = LmdbCommitLog.open(directory, LIMITS, lambda: "wrong")
    try:
        return tell_world(log)
    finally:
        log.close()


def test_the_whole_log_tells_the_whole_world(world: Path, tmp_path: Path) -> None:
    rebuilt = rebuild(world, 0, tmp_path / "again", Ids())
    assert (rebuilt.revision, rebuilt.records, rebuilt.history) == (REVISION, 39, "id-1")
    told = tell(tmp_path / "again")
    wanted = told_then(1, "whole")
    # What a session acknowledged is no part of the log: its answers are kept once more.
    assert {name: part for name, part in told.items() if name != "sessions"} == {
        name: part for name, part in wanted.items() if name not in ("sessions", "history")
    }
    report = verify(tmp_path / "again")
    assert report.is_whole, report.problems.told
    assert report.head is not None
    assert report.head.restored_from == Origin("whole", "history-of-format-1", REVISION)
    assert report.head.applied_through > 0, "the state is in the tables"


def test_any_revision_can_be_the_last(world: Path, tmp_path: Path, seed: int) -> None:
    events = told_then(1, "whole")["events"]
    rng = random.Random(seed)
    for revision in sorted(rng.sample(range(1, REVISION + 1), 12)):
        into = tmp_path / f"through-{revision}"
        assert rebuild(world, revision, into, Ids()).revision == revision
        told = tell(into)
        report = verify(into)
        assert report.is_whole, (revision, report.problems.told)
        wanted = [event for event in events if event[0] <= revision]
        # An aggregate's event tells of the end of its commit group, so a group that is cut has none.
        assert told["events"] == [event for event in wanted if event[1] != 11 or event in told["events"]]
        assert told["revision"] == revision


def test_the_state_through_a_revision_is_the_one_of_then(tmp_path: Path, seed: int) -> None:
    """Against a world that stood at each revision once."""
    rng = random.Random(seed)
    stand = Stand()
    stand.do(new_environment("/a"), new_environment("/b"))
    states = {}
    for _ in range(30):
        ops = []
        for _ in range(rng.randrange(1, 4)):
            path, key = rng.choice(["/a", "/b"]), f"k{rng.randrange(4)}"
            ops.append(rng.choice([put(path, key, rng.randrange(9)), add(path, "c" + key, 1), drop(path, key)]))
        for op in ops:
            stand.do(op)
            states[stand.world.revision] = tell_state(stand.world._tree)["environments"]
    copy_log(stand, tmp_path / "source")
    for revision in rng.sample(sorted(states), 8):
        into = tmp_path / f"through-{revision}"
        rebuild(tmp_path / "source", revision, into, Ids())
        assert tell(into)["environments"] == states[revision]


def test_a_record_with_facts_is_cut_as_well(tmp_path: Path) -> None:
    """Leases, members, and a cursor that moves by itself and in transactions, all in one commit group."""
    stand = Stand()
    stand.done(new_environment("/a"), subscribe("s", path_prefix="/a"))
    taker, created = Taker(stand), stand.world.revision
    stand.done(put("/a", "k1", 1), put("/a", "k2", 2), put("/a", "k3", 3))
    asyncio.run(taker.take())
    first = taker.events[0][0]
    base = stand.world.revision
    stand.done(
        grant(holder="one"),  # base + 1
        ack_with(taker.term, first, put("/a", "x", 1)),  # base + 2
        hold("/a", "held", base + 1),  # base + 3
        ack(taker.term, first + 1),  # no revision of its own
        subscribe("later"),  # base + 4
        ack_with(taker.term, first + 2, put("/a", "x", 2)),  # base + 5
        revoke(base + 1),  # base + 6
    )
    record = next(changes for changes in stand.records() if changes.last_revision >= base + 1)
    assert record.last_revision == base + 6, "one record"
    source = copy_log(stand, tmp_path / "source")
    for revision, leases, cursor, subscriptions in (
        (base, {}, created, ["s"]),
        (base + 1, {base + 1: "lives"}, created, ["s"]),
        (base + 2, {base + 1: "lives"}, first, ["s"]),
        (base + 3, {base + 1: "lives"}, first, ["s"]),
        (base + 4, {base + 1: "lives"}, first + 1, ["later", "s"]),
        (base + 5, {base + 1: "lives"}, first + 2, ["later", "s"]),
        (base + 6, {base + 1: "ended"}, first + 2, ["later", "s"]),
    ):
        into = tmp_path / f"through-{revision}"
        assert rebuild(source, revision, into, Ids()).revision == revision
        report = verify(into)
        assert report.is_whole, (revision, report.problems.told)
        told = tell_facts(into)
        assert told == (leases, cursor, subscriptions), revision


def test_a_record_of_an_earlier_version_with_facts_cannot_be_cut(tmp_path: Path) -> None:
    stand = Stand()
    stand.done(new_environment("/a"))
    stand.done(grant(), put("/a", "k", 1))
    records = stand.records()
    for changes in records:
        changes.fact_revisions.clear()
    source = copy_log(stand, tmp_path / "source", records)
    for revision in (2, 4):
        assert rebuild(source, revision, None, Ids()).revision == revision
    with pytest.raises(StorageError, match=r"revisions 3 to 4 are one record of an earlier version.*ask for 2 or 4"):
        rebuild(source, 3, None, Ids())


def copy_log(stand: Stand, directory: Path, records: list[Changes] | None = None) -> Path:
    """The records of a stand on a disk."""
    source = LmdbCommitLog.open(directory, LIMITS, lambda: "h")
    source.start(call=lambda call, told: call(told), on_durable=lambda number: None, on_fatal=lambda error: None)
    for changes in records or stand.records():
        source.append(changes, None)
    source.close()
    return directory


def tell_facts(directory: Path) -> tuple[dict[int, str], int, list[str]]:
    """Leases and how they are, the cursor of subscription s, all subscriptions."""
    log = LmdbCommitLog.open(directory, LIMITS, lambda: "wrong")
    try:
        facts = load_world_facts(log)
        leases = {int(key): "ended" if b"ended" in value else "lives" for key, value in facts[FactKind.LEASE].items()}
        stored = facts[FactKind.SUBSCRIPTION]
        subscriptions = decode_subscriptions({key: value for key, value in stored.items() if key != TERMS})
        cursors = {one.spec.name: one.cursor for one in subscriptions}
        return leases, cursors["s"], sorted(cursors)
    finally:
        log.close()


def load_world_facts(log: LmdbCommitLog) -> Facts:
    limits = Limits()
    return recover(log.load(), Tree(limits), Producers(limits), Sessions(limits)).facts


def test_nothing_is_written_without_a_target(world: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    assert rebuild(world, 0, None, Ids())[:4] == (REVISION, 39, 6, 45)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_cannot_be_done_is_refused(world: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="ends with revision 177"):
        rebuild(world, 178, None, Ids())
    with pytest.raises(StorageError, match="is there already"):
        rebuild(world, 0, world, Ids())
    trimmed = unpack_world(1, "trimmed", tmp_path)
    with pytest.raises(StorageError, match=r"its log begins at revision 183.*snapshot"):
        rebuild(trimmed, 0, None, Ids())
    log = LmdbCommitLog.open(world, LIMITS, lambda: "h")
    with pytest.raises(StorageInUse):
        rebuild(world, 0, None, Ids())
    log.close()


def test_a_replay_that_fails_leaves_nothing(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Writer, groups: list[Any]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("env_server.storage.lmdb_commit.Committer.commit", fail)
    with pytest.raises(Exception, match="no room"):
        rebuild(world, 0, tmp_path / "again", Ids())
    assert not (tmp_path / "again").exists()
    assert not list(tmp_path.glob(f"{UNFINISHED}*"))
