"""Each call of a clock's handle is the request of the contract for it, done once however often it is sent."""

from __future__ import annotations

import asyncio

import ecumene
import grpc
import pytest
from ecumene import ClientSettings, World, connect, ns
from env_api.v1 import session_pb2, timeline_pb2, timeline_service_pb2

from tests.unit.ecumene.client.fake_server import FakeServer, reached

TOWN = "/town"


def sent(server: FakeServer) -> list[session_pb2.Op]:
    return [op for frame in server.frames() for op in frame.ops]


async def test_a_clock_is_read_and_advanced(server: FakeServer, world: World) -> None:
    clock = world.environment(TOWN).clock()
    assert (await clock.state()).now_ns == 0
    state = await clock.advance(by_ns=ns(hours=1))
    assert (state.path, state.mode, state.now_ns) == (TOWN, "manual", ns(hours=1))
    asked = server.timeline.asked[-1]
    assert (asked.world, asked.path, asked.caller.client_id) == ("main", TOWN, "tester")
    assert repr(clock) == "<EnvironmentClock of /town>"


async def test_every_verb_has_its_action(server: FakeServer, world: World) -> None:
    clock = world.environment(TOWN).clock()
    await clock.advance(to_ns=0)
    await clock.step()
    await clock.skip_to(7)
    await clock.pause()
    await clock.resume()
    await clock.set_rate(2.5)
    actions = [request.control.WhichOneof("action") for request in server.timeline.asked]
    assert actions == ["advance_to_ns", "step", "skip_to_ns", "pause", "resume", "rate"]
    for wrong in ({}, {"by_ns": 1, "to_ns": 1}):
        with pytest.raises(ecumene.InvalidFieldError):
            await clock.advance(**wrong)


async def test_a_lost_answer_is_asked_for_again_and_time_goes_on_once(server: FakeServer, world: World) -> None:
    server.timeline.refusals = [(grpc.StatusCode.UNAVAILABLE, "connection reset")] * 2
    state = await world.environment(TOWN).clock().advance(by_ns=5)
    assert state.now_ns == 5
    assert len({request.caller.request_id for request in server.timeline.asked}) == 1
    assert len(server.timeline.asked) == 3


async def test_an_arrival_takes_as_long_as_it_takes(server: FakeServer) -> None:
    """Longer than a call may take by default; and a connection that breaks in the middle is made again."""
    settings = ClientSettings(call_timeout_s=0.1, backoff_first_ms=1, backoff_ms_max=2)
    async with connect(server.address, settings=settings) as world:
        server.timeline.arrived.clear()
        server.timeline.refusals = [(grpc.StatusCode.UNAVAILABLE, "connection reset")]
        arriving = asyncio.ensure_future(world.environment(TOWN).clock().advance(by_ns=5))
        await reached(lambda: len(server.timeline.asked) == 1)
        done, _ = await asyncio.wait([arriving], timeout=0.3)
        assert not done
        server.timeline.arrived.set()
        assert (await arriving).now_ns == 5
        assert len(server.timeline.asked) == 2


async def test_a_handle_with_a_timeout_does_not_wait_for_ever(server: FakeServer) -> None:
    settings = ClientSettings(call_timeout_s=0.05, backoff_first_ms=1, backoff_ms_max=2)
    async with connect(server.address, settings=settings) as world:
        server.timeline.arrived.clear()
        with pytest.raises(ecumene.ConnectionFailedError):
            await world.environment(TOWN, timeout_s=0.1).clock().advance(by_ns=5)
        server.timeline.arrived.set()


async def test_an_environment_that_is_gone_on_arrival_is_told(server: FakeServer, world: World) -> None:
    server.timeline.clock.path = ""
    with pytest.raises(ecumene.ClockNotFoundError, match="deleted while its clock was on its way"):
        await world.environment(TOWN).clock().advance(by_ns=1)


async def test_timers_are_ops_of_the_session(server: FakeServer, world: World) -> None:
    town = world.environment(TOWN)
    await town.set_timer("bell", after_ns=ns(1), every_ns=ns(2), missed="skip", payload={"n": 1}, producer="ann", seq=3)
    await town.cancel_timer("bell", if_present=True)
    setting, cancelling = sent(server)
    assert (setting.key, setting.timeline.set_timer.every_ns) == ("bell", ns(2))
    assert setting.timeline.set_timer.missed == timeline_pb2.MISSED_TICKS_SKIP
    assert list(server.frames()[0].producers) == ["ann"]
    assert cancelling.timeline.cancel_timer.if_present


async def test_timers_are_listed_over_all_pages(server: FakeServer, world: World) -> None:
    def page(name: str, token: str) -> timeline_service_pb2.ListTimersResponse:
        timers = [timeline_pb2.TimerState(name=name, due_ns=4)]
        return timeline_service_pb2.ListTimersResponse(timers=timers, next_page_token=token)

    server.timeline.pages = [page("a", "more"), page("b", "")]
    found = [timer async for timer in world.environment(TOWN).timers(page_size=1)]
    assert [(timer.name, timer.due_ns, timer.missed) for timer in found] == [("a", 4, "coalesce"), ("b", 4, "coalesce")]
    assert [(request.page_size, request.page_token) for request in server.timeline.asked] == [(1, ""), (1, "more")]


async def test_frames_and_transactions_have_the_same_verbs(server: FakeServer, world: World) -> None:
    frame = world.frame()
    frame.set_timer(TOWN, "bell", at_ns=4)
    frame.cancel_timer(TOWN, "bell")
    frame.control_clock(TOWN, advance_by_ns=9)
    (await world.frames.send(frame)).raise_failure()
    assert [op.timeline.WhichOneof("action") for op in sent(server)] == ["set_timer", "cancel_timer", "control"]
    writes = world.writes().set_timer(TOWN, "bell", at_ns=4).cancel_timer(TOWN, "bell").control_clock(TOWN, step=True)
    kinds = [write.timeline.WhichOneof("action") for write in writes.messages]
    assert kinds == ["set_timer", "cancel_timer", "control"]
    assert [write.key for write in writes.messages] == ["bell", "bell", ""]
