"""Hosts, scripts and servers of workflows are killed or stopped at random moments."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ecumene import World, connect, workflows
from ecumene.workflows.messages import HOSTS, ROOT, host_of

from agent_runtime.workflows.host_process import HostEndedError, HostProcess, HostSettings
from tests.services import ROOT as FOLDER
from tests.services import ServerProcess
from tests.workflow_actors import Counter, Teller
from tests.workflow_hosts import LEASE_TTL_S, HostChild, host_here

IN_TIME_S = LEASE_TTL_S + 2.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A real server."""
    with ServerProcess(tmp_path / "data") as server:
        yield server


@pytest.fixture
async def world(server: ServerProcess) -> AsyncIterator[World]:
    """The world, with a place for counters."""
    async with connect(server.address) as world:
        await world.environment("/counts").register(if_absent=True)
        yield world


@contextlib.asynccontextmanager
async def children(address: str, *names: str) -> AsyncIterator[dict[str, HostChild]]:
    """Host processes; those that still run are killed at the end."""
    running = {name: HostChild(address, name) for name in names}
    try:
        for child in running.values():
            await asyncio.to_thread(child.wait_ready)
        yield running
    finally:
        for child in running.values():
            if child.process.poll() is None:
                await asyncio.to_thread(child.kill)


async def list_paths(world: World, path: str) -> list[str]:
    return [info.path async for info in world.environment(path).children()]


async def told(call: Any) -> Any:
    try:
        return await call
    except workflows.WorkflowError as error:
        return error


async def test_a_killed_host_fails_what_was_under_way_in_time_and_tells_where(server: ServerProcess) -> None:
    async with children(server.address, "ann", "bob") as hosts, workflows.connect(server.address) as flow:
        (lost,), (kept,) = flow.spawn(Teller, 1, host="ann"), flow.spawn(Teller, 1, host="bob")
        assert await lost.tell("before") == "before"
        pending = [lost.tell_later("never", 600) for _ in range(20)]
        dependent = kept.tell([pending[-1]])
        asking = kept.with_options(timeout_s=60).ask_softly(lost, "tell", 1)
        await asyncio.sleep(0.2)
        begun = time.monotonic()
        await asyncio.to_thread(hosts["ann"].kill)
        results = await asyncio.gather(*map(told, [*pending, dependent, asking]))
        took_s = time.monotonic() - begun
        for result in results:
            assert isinstance(result, workflows.HostLostError), result
            assert result.origin.host == "ann" and result.origin.actor == lost._target.actor
        assert results[-2].failure.through == ("Teller.tell",)
        assert "host ann ended with actor" in str(results[0])
        assert took_s < IN_TIME_S
        assert isinstance(await told(lost.tell("after")), workflows.HostLostError)
        assert await kept.tell("alive") == "alive"


async def play_kills(address: str, world: World, chance: random.Random, rounds: int) -> tuple[int, int]:
    """Kill hosts at random moments under load of effects with `retry`; returns calls, and kills that cut some short.

    What a kill has cut short is not known before it: calls go on while it is made. So those are counted that were sent
    again afterwards, or failed.
    """
    loads = 0
    async with children(address, "ann", "bob") as hosts, workflows.connect(address) as flow:
        counters = flow.spawn(Counter, 8, retry=50)
        tellers = flow.spawn(Teller, 4)
        calls: list[Any] = []
        plain: list[Any] = []
        stop = asyncio.Event()

        async def send() -> None:
            while not stop.is_set():
                # None of them is ever idle, and none gets more than it can do.
                for counter in counters:
                    while sum(not call.done for call in calls[-50:] if call._call.target is counter._target) < 3:
                        calls.append(counter.increment_slowly("/counts", "n", chance.uniform(0, 0.1)))
                plain.append(chance.choice(tellers).tell([calls[-1], chance.choice(plain) if plain else 0]))
                await asyncio.sleep(0.05)

        sending = asyncio.create_task(send(), name="send")
        try:
            for _ in range(rounds):
                await asyncio.sleep(chance.uniform(0.1, 1.5))
                # Actors are made again on the host that is left, and stay: the other one has nothing to lose.
                name = chance.choice(sorted({host_of(counter._target.host) for counter in counters}))
                under_way = [call for call in (*calls, *plain) if not call.done and is_on(name, call)]
                resent = sum(call._call.resent for call in under_way)
                await asyncio.to_thread(hosts[name].kill)
                hosts[name] = HostChild(address, name)
                await asyncio.to_thread(hosts[name].wait_ready)
                lost = [call for call in under_way if call.done and call._call.text.startswith('{"error"')]
                loads += bool(lost) or sum(call._call.resent for call in under_way) > resent
        finally:
            stop.set()
            await sending
        async with asyncio.timeout(120):
            results = await asyncio.gather(*map(told, calls))
            ends = await asyncio.gather(*map(told, plain))
        assert results == ["+1"] * len(calls), [result for result in results if result != "+1"][:3]
        for end in ends:
            assert isinstance(end, list | workflows.HostLostError), end
        return len(calls), loads


def is_on(host: str, call: Any) -> bool:
    return host_of(call._call.sent_to) == host


def check_kills(calls: int, loads: int, rounds: int, value: Any) -> None:
    print(f"{calls} calls, {loads} of {rounds} kills cut calls short, counter at {value}")
    assert value == calls, "each call had its effect once"
    assert loads >= rounds * 0.6, "too little load"


