"""Parts that lose their node find another; two nodes on a real server, with fake workers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from agent_api.v1 import runtime_service_pb2 as pb
from ecumene.client import World, connect

from agent_runtime.node import preparing
from tests.unit.agent_runtime.nodes import (
    Place,
    Served,
    describe_moody,
    describe_run,
    list_names,
    make_settings,
    name_agents,
    open_served,
    wait_for,
)


async def test_a_drained_node_hands_its_parts_over(tmp_path: Path, home: Place) -> None:
    async with (
        open_served(make_settings(home, tmp_path)) as one,
        open_served(make_settings(home, tmp_path, "b")) as two,
    ):
        await one.launch(describe_run(), {"g": name_agents(10)})
        given = await one.stub.Drain(pb.DrainRequest())
        assert {part.condition for part in given.parts} == {pb.PART_CONDITION_HANDED_OVER}
        await wait_for(lambda: hosts(two, 10))
        assert one.node.agents == 0
        assert (await one.inspect()).node.draining


async def test_a_node_that_ends_hands_over_and_one_that_comes_back_takes(tmp_path: Path, home: Place) -> None:
    async with connect(*home) as world:
        async with open_served(make_settings(home, tmp_path)) as one:
            await one.launch(describe_run(), {"g": name_agents(10)})
        assert await list_owned(world) == []
        async with open_served(make_settings(home, tmp_path)) as again:
            await wait_for(lambda: hosts(again, 10))
            assert await list_owned(world) == ["g.0", "g.1"]


async def test_only_a_node_with_room_and_labels_takes_over(tmp_path: Path, home: Place) -> None:
    fits = {"labels": {"zone": "x"}}
    document = describe_run(node_labels={"zone": "x"})
    async with (
        open_served(make_settings(home, tmp_path, **fits)) as one,
        open_served(make_settings(home, tmp_path, "b")) as other,
        open_served(make_settings(home, tmp_path, "c", capacity=3, **fits)) as small,
    ):
        await one.launch(document, {"g": name_agents(10)})
        await one.stub.Drain(pb.DrainRequest())
        async with open_served(make_settings(home, tmp_path, "d", **fits)) as right:
            await wait_for(lambda: hosts(right, 10))
            assert (other.node.agents, small.node.agents) == (0, 0)


async def test_two_nodes_that_want_the_same_parts_share_them_without_overlap(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as one:
        await one.launch({**describe_run(), "workers": 8}, {"g": name_agents(16)})
        async with (
            open_served(make_settings(home, tmp_path, "b")) as two,
            open_served(make_settings(home, tmp_path, "c")) as three,
            connect(*home) as world,
        ):
            await one.stub.Drain(pb.DrainRequest())

            async def all_are_owned() -> bool:
                return two.node.agents + three.node.agents == 16 and len(await list_owned(world)) == 8

            await wait_for(all_are_owned)
            names = [set(served.node.runs["r"].parts) for served in (two, three) if "r" in served.node.runs]
            assert sum(map(len, names)) == len(set.union(*names)) == 8


async def test_a_stopped_run_is_nobodys(tmp_path: Path, home: Place) -> None:
    async with (
        open_served(make_settings(home, tmp_path)) as one,
        open_served(make_settings(home, tmp_path, "b")) as two,
    ):
        await one.launch(describe_run(), {"g": name_agents(10)})
        await one.stub.Stop(pb.StopRequest(run="r"))
        looks = 5 * two.node.settings.look_every_s
        await asyncio.sleep(looks)
        assert (one.node.agents, two.node.agents) == (0, 0)
        assert (await two.stub.CleanUp(pb.CleanUpRequest(run="r"))).existed


HOSTILE: dict[str, Any] = {
    "no-launch": {"launch": 5, "parts": [["g", 0, 0, 1]], "populations": {}},
    "other-name": {"launch": {"run": "r"}, "parts": [["g", 0, 0, 1]], "populations": {}},
    "no-groups": {"launch": {"run": "no-groups", "groups": 7}, "parts": [["g", 0, 0, 1]], "populations": {}},
    "no-parts": {"launch": {"run": "no-parts"}, "parts": 9, "populations": {}},
    "no-text": {"launch": {"run": "no-text"}, "parts": [["g", 0, 0, 1]], "populations": {"g": 5}},
    "leads-out": {
        "launch": describe_run("leads-out"),
        "parts": [["g", 0, 0, 1]],
        "populations": {"../../g": {"chunks": 1, "bytes": 9, "path": ""}},
    },
    "no-chunk": {
        "launch": describe_run("no-chunk"),
        "parts": [["g", 0, 0, 1]],
        "populations": {"g": {"chunks": 0, "bytes": 0, "path": ""}},
    },
    "other-group": {"launch": describe_run("other-group"), "parts": [["h", 0, 0, 1]], "populations": {}},
    "..": {"launch": {"run": ".."}, "parts": [["g", 0, 0, 1]], "populations": {}},
}
PLACED: tuple[Any, ...] = ({"node": "", "refused": 5}, {"node": 7}, "nowhere", {"node": "", "refused": [["x"], 3]})


async def test_whatever_stands_among_the_runs_ends_no_node_and_keeps_it_from_no_other_run(
    tmp_path: Path, home: Place
) -> None:
    async with connect(*home) as world, open_served(make_settings(home, tmp_path)) as one:
        for number, (name, config) in enumerate(HOSTILE.items()):
            await lay_down(world, name, config, PLACED[number % len(PLACED)])
        await one.launch(describe_run("z"), {"g": name_agents(10)})
        async with open_served(make_settings(home, tmp_path, "b")) as two:
            await one.stub.Drain(pb.DrainRequest())
            await wait_for(lambda: hosts(two, 10))
            await asyncio.sleep(3 * two.node.settings.look_every_s)
            assert not one.node.tasks.failure.done() and not two.node.tasks.failure.done()
            assert set(two.node.runs) == {"z"}
    assert list_names(tmp_path) == []


async def lay_down(world: World, run: str, config: Any, placement: Any) -> None:
    """Keep something in the place of a run that nobody looks after."""
    place = world.environment(f"/runtime/runs/{run}")
    await place.register(config=config, labels={"complete": "yes"})
    for kept, value in (("placed", placement), ("ended", 5)):
        await place.child(kept).register()
        await place.child(kept).set("g.0" if kept == "placed" else "g.7", value)


async def test_what_only_goes_wrong_here_is_left_to_other_nodes_and_ends_none(
    tmp_path: Path, home: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for defect in (OSError(28, "No space left on device"), KeyError("foreign code"), RecursionError()):
        run = f"r-{type(defect).__name__.lower()}"
        async with open_served(make_settings(home, tmp_path)) as one:
            await one.launch(describe_run(run), {"g": name_agents(4)})
        with monkeypatch.context() as patched:
            patched.setattr(preparing, "write_files", fail_with(defect))
            async with open_served(make_settings(home, tmp_path)) as full, connect(*home) as world:
                place = world.environment(f"/runtime/runs/{run}/placed")

                async def is_refused(place: Any = place) -> bool:
                    value: Any = (await place.get("g.0")).value
                    return bool(value == {"node": "", "refused": ["a"]})

                await wait_for(is_refused)
                assert not full.node.tasks.failure.done() and full.node.agents == 0
        async with open_served(make_settings(home, tmp_path, "b")) as other:
            await wait_for(lambda other=other: hosts(other, 4))
            await other.stub.Stop(pb.StopRequest(run=run))


def fail_with(defect: Exception) -> Any:
    def fail(*_: Any) -> Any:
        raise defect

    return fail


async def test_a_part_that_could_not_be_hosted_is_tried_again_when_others_had_their_time(
    tmp_path: Path, home: Place
) -> None:
    until = tmp_path / "until"
    async with open_served(make_settings(home, tmp_path, refusal_s=0.5)) as served:
        with pytest.raises(grpc.aio.AioRpcError):
            await served.launch(describe_moody("waits", until=str(until)), {"g": ["a", "b"]})
        until.touch()
        await wait_for(lambda: hosts(served, 2))


async def hosts(served: Served, agents: int) -> bool:
    """Whether all these agents are live on a node."""
    told = await served.inspect()
    live = [part for run in told.runs for part in run.parts if part.condition == pb.PART_CONDITION_LIVE]
    return sum(part.part.end_row - part.part.first_row for part in live) == agents


async def list_owned(world: World) -> list[Any]:
    """Names of the parts that somebody owns."""
    return [entry.key async for entry in world.environment("/runtime/runs/r/parts").entries()]
