"""Sessions: answers are kept until they are acknowledged, within bounds, and come back from the tables."""

from __future__ import annotations

import pytest

from env_server.idempotency.sessions import Sessions, strip_reads
from env_server.model.errors import OutOfRange, Reason
from env_server.model.frames import Answer, EntryPage, Listed, Written
from env_server.model.limits import Limits


def answer(seq: int) -> Answer:
    return Answer(seq, 1, seq * 10)


def test_an_answer_is_kept_until_it_is_acknowledged() -> None:
    sessions = Sessions(Limits())
    for seq in (1, 2, 3):
        sessions.keep("c", answer(seq))
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
        sessions.keep("a", answer(seq))
    assert sorted(sessions.use("a").answers) == [3, 4, 5]
    with pytest.raises(OutOfRange):
        sessions.kept("a", 2)
    sessions.keep("b", answer(1))
    sessions.use("a")
    sessions.keep("c", answer(1))
    assert sessions.kept("a", 5) == answer(5)
    assert sessions.round()["b"] is None
    assert sessions.use("b").last_seq == 0


def test_sessions_come_back_from_the_tables_as_they_were() -> None:
    sessions = Sessions(Limits())
    for seq in (2, 4, 5):
        sessions.keep("c", answer(seq))
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
