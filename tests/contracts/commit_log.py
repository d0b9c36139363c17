"""The commit log's interface as a test: what every form of it does, told to each by `check_commit_log`.

A form comes as a `Stand`: it opens the log of one world again and again and waits for what becomes durable.
"""

import random
from typing import Protocol

import pytest

from env_server.model.changes import Changes, KeptAnswer, KeptOutcome, Place
from env_server.model.entries import COUNTER, MEMBER, STREAM, VALUE, Entry, StreamEnds, StreamItem
from env_server.model.environments import Declaration
from env_server.model.errors import NotFound, OutOfRange, Reason
from env_server.model.frames import Answer, Listed, Written
from env_server.model.limits import Limits
from env_server.model.ports import CommitLog, EnvironmentRow, SessionMark, StateChunk
from env_server.model.values import NOTHING, Json, Nothing, Value

SECOND_NS = 1_000_000_000


class Stand(Protocol):
    """How the check reaches one form of the log."""

    durable: list[int]
    """Numbers reported, of all logs opened here."""

    def open(self, limits: Limits) -> CommitLog:
        """Opens the world's log, unstarted; `close` it or `kill` it before the next one."""

    def start(self, log: CommitLog) -> None:
        """Starts it, with reports to `durable`."""

    def wait(self, number: int) -> None:
        """Until the record is reported durable."""


def check_commit_log(stand: Stand, seed: int) -> None:
    """Goes through the interface with one world.

    Raises:
        AssertionError: the log breaks a promise.
    """
    check_new_world(stand)
    groups = check_records_return(stand, random.Random(seed))
    check_reading(stand, groups)
    check_state_returns(stand, groups)
    check_ranges_are_dropped(stand, groups)
    check_trimming(stand, groups)
    check_retention(stand, groups)
    check_compaction(stand, groups)


def check_new_world(stand: Stand) -> None:
    """An empty world keeps its history from the first open on."""
    log = stand.open(Limits())
    head = log.load().head
    assert head.history
    assert (head.revision, head.record_number, head.first_revision, head.applied_through) == (0, 0, 1, 0)
    log.close()
    again = stand.open(Limits())
    assert again.load().head == head
    again.close()


def check_records_return(stand: Stand, rng: random.Random) -> list[Changes]:
    """What was appended is replayed exactly, in order, and is reported durable in order."""
    groups: list[Changes] = []
    log = stand.open(Limits())
    assert list(log.load().records) == []
    stand.start(log)
    for _ in range(20):
        groups.append(make_group(groups, rows=rng.randrange(4), rng=rng))
        log.append(groups[-1], None)
        assert groups[-1].size_bytes > 0
        if rng.random() < 0.5:
            stand.wait(len(groups))
    stand.wait(len(groups))
    assert stand.durable == sorted(set(stand.durable))
    assert log.storage_bytes() > 0
    assert log.storage_bytes() < log.room_bytes()
    groups.append(make_group(groups))
    log.append(groups[-1], None)
    log.close()  # commits what is queued
    log = stand.open(Limits())
    loaded = log.load()
    assert loaded.head.record_number == len(groups)
    assert loaded.head.revision == groups[-1].last_revision
    assert list(loaded.records) == groups
    log.close()
    return groups


def check_reading(stand: Stand, groups: list[Changes]) -> None:
    """Reading starts in the record that holds the revision, skips what has none, stops at the bound."""
    log = stand.open(Limits())
    held = [group for group in groups if len(group)]
    for revision in range(1, groups[-1].last_revision + 1):
        expected = [group for group in held if group.last_revision >= revision]
        assert log.read(revision, 1 << 30) == expected
        assert log.read(revision, 0) == expected[:1]
    assert log.read(groups[-1].last_revision + 1, 1 << 30) == []
    with pytest.raises(OutOfRange):
        log.read(0, 1 << 30)
    log.close()


def check_state_returns(stand: Stand, groups: list[Changes]) -> None:
    """Chunks come back as state; records through `applied_through` are not replayed; None deletes."""
    log = stand.open(Limits())
    stand.start(log)
    groups.append(make_group(groups))
    applied = groups[-1].number
    log.append(groups[-1], make_chunk(applied))
    groups.append(make_group(groups))
    gone = make_chunk(None)._replace(environments={3: None}, producers={"worker-2": None}, sessions={})
    gone = gone._replace(entries={(2, "stream"): None}, items={(2, "stream", 5): None})
    log.append(groups[-1], gone)
    log.close()
    log = stand.open(Limits())
    loaded = log.load()
    assert loaded.head.applied_through == applied
    assert loaded.head.next_environment_number == 4
    chunk = make_chunk(applied)
    assert list(loaded.environments) == [chunk.environments[1], chunk.environments[2]]
    assert [row[:2] for row in loaded.entries] == sorted(name for name in chunk.entries if name != (2, "stream"))
    assert list(loaded.items) == [(2, "stream", chunk.items[2, "stream", 6])]
    assert [name for name, _ in loaded.producers] == ["worker-0", "worker-1"]
    assert list(loaded.sessions) == [chunk.sessions["client"]]
    assert list(loaded.records) == groups[applied:]
    assert {(number, key): entry for number, key, entry in log.load().entries}.items() <= chunk.entries.items()
    log.close()


