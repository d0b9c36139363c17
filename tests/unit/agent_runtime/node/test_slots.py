"""Workers that end, hang, or say what they should not; on a real server, with fake workers."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest
from agent_api.v1 import runtime_service_pb2 as pb
from ecumene.client import connect

from tests.unit.agent_runtime.nodes import (
    Place,
    Served,
    describe_moody,
    describe_run,
    make_settings,
    name_agents,
    open_served,
    wait_for,
)


async def test_a_killed_worker_is_started_again_with_its_parts_under_a_new_term(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        before = await served.launch(describe_run(), {"g": name_agents(10)})
        (run,) = (await served.inspect()).runs
        os.kill(run.workers[0].pid, signal.SIGKILL)
        after = await wait_live(served, run.workers[0].pid)
        assert [worker.restarts for worker in after.workers] == [1, 0]
        assert after.workers[0].last_failure == "worker 0: killed by signal 9"
        terms = {part.part.number: part.term for part in before.parts}
        assert [part.term > terms[part.part.number] for part in after.parts] == [True, False]


async def test_a_worker_that_stands_still_beyond_its_lease_is_killed_and_replaced(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        await served.launch(describe_run(), {"g": name_agents(10)})
        (run,) = (await served.inspect()).runs
        os.kill(run.workers[0].pid, signal.SIGSTOP)
        after = await wait_live(served, run.workers[0].pid)
        assert after.workers[0].restarts == 1


async def test_a_worker_that_ends_too_often_is_given_up_and_told(tmp_path: Path, home: Place) -> None:
    settings = make_settings(home, tmp_path, restarts_max=2, backoff_first_s=0.01)
    async with open_served(settings) as served, connect(*home) as world:
        # It may have been live for a moment, or not: what counts is what comes of it.
        launching = asyncio.create_task(served.launch(describe_moody("dies"), {"g": ["a", "b"]}), name="launch")
        ended_early = (await asyncio.gather(launching, return_exceptions=True))[0]
        assert not isinstance(ended_early, grpc.aio.AioRpcError) or ended_early.code() is grpc.StatusCode.UNAVAILABLE
        assert isinstance(ended_early, grpc.aio.AioRpcError | pb.LaunchResponse)
        await wait_for(lambda: has_condition(served, pb.PART_CONDITION_GIVEN_UP, 2))
        (run,) = (await served.inspect()).runs
        assert "ended 3 times within 60 s" in run.parts[0].reason
        assert "exit code 3" in run.parts[0].reason
        ended: dict[str, Any] = {
            entry.key: entry.value async for entry in world.environment("/runtime/runs/r/ended").entries()
        }
        assert ended.keys() == {"g.0", "g.1"}
        assert [entry.key async for entry in world.environment("/runtime/runs/r/parts").entries()] == []


async def test_a_part_that_cannot_be_hosted_fails_the_launch_with_the_workers_words(
    tmp_path: Path, home: Place
) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await served.launch(describe_moody("refuses"), {"g": ["a", "b"]})
        assert "g.0: not today" in str(refused.value.details())


async def test_what_may_pass_when_a_part_is_hosted_is_waited_for(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path, backoff_first_s=0.01)) as served:
        launched = await served.launch(describe_moody("stumbles"), {"g": ["a", "b"]})
        assert launched.agents == 2
    async with open_served(make_settings(home, tmp_path, "b", backoff_first_s=0.01, host_tries_max=2)) as served:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await served.launch(describe_moody("stumbles", "s"), {"g": ["a"]})
        assert "g.0: not now" in str(refused.value.details())


async def test_a_part_that_is_lost_before_it_counts_as_live_is_hosted_again(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served, connect(*home) as world:
        read_muted = served.node.records.list_muted

        async def read_slowly(run: str) -> set[str]:
            await asyncio.sleep(0.3)  # meanwhile the worker says that it has lost the part
            return await read_muted(run)

        served.node.records.list_muted = read_slowly  # type: ignore[method-assign]
        launched = await served.launch(describe_moody("forgets"), {"g": ["a"]})
        (entry,) = [entry async for entry in world.environment("/runtime/runs/r/parts").entries()]
        assert [part.term for part in launched.parts] == [entry.create_revision]


async def test_a_worker_of_which_no_part_is_left_is_ended_and_its_place_is_free(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path, processes_max=1)) as served:
        alone = describe_moody("refuses")
        alone["groups"][0]["process"] = "agent"
        with pytest.raises(grpc.aio.AioRpcError):
            await served.launch(alone, {"g": ["a"]})

        async def is_free() -> bool:
            return served.node.processes == 0 and not served.node.runs["r"].slots

        await wait_for(is_free)


async def test_what_agents_print_goes_to_the_log(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served:
        await served.launch(describe_moody("prints"), {"g": ["a"]})
        wanted = {"what agents' code prints", "and to stderr"}
        seen = set()
        async for response in served.stub.Logs(pb.LogsRequest(run="r", follow=True)):
            seen |= {line.text for line in response.lines}
            if wanted <= seen:
                break


async def wait_live(served: Served, old_pid: int) -> Any:
    """Until all parts are live in processes other than `old_pid`; the run as it is then."""

    async def holds() -> bool:
        (run,) = (await served.inspect()).runs
        live = all(part.condition == pb.PART_CONDITION_LIVE for part in run.parts)
        return live and not {0, old_pid} & {worker.pid for worker in run.workers}

    await wait_for(holds)
    return (await served.inspect()).runs[0]


async def has_condition(served: Served, condition: int, count: int) -> bool:
    (run,) = (await served.inspect()).runs
    return [part.condition for part in run.parts] == [condition] * count
