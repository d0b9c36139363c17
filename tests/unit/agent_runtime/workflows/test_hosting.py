"""A host in this process: what it takes, drops and tells."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest
from ecumene import EventType, connect, workflows
from ecumene.workflows import FlowLimits
from ecumene.workflows.messages import CALLS, HOSTS, ROOT
from ecumene.workflows.world_link import WorldLink

from agent_runtime.workflows.hosting import HostLostItselfError
from tests.workflow_actors import Teller
from tests.workflow_hosts import KeptCalls, host_here

GOOD: dict[str, Any] = {"call": 1, "do": "call", "flow": "f", "caller": "7", "lane": "", "actor": "f.7.1"}
GOOD |= {"class": "m:C", "method": "x", "in": [[]]}


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
            junk: list[Any] = [3, "{", "[]", '{"do":"call"}', b"\x80\x04.", None, {"do": "call"}, "[" * 100_000]
            for wrong in ([], {}, 5, None, "/", "\ud800", [[]], True):
                junk += [json.dumps(GOOD | {name: wrong}) for name in ("flow", "caller", "actor", "do")]
            junk += [json.dumps(GOOD | {name: [3]}) for name in ("call", "lane", "class", "method", "retry", "resent")]
            junk += [json.dumps(GOOD | more) for more in ({"refs": 5}, {"refs": ["1"]}, {"timeout_s": "1"}, {"in": 5})]
            for value in junk:
                await world.environment(hosting.inbox).append(CALLS, value)
            (teller,) = flow.spawn(Teller)
            assert await teller.tell("alive") == "alive"
    assert caplog.text.count("was sent what it cannot read") == len(junk)


async def test_a_host_whose_reader_dies_ends(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = FlowLimits(close_timeout_s=0.1)
    async with host_here(address, "deaf") as hosting, workflows.connect(address, limits=limits) as flow:
        (teller,) = flow.spawn(Teller, 1, host="deaf")
        await teller.tell(1)
        monkeypatch.setattr(hosting.stage, "take", lambda message: 1 / 0)
        teller.tell(2)
        async with asyncio.timeout(10):
            with pytest.raises(HostLostItselfError, match="ZeroDivisionError"):
                await asyncio.shield(hosting.failed)


async def test_an_actor_can_be_called_as_soon_as_its_proxy_is_there(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = WorldLink.start

    async def start_late(link: WorldLink) -> None:
        await asyncio.sleep(0.3)
        await start(link)

    async with host_here(address, "one"), host_here(address, "two"), workflows.connect(address) as flow:
        (maker,) = flow.spawn(Teller, 1, host="one")
        monkeypatch.setattr(WorldLink, "start", start_late)
        for number in range(20):
            child = await maker.make_child("two")
            assert await child.tell(number) == number


async def test_calls_on_an_actor_whose_maker_is_gone_end(address: str) -> None:
    async with host_here(address, "kept"), AsyncExitStack() as gone:
        await gone.enter_async_context(host_here(address, "gone"))
        async with workflows.connect(address) as flow:
            (maker,) = flow.spawn(Teller, 1, host="gone")
            child = await maker.make_child("kept")
            assert await child.tell(1) == 1
            under_way, waiting = child.tell_later(2, 600), child.tell(3)
            await asyncio.sleep(0.1)
            await gone.aclose()
            for call in (under_way, waiting, child.tell(4)):
                async with asyncio.timeout(10):
                    with pytest.raises((workflows.FlowLostError, workflows.CallRefusedError)):
                        await call


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
    observer = KeptCalls()
    async with (
        host_here(address, "one", observer=observer) as hosting,
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
    (nested,) = [call for call in observer.calls if call.lane]
    assert (nested.caller, nested.method) == (str(hosting.lease_id), "tell")
