"""Sessions: answers are kept until they are acknowledged, within bounds, and come back from the tables."""

from __future__ import annotations

import pytest

from env_server.idempotency.kept_answers import strip_reads
from env_server.idempotency.sessions import FORGOTTEN, Sessions
from env_server.model.errors import NotFound, OutOfRange, Reason, SessionExpired
from env_server.model.frames import Answer, EntryPage, Listed, Written
from env_server.model.limits import Limits
from env_server.model.ports import SessionMark


def answer(seq: int) -> Answer:
    return Answer(seq, 1, seq * 10)


def test_an_answer_is_kept_until_it_is_acknowledged() -> None:
    sessions = Sessions(Limits())
    for seq in (1, 2, 3):
        sessions.keep("c", answer(seq), seq)
    assert sessions.use("c").last_seq == 3
    sessions.acknowledge("c", 2)
    assert sessions.kept("c", 3) == answer(3)
    assert sessions.kept("c", 4) is None
    for seq in (1, 2):
        with pytest.raises(OutOfRange) as caught:
            sessions.kept("c", seq)
        assert caught.value.reason is Reason.SEQUENCE_PASSED
    sessions.acknowledge("c", 100)
    assert sessions.kept("c", 4) is None, "what was never sent is not acknowledged"


def test_answers_and_sessions_are_bounded_and_the_oldest_go() -> None:
    sessions = Sessions(Limits(session_frames_kept_max=3, sessions_max=2))
    for seq in range(1, 6):
        sessions.keep("a", answer(seq), seq)
    assert sorted(sessions.use("a").answers) == [3, 4, 5]
    with pytest.raises(OutOfRange):
        sessions.kept("a", 2)
    sessions.keep("b", answer(1), 6)
    sessions.use("a")
    sessions.keep("c", answer(1), 7)
    assert sessions.kept("a", 5) == answer(5)
    marks = sessions.round()
    assert "b" not in marks, "the tables never had it"
    assert marks[FORGOTTEN] == SessionMark(FORGOTTEN, 0, (), 0, used=6)
    assert sessions.use("b").last_seq == 0
    sessions.keep("d", answer(1), 8)
    assert sessions.round()["a"] is None


def test_sessions_come_back_from_the_tables_as_they_were() -> None:
    sessions = Sessions(Limits())
    for seq in (2, 4, 5):
        sessions.keep("c", answer(seq), seq)
    sessions.acknowledge("c", 2)
    other = Sessions(Limits())
    mark = sessions.round()["c"]
    assert mark is not None
    other.load(mark)
    assert other.use("c").last_seq == 5
    assert other.kept("c", 4) == answer(4)
    assert other.kept("c", 3) is None
    with pytest.raises(OutOfRange):
        other.kept("c", 2)
    assert sessions.round() == {}


def test_reads_are_left_out_of_what_is_kept() -> None:
    read = Listed(0, EntryPage("/", [], "", 1))
    write = Listed(1, Written(1, 1, value=3))
    full = Answer(1, 2, 0, outcomes=[read, write], without_revision=[0])
    assert strip_reads(full).outcomes == [write]
    assert full.outcomes == [read, write]


def fill(sessions: Sessions, first: int, count: int, record: int) -> None:
    """Clients who come, keep one answer each, and leave."""
    for number in range(first, first + count):
        sessions.open(f"other-{number}", 0)
        sessions.keep(f"other-{number}", answer(1), record)
        sessions.close(f"other-{number}")


def test_who_may_have_been_forgotten_is_refused_and_who_was_never_heard_is_not() -> None:
    sessions = Sessions(Limits(sessions_max=3))
    sessions.open("c", 0)
    sessions.keep("c", answer(1), record=10)
    sessions.close("c")
    fill(sessions, 0, 3, record=11)
    assert len(sessions) == 3
    with pytest.raises(SessionExpired):
        sessions.open("c", since=10)
    assert sessions.open("late", since=11) == 0, "nothing sent since then was forgotten"
    sessions.close("late")
    assert sessions.open("c", since=0) == 0, "it gives up what was not answered"
    assert sessions.kept("c", 2) is None


