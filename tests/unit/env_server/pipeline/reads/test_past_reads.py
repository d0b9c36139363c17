"""An entry's past is what the log's rows say of it, page by page, also when it, or its environment, is gone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from env_server.model.changes import EventType
from env_server.model.entries import STREAM
from env_server.model.environments import Aggregate, Function
from env_server.model.errors import Exhausted, Reason, WorldError
from env_server.model.frames import PastPage
from env_server.model.limits import Limits
from env_server.model.operations import Code, Query, ReadPast, RegisterEntry, Transact, Write
from env_server.model.values import NOTHING
from env_server.pipeline.reads import past_reads
from env_server.rpc.encode.values import encode_read
from tests.engine import Op, Sent, Stand, add, drop, get, make_frame, new_environment, put

T = EventType


def past(path: str, key: str, first: int = 0, last: int = 0, limit: int = 0) -> Op:
    return Op(path, key, Code.QUERY, Query(ReadPast(first, last, limit)))


def read(stand: Stand, *asked: Any, **about: Any) -> PastPage:
    outcome = stand.do(past(*asked, **about)).outcome()
    assert isinstance(outcome, PastPage), outcome
    return outcome


def story(stand: Stand, path: str, key: str, **about: Any) -> list[tuple[int, int, Any, int]]:
    """All pages together: revision, type, value, version."""
    told: list[tuple[int, int, Any, int]] = []
    first = about.pop("first", 0)
    while True:
        page = read(stand, path, key, first=first, **about)
        told += [(value.revision, value.type, value.value, value.version) for value in page.values]
        if not page.next_revision:
            return told
        assert page.next_revision > (told[-1][0] if told else 0)
        first = page.next_revision


def test_every_change_is_told_with_who_and_why_and_nothing_of_like_named_things() -> None:
    stand = Stand()
    stand.done(new_environment("/a", aggregates=(Aggregate("k", Function.COUNT),)), new_environment("/a/b"))
    stand.done(
        put("/a", "k", 1, actor="bob", producer="p", seq=1),
        put("/a/b", "k", 99),
        put("/a", "l", 98),
        put("/a", "k", "two"),
        drop("/a", "k"),
        add("/a", "k", 5),
    )
    page = read(stand, "/a", "k")
    assert [(value.type, value.value, value.version) for value in page.values] == [
        (T.ENTRY_SET, 1, 1),
        (T.ENTRY_SET, "two", 2),
        (T.ENTRY_DELETED, NOTHING, 3),
        (T.ENTRY_INCREMENTED, 5, 1),
    ]
    assert (page.values[0].actor, page.values[0].producer) == ("bob", "p")
    assert (page.first_retained_revision, page.next_revision) == (1, 0)


def test_a_path_that_was_used_again_is_one_story_and_a_deleted_environment_has_one() -> None:
    stand = Stand()
    stand.done(new_environment("/a"), put("/a", "k", 1), drop("/a", ""), new_environment("/a"), put("/a", "k", 2))
    for _ in range(2):
        assert [row[1:] for row in story(stand, "/a", "k")][:3] == [
            (T.ENTRY_SET, 1, 1),
            (T.ENVIRONMENT_DELETED, NOTHING, 0),
            (T.ENTRY_SET, 2, 1),
        ]
        stand.done(drop("/a", "")) if "/a" in stand.world._tree.nodes.by_path else None
        assert stand.do(get("/a", "k")).error.reason is Reason.ENVIRONMENT_NOT_FOUND
        assert story(stand, "/a", "k")[-1][1] == T.ENVIRONMENT_DELETED
        assert story(stand, "/never", "k") == []
        stand.reopen()


def test_it_sees_what_its_own_frame_wrote_and_is_answered_when_that_is_durable() -> None:
    stand = Stand()
    sent = stand.send(put("/", "k", 1), past("/", "k"), put("/", "k", 2))
    assert not sent.parts
    stand.clock.settle()
    page: Any = sent.outcome(1)
    assert [value.value for value in page.values] == [1], "and not what came behind it"


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_pages_join_without_gap_or_repetition_and_a_revision_is_told_whole(limit: int, seed: int) -> None:
    chance = random.Random(seed)
    stand = Stand()
    expected: list[int] = []
    for _ in range(40):
        writes = tuple(Write("/", chance.choice("kl"), Code.SET, n) for n in range(chance.randrange(1, 4)))
        revision = stand.done(Op("/", "", Code.TRANSACT, Transact((), writes, ())))[0].revision  # type: ignore[union-attr]
        expected += [revision] * sum(write.key == "k" for write in writes)
    assert [row[0] for row in story(stand, "/", "k", limit=limit)] == expected
    first, last = sorted(chance.sample(range(1, stand.world.revision + 1), 2))
    told = [row[0] for row in story(stand, "/", "k", limit=limit, first=first, last=last)]
    assert told == [revision for revision in expected if first <= revision <= last]
    for page_first in (0, first):
        page = read(stand, "/", "k", first=page_first, limit=limit)
        assert len(page.values) <= max(limit, 3)


def test_pages_are_bounded_in_bytes_and_in_what_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_reads, "_READ_BYTES", 1500)
    stand = Stand(limits=Limits(past_scan_bytes_max=2000, page_bytes_max=5000))
    for number in range(50):
        stand.done(put("/", "k" if number % 10 == 0 else "other", "x" * 1000))
    pages = 0
    first = 0
    values = []
    while True:
        page = read(stand, "/", "k", first=first)
        values += page.values
        pages += 1
        first = page.next_revision
        if not first:
            break
    assert len(values) == 5
    assert pages >= 50 * 1000 // 4000
    assert len({value.revision for value in values}) == 5


def test_what_is_no_longer_retained_is_said_to_be_so() -> None:
    stand = Stand(limits=Limits(replay_ops_max=8))
    for number in range(60):
        stand.done(put("/", "k", number))
    stand.world.compact(0, lambda first: None)
    for _ in range(20):
        stand.done(put("/", "l", 0))
    page = read(stand, "/", "k", first=3)
    assert page.first_retained_revision > 3
    assert all(value.revision >= page.first_retained_revision for value in page.values)
    assert page.next_revision == 0


def test_the_future_and_a_crowd_are_refused() -> None:
    stand = Stand(limits=Limits(slow_reads_max=2))
    for about in ({"first": 99}, {"last": 99}):
        assert stand.do(past("/", "k", **about)).error.reason is Reason.REVISION_IN_FUTURE  # type: ignore[arg-type]
    sent = stand.send(*[past("/", "k")] * 3)
    stand.clock.settle()
    assert isinstance(sent.outcome(2), Exhausted)
    assert not isinstance(sent.outcome(1), WorldError)
    stream = Op("/", "s", Code.REGISTER_ENTRY, RegisterEntry(STREAM))
    stand.done(stream, Op("/", "s", Code.APPEND, "item"))
    assert [row[1:3] for row in story(stand, "/", "s")] == [(T.ENTRY_APPENDED, NOTHING), (T.ENTRY_APPENDED, "item")]


def test_a_page_of_the_past_never_fails_for_its_size() -> None:
    """Texts of three bytes a character, and small values whose origins are longer than they."""
    stand = Stand()
    stand.done(new_environment("/a"), *[put("/a", "text", "語" * 300_000) for _ in range(6)])
    for first in range(0, 9000, 3000):
        ops = [put("/a", "n", n, producer="p" * 64, seq=n + 1, actor="a" * 64) for n in range(first, first + 3000)]
        frame = make_frame(ops)
        frame.causes = ["因" * 128] * len(ops)
        stand.resend(Sent(frame))
        stand.clock.settle()
    for key, count in (("text", 6), ("n", 9000)):
        told, first = 0, 0
        while True:
            page = read(stand, "/a", key, first=first, limit=10_000)
            assert len(encode_read(page).SerializeToString()) <= Limits().message_bytes_max
            told += len(page.values)
            first = page.next_revision
            if not first:
                break
        assert told == count