@pytest.mark.timeout(300)
async def test_kills_of_hosts_at_random_moments_lose_no_call_and_double_no_effect(
    server: ServerProcess, world: World, seed: int
) -> None:
    calls, loads = await play_kills(server.address, world, random.Random(seed), 5)
    check_kills(calls, loads, 5, await world.environment("/counts").value("n"))
    assert await list_paths(world, ROOT) == [HOSTS]


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_many_kills_of_hosts_at_random_moments(server: ServerProcess, world: World, seed: int) -> None:
    calls, loads = await play_kills(server.address, world, random.Random(seed), 100)
    check_kills(calls, loads, 100, await world.environment("/counts").value("n"))


async def test_a_host_that_stood_still_beyond_its_lease_has_no_late_effect(server: ServerProcess, world: World) -> None:
    async with children(server.address, "ann", "bob") as hosts, workflows.connect(server.address) as flow:
        (counter,) = flow.spawn(Counter, 1, host="ann", retry=3)
        assert await counter.increment("/counts", "n") == "+1"
        slow = counter.increment_slowly("/counts", "n", 0.5)
        await asyncio.sleep(0.2)
        os.kill(hosts["ann"].process.pid, signal.SIGSTOP)
        try:
            assert await slow == "+1"
            assert host_of(counter._target.host) == "bob"
            del slow
        finally:
            os.kill(hosts["ann"].process.pid, signal.SIGCONT)
        # It goes on with its call, finds that it was taken for dead, and ends.
        assert await asyncio.to_thread(hosts["ann"].process.wait, 20) == 1
        await asyncio.to_thread(hosts["ann"].close)
        assert '"failed"' in hosts["ann"].last_lines[-1]
        assert await counter.increment("/counts", "n") == "+1"
    assert await world.environment("/counts").value("n") == 3


async def test_retry_waits_for_a_host_when_none_is_left(server: ServerProcess) -> None:
    async with children(server.address, "ann") as hosts, workflows.connect(server.address) as flow:
        (teller,) = flow.spawn(Teller, 1, retry=2)
        assert await teller.tell("first") == "first"
        again = teller.tell_later("again", 0.5)
        await asyncio.sleep(0.1)
        await asyncio.to_thread(hosts["ann"].kill)
        hosts["ann"] = HostChild(server.address, "ann")
        assert await again == "again"
        # It was made again with what it was made with: what it had heard is gone, and that is what retry says.
        assert await teller.all_heard() == ["again"]


async def test_a_killed_script_leaves_no_actor_no_result_and_no_lease(server: ServerProcess, world: World) -> None:
    async with host_here(server.address, "here") as hosting:
        command = [sys.executable, "-m", "tests.faults.workflow_script", server.address]
        script = await asyncio.create_subprocess_exec(*command, cwd=FOLDER, stdout=subprocess.PIPE)
        try:
            assert script.stdout is not None
            line = (await script.stdout.readline()).decode().split()
            deadline = time.monotonic() + 10
            while hosting.stage.waiting < 10:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            assert hosting.actors == 10
            assert f"{ROOT}/{line[0]}" in await list_paths(world, ROOT)
        finally:
            script.kill()
            await script.communicate()
        begun = time.monotonic()
        while hosting.actors or hosting.stage.waiting or len(await list_paths(world, ROOT)) > 1:
            assert time.monotonic() - begun < IN_TIME_S + 1
            await asyncio.sleep(0.02)
        assert [lease.holder for lease in await world.leases()] == ["workflow host here"]


async def test_a_flow_goes_on_over_a_restart_of_the_server(server: ServerProcess, world: World) -> None:
    async with children(server.address, "ann", "bob"), workflows.connect(server.address) as flow:
        counters = flow.spawn(Counter, 4)
        calls = [counter.increment_slowly("/counts", "n", 0.01) for _ in range(50) for counter in counters]
        await asyncio.sleep(0.3)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        assert await asyncio.gather(*calls) == ["+1"] * 200
    assert await world.environment("/counts").value("n") == 200


async def test_a_host_process_ends_with_its_parent_and_stops_with_a_function_that_hangs(server: ServerProcess) -> None:
    child = HostChild(server.address, "child").wait_ready()
    assert child.process.stdin is not None
    child.process.stdin.close()
    child.process.stdin = None
    assert await asyncio.to_thread(child.close) == 0

    hanging = HostChild(server.address, "hanging", "--stop-timeout-s", "0.5").wait_ready()
    async with workflows.connect(server.address) as flow:
        (teller,) = flow.spawn(Teller, 1, host="hanging")
        await teller.tell(1)
        hung = teller.sleep(3600)
        await asyncio.sleep(0.2)
        assert await asyncio.to_thread(hanging.stop) == 0
        assert isinstance(await told(hung), workflows.HostLostError)


async def test_a_host_is_started_and_stopped_by_a_function(server: ServerProcess) -> None:
    settings = HostSettings(["tests.workflow_actors"], lease_ttl_s=2.0)
    async with HostProcess(server.address, "started", settings) as process:
        pid = process.pid
        async with workflows.connect(server.address) as flow:
            (teller,) = flow.spawn(Teller)
            assert await teller.pid() == pid
    assert process.ended["state"] == "ended" and process.ended["calls"]["ok"] == 2
    assert not psutil.pid_exists(pid)
    with pytest.raises(HostEndedError, match="exit code 2"):
        await HostProcess(server.address, "broken", HostSettings(["no_such_module"])).start()
