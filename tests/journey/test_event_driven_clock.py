"""Simulated time that waits for everybody: participants of an event-driven clock, from the SDK to the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from ecumene import (
    Clock,
    ClockModeMismatchError,
    ClosedError,
    EcumeneError,
    EntryExistsError,
    EventBatch,
    EventFilter,
    EventType,
    FencedError,
    LeaseExpiredError,
    Participant,
    ParticipantNotFoundError,
    PermissionDeniedError,
    World,
    connect,
)

from env_server.testing.in_process import serve_in_process

TOWN, WORKERS = "/town", "/town/workers"


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with serve_in_process() as address:
        yield address


@pytest.fixture
async def world(address: str) -> AsyncIterator[World]:
    async with connect(address) as world:
        await world.environment(TOWN).register()
        await world.environment(WORKERS).register()
        await world.environment(TOWN).change(clock=Clock.event_driven(participants_path=WORKERS))
        yield world


def fired(batch: EventBatch) -> list[str]:
    """Names of the timers that fire in it."""
    return [event.key for event in batch if event.type is EventType.TIMER_FIRED]


async def live(participant: Participant, log: list[tuple[str, int, str]], until: str) -> None:
    """Notes the firings that it hears, each with the time that it has then, until one of them."""
    async for batch in participant:
        for name in fired(batch):
            log.append((participant.name, participant.now_ns, name))
            if name == until:
                return


async def until(holds: Callable[[], bool]) -> None:
    """Waits for what the server says unasked."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - a server is asked
            await asyncio.sleep(0.01)


async def nobody_is_left(world: World) -> None:
    """Waits until neither an entry nor a lease of a participant is there."""
    async with asyncio.timeout(10):
        while await world.leases() or [entry async for entry in world.environment(WORKERS).entries()]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_day_passes_as_soon_as_everybody_has_lived_it(world: World) -> None:
    town = world.environment(TOWN)
    for name, at_ns in (("dawn", 10), ("noon", 20), ("dusk", 30)):
        await town.set_timer(name, at_ns=at_ns)
    log: list[tuple[str, int, str]] = []
    async with town.clock().participate("ann") as ann, town.clock().participate("bob") as bob:
        assert (await town.clock().state()).now_ns == 0
        await asyncio.gather(live(ann, log, "dusk"), live(bob, log, "dusk"))
    for name in ("ann", "bob"):
        assert [line[1:] for line in log if line[0] == name] == [(10, "dawn"), (20, "noon"), (30, "dusk")]
    state = await town.clock().state()
    assert state.now_ns == 30 and state.participants_path == WORKERS


async def test_time_stands_while_a_batch_is_in_somebodys_hands_and_its_ops_come_before(world: World) -> None:
    town = world.environment(TOWN)
    await town.set_timer("dawn", at_ns=10)
    await town.set_timer("noon", at_ns=20)
    async with town.clock().participate("bob", hears=[EventFilter(types=(EventType.TIMER_FIRED,))]) as bob:
        async for batch in bob:
            if fired(batch) == ["dawn"]:
                await asyncio.sleep(0.1)
                assert (await town.clock().state()).now_ns == 10
                # Nobody waits for these ops; yet they come before the clock goes on.
                issued = [asyncio.ensure_future(town.set(f"k{number}", number)) for number in range(500)]
                await asyncio.sleep(0)
            if fired(batch) == ["noon"]:
                break
        written = [written.revision for written in await asyncio.gather(*issued)]
    async with world.watch(EventFilter(path_prefix=TOWN), from_revision=1) as watch:
        async for event in watch:
            if event.type is EventType.CLOCK_CHANGED and event.sim_time_ns == 20:
                assert event.revision > max(written)
                break


async def test_wakes_are_met_each_once(world: World) -> None:
    clock = world.environment(TOWN).clock()
    seen = []
    async with clock.participate("bob", hears=[]) as bob:
        for wake_ns in (5, 17, 17, 9):  # the last two have passed: they are due at once
            bob.wake_at(wake_ns)
            async for _ in bob:
                break
            seen.append(bob.now_ns)
    assert seen == [5, 17, 17, 17]