def check_ranges_are_dropped(stand: Stand, groups: list[Changes]) -> None:
    """The range of a deleted environment is invisible from the commit on, however large it is."""
    log = stand.open(Limits())
    stand.start(log)
    entries: dict[tuple[int, str], Entry | None] = {
        (9, f"key-{index}"): Entry(index, 1, 5, 5, VALUE) for index in range(25_000)
    }
    groups.append(make_group(groups))
    log.append(groups[-1], empty_chunk()._replace(entries=entries))
    groups.append(make_group(groups))
    log.append(groups[-1], empty_chunk()._replace(entry_ranges_deleted=(9,)))
    log.close()
    for _ in range(3):
        log = stand.open(Limits())
        assert {number for number, _, _ in log.load().entries} == {1, 2}
        stand.start(log)
        groups.append(make_group(groups))
        log.append(groups[-1], None)
        log.close()


def check_trimming(stand: Stand, groups: list[Changes]) -> None:
    """Old records go, but never one that the state does not hold yet; what is below is refused."""
    log = stand.open(Limits(log_age_s=60.0))
    stand.start(log)
    kept = log.load().head.applied_through
    for _ in range(3):
        groups.append(make_group(groups, wall_ns=groups[-1].wall_ns + 3600 * SECOND_NS))
        log.append(groups[-1], None)
        stand.wait(groups[-1].number)
    assert log.first_revision == groups[kept - 1].last_revision + 1
    with pytest.raises(OutOfRange) as refused:
        log.read(log.first_revision - 1, 1)
    assert refused.value.reason == Reason.REVISION_COMPACTED
    assert log.read(log.first_revision, 1)[0].base_revision + 1 == log.first_revision
    groups.append(make_group(groups, wall_ns=groups[-1].wall_ns + 3600 * SECOND_NS))
    log.append(groups[-1], empty_chunk()._replace(applied_through=groups[-1].number))
    stand.wait(groups[-1].number)
    assert log.first_revision == groups[-1].base_revision + 1
    log.close()
    log = stand.open(Limits())
    loaded = log.load()
    assert loaded.head.first_revision == groups[-1].base_revision + 1
    assert list(loaded.records) == []
    log.close()


def check_retention(stand: Stand, groups: list[Changes]) -> None:
    """What somebody still needs stays, however old it is, until he lets go of it."""
    log = stand.open(Limits(log_age_s=60.0))
    stand.start(log)
    needed = groups[-1].last_revision + 1
    log.retain(needed)
    for _ in range(4):
        groups.append(make_group(groups, wall_ns=groups[-1].wall_ns + 3600 * SECOND_NS))
        log.append(groups[-1], empty_chunk()._replace(applied_through=groups[-1].number))
        stand.wait(groups[-1].number)
    assert log.first_revision == needed
    assert log.read(needed, 1 << 30) == groups[-4:]
    log.retain(groups[-2].last_revision)  # the revision itself is still needed, not only what follows
    groups.append(make_group(groups))
    log.append(groups[-1], None)
    stand.wait(groups[-1].number)
    assert log.first_revision == groups[-3].base_revision + 1
    log.retain(None)
    groups.append(make_group(groups, wall_ns=groups[-1].wall_ns + 3600 * SECOND_NS))
    log.append(groups[-1], empty_chunk()._replace(applied_through=groups[-1].number))
    stand.wait(groups[-1].number)
    assert log.first_revision == groups[-1].base_revision + 1
    log.close()


