"""Parts that lose their node find another; two nodes on a real server, with fake workers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agent_api.v1 import runtime_service_pb2 as pb
from ecumene.client import World, connect

from tests.unit.agent_runtime.nodes import (
    Served,
    describe_run,
    make_settings,
    name_agents,
    open_served,
    wait_for,
)


async def test_a_drained_node_hands_its_parts_over(tmp_path: Path, server: str) -> None:
    async with (
        open_served(make_settings(server, tmp_path)) as one,
        open_served(make_settings(server, tmp_path, "b")) as two,
    ):
        await one.launch(describe_run(), {"g": name_agents(10)})
        given = await one.stub.Drain(pb.DrainRequest())
        assert {part.condition for part in given.parts} == {pb.PART_CONDITION_HANDED_OVER}
        await wait_for(lambda: hosts(two, 10))
        assert one.node.agents == 0
        assert (await one.inspect()).node.draining


async def test_a_node_that_ends_hands_over_and_one_that_comes_back_takes(tmp_path: Path, server: str) -> None:
    async with connect(server) as world:
        async with open_served(make_settings(server, tmp_path)) as one:
            await one.launch(describe_run(), {"g": name_agents(10)})
        assert await list_owned(world) == []
        async with open_served(make_settings(server, tmp_path)) as again:
            await wait_for(lambda: hosts(again, 10))
            assert await list_owned(world) == ["g.0", "g.1"]


async def test_only_a_node_with_room_and_labels_takes_over(tmp_path: Path, server: str) -> None:
    fits = {"labels": {"zone": "x"}}
    document = describe_run(node_labels={"zone": "x"})
    async with (
        open_served(make_settings(server, tmp_path, **fits)) as one,
        open_served(make_settings(server, tmp_path, "b")) as other,
        open_served(make_settings(server, tmp_path, "c", capacity=3, **fits)) as small,
    ):
        await one.launch(document, {"g": name_agents(10)})
        await one.stub.Drain(pb.DrainRequest())
        async with open_served(make_settings(server, tmp_path, "d", **fits)) as right:
            await wait_for(lambda: hosts(right, 10))
            assert (other.node.agents, small.node.agents) == (0, 0)


async def test_two_nodes_that_want_the_same_parts_share_them_without_overlap(tmp_path: Path, server: str) -> None:
    async with open_served(make_settings(server, tmp_path)) as one:
        await one.launch({**describe_run(), "workers": 8}, {"g": name_agents(16)})
        async with (
            open_served(make_settings(server, tmp_path, "b")) as two,
            open_served(make_settings(server, tmp_path, "c")) as three,
            connect(server) as world,
        ):
            await one.stub.Drain(pb.DrainRequest())

            async def all_are_owned() -> bool:
                return two.node.agents + three.node.agents == 16 and len(await list_owned(world)) == 8

            await wait_for(all_are_owned)
            names = [set(served.node.runs["r"].parts) for served in (two, three) if "r" in served.node.runs]
            assert sum(map(len, names)) == len(set.union(*names)) == 8


async def test_a_stopped_run_is_nobodys(tmp_path: Path, server: str) -> None:
    async with (
        open_served(make_settings(server, tmp_path)) as one,
        open_served(make_settings(server, tmp_path, "b")) as two,
    ):
        await one.launch(describe_run(), {"g": name_agents(10)})
        await one.stub.Stop(pb.StopRequest(run="r"))
        looks = 5 * two.node.settings.look_every_s
        await asyncio.sleep(looks)
        assert (one.node.agents, two.node.agents) == (0, 0)
        assert (await two.stub.CleanUp(pb.CleanUpRequest(run="r"))).existed


async def hosts(served: Served, agents: int) -> bool:
    """Whether all these agents are live on a node."""
    told = await served.inspect()
    live = [part for run in told.runs for part in run.parts if part.condition == pb.PART_CONDITION_LIVE]
    return sum(part.part.end_row - part.part.first_row for part in live) == agents


async def list_owned(world: World) -> list[Any]:
    """Names of the parts that somebody owns."""
    return [entry.key async for entry in world.environment("/runtime/runs/r/parts").entries()]
