"""A caller's way through the world, when the world does not do what is asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from ecumene.client import DeadlineExceededError
from ecumene.client.errors import ErrorDetails
from ecumene.workflows import world_link as module
from ecumene.workflows.callers import Caller
from ecumene.workflows.limits import FlowLimits
from ecumene.workflows.targets import HostInfo
from ecumene.workflows.world_link import WorldLink

from tests.workflow_actors import Teller

NO_TIME = DeadlineExceededError(ErrorDetails("no time", "DEADLINE"))


class Watch:
    """Tells what it is given."""

    def __init__(self) -> None:
        self.batches: asyncio.Queue[Any] = asyncio.Queue()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Any:
        return await self.batches.get()

    async def aclose(self) -> None:
        pass


class FakeWorld:
    """Takes frames, or not, and answers reads with `read`."""

    session = stamp = None
    revision = 9

    def __init__(self) -> None:
        self.watch = Watch()
        self.failures = 0
        self.deleted: list[str] = []
        self.read: Callable[[str], Any] = lambda key: None
        self.frames = self

    def environment(self, path: str) -> Any:
        return self

    def watch_frames(self, event_filter: Any) -> Watch:
        return self.watch

    async def register(self, **options: Any) -> None:
        pass

    async def set(self, key: str, value: str, **conditions: Any) -> None:
        raise module.PreconditionFailedError(ErrorDetails("there is one", "PRECONDITION"))

    async def get(self, key: str) -> Any:
        return self.read(key)

    def frame(self) -> Any:
        return FakeFrame()

    async def send(self, frame: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise NO_TIME
        self.deleted += frame.keys


class FakeFrame:
    def __init__(self) -> None:
        self.keys: list[str] = []

    def delete(self, path: str, key: str, **options: Any) -> None:
        self.keys.append(key)


@pytest.fixture
async def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A world, a caller and its link."""
    monkeypatch.setattr(module, "RELEASE_AGAIN_S", 0.01)
    monkeypatch.setattr(module, "OpCalls", lambda *arguments: SilentInbox())
    world = FakeWorld()
    caller = Caller("f", "7", FlowLimits(), asyncio.get_running_loop())
    caller.placing.add_host(HostInfo("ann", "ann-1", 1))
    link = WorldLink(world, caller, 7)  # type: ignore[arg-type]
    await link.start()
    yield world, caller, link
    await link.close()


class SilentInbox:
    def update(self, key: str, update: Any, options: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()


async def test_a_frame_of_releases_that_failed_is_sent_again(parts: Any) -> None:
    world, caller, _ = parts
    world.failures = 2
    proxy = caller.make(Teller, (), {})
    calls = [proxy.tell(number) for number in range(3)]
    for call in calls:
        caller.take_outcome(call._call.number, '{"ok":1}')
    numbers = [call._call.number for call in calls]
    del call, calls
    async with asyncio.timeout(5):
        while len(world.deleted) < 3:  # noqa: ASYNC110 - the fake world tells of nothing
            await asyncio.sleep(0.01)
    assert sorted(world.deleted) == [f"r{number}" for number in numbers] and not world.failures


async def test_a_call_that_is_given_up_ends_whatever_the_world_says(parts: Any) -> None:
    world, caller, _ = parts
    proxy = caller.make(Teller, (), {})

    def fail(key: str) -> Any:
        raise NO_TIME

    class Foreign:
        value = 17

    for read, what in [(fail, "HOST_LOST"), (lambda key: Foreign, "RESULT_LOST")]:
        world.read = read
        call = proxy.tell(1)
        caller.give_up(call._call, module.Failure("HOST_LOST", "gone"))
        async with asyncio.timeout(5):
            with pytest.raises(Exception) as caught:
                await call
        assert caught.value.failure.code == what  # type: ignore[attr-defined]


class Batch:
    """Three entries, of which one is an outcome."""

    types = (module.EventType.ENTRY_SET,) * 3
    keys = ("rx", "r2", "r3")
    values = ("text", 17, '{"ok":3}')


async def test_entries_that_are_none_of_outcomes_harm_nobody_and_are_told(parts: Any) -> None:
    world, caller, _ = parts
    proxy = caller.make(Teller, (), {})
    second, third = proxy.tell(2), proxy.tell(3)
    world.watch.batches.put_nowait(Batch)
    assert await asyncio.wait_for(third, 5) == 3
    with pytest.raises(Exception, match="the entry r2 holds no outcome"):
        await asyncio.wait_for(second, 5)


async def test_a_reader_that_dies_ends_the_flow(parts: Any) -> None:
    world, caller, _ = parts
    call = caller.make(Teller, (), {}).tell(1)
    world.watch.batches.put_nowait(None)
    with pytest.raises(Exception, match="a defect ended what reads the flow"):
        await asyncio.wait_for(call, 5)
    assert caller.has_ended


async def test_an_actor_that_cannot_be_made_again_fails_its_calls(parts: Any) -> None:
    world, caller, _ = parts
    proxy = caller.make(Teller, (), {}, retry=3)
    caller.take_outcome(1, '{"ok":null}')
    call = proxy.with_options(retry=0).tell(1)
    await asyncio.sleep(0)
    world.read = lambda key: (_ for _ in ()).throw(NO_TIME)
    caller._table._limits = FlowLimits(results_max=1)
    caller.lose_host("ann-1")
    with pytest.raises(Exception, match="it cannot be made again"):
        await asyncio.wait_for(call, 5)
