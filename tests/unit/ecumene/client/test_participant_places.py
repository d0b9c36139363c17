"""Joining and leaving an event-driven clock, cut off at each of their waits: nobody is left who holds it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator
from typing import Any

import pytest
from ecumene import (
    Clock,
    ClockReporter,
    EntryExistsError,
    ErrorDetails,
    EventBatch,
    EventFilter,
    Participant,
    UnavailableError,
    World,
    connect,
)

from env_server.testing.in_process import serve_in_process

WORKERS = "/town/workers"
MOMENTS = ("as it waits", "as it is answered")
TTLS_S = (1.0, None)


class Cut:
    """Awaits a coroutine, and has its task cancelled at its n-th wait and, `again`, at the wait behind that."""

    def __init__(self, inner: Coroutine[Any, Any, Any], place: int, moment: str, again: bool) -> None:
        self._inner = inner
        self._places = {place, place + 1} if again else {place}
        self._moment = moment
        self.waits = 0

    def __await__(self) -> Generator[Any, None, Any]:
        task = asyncio.current_task()
        assert task is not None
        send, told = self._inner.send, None
        while True:
            try:
                awaited = send(told)
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits in self._places:
                if self._moment == MOMENTS[0]:
                    asyncio.get_running_loop().call_soon(task.cancel)
                else:
                    awaited.add_done_callback(lambda _: task.cancel())
            try:
                send, told = self._inner.send, (yield awaited)
            except BaseException as error:
                send, told = self._inner.throw, error


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with serve_in_process() as address:
        yield address


@pytest.fixture
async def world(address: str) -> AsyncIterator[World]:
    async with connect(address) as world:
        for path in ("/town", WORKERS):
            await world.environment(path).register()
        await world.environment("/town").change(clock=Clock.event_driven(participants_path=WORKERS))
        yield world


async def is_cut(call: Coroutine[Any, Any, Any], place: int, moment: str, again: bool) -> bool:
    """Runs it; whether it was cut off."""
    cut = Cut(call, place, moment, again)

    async def run() -> None:
        await cut

    task = asyncio.create_task(run())
    await asyncio.wait({task}, timeout=20)
    if task.cancelled():
        return True
    task.result()
    return cut.waits >= place


async def nobody_is_left(world: World) -> None:
    async with asyncio.timeout(10):
        while [entry async for entry in world.environment(WORKERS).entries()]:  # noqa: ASYNC110 - a server is asked
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("ttl_s", TTLS_S)
async def test_a_join_that_is_cut_off_at_any_wait_leaves_nobody(
    world: World, address: str, ttl_s: float | None, moment: str, again: bool
) -> None:
    """The program ends at once, or it goes on and joins again."""
    for is_closed in (True, False):
        place, was_cut = 0, True
        while was_cut:
            place += 1
            async with connect(address) as other:
                bob = other.environment("/town").clock().participate("bob", ttl_s=ttl_s)
                was_cut = await is_cut(bob.__aenter__(), place, moment, again)
                if not was_cut:
                    await bob.__aexit__(None, None, None)
                elif not is_closed:
                    await nobody_is_left(world)
            await nobody_is_left(world)
        assert place > 3, "nothing was cut"


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("ttl_s", TTLS_S)
async def test_a_leave_that_is_cut_off_at_any_wait_leaves_nobody(
    world: World, address: str, ttl_s: float | None, moment: str, again: bool
) -> None:
    place, was_cut = 0, True
    while was_cut:
        place += 1
        async with connect(address) as other:
            bob = await other.environment("/town").clock().participate("bob", ttl_s=ttl_s).__aenter__()
            was_cut = await is_cut(bob.__aexit__(None, None, None), place, moment, again)
        await nobody_is_left(world)
    assert place > 1, "nothing was cut"


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_wait_that_is_cut_off_loses_no_batch_and_tells_none_as_consumed(
    world: World, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Every second wait is cut off, while events come."""
    town, heard, told = world.environment("/town"), [0], [0]
    report = ClockReporter.report

    def note(self: ClockReporter, **said: Any) -> None:
        told.append(said.get("consumed_revision", 0))
        assert max(told) <= handed, "what was not handed out was told as consumed"
        report(self, **said)

    monkeypatch.setattr(ClockReporter, "report", note)
    async with town.clock().participate("bob", hears=[EventFilter(key_glob="n")]) as bob:
        handed = world.revision

        async def write() -> None:
            for number in range(1, 101):
                await town.set("n", number)

        writing, cuts, turns = asyncio.create_task(write()), 0, 0
        while heard[-1] < 100:
            batches: list[EventBatch] = []
            turns += 1

            async def read(into: list[EventBatch] = batches) -> None:
                into.append(await bob.__anext__())

            cuts += await is_cut(read(), 1 if turns % 2 else 1_000, moment, False) and not batches
            for batch in batches:
                handed = max(handed, batch.through_revision)
                heard += [event.value for event in batch if event.key == "n"]  # type: ignore[misc]
        await writing
    assert heard == list(range(101)) and cuts > 5


async def test_who_was_cut_off_while_joining_may_join_at_once(world: World) -> None:
    clock = world.environment("/town").clock()
    place, was_cut = 0, True
    while was_cut:
        place += 1
        was_cut = await is_cut(clock.participate("bob", ttl_s=30.0).__aenter__(), place, MOMENTS[1], False)
        if was_cut:
            async with clock.participate("bob", ttl_s=30.0):
                with pytest.raises(EntryExistsError):
                    await clock.participate("bob", ttl_s=30.0).__aenter__()


async def test_leaving_that_failed_may_be_asked_for_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bob: Participant = await world.environment("/town").clock().participate("bob", ttl_s=None).__aenter__()
    issue = world.session.issue

    def refuse(*_: Any) -> Any:
        raise UnavailableError(ErrorDetails(message="nowhere"))

    monkeypatch.setattr(world.session, "issue", refuse)
    with pytest.raises(UnavailableError):
        await bob.__aexit__(None, None, None)
    monkeypatch.setattr(world.session, "issue", issue)
    await bob.__aexit__(None, None, None)
    await nobody_is_left(world)