def check_compaction(stand: Stand, groups: list[Changes]) -> None:
    """Records wholly below a revision go when it is asked, but never one that the state lacks or somebody needs."""
    log = stand.open(Limits())
    stand.start(log)

    def commit(rows: int = 1, applied: bool = False) -> Changes:
        groups.append(make_group(groups, rows))
        chunk = empty_chunk()._replace(applied_through=groups[-1].number) if applied else None
        log.append(groups[-1], chunk)
        stand.wait(groups[-1].number)
        return groups[-1]

    commit(applied=True)
    first, second, third = commit(3), commit(3), commit(3)
    assert not log.owes_compaction
    assert log.held == (0, 0), "nobody needs it"
    log.compact(second.base_revision + 2)
    log.retain(second.last_revision)
    commit()
    assert log.held == (0, 0), "nobody needs what the log begins with"
    assert log.first_revision == first.base_revision + 1, "the state lacks it"
    assert log.owes_compaction
    log.retain(first.last_revision)
    commit(applied=True)
    assert log.first_revision == first.base_revision + 1, "somebody needs it"
    held, size_bytes = log.held
    assert held == first.last_revision
    assert size_bytes >= sum(group.size_bytes for group in groups if group.base_revision >= first.base_revision)
    assert not log.owes_compaction, "asking on would be in vain"
    log.retain(None)
    commit()
    assert log.first_revision == second.base_revision + 1, "the record that holds the revision is whole"
    assert not log.owes_compaction
    assert log.read(second.base_revision + 2, 0) == [second]
    with pytest.raises(OutOfRange) as refused:
        log.read(second.base_revision, 1)
    assert refused.value.metadata == {
        "asked": str(second.base_revision),
        "compacted": str(second.base_revision + 1),
    }
    log.compact(1)  # lower than before: without effect
    log.compact(third.base_revision + 1)
    log.close()
    log = stand.open(Limits())
    loaded = log.load()
    assert loaded.head.first_revision == second.base_revision + 1
    assert loaded.head.restored_from is None
    log.close()


def make_group(before: list[Changes], rows: int = 1, rng: random.Random | None = None, wall_ns: int = 0) -> Changes:
    """The group that follows those before it, with rows of several kinds, or with outcomes when it has none."""
    rng = rng or random.Random(len(before))
    base = before[-1].last_revision if before else 0
    values: list[Value | Nothing] = [1.5, -0.0, 7, True, None, "text", b"\0", Json(b'{"a": 1}'), NOTHING]
    changes = Changes(
        number=len(before) + 1,
        base_revision=base,
        last_revision=base + rows,
        wall_ns=wall_ns or (before[-1].wall_ns if before else SECOND_NS),
        places=[Place(1, "/town", {"size": "small"}), Place(2, "/town/market", {})],
        path=[rng.randrange(2) for _ in range(rows)],
        revisions=list(range(base + 1, base + rows + 1)),
        types=[4] * rows,
        keys=[f"key-{rng.randrange(9)}" for _ in range(rows)],
        values=[rng.choice(values) for _ in range(rows)],
        versions=[rng.randrange(1, 9) for _ in range(rows)],
        producers=["worker-1"] * rows,
        producer_seqs=list(range(rows)),
        actors=[""] * rows,
        causes=[""] * rows,
        principals=["token"] * rows,
    )
    if not rows:
        changes.outcomes = [KeptOutcome("worker-1", base + 1, Written(4, 2, 1.5))]
        changes.answers = [KeptAnswer("client", 1, Answer(1, 1, base, outcomes=[Listed(0, Written(4, 2))]))]
    return changes


def empty_chunk() -> StateChunk:
    """A chunk that writes nothing."""
    return StateChunk({}, {}, {}, {}, {}, (), None)


def make_chunk(applied_through: int | None) -> StateChunk:
    """A chunk with a row of every kind."""
    return StateChunk(
        environments={
            number: EnvironmentRow(number, path, Declaration(labels={"n": str(number)}), number, 1, number)
            for number, path in ((1, "/town"), (2, "/town/market"), (3, "/town/gone"))
        },
        entries={
            (1, "value"): Entry(1.5, 3, 1, 4, VALUE),
            (1, "zähler"): Entry(-7, 3, 1, 4, COUNTER),
            (1, "nothing"): Entry(NOTHING, 1, 1, 1, VALUE),
            (1, "document"): Entry(Json(b"[1, 2]"), 1, 1, 1, VALUE),
            (2, "stream"): Entry(StreamEnds(5, 7, 2), 6, 1, 8, STREAM),
            (2, "null"): Entry(None, 1, 1, 1, VALUE),
            (2, "here"): Entry(2.5, 3, 1, 7, VALUE, 0, (1.5, -0.25), 4),
            (2, "member"): Entry("m", 2, 1, 1, MEMBER, 9, (4.0,)),
            (2, "left"): Entry(Json(b"{}"), 5, 1, 8, VALUE, 0, None, 2),
            (2, "leased"): Entry(7, 5, 1, 8, COUNTER, 9, None, 2),
        },
        items={
            (2, "stream", 5): StreamItem(5, "five", 7),
            (2, "stream", 6): StreamItem(6, b"six", 8),
        },
        producers={
            "worker-0": (4, 7, 2),
            "worker-1": (17, Written(8, 6, sequence=6), 0),
            "worker-2": (2, NotFound(Reason.ENTRY_NOT_FOUND, path="/town", key="x"), 0),
        },
        sessions={
            "client": SessionMark("client", 3, (Answer(2, 5, 10), Answer(3, 1, 11, pending=[0])), 1, used=9, floor=4)
        },
        entry_ranges_deleted=(),
        applied_through=applied_through,
    )
