"""What a node hosts: launched, inspected, stopped, cleaned up; on a real server, with fake workers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from agent_api.v1 import asking_pb2 as asks_pb
from agent_api.v1 import runtime_service_pb2 as pb
from ecumene.client import ClientSettings, Clock, connect
from ecumene.client.waking import name_timer

from agent_runtime.node.populations import run_folder
from agent_runtime.node.records import Records
from tests.services import ServerProcess
from tests.unit.agent_runtime.nodes import (
    NOWHERE,
    Place,
    Served,
    describe_run,
    list_names,
    make_settings,
    name_agents,
    open_served,
)

CODE = grpc.StatusCode


async def test_a_run_is_launched_inspected_stopped_and_cleaned_up(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served, connect(*home) as world:
        launched = await served.launch(describe_run(), {"g": name_agents(10)})
        assert (launched.node, launched.agents, len(launched.parts)) == ("a", 10, 2)
        told = await served.inspect("r")
        assert told.node.capacity > 0 and told.node.name == "a"
        (run,) = told.runs
        assert (run.agents, [worker.pid > 0 for worker in run.workers]) == (10, [True, True])
        assert {part.condition for part in run.parts} == {pb.PART_CONDITION_LIVE}
        assert [dict(part.statistics) for part in run.parts] == [{"agents": 5}, {"agents": 5}]
        nodes: dict[str, Any] = {
            entry.key: entry.value async for entry in world.environment("/runtime/nodes").entries()
        }
        assert nodes["a"]["address"] == served.node.address
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await served.stub.CleanUp(pb.CleanUpRequest(run="r"))
        assert refused.value.code() is CODE.FAILED_PRECONDITION
        ended = await served.stub.Stop(pb.StopRequest(run="r"))
        assert {part.condition for part in ended.parts} == {pb.PART_CONDITION_STOPPED}
        assert (await served.stub.CleanUp(pb.CleanUpRequest(run="r"))).existed
        assert not (await served.stub.CleanUp(pb.CleanUpRequest(run="r"))).existed
        assert [child.path async for child in world.environment("/runtime/runs").children()] == []
        assert len(await world.leases()) == 1
        assert not (tmp_path / "a" / "r").exists()
    assert not (tmp_path / "a").exists()


async def test_a_launch_that_is_repeated_changes_nothing(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        first = await served.launch(describe_run(), {"g": name_agents(10)})
        again = await served.launch(describe_run(), {"g": name_agents(10)})
        without_agents = await served.launch(describe_run(), {})
        terms = [[part.term for part in one.parts] for one in (first, again, without_agents)]
        assert terms[0] == terms[1] == terms[2]
        assert len(served.node._locks) == 0
        assert await refuse(served, describe_run(seed=3), {"g": name_agents(10)}) == (CODE.ALREADY_EXISTS, "RUN_EXISTS")


async def test_no_name_of_a_run_leads_out_of_the_nodes_folder(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        await served.launch(describe_run(), {"g": name_agents(10)})
        (tmp_path / "mine").mkdir()
        for name in (".", "..", "../mine", "../../x", "", "r/..", "r\n"):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await served.stub.CleanUp(pb.CleanUpRequest(run=name))
            assert (refused.value.code(), read_reason(refused.value)) == (CODE.INVALID_ARGUMENT, "INVALID_FIELD")
        assert list_names(tmp_path) == ["a", "mine"] and list_names(tmp_path / "a") == ["r"]
        assert len(served.node._locks) == 0


@pytest.mark.parametrize("name", ["..", ".", "a/b", "/x", "", "x\n", "-x"])
def test_what_is_no_name_of_a_run_has_no_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a run"):
        run_folder(tmp_path, name)


async def test_agents_that_are_not_those_of_the_run_never_reach_the_disk(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        await served.launch(describe_run(), {"g": name_agents(10)})
        kept = (tmp_path / "a" / "r" / "g.arrow").read_bytes()
        for group in ("../../x", str(tmp_path / "x"), "h"):
            for run in ("r", "s"):
                refused = await refuse(served, describe_run(run), {"g": name_agents(10), group: ["a"]})
                assert refused == (CODE.INVALID_ARGUMENT, "INVALID_FIELD")
        others = [f"other-{number}" for number in range(10)]
        assert await refuse(served, describe_run(), {"g": others}) == (CODE.ALREADY_EXISTS, "RUN_EXISTS")
        assert (tmp_path / "a" / "r" / "g.arrow").read_bytes() == kept
        assert list_names(tmp_path) == ["a"] and list_names(tmp_path / "a") == ["r"]


@pytest.mark.parametrize("what", ["link", "open folder"])
async def test_a_folder_that_somebody_else_made_is_not_used(tmp_path: Path, home: Place, what: str) -> None:
    settings = make_settings(home, tmp_path)
    (tmp_path / "theirs").mkdir()
    if what == "link":
        settings.scratch.symlink_to(tmp_path / "theirs")
    else:
        settings.scratch.mkdir()
        settings.scratch.chmod(0o777)
    (tmp_path / "theirs" / "file").touch()
    with pytest.raises(OSError, match="not ours alone"):
        async with open_served(settings):
            pass
    assert (tmp_path / "theirs" / "file").exists() and settings.scratch.exists()


@pytest.mark.parametrize("call", ["Stop", "Drain"])
async def test_what_is_about_to_be_hosted_when_a_node_is_told_to_end_it_is_ended(
    tmp_path: Path, home: Place, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        begun, may_go_on = asyncio.Event(), asyncio.Event()
        place = Records.place

        async def place_slowly(*what: Any) -> None:
            begun.set()
            await may_go_on.wait()
            await place(*what)

        monkeypatch.setattr(Records, "place", place_slowly)
        launching = asyncio.create_task(served.launch(describe_run(), {"g": name_agents(4)}), name="launch")
        await begun.wait()
        request = pb.StopRequest(run="r") if call == "Stop" else pb.DrainRequest()
        ending = asyncio.create_task(call_stub(served, call, request), name="end it")
        await asyncio.sleep(0.2)  # time to overtake the launch, which it must not use
        may_go_on.set()
        assert len((await ending).parts) == 2
        await asyncio.gather(launching, return_exceptions=True)
        assert served.node.agents == 0 and not served.node.runs["r"].parts


async def call_stub(served: Served, call: str, request: Any) -> Any:
    return await getattr(served.stub, call)(request)


async def test_a_stopped_run_can_be_launched_again_from_what_the_world_keeps(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        await served.launch(describe_run(), {"g": name_agents(10)})
        await served.stub.Stop(pb.StopRequest(run="r"))
        assert (await served.launch(describe_run(), {})).agents == 10


async def test_a_name_that_another_node_has_cleaned_up_is_free_for_other_agents(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        await served.launch(describe_run(), {"g": name_agents(10)})
        await served.stub.Stop(pb.StopRequest(run="r"))
        await served.node.records.delete("r")
        assert (await served.launch(describe_run(), {"g": ["x", "y"]})).agents == 2
        assert (await served.stub.Interview(asks_pb.InterviewRequest(run="r", agent="x", question="?"))).agent == "x"


async def test_cleaning_up_takes_the_timers_of_the_run_away(tmp_path: Path, home: Place) -> None:
    document = describe_run(clock="/town", first_wake_ns=5)
    async with open_served(make_settings(home, tmp_path)) as served, connect(*home) as world:
        town = world.environment("/town")
        await town.register(clock=Clock.manual())
        await served.launch(document, {"g": name_agents(10)})
        for part in ("g.0", "g.1"):
            await town.set_timer(name_timer("r", part), at_ns=5)
        await town.set_timer("bell", at_ns=5)
        await served.stub.Stop(pb.StopRequest(run="r"))
        assert (await served.stub.CleanUp(pb.CleanUpRequest(run="r"))).existed
        assert [timer.name async for timer in town.timers()] == ["bell"]


async def test_a_node_ends_in_time_although_its_world_is_gone(tmp_path: Path) -> None:
    client = ClientSettings(reconnect_timeout_s=600.0, call_timeout_s=1.0, flush_timeout_s=1.0)
    settings = make_settings(NOWHERE, tmp_path, stop_grace_s=1.0, client=client)
    with ServerProcess(tmp_path / "data") as running:
        async with asyncio.timeout(60):
            async with open_served(replace(settings, server=running.address)) as served:
                await served.launch(describe_run(), {"g": name_agents(4)})
                running.kill()
                begun_s = time.monotonic()
        assert time.monotonic() - begun_s < 40
        running.start()


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"agent": "nobody"}, 10, "no agent class 'nobody' is installed"),
    ({"parameters": {"level": -1}}, 10, "level must not be negative"),
    ({"agents": "relative.arrow"}, 10, "must be an absolute path"),
    ({"agents": "/nowhere.arrow"}, 0, "no Arrow file can be read"),
    ({"rows": [0, 5]}, 10, "parts say which rows"),
    ({"node_labels": {"gpu": "h200"}}, 10, "this node has not gpu=h200"),
    ({"surprise": 1}, 10, "Extra inputs are not permitted"),
    ({}, 0, "no agents were sent"),
]


async def test_a_launch_that_cannot_run_is_refused_with_the_place(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        for changed, agents, why in REFUSED:
            sent = {"g": name_agents(agents)} if agents else {}
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await served.launch(describe_run(**changed), sent)
            assert refused.value.code() is CODE.INVALID_ARGUMENT
            assert why in str(refused.value.details())
            assert "groups" in str(refused.value.details())
            assert not served.node.runs


async def test_more_agents_than_there_is_room_for_are_refused(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path, capacity=15)) as served:
        await served.launch(describe_run(), {"g": name_agents(10)})
        assert await refuse(served, describe_run("s"), {"g": name_agents(10)}) == (
            CODE.RESOURCE_EXHAUSTED,
            "CAPACITY_EXCEEDED",
        )


async def test_each_agent_of_a_group_may_have_a_process_of_its_own(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path, processes_max=3)) as served:
        launched = await served.launch(describe_run(process="agent"), {"g": name_agents(3)})
        (run,) = (await served.inspect()).runs
        assert len({worker.pid for worker in run.workers}) == 3 == len(launched.parts)
        assert {part.part.end_row - part.part.first_row for part in run.parts} == {1}
        assert await refuse(served, describe_run("s", process="agent"), {"g": ["b"]}) == (
            CODE.RESOURCE_EXHAUSTED,
            "CAPACITY_EXCEEDED",
        )


async def test_populations_beyond_the_bound_have_to_be_files(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path, population_bytes_max=1000)) as served:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await served.launch(describe_run(), {"g": name_agents(1000)})
        assert refused.value.code() is CODE.INVALID_ARGUMENT
        assert "under the same path on every node" in str(refused.value.details())


async def test_a_second_node_of_the_name_is_refused(tmp_path: Path, home: Place) -> None:
    settings = make_settings(home, tmp_path)
    async with open_served(settings):
        with pytest.raises(Exception, match="--name"):
            async with open_served(settings):
                pass


async def refuse(served: Served, document: dict[str, Any], agents: Any) -> tuple[grpc.StatusCode, str]:
    """Code and reason with which a launch is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await served.launch(document, agents)
    return refused.value.code(), read_reason(refused.value)


def read_reason(error: grpc.aio.AioRpcError) -> str:
    """The reason in the trailer of a refused call."""
    from ecumene.client.error_table import from_rpc_error

    return from_rpc_error(error).reason
