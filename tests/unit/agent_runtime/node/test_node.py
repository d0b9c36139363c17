"""What a node hosts: launched, inspected, stopped, cleaned up; on a real server, with fake workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from agent_api.v1 import runtime_service_pb2 as pb
from ecumene.client import connect

from tests.services import ServerProcess
from tests.unit.agent_runtime.nodes import (
    describe_run,
    dump_agents,
    make_settings,
    name_agents,
    open_served,
    wait_for,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with ServerProcess(tmp_path / "data") as running:
        yield running.address


async def test_a_run_is_launched_inspected_stopped_and_cleaned_up(tmp_path: Path, server: str) -> None:
    async with open_served(make_settings(server, tmp_path)) as served, connect(server) as world:
        launched = await served.launch(describe_run(), {"g": name_agents(10)})
        assert (launched.node, launched.agents, len(launched.parts)) == ("a", 10, 2)
        told = await served.inspect("r")
        assert told.node.capacity > 0 and told.node.name == "a"
        (run,) = told.runs
        assert (run.agents, [worker.pid > 0 for worker in run.workers]) == (10, [True, True])
        assert {part.condition for part in run.parts} == {pb.PART_CONDITION_LIVE}
        assert [dict(part.statistics) for part in run.parts] == [{"agents": 5}, {"agents": 5}]
        nodes = {entry.key: entry.value async for entry in world.environment("/runtime/nodes").entries()}
        assert nodes["a"]["address"] == served.node.address  # type: ignore[call-overload,index]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await served.stub.CleanUp(pb.CleanUpRequest(run="r"))
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        ended = await served.stub.Stop(pb.StopRequest(run="r"))
        assert {part.condition for part in ended.parts} == {pb.PART_CONDITION_STOPPED}
        assert (await served.stub.CleanUp(pb.CleanUpRequest(run="r"))).existed
        assert not (await served.stub.CleanUp(pb.CleanUpRequest(run="r"))).existed
        assert [child.path async for child in world.environment("/runtime/runs").children()] == []
        assert len(await world.leases()) == 1
        assert not (tmp_path / "a" / "r").exists()
    assert not (tmp_path / "a").exists()
