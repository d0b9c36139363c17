"""Clocks and timers of a real server, through the client: lost answers, kills, groups, clocks that wait."""

from __future__ import annotations

import asyncio
import functools

import ecumene
import pytest
from ecumene import Clock, EventFilter, EventType, World, connect, ns

from tests.services import ServerProcess
from tests.tcp_proxy import TcpProxy
from tests.unit.ecumene.client.conftest import QUICK
from tests.unit.ecumene.client.fake_server import became

FIRED = EventFilter(types=(EventType.TIMER_FIRED,))


async def test_events_carry_the_time_of_the_nearest_clock(real_world: World) -> None:
    town = real_world.environment("/town")
    await town.register(clock=Clock.manual())
    await town.child("inn").register()
    await real_world.environment("/room").set("a", 1)
    await town.child("inn").set("a", 1)
    await town.clock().advance(by_ns=7)
    last = await town.set("a", 1)
    seen = {}
    async with real_world.watch(EventFilter(types=(EventType.ENTRY_SET,)), from_revision=1) as events:
        async for event in events:
            seen[event.path] = event.sim_time_ns
            if event.revision == last.revision:
                break
    assert seen == {"/room": None, "/town/inn": 0, "/town": 7}


async def test_an_advance_whose_answer_is_lost_happens_once(real_server: ServerProcess) -> None:
    proxy = await TcpProxy(real_server.address).start()
    try:
        async with connect(proxy.address, settings=QUICK) as world:
            town = world.environment("/town")
            await town.register(clock=Clock.manual())
            await town.set_timer("tick", every_ns=ns(1))
            clock = town.clock()
            await clock.state()
            proxy.drops_answers = True
            arriving = asyncio.ensure_future(clock.advance(by_ns=ns(3)))
            async with connect(real_server.address, settings=QUICK) as other:
                there = other.environment("/town")

                async def has_arrived() -> bool:
                    return (await there.clock().state()).now_ns == ns(3)

                await became(has_arrived)
                proxy.cut()
                proxy.drops_answers = False
                assert (await arriving).now_ns == ns(3)
                assert [timer.fired async for timer in there.timers()] == [3]
    finally:
        await proxy.stop()


async def test_time_outlives_a_kill(real_server: ServerProcess, real_world: World) -> None:
    town = real_world.environment("/town")
    await town.register(clock=Clock.manual(5))
    await town.set_timer("tick", every_ns=10, payload=[1, "x"])
    await town.set_timer("once", at_ns=7)
    await town.clock().advance(by_ns=15)
    real_server.kill()
    real_server.start()
    assert (await town.clock().state()).now_ns == 20
    assert [(timer.name, timer.due_ns, timer.fired, timer.payload) async for timer in town.timers()] == [
        ("tick", 25, 1, [1, "x"])
    ]
    await town.clock().advance(by_ns=10)
    async with real_world.watch(FIRED, from_revision=1) as events:
        told = [await anext(events) for _ in range(3)]
    assert [(event.key, event.sim_time_ns) for event in told] == [("once", 7), ("tick", 15), ("tick", 25)]


async def test_a_clock_waits_for_the_one_above_and_says_so(real_world: World) -> None:
    town = real_world.environment("/town")
    await town.register(clock=Clock.manual())
    inn = town.child("inn")
    await inn.register(clock=Clock.manual(lookahead_ns=10))
    arriving = asyncio.ensure_future(inn.clock().advance(by_ns=25))

    async def is_held() -> bool:
        return bool((state := await inn.clock().state()).held_by) and state.now_ns == 10

    await became(is_held)
    assert not arriving.done()
    await town.clock().advance(by_ns=15)
    assert (await arriving).now_ns == 25


async def test_a_group_has_no_hold_of_the_clocks_of_others(real_server: ServerProcess, real_world: World) -> None:
    await real_world.environment("/red").register(clock=Clock.manual())
    await real_world.environment("/blue").register(clock=Clock.manual())
    async with connect(real_server.address, groups=["/red"], settings=QUICK) as connection:
        red = connection.as_group("/red")
        assert (await red.environment("/red").clock().advance(by_ns=3)).now_ns == 3
        await red.environment("/red").set_timer("tick", at_ns=9)
        assert [timer.name async for timer in red.environment("/red").timers()] == ["tick"]
        blue = red.environment("/blue")
        for forbidden in (
            blue.clock().state,
            functools.partial(blue.clock().advance, by_ns=1),
            functools.partial(blue.set_timer, "tick", at_ns=1),
            blue.timers().__anext__,
        ):
            with pytest.raises(ecumene.PermissionDeniedError):
                await forbidden()


async def test_a_transaction_that_fails_leaves_no_timer(real_world: World) -> None:
    town = real_world.environment("/town")
    await town.register(clock=Clock.manual())
    failing = real_world.transaction().set_timer("/town", "tick", at_ns=5).set("/town", "a", 1, exists=True)
    with pytest.raises(ecumene.PreconditionFailedError):
        await failing.commit()
    assert [timer async for timer in town.timers()] == []
    done = await real_world.transaction().set_timer("/town", "tick", at_ns=5).control_clock("/town", step=True).commit()
    assert len(done.written) == 2

    async def has_stepped() -> bool:
        return (await town.clock().state()).now_ns == 5

    await became(has_stepped)


async def test_many_timers_are_listed_in_pages(real_world: World) -> None:
    await real_world.environment("/town").register(clock=Clock.manual())
    frame = real_world.frame()
    for number in range(25):
        frame.set_timer("/town", f"t{number:02}", at_ns=number + 1)
    (await real_world.frames.send(frame)).raise_failure()
    found = [timer.name async for timer in real_world.environment("/town").timers(page_size=10)]
    assert found == [f"t{number:02}" for number in range(25)]
