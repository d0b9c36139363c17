"""Leases by themselves: granted, kept, due, ended, remembered."""

from __future__ import annotations

import random

import pytest

from env_server.clocks.manual_clock import ManualClock
from env_server.leases.leases import Leases, LeaseState
from env_server.model.errors import Exhausted, InvalidRequest, LimitExceeded, NotFound, Reason, WrongState
from env_server.model.limits import Limits


class Room:
    """Leases on a clock; `due` counts how often somebody was told that there is something to end."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.clock = ManualClock()
        self.due = 0
        self.leases = Leases(self.clock, limits or Limits(), self._told)
        self.facts: dict[str, bytes] = {}

    def _told(self) -> None:
        self.due += 1

    def grant(self, id_: int, ttl_ms: int = 1000) -> None:
        self.leases.check_grant(ttl_ms, "w")
        self.facts[str(id_)] = self.leases.grant(id_, ttl_ms, "w")

    def end(self, id_: int) -> None:
        for key, value in self.leases.end(id_)[1]:
            if value is None:
                del self.facts[str(key)]
            else:
                self.facts[str(key)] = value

    def restarted(self, limits: Limits | None = None) -> Room:
        room = Room(limits)
        room.facts = self.facts
        room.leases.load(self.facts)
        return room


def test_a_lease_is_due_after_its_time_and_not_before() -> None:
    room = Room()
    room.grant(1)
    room.clock.advance(0.99)
    assert (room.leases.find_due(10), room.due) == ([], 0)
    room.clock.advance(0.3)
    assert room.due
    assert room.leases.find_due(10) == [1]
    assert room.leases.lives(1), "until somebody ends it"
    room.end(1)
    assert not room.leases.lives(1)


def test_keeping_gives_the_full_time_again_even_when_it_is_due() -> None:
    room = Room()
    room.grant(1)
    for _ in range(5):
        room.clock.advance(0.9)
        assert room.leases.keep([1]) == ([1], [])
    room.clock.advance(1.3)
    assert room.due
    assert room.leases.keep([1, 2, 1]) == ([1, 1], [2])
    assert room.leases.find_due(10) == []
    room.clock.advance(1.01)
    assert room.leases.find_due(10) == [1]


def test_an_ended_lease_is_never_kept_and_told_apart_from_one_that_never_was() -> None:
    room = Room()
    room.grant(5)
    room.end(5)
    assert room.leases.keep([5, 6]) == ([], [5, 6])
    for again in (room, room.restarted()):
        with pytest.raises(WrongState) as ended:
            again.leases.check(5)
        assert ended.value.reason is Reason.LEASE_EXPIRED
        with pytest.raises(NotFound) as absent:
            again.leases.check(6)
        assert absent.value.reason is Reason.LEASE_NOT_FOUND


def test_what_is_remembered_of_ended_leases_is_bounded_and_then_counts_as_ended() -> None:
    limits = Limits(leases_remembered_max=3)
    room = Room(limits)
    for id_ in (2, 4, 6, 8, 10):
        room.grant(id_)
        room.end(id_)
    assert len(room.facts) == 3
    for again in (room, room.restarted(limits)):
        for id_ in (2, 4, 6, 8, 10, 1, 3):
            with pytest.raises(WrongState):
                again.leases.check(id_)
        for id_ in (0, 9, 11):
            with pytest.raises(NotFound):
                again.leases.check(id_)


def test_a_restart_gives_each_lease_its_full_time() -> None:
    room = Room()
    room.grant(1, 2000)
    room.grant(2, 5000)
    room.clock.advance(1.9)
    again = room.restarted()
    assert [state.remaining_ms for state in again.leases.states(lambda _: 0)] == [2000, 5000]
    again.clock.advance(1.99)
    assert again.leases.find_due(10) == []
    again.clock.advance(0.3)
    assert again.leases.find_due(10) == [1]


def test_a_stall_ends_nothing() -> None:
    room = Room()
    room.grant(1, 10_000)
    room.clock.advance(5)
    room.clock.stall(30)
    room.clock.settle()
    assert room.leases.find_due(10) == []
    room.clock.advance(4.5)
    assert room.leases.find_due(10) == []
    room.clock.advance(1)
    assert room.leases.find_due(10) == [1]


def test_a_keep_alive_that_is_read_before_the_late_tick_is_not_counted_from_the_stall() -> None:
    room = Room()
    room.grant(1, 10_000)
    room.clock.advance(5)
    room.clock.stall(30)
    assert room.leases.keep([1]) == ([1], [])
    room.clock.advance(9.5)
    assert room.leases.find_due(10) == []
    room.clock.advance(0.8)
    assert room.leases.find_due(10) == [1], "ten seconds after it was kept, not ten and the stall"


def test_nothing_ticks_without_leases() -> None:
    room = Room()
    room.clock.advance(1)
    room.grant(1)
    room.end(1)
    room.clock.advance(1)
    assert all(alarm.call is None for *_, alarm in room.clock._alarms)
    assert room.due == 0


def test_grants_are_bounded() -> None:
    room = Room(Limits(leases_max=2))
    for ttl_ms in (999, 86_400_001, 0, -5):
        with pytest.raises(InvalidRequest) as refused:
            room.leases.check_grant(ttl_ms, "")
        assert refused.value.violations[0][0] == "ttl_ms"
    with pytest.raises(LimitExceeded) as long:
        room.leases.check_grant(1000, "é" * 33)
    assert long.value.metadata["limit"] == "lease_holder_bytes_max"
    room.grant(1)
    room.grant(2)
    with pytest.raises(Exhausted) as full:
        room.leases.check_grant(1000, "")
    assert (full.value.reason, full.value.metadata["limit"]) == (Reason.LEASE_QUOTA, "leases_max")
    room.end(1)
    room.leases.check_grant(1000, "")


def test_what_is_undone_has_never_been() -> None:
    room = Room()
    room.grant(1)
    lease, _ = room.leases.end(1)
    room.leases.revive(lease)
    assert room.leases.lives(1)
    room.clock.advance(1.5)
    assert room.leases.find_due(10) == [1]
    room.leases.grant(7, 1000, "")
    room.leases.take_back(7)
    with pytest.raises(NotFound):
        room.leases.check(7)


def test_leases_are_listed_by_id() -> None:
    room = Room()
    room.grant(9, 3000)
    room.grant(4, 2000)
    room.clock.advance(1)
    assert list(room.leases.states(lambda id_: id_ * 10)) == [
        LeaseState(4, 2000, "w", 1000, 40),
        LeaseState(9, 3000, "w", 2000, 90),
    ]


def test_any_course_of_events_agrees_with_a_dict_of_deadlines(seed: int) -> None:
    """Grants, keeps, ends and time at random: found due is what a look at every lease finds."""
    chance, room = random.Random(seed), Room()
    deadlines: dict[int, float] = {}
    ttls: dict[int, int] = {}
    now, next_id = 0.0, 1
    for _ in range(3000):
        action = chance.random()
        if action < 0.3 or not deadlines:
            ttls[next_id] = chance.choice((1000, 1500, 4000, 60_000))
            room.grant(next_id, ttls[next_id])
            deadlines[next_id] = now + ttls[next_id] / 1000
            next_id += 1
        elif action < 0.6:
            ids = chance.choices(range(1, next_id + 2), k=3)
            kept = room.leases.keep(ids)
            assert kept.kept == [id_ for id_ in ids if id_ in deadlines]
            assert kept.ended == [id_ for id_ in ids if id_ not in deadlines]
            deadlines.update((id_, now + ttls[id_] / 1000) for id_ in kept.kept)
        elif action < 0.7:
            id_ = chance.choice(list(deadlines))
            del deadlines[id_]
            room.end(id_)
        else:
            step = chance.choice((0.25, 0.5, 1.0))
            room.clock.advance(step)
            now += step
            due = sorted(room.leases.find_due(10**6))
            assert due == sorted(id_ for id_, deadline in deadlines.items() if deadline <= now)
            for id_ in due:
                del deadlines[id_]
                room.end(id_)
    assert len(room.leases) == len(deadlines)
