"""A host in this process: what it takes, drops and tells."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from ecumene import EventType, connect, workflows
from ecumene.workflows.messages import CALLS, HOSTS, ROOT

from tests.workflow_actors import Teller
from tests.workflow_hosts import KeptCalls, host_here


async def test_it_is_a_member_under_its_lease_and_leaves_nothing(address: str) -> None:
    async with connect(address) as world:
        async with host_here(address, "here") as hosting:
            (entry,) = [entry async for entry in world.environment(HOSTS).entries() if entry.key == "here"]
            assert entry.lease_id == hosting.lease_id
            assert isinstance(entry.value, dict) and entry.value["actors_max"] == 100_000
            info = await world.environment(hosting.inbox).describe()
            assert info.lease_id == hosting.lease_id
        assert [entry.key async for entry in world.environment(HOSTS).entries()] == []
        assert [info.path async for info in world.environment(ROOT).children()] == [HOSTS]
        assert await world.leases() == []


async def test_what_it_cannot_read_is_told_and_does_not_stop_it(address: str, caplog: pytest.LogCaptureFixture) -> None:
    async with host_here(address, "reader") as hosting, connect(address) as world, workflows.connect(address) as flow:
        with caplog.at_level(logging.WARNING):
            for junk in (3, "{", "[]", '{"do":"call"}', b"\x80\x04.", None, {"do": "call"}):
                await world.environment(hosting.inbox).append(CALLS, junk)
            (teller,) = flow.spawn(Teller)
            assert await teller.tell("alive") == "alive"
    assert caplog.text.count("was sent what it cannot read") == 7


async def test_the_end_of_a_flow_ends_its_actors_and_calls_and_no_others(address: str) -> None:
    async with host_here(address, "here") as hosting, workflows.connect(address) as kept:
        (survivor,) = kept.spawn(Teller)
        await survivor.tell(1)
        with pytest.raises(ZeroDivisionError):
            async with workflows.connect(address) as ended:
                (teller,) = ended.spawn(Teller)
                await teller.tell(2)
                with pytest.raises(workflows.ValueRefusedError, match="belongs to another flow"):
                    teller.tell(survivor)
                never = teller.tell_later("never", 60)
                await asyncio.sleep(0.05)
                assert hosting.actors == 2 and not never.done
                raise ZeroDivisionError
        deadline = time.monotonic() + 10
        while hosting.actors > 1 or hosting.stage.waiting:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        assert not [key for key in hosting.flows._outcomes if key[0] == ended.name]
        assert await survivor.all_heard() == [1]


async def test_a_host_whose_inbox_is_taken_away_fails(address: str) -> None:
    async with connect(address) as world, host_here(address, "robbed") as hosting:
        await world.environment(hosting.inbox).unregister()
        async with asyncio.timeout(10):
            with pytest.raises(Exception, match="the inbox of host robbed is gone"):
                await asyncio.shield(hosting.failed)


async def test_nested_calls_leave_through_the_hosts_own_place(address: str) -> None:
    recorder = KeptCalls()
    async with (
        host_here(address, "one", recorder=recorder) as hosting,
        workflows.connect(address) as flow,
        connect(address) as world,
        world.watch() as watch,
    ):
        teller, other = flow.spawn(Teller, 2)
        assert await teller.ask_softly(other, "tell", 1) == 1
        own = f"{ROOT}/{flow.name}/{hosting.lease_id}"
        async with asyncio.timeout(10):
            async for event in watch:
                if event.path == own and event.type == EventType.ENTRY_SET:
                    break
    (nested,) = [call for call in recorder.calls if call.lane]
    assert (nested.caller, nested.method) == (str(hosting.lease_id), "tell")