async def test_a_wake_may_be_set_while_it_waits_and_taken_back(world: World) -> None:
    clock = world.environment(TOWN).clock()
    async with clock.participate("bob", hears=[]) as bob:
        waiting = asyncio.create_task(bob.__anext__())
        async with asyncio.timeout(10):
            while (await clock.state()).held_by != ("nothing is due",):  # noqa: ASYNC110 - a server is asked
                await asyncio.sleep(0.01)
        bob.wake_at(40)
        await waiting
        assert bob.now_ns == 40
        bob.wake_at(90)
        bob.wake_at(None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await bob.__anext__()
        assert (await clock.state()).now_ns == 40


async def test_who_waits_no_more_holds_the_clock_and_misses_nothing(world: World) -> None:
    town = world.environment(TOWN)
    async with town.clock().participate("bob") as bob:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await bob.__anext__()
        await town.set_timer("dawn", at_ns=10)
        await asyncio.sleep(0.05)
        state = await town.clock().state()
        assert state.now_ns == 0 and state.held_by[0].startswith("bob: "), state
        log: list[tuple[str, int, str]] = []
        async with asyncio.timeout(10):
            await live(bob, log, "dawn")
        assert log == [("bob", 10, "dawn")]


async def test_a_second_reader_is_refused_and_takes_nothing_from_the_first(world: World) -> None:
    town = world.environment(TOWN)
    async with town.clock().participate("bob", hears=[]) as bob, asyncio.timeout(10):
        waiting = asyncio.create_task(bob.__anext__())
        await asyncio.sleep(0)
        with pytest.raises(ClosedError):
            await bob.__anext__()
        waiting.cancel()
        await asyncio.wait({waiting})
        # Nobody waits any more, so that the clock stands.
        await town.set_timer("dawn", at_ns=10)
        await asyncio.sleep(0.05)
        state = await town.clock().state()
        assert state.now_ns == 0 and state.held_by[0].startswith("bob: "), state


async def test_cancelled_at_any_moment_it_gets_every_event_once(world: World) -> None:
    town = world.environment(TOWN)
    heard: list[int] = []
    async with town.clock().participate("bob", hears=[EventFilter(key_glob="n")]) as bob:

        async def write() -> None:
            for number in range(200):
                await town.set("n", number)

        writing = asyncio.create_task(write())
        delay_s = 0.0001
        while len(heard) < 200:
            try:
                async with asyncio.timeout(delay_s):
                    batch = await bob.__anext__()
                heard += [event.value for event in batch if event.key == "n"]
            except TimeoutError:
                delay_s = min(2 * delay_s, 0.02) if delay_s < 0.01 else 0.0001
        await writing
    assert heard == list(range(200))


async def test_it_leaves_with_its_block_however_that_ends(world: World) -> None:
    town, workers = world.environment(TOWN), world.environment(WORKERS)
    for ttl_s in (10.0, None):
        async with town.clock().participate("bob", ttl_s=ttl_s):
            assert await workers.get("bob")
        with pytest.raises(ZeroDivisionError):
            async with town.clock().participate("bob", ttl_s=ttl_s):
                raise ZeroDivisionError
        await nobody_is_left(world)


async def test_a_join_that_is_given_up_leaves_no_ghost(world: World) -> None:
    town = world.environment(TOWN)
    for ttl_s in (10.0, None):
        for steps in range(0, 40, 3):
            joining = asyncio.create_task(town.clock().participate("bob", ttl_s=ttl_s).__aenter__())
            for _ in range(steps):
                await asyncio.sleep(0.0005)
            joining.cancel()
            await asyncio.wait({joining})
            if not joining.cancelled():
                await joining.result().__aexit__(None, None, None)
            await nobody_is_left(world)


async def test_a_name_is_one_participants(world: World) -> None:
    clock = world.environment(TOWN).clock()
    async with clock.participate("bob"):
        with pytest.raises(EntryExistsError, match=r"'bob' takes part already.* lease \d+.*ttl_s=None"):
            async with clock.participate("bob"):
                pass
    assert not [lease for lease in await world.leases() if lease.entry_count]


async def test_who_takes_a_place_over_fences_the_one_before(world: World) -> None:
    clock = world.environment(TOWN).clock()
    async with clock.participate("part-1", ttl_s=None) as before:
        waiting = asyncio.create_task(before.__anext__())
        await asyncio.sleep(0.05)
        async with clock.participate("part-1", ttl_s=None) as after:
            with pytest.raises(FencedError):
                await waiting
            with pytest.raises(FencedError):
                await before.__anext__()
            after.wake_at(10)
            async with asyncio.timeout(10):
                await after.__anext__()
            assert after.now_ns == 10
    assert not [entry async for entry in world.environment(WORKERS).entries()]


async def test_a_participant_whose_entry_is_deleted_is_told(world: World) -> None:
    clock = world.environment(TOWN).clock()
    async with clock.participate("bob", ttl_s=None) as bob:
        waiting = asyncio.create_task(bob.__anext__())
        await asyncio.sleep(0.05)
        await world.environment(WORKERS).delete("bob")
        with pytest.raises(ParticipantNotFoundError):
            await waiting


async def test_a_participant_whose_lease_has_ended_is_told(world: World) -> None:
    clock = world.environment(TOWN).clock()
    async with clock.participate("bob") as bob:
        waiting = asyncio.create_task(bob.__anext__())
        await asyncio.sleep(0.05)
        (lease,) = world.session.leases._leases.values()
        lease.lose(LeaseExpiredError("as if the server had said so"))
        with pytest.raises(LeaseExpiredError):
            await waiting


@pytest.mark.parametrize("ttl_s", [15.0, None])
async def test_a_clock_that_waits_for_nobody_says_so_and_is_left_as_it_was(world: World, ttl_s: float | None) -> None:
    await world.environment("/manual").register(clock=Clock.manual())
    revision = await world.environment("/manual").set("lamp", 1)
    with pytest.raises(ClockModeMismatchError) as caught:
        async with world.environment("/manual").clock().participate("bob", ttl_s=ttl_s):
            pass
    assert caught.value.mode == "manual"
    assert [entry.key async for entry in world.environment("/manual").entries()] == ["lamp"]
    assert (await world.environment("/manual").set("lamp", 2)).revision == revision.revision + 1, "nothing was written"


async def test_from_below_it_takes_part_in_the_nearest_clock_above(world: World) -> None:
    home, town = world.environment("/town/home"), world.environment(TOWN)
    await home.register()
    async with home.clock().participate("bob") as bob, asyncio.timeout(10):
        assert [entry.key async for entry in world.environment(WORKERS).entries()] == ["bob"]
        await town.set("lamp", "lit")
        seen = 0
        async for batch in bob:  # all of the clock's environment, as the server says that it hears
            if seen := sum(event.key == "lamp" for event in batch):
                break
        assert seen == 1
        bob.wake_at(10)
        async for _ in bob:
            if bob.now_ns == 10:
                break
    async with home.clock().participate("bob", hears=[]) as bob, asyncio.timeout(10):
        bob.wake_at(20)
        await bob.__anext__()
        assert bob.now_ns == 20
    await nobody_is_left(world)


async def test_where_the_participants_are_hidden_nothing_is_entered(world: World, address: str) -> None:
    await world.environment("/shy").register()
    await world.environment("/east").register()
    await world.environment("/east").change(clock=Clock.event_driven(participants_path="/shy"))
    async with connect(address, groups=["/east"]) as groups:
        for ttl_s in (15.0, None):
            with pytest.raises(PermissionDeniedError):
                async with groups.as_group("/east").environment("/east").clock().participate("bob", ttl_s=ttl_s):
                    pass
    for path in ("/shy", "/east"):
        assert not [entry async for entry in world.environment(path).entries()]


async def test_a_group_takes_part_with_its_own_view(world: World, address: str) -> None:
    await world.environment("/east").register(clock=Clock.event_driven())
    await world.environment("/east/in").register()
    async with connect(address, groups=["/east/in", "/west"]) as groups:
        inside = groups.as_group("/east/in")
        with pytest.raises(PermissionDeniedError):
            async with groups.as_group("/west").environment("/east").clock().participate("eve"):
                pass
        with pytest.raises(PermissionDeniedError):
            async with inside.environment("/east").clock().participate("bob"):
                pass
        await world.environment("/north").register(clock=Clock.event_driven(participants_path="/east/in"))
        await world.environment("/").change(clock=Clock.event_driven(participants_path="/east/in"))
        async with inside.environment("/").clock().participate("bob") as bob:
            await world.environment("/town").set("hidden", 1)  # not seen, and so not waited for
            bob.wake_at(10)
            async with asyncio.timeout(3):
                await bob.__anext__()
            assert bob.now_ns == 10


async def test_a_bare_reporter(world: World) -> None:
    town, workers = world.environment(TOWN), world.environment(WORKERS)
    told: list[EcumeneError] = []
    joined = await workers.set("part-1", {"hears": []})
    reporter = town.clock().reporter("part-1", joined.revision, on_void=told.append)
    reporter.report(earliest_wake_ns=30, consumed_revision=joined.revision)
    async with world.watch(EventFilter(types=(EventType.CLOCK_CHANGED,)), from_revision=joined.revision) as changes:
        async for event in changes:
            assert event.sim_time_ns == 30
            break
    await workers.set("part-1", {"hears": []})
    await until(lambda: bool(told))
    assert isinstance(told[0], FencedError)
    with pytest.raises(FencedError):
        reporter.report()
    await reporter.close()


async def test_a_step_of_a_paused_clock(world: World) -> None:
    town = world.environment(TOWN)
    clock = town.clock()
    await town.set_timer("dawn", at_ns=10)
    await town.set_timer("noon", at_ns=20)
    await clock.pause()
    log: list[tuple[str, int, str]] = []
    async with clock.participate("bob") as bob:
        living = asyncio.create_task(live(bob, log, "noon"))
        async with asyncio.timeout(10):
            state = await clock.step()
        assert (state.now_ns, state.paused, state.stepping) == (10, True, False)
        await asyncio.sleep(0.05)
        assert (await clock.state()).now_ns == 10
        async with asyncio.timeout(10):
            await clock.resume()
            await living
    assert log == [("bob", 10, "dawn"), ("bob", 20, "noon")]
