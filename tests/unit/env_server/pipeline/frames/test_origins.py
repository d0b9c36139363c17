"""Origins: who sent which row, whatever producers the ops name."""

from __future__ import annotations

import pytest

from env_server.model.changes import SentRows
from tests.engine import Stand, drop, invoke, make_frame, new_environment, put
from tests.unit.env_server.pipeline.frames.sleeper import Sleeper


@pytest.fixture
def stand() -> Stand:
    stand = Stand(Sleeper())
    stand.done(new_environment("/s", kind="sleeper"), new_environment("/t"))
    return stand


def tell_senders(stand: Stand) -> dict[str, str]:
    """Who sent what, by the only key of each row: producer or sender, whichever is the session."""
    told = {}
    for changes in stand.records():
        for row, key in enumerate(changes.keys):
            told[key] = next(
                (sent.client_id for sent in changes.sent if sent.first_row <= row < sent.first_row + sent.rows),
                changes.producers[row],
            )
    return told


def test_rows_name_the_session_that_sent_them_whatever_their_producers(stand: Stand) -> None:
    stand.do(
        put("/t", "a", 1, producer="p1", seq=1),
        drop("/t", "missing"),
        put("/t", "b", 1),
        invoke("/s", "hold", beside={"producer": "p2", "seq": 1}, key="k", seconds=1),
        invoke("/s", "hold", beside={"producer": "p3", "seq": 1}, key="l", seconds=1),
        client_id="one",
        seq=1,
    )
    stand.send(put("/t", "c", 1, producer="p4", seq=1), client_id="two", seq=1)
    stand.send(put("/t", "d", 1), client_id="two", seq=2)
    call = make_frame((put("/t", "e", 1, producer="p5", seq=1),), "", 0)
    call.sender = "three"
    stand.world.execute(call, lambda answer: None)
    stand.send(put("/t", "f", 1, producer="p6", seq=1))
    stand.clock.advance(2)
    wanted = {**dict.fromkeys("abkl", "one"), "c": "two", "d": "two", "e": "three", "f": "p6"}
    assert {key: sender for key, sender in tell_senders(stand).items() if key} == wanted
    stand.reopen()
    assert {key: sender for key, sender in tell_senders(stand).items() if key} == wanted


def test_a_plain_frame_of_a_session_needs_nothing_more_in_the_record(stand: Stand) -> None:
    stand.do(*[put("/t", f"k{number}", 1) for number in range(9)], client_id="one", seq=1)
    assert not stand.records()[-1].sent
    stand.do(*[put("/t", f"k{number}", 1, producer=f"p{number}", seq=1) for number in range(9)], client_id="one", seq=2)
    assert stand.records()[-1].sent == [SentRows(0, 9, "one")]
