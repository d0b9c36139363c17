"""A clock that waits for runs of which nobody hosts a part: who they are, and how it is let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ecumene import Clock, World, connect
from ecumene.cli import main
from ecumene.client.reasons import EnvironmentNotFoundError
from ecumene.client.waking import cursors_path, name_timer, parts_path, wakes_path
from ecumene.launch.clock_places import find_unhosted, release_clock

from env_server.testing.in_process import serve_in_process
from tests.services import ServerProcess


async def make_town(world: World) -> None:
    """A clock that waits for parts of two runs, of which one is hosted, and for ann."""
    for path in ("/staff", "/town", "/runtime", "/runtime/runs"):
        await world.environment(path).register()
    await world.environment("/town").change(clock=Clock.event_driven(participants_path="/staff"))
    for run in ("r", "r.2"):
        for path in (f"/runtime/runs/{run}", parts_path(run), cursors_path(run)):
            await world.environment(path).register()
        for part in ("g.0", "g.1"):
            await world.environment(cursors_path(run)).set(part, {})
            await world.environment("/staff").set(name_timer(run, part), {"hears": []})
    await world.environment("/staff").set("ann", {"hears": []})
    await world.environment(parts_path("r")).set("g.1", {"holder": "somebody"})


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serve_in_process() as address, connect(address) as world:
        await make_town(world)
        yield world


async def test_only_parts_that_nobody_hosts_are_told_and_released(world: World) -> None:
    names = [entry.key async for entry in world.environment("/staff").entries()]
    found = {name: await find_unhosted(world, name) for name in [*names, "wakes.", "wakes.r:g", "wakes.other:g.0"]}
    assert {name: told for name, told in found.items() if told} == {
        "wakes.r:g.0": ("r", "g.0"),
        "wakes.r.2:g.0": ("r.2", "g.0"),
        "wakes.r.2:g.1": ("r.2", "g.1"),
    }
    assert await release_clock(world, "/town", "r") == ["g.0"]
    assert await release_clock(world, "/town", "r") == []
    assert await release_clock(world, "/town", "r.2") == ["g.0", "g.1"]
    assert [entry.key async for entry in world.environment("/staff").entries()] == ["ann", "wakes.r:g.1"]
    with pytest.raises(EnvironmentNotFoundError):
        await release_clock(world, "/town", "nobody")


async def test_runs_and_groups_with_dots_and_long_names_are_told_apart(world: World) -> None:
    """Run `r` with group `2.g`, and run `r.2` with group `g`; and names that do not fit."""
    long = ("x" * 80, f"{'g' * 40}.4000")
    await world.environment(f"/runtime/runs/{long[0]}").register()
    for path in (parts_path(long[0]), cursors_path(long[0])):
        await world.environment(path).register()
    for run, part in (("r", "2.g.0"), long):
        await world.environment(cursors_path(run)).set(part, {})
        await world.environment("/staff").set(name_timer(run, part), {"hears": []})
    assert await find_unhosted(world, name_timer(*long)) == long
    assert await find_unhosted(world, name_timer(long[0], f"{'g' * 40}.4001")) is None
    await world.environment(parts_path("r.2")).set("g.0", {"holder": "somebody"})
    assert await find_unhosted(world, name_timer("r", "2.g.0")) == ("r", "2.g.0")
    assert await find_unhosted(world, name_timer("r.2", "g.0")) is None
    assert await release_clock(world, "/town", "r") == ["2.g.0", "g.0"]
    assert await release_clock(world, "/town", long[0]) == [long[1]]
    left = [entry.key async for entry in world.environment("/staff").entries()]
    assert left == ["ann", "wakes.r.2:g.0", "wakes.r.2:g.1", "wakes.r:g.1"]


@pytest.mark.parametrize("clock", [Clock.event_driven(participants_path="/staff"), Clock.manual()])
async def test_the_timers_of_parts_that_nobody_hosts_go_with_their_places(world: World, clock: Clock) -> None:
    """Wherever they stand on that clock; those on another one, and of a part that is hosted, stay."""
    await world.environment("/town").unregister(recursive=True)
    await world.environment("/town").register(clock=clock)
    await world.environment("/town/market").register()
    await world.environment("/town/arcade").register(clock=Clock.manual())
    await world.environment(wakes_path("r")).register()
    for part, path in (("g.0", "/town/market"), ("g.1", "/town/market"), ("h.0", "/town/arcade"), ("i.0", "/gone")):
        await world.environment(cursors_path("r")).set(part, {})
        await world.environment(f"{wakes_path('r')}/{part}").register(config={"clock": path})
        if path != "/gone":
            await world.environment(path).set_timer(name_timer("r", part), at_ns=70)
    await world.environment("/staff").delete(name_timer("r", "g.0"))
    assert await release_clock(world, "/town/market", "r") == ["g.0"]
    assert await release_clock(world, "/town/market", "r") == []
    assert [timer.name async for timer in world.environment("/town/market").timers()] == ["wakes.r:g.1"]
    assert [timer.name async for timer in world.environment("/town/arcade").timers()] == ["wakes.r:h.0"]
    assert await release_clock(world, "/town/arcade", "r") == ["h.0"]


def test_the_clock_shows_who_nobody_hosts_and_the_command_that_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def prepare(address: str) -> None:
        async with connect(address) as world:
            await make_town(world)

    with ServerProcess(tmp_path / "data") as server:
        asyncio.run(prepare(server.address))

        def ecumene(*words: str) -> str:
            assert main([*words, "--server", server.address]) == 0
            return capsys.readouterr().out

        shown = ecumene("clock", "show", "/town")
        assert "it waits for g.0 of run r, which nobody hosts" in shown and "ann: no report" in shown
        assert f"    ecumene clock release /town r --server {server.address}\n" in shown
        assert (
            f"    ecumene runtime --server {server.address} --world main --name NAME " in shown
            and "it waits for g.0, g.1 of run r.2" in shown
        )
        assert "waits no more for g.0, g.1 of run r.2" in ecumene("clock", "release", "/town", "r.2")
        assert "waits for no part of run r.2" in ecumene("clock", "release", "/town", "r.2")
        assert "r.2" not in ecumene("clock", "show", "/town")
        assert main(["clock", "release", "/town", "nobody", "--server", server.address]) == 1
        assert "there is no run nobody" in capsys.readouterr().err