def test_who_has_a_stream_is_not_forgotten() -> None:
    sessions = Sessions(Limits(sessions_max=3))
    for name in ("a", "b", "c", "d"):
        sessions.open(name, 0)
        sessions.keep(name, answer(1), record=1)
    sessions.open("a", since=1)
    sessions.close("a")
    fill(sessions, 0, 5, record=2)
    assert sessions.kept("a", 1) == answer(1), "a newer stream took over from the one that ended"
    for name in ("a", "b", "c", "d"):
        sessions.close(name)
    fill(sessions, 5, 5, record=3)
    assert len(sessions) == 3
    with pytest.raises(SessionExpired):
        sessions.open("a", since=1)


def test_what_was_forgotten_is_known_after_a_restart_together_with_the_deletions() -> None:
    sessions = Sessions(Limits(sessions_max=2))
    sessions.keep("a", answer(1), record=4)
    sessions.round()
    sessions.keep("b", answer(1), record=5)
    sessions.keep("c", answer(1), record=6)
    marks = sessions.round()
    assert marks["a"] is None
    other = Sessions(Limits(sessions_max=2))
    for mark in marks.values():
        if mark is not None:
            other.load(mark)
    assert other.kept("b", 1) == answer(1)
    with pytest.raises(SessionExpired):
        other.open("a", since=4)
    assert other.open("a", since=5) == 0


def test_a_client_that_does_not_say_what_it_sends_again_begins_with_its_first_frame() -> None:
    sessions = Sessions(Limits(sessions_max=2))
    sessions.open("a")
    assert sessions.kept("a", 7) is None, "nobody was forgotten yet"
    sessions.close("a")
    sessions.keep("a", answer(7), record=1)
    fill(sessions, 0, 2, record=2)
    sessions.open("a")
    with pytest.raises(SessionExpired):
        sessions.kept("a", 7)
    with pytest.raises(SessionExpired):
        sessions.open("a", since=1)
    assert sessions.kept("a", 1) is None
    assert sessions.kept("a", 2) is None


def test_clients_that_only_come_and_go_leave_nothing_to_save() -> None:
    sessions = Sessions(Limits(sessions_max=2))
    for number in range(100):
        sessions.open(f"c{number}", 0)
        sessions.close(f"c{number}")
    assert sessions.round() == {}
    assert len(sessions) == 2


def failing(seq: int, count: int) -> Answer:
    error = NotFound(Reason.ENTRY_NOT_FOUND, path="/", key="k" * 1000)
    listed = [Listed(index, error) for index in range(count)]
    return Answer(seq, count, 0, outcomes=listed, without_revision=list(range(count)))


def test_what_answers_list_is_bounded_in_bytes_and_the_oldest_is_dropped() -> None:
    sessions = Sessions(Limits(session_answers_bytes_max=30_000))
    for seq in (1, 2, 3):
        assert sessions.keep("c", failing(seq, 5), seq).outcomes
    session = sessions.use("c")
    assert session.weight_bytes <= 30_000
    first = sessions.kept("c", 1)
    assert first is not None, "that it was done stays known"
    assert (first.outcomes, first.dropped) == ([], [0, 1, 2, 3, 4])
    third = sessions.kept("c", 3)
    assert third is not None
    assert (len(third.outcomes), third.dropped) == (5, [])
    sessions.keep("c", failing(4, 100), 4)
    assert [len(answer.outcomes) for answer in session.answers.values()] == [0, 0, 0, 0]
    assert session.weight_bytes == 0
    sessions.acknowledge("c", 4)
    sessions.keep("c", failing(5, 5), 5)
    assert session.answers[5].outcomes
    other = Sessions(Limits(session_answers_bytes_max=30_000))
    mark = sessions.round()["c"]
    assert mark is not None
    other.load(mark)
    assert other.use("c").weight_bytes == session.weight_bytes > 0


def test_an_answer_that_still_grows_is_bounded_too() -> None:
    sessions = Sessions(Limits(session_answers_bytes_max=30_000))
    growing = Answer(1, 200, 0, pending=list(range(200)))
    kept = sessions.keep("c", growing, 1)
    for index in range(200):
        kept.pending = kept.pending[1:]
        sessions.grow("c", kept, [Listed(index, failing(1, 1).outcomes[0].outcome)], 1)
        assert sessions.use("c").weight_bytes <= 30_000
    assert sessions.kept("c", 1) is kept or not kept.pending
    last = sessions.kept("c", 1)
    assert last is not None
    assert sorted([*last.dropped, *(listed.index for listed in last.outcomes)]) == list(range(200))
