"""Listeners in numbers, behind, after compaction, and when there is no room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from env_server.behaviours import Behaviour, Context, Event, EventType, listener, operation
from env_server.model.errors import Exhausted, Reason, WorldError
from env_server.model.limits import Limits
from env_server.testing import BehaviourStand, behaviour_stand
from tests.engine import drop, new_environment, put
from tests.unit.env_server.pipeline.listeners.listening_kinds import Diary, Other, log_of


@pytest.fixture
def stand() -> Iterator[BehaviourStand]:
    Diary.heard.clear()
    Diary.running.clear()
    with behaviour_stand(Diary) as stand:
        stand.register("/d", kind="diary")
        yield stand


def test_a_thousand_environments_hear_each_their_own() -> None:
    with behaviour_stand(Diary) as stand:
        engine = stand.engine
        names = [f"/d{number}" for number in range(1000)]
        engine.done(*(new_environment(name, kind="diary") for name in names))
        engine.done(*(put(name, "in.a", name) for name in names))
        engine.done(*(put(name, "in.b", "2") for name in names[::7]))
        stand.kill_and_restart()
        for number, name in enumerate(names):
            assert log_of(stand, name) == [name, *(["2"] if number % 7 == 0 else [])]


def test_more_events_than_an_ear_holds_are_found_again_in_ring_and_log() -> None:
    for limits in (Limits(), Limits(ring_bytes_max=1)):
        with behaviour_stand(Diary, limits=limits) as stand:
            stand.register("/d", kind="diary")
            stand.set("/d", "in.x", "slow")
            for first in range(0, 600, 30):
                stand.engine.done(*(put("/d", "in.a", number) for number in range(first, first + 30)))
            stand.advance(5.0)
            assert log_of(stand) == ["slow", *range(600)]
            assert not stand.failures()


def test_a_restart_reads_the_log_once_for_all() -> None:
    with behaviour_stand(Diary) as stand:
        for number in range(20):
            stand.register(f"/d{number}", kind="diary")
        stand.restart(Other)
        for number in range(200):
            stand.engine.done(put(f"/d{number % 20}", "in.a", number))
        stand.engine.stop()
        stand.engine.install(Diary())
        stand.engine.open()
        read, reads = stand.engine.log.read, []
        stand.engine.log.read = lambda *asked: reads.append(asked) or read(*asked)  # type: ignore[method-assign,func-returns-value]
        stand.engine.clock.settle()
        assert len(reads) <= 2
        for number in range(20):
            assert log_of(stand, f"/d{number}") == list(range(number, 200, 20))


def test_what_was_compacted_before_it_was_heard_is_told(stand: BehaviourStand) -> None:
    stand.restart(Other)
    stand.set("/d", "in.a", "lost")
    stand.set("/d", "quiet", 1)
    done: list[int] = []
    stand.engine.world.compact(0, done.append)
    stand.engine.clock.settle()
    first = done[0]
    stand.restart(Diary)
    (failure,) = stand.failures()
    assert failure.value["reason"] == "REVISION_COMPACTED"
    assert failure.value["from_revision"] <= first - 1 == failure.value["to_revision"]
    stand.set("/d", "in.a", "heard")
    assert log_of(stand) == ["heard"]
    stand.kill_and_restart()
    assert len(stand.failures()) == 1 and log_of(stand) == ["heard"]


def test_idle_listeners_do_not_hold_the_log_and_late_ones_do(stand: BehaviourStand) -> None:
    for _ in range(50):
        stand.set("/d", "quiet", 1)
    done: list[int] = []
    stand.engine.world.compact(0, done.append)
    stand.engine.clock.settle()
    assert done and done[0] > 50
    stand.set("/d", "in.a", "slow")
    slow = stand.revision
    for _ in range(50):
        stand.set("/d", "quiet", 1)
    stand.engine.world.compact(0, done.append)
    stand.engine.clock.settle()
    assert done[1] <= slow, "the event is still needed"
    stand.advance(5.0)
    stand.engine.world.compact(0, done.append)
    stand.engine.clock.settle()
    assert done[2] > slow + 50
    stand.kill_and_restart()
    assert not stand.failures() and log_of(stand) == ["slow"]


def test_the_log_is_trimmed_by_its_size_although_nothing_matches() -> None:
    limits = Limits(log_bytes_max=200_000, replay_ops_max=64, map_bytes=1 << 24)
    with behaviour_stand(Diary, limits=limits) as stand:
        stand.register("/d", kind="diary")
        for number in range(400):
            stand.set("/d", "quiet", f"{number}" + "x" * 2000)
        assert stand.engine.log.first_revision > 100
        stand.set("/d", "in.a", 1)
        stand.kill_and_restart()
        assert not stand.failures() and log_of(stand) == [1]


def test_environments_that_are_gone_hold_nothing(stand: BehaviourStand) -> None:
    stand.set("/d", "in.a", "slow")
    stand.engine.do(drop("/d", ""))
    stand.advance(10.0)
    for number in range(20):
        stand.set("/", "k", number)
    done: list[int] = []
    stand.engine.world.compact(0, done.append)
    stand.engine.clock.settle()
    assert done[0] == stand.revision


def test_one_too_far_behind_skips_and_says_so() -> None:
    with behaviour_stand(Diary, limits=Limits(listener_lag_revisions_max=100)) as stand:
        stand.register("/d", kind="diary")
        stand.set("/d", "in.a", "slow")
        for number in range(200):
            stand.set("/d", "in.b", number)
        stand.advance(5.0)
        (failure,) = stand.failures()
        assert "listener_lag_revisions_max" in failure.value["message"]
        stand.set("/d", "in.c", "after")
        assert log_of(stand)[0] == "slow" and log_of(stand)[-1] == "after"


def test_full_queues_and_full_storage_put_it_off(stand: BehaviourStand) -> None:
    admission = stand.engine.world._admission
    stand.engine.send(put("/d", "in.a", 1))  # admitted; what comes after it is not
    admission.refusal = lambda ops, size: Exhausted(Reason.STORAGE_QUOTA, "full", retry_delay_ms=1000)  # type: ignore[method-assign]
    stand.advance(3.0)
    assert stand.events("/d", EventType.ENTRY_SET)
    assert not stand.failures() and not stand.events("/d", EventType.ENTRY_APPENDED)
    del admission.refusal
    stand.advance(10.0)
    assert log_of(stand) == [1]


def test_listeners_leave_clients_half_of_the_queue() -> None:
    limits = Limits(queue_ops_max=8, listeners_running_max=100)
    with behaviour_stand(Diary, limits=limits) as stand:
        for number in range(20):
            stand.register(f"/d{number}", kind="diary")
            stand.begin(f"/d{number}", "hold_log", seconds=10.0)
        for number in range(20):
            stand.set(f"/d{number}", "in.a", number)
        last = stand.begin("/d0", "hold_log", seconds=0.0)
        stand.advance(30.0)
        assert last.done and last.result is None
        assert [log_of(stand, f"/d{number}")[-1] for number in range(1, 20)] == list(range(1, 20))


def test_no_effect_takes_no_revision(stand: BehaviourStand) -> None:
    before = stand.revision
    stand.set("/d", "in.a", "nothing")
    assert stand.revision == before + 1
    heard = len(Diary.heard)
    stand.restart()
    assert len(Diary.heard) == heard, "a clean stop notes it"


def test_a_listener_may_not_call() -> None:
    class Caller(Behaviour):
        kind = "caller"

        @listener(key="x", writes=lambda path, event: [])
        async def hear(self, ctx: Context, event: Event) -> None:
            try:
                await ctx.call("/c", "op")
            except WorldError as error:
                ctx.emit("refused", {"reason": error.reason.name})

        @operation()
        async def op(self, ctx: Context) -> None: ...

    with behaviour_stand(Caller) as stand:
        stand.register("/c", kind="caller")
        stand.set("/c", "x", 1)
        (event,) = stand.events("/c", EventType.BEHAVIOUR)
        assert event.value == {"reason": "NESTED_INVOKE"}
