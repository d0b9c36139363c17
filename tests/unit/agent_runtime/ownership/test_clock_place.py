"""A part among the participants of its group's clock, in a real world."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from ecumene.client import Clock, Environment, EnvironmentClock, EventFilter, EventType, FencedError, World, connect

from agent_runtime.ownership.clock_place import ClockPlace, leave_clocks
from env_server.model.limits import Limits
from env_server.testing.in_process import serve_in_process

PARTICIPANTS_MAX = 8
HEARS = (EventFilter(path_glob="/town/**", types=(EventType.TIMER_FIRED,)),)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    limits = Limits(map_bytes=1 << 28, log_bytes_max=1 << 27, participants_max=PARTICIPANTS_MAX)
    async with serve_in_process(limits=limits) as address, connect(address) as world:
        for path in ("/town", "/staff", "/owners"):
            await world.environment(path).register()
        await world.environment("/town").change(clock=Clock.event_driven(participants_path="/staff"))
        yield world


async def own(world: World) -> World:
    """The world behind the fence of a new owner of the part."""
    owners = world.environment("/owners")
    await owners.delete("g.0", if_present=True)
    return world.fenced("/owners", "g.0", (await owners.create("g.0", None)).revision)


async def held_by(world: World) -> tuple[str, ...]:
    return (await world.environment("/town").clock().state()).held_by


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)


async def becomes(world: World, held: str) -> None:
    async with asyncio.timeout(10):
        while not (await held_by(world))[0].endswith(held):  # noqa: ASYNC110 - a server is asked
            await asyncio.sleep(0.01)


async def reaches(world: World, now_ns: int) -> None:
    async with asyncio.timeout(10):
        while (await world.environment("/town").clock().state()).now_ns < now_ns:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    assert (await world.environment("/town").clock().state()).now_ns == now_ns


async def test_the_clock_waits_for_the_part_and_then_for_its_next_owner(world: World) -> None:
    town = world.environment("/town")
    await town.register(if_absent=True)
    first = ClockPlace(world, await own(world), "r", "g.0", "/town")
    (also,) = await first.join(HEARS)
    assert also.types == (EventType.CLOCK_CHANGED,)
    await becomes(world, ": no report")
    first.report(world.revision)
    await becomes(world, "nothing is due")
    await first.close()
    await becomes(world, ": busy")
    first.report(world.revision)  # says nothing any more
    second = ClockPlace(world, await own(world), "r", "g.0", "/town")
    await second.join(HEARS)
    await becomes(world, ": no report")
    second.report(world.revision)
    await becomes(world, "nothing is due")
    late = ClockPlace(world, world.fenced("/owners", "g.0", 1), "r", "g.0", "/town")
    with pytest.raises(FencedError):
        await late.join(HEARS)


async def test_what_the_clock_refuses_for_a_while_is_reported_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    place = ClockPlace(world, await own(world), "r", "g.0", "/town", retry_s=0.02)
    await place.join(HEARS)
    place.report(world.revision)
    await becomes(world, "nothing is due")
    staff = world.environment("/staff")
    for number in range(PARTICIPANTS_MAX):
        await staff.set(f"crowd-{number}", {"hears": []})
    await until(lambda: "refused" in caplog.text)
    for number in range(PARTICIPANTS_MAX):
        await staff.delete(f"crowd-{number}")
    place.report(world.revision)
    await becomes(world, "nothing is due")
    assert "until then the clock stands" in caplog.text
    await place.close()
    await becomes(world, ": busy")


async def test_what_is_said_while_it_joins_again_is_said_once_it_has(world: World) -> None:
    place = ClockPlace(world, await own(world), "r", "g.0", "/town")
    await place.join(HEARS)
    place.report(world.revision, 70)
    joining = asyncio.ensure_future(place.join_again())
    await asyncio.sleep(0)
    revision = world.revision + 1
    place.report(revision, 80)  # to nobody
    await joining
    await becomes(world, ": no report")
    place.report(revision, 80)
    await reaches(world, 80)
    await place.close()


async def test_an_owner_behind_a_fence_that_has_fallen_lets_no_clock_go_on(world: World) -> None:
    """What it would do has no effect any more, and the next owner has not taken its place at the clock yet."""
    town = world.environment("/town")
    first = ClockPlace(world, await own(world), "r", "g.0", "/town")
    await first.join(HEARS)
    await town.set_timer("dawn", at_ns=50)
    fenced = await own(world)
    first.report(world.revision, 40)
    await world.environment("/town").set("behind", 1)  # takes effect behind the report
    assert (await town.clock().state()).now_ns == 0
    await becomes(world, ": no report")
    second = ClockPlace(world, fenced, "r", "g.0", "/town")
    await second.join(HEARS)
    second.report(world.revision, 30)
    await reaches(world, 30)


async def test_the_clock_stops_where_the_part_wants_to_be_woken_though_its_timer_is_not_set(world: World) -> None:
    place = ClockPlace(world, await own(world), "r", "g.0", "/town")
    await place.join(HEARS)
    await world.environment("/town").set_timer("later", at_ns=200)
    place.report(world.revision, 90)
    await reaches(world, 90)
    assert "has consumed" in (await held_by(world))[0], "that the clock is there is to be heard first"
    await place.close()


async def test_who_has_lost_its_place_reports_no_more(world: World, caplog: pytest.LogCaptureFixture) -> None:
    place = ClockPlace(world, await own(world), "r", "g.0", "/town", retry_s=0.02)
    await place.join(HEARS)
    place.report(world.revision)
    await becomes(world, "nothing is due")
    await world.environment("/staff").delete(place.name)
    await until(lambda: "has no place" in caplog.text)
    place.report(world.revision)
    assert "refused" not in caplog.text and place._reporter is None and place._retry is None


async def test_a_refused_part_that_is_closed_reports_no_more(world: World, caplog: pytest.LogCaptureFixture) -> None:
    place = ClockPlace(world, await own(world), "r", "g.0", "/town", retry_s=60)
    await place.join(HEARS)
    place.report(world.revision)
    await becomes(world, "nothing is due")
    for number in range(PARTICIPANTS_MAX):
        await world.environment("/staff").set(f"crowd-{number}", {"hears": []})
    await until(lambda: "refused" in caplog.text)
    await place.close()
    assert place._retry is not None and place._retry.cancelled()


@pytest.mark.parametrize(
    ("closed_behind", "held"),
    [(None, ": busy"), ((EnvironmentClock, "state"), ": busy"), ((Environment, "set"), ": no report")],
)
async def test_a_place_that_is_closed_is_not_taken_again(
    world: World, monkeypatch: pytest.MonkeyPatch, closed_behind: tuple[type, str] | None, held: str
) -> None:
    """Its part hears nothing any more, whatever it was about to do."""
    place = ClockPlace(world, await own(world), "r", "g.0", "/town")
    await place.join(HEARS)
    place.report(world.revision)
    await becomes(world, "nothing is due")
    with monkeypatch.context() as patch:
        if closed_behind is None:
            await place.close()
        else:
            kind, name = closed_behind
            ask = getattr(kind, name)

            async def close_behind(*args: Any, **options: Any) -> Any:
                answer = await ask(*args, **options)
                await place.close()
                return answer

            patch.setattr(kind, name, close_behind)
        await place.join_again()
    place.report(world.revision)
    await world.environment("/town").set("behind", 1)  # takes effect behind the report
    assert not place.is_waited_for
    assert (await held_by(world))[0].endswith(held)


async def test_a_clock_that_waits_for_nobody_has_no_participants(world: World) -> None:
    await world.environment("/manual").register(clock=Clock.manual())
    place = ClockPlace(world, world, "r", "g.0", "/manual")
    (also,) = await place.join(HEARS)
    place.report(1)
    assert also.types == (EventType.CLOCK_CHANGED,), "it may be another one when it is made again"
    await world.environment("/manual").unregister()
    await world.environment("/manual").register(clock=Clock.event_driven(participants_path="/staff"))
    await place.join_again()
    assert place.is_waited_for
    assert [entry.key async for entry in world.environment("/staff").entries()] == ["wakes.r:g.0"]
    await place.close()
    assert not place.is_waited_for


async def test_a_run_that_is_ended_leaves_its_clocks_and_no_timer(world: World) -> None:
    for part in ("g.0", "g.1"):
        await ClockPlace(world, world, "r", part, "/town").join(HEARS)
    await ClockPlace(world, world, "other", "g.0", "/town").join(HEARS)
    await world.environment("/manual").register(clock=Clock.manual())
    for path, name in (("/town", "wakes.r:g.0"), ("/town", "wakes.other:g.0"), ("/manual", "wakes.r:h.0")):
        await world.environment(path).set_timer(name, at_ns=10)
    places = [("g.0", "/town"), ("g.1", "/town"), ("g.2", "/town"), ("h.0", "/manual"), ("i.0", "/nowhere")]
    await leave_clocks(world, "r", places)
    assert [entry.key async for entry in world.environment("/staff").entries()] == ["wakes.other:g.0"]
    assert [timer.name async for timer in world.environment("/town").timers()] == ["wakes.other:g.0"]
    assert not [timer async for timer in world.environment("/manual").timers()]


async def test_many_parts_leave_their_clock_together(world: World) -> None:
    town = world.environment("/town")
    await asyncio.gather(*(town.set_timer(f"wakes.r:g.{number}", at_ns=10) for number in range(300)))
    before = world.statistics().outbox.last_seq
    await leave_clocks(world, "r", [(f"g.{number}", "/town") for number in range(300)])
    assert world.statistics().outbox.last_seq - before <= 3
    assert not [timer async for timer in town.timers()]
