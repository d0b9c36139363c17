"""Whatever a node is sent: a known answer goes out, no agent and no file of others is touched, and it serves on."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from agent_api.v1 import asking_pb2 as asks_pb
from agent_api.v1 import runtime_service_pb2 as pb
from ecumene.client import connect
from ecumene.client.runtime_errors import from_runtime_error

from agent_runtime.rpc.service import SERVICE
from agent_runtime.worker.process import PROGRAM
from tests.fuzz.runtime_requests import AGENTS, METHODS, RUN, make_request
from tests.services import ServerProcess
from tests.unit.agent_runtime.nodes import Place, Served, describe_run, make_settings, name_agents, open_served

REQUESTS, REQUESTS_LONG = 1000, 100_000
AT_A_TIME = 32
STREAM_S = 0.2
CALL_S = 60.0
GROWTH_BYTES_MAX = 200 << 20
DESCRIBED = {method.name: method for method in pb.DESCRIPTOR.services_by_name["RuntimeService"].methods}
RARELY_GOOD = frozenset({"Drain", "Launch", "Stop"})
"""The first is only asked in forms that are refused; the others need a run that was launched by chance, or is."""
DEFECTS = frozenset({"INTERNAL", ""})
ENDED_BY_US = frozenset({grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED})


class Tally:
    """What came back of each method, and what must not."""

    def __init__(self) -> None:
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.wrong: list[Any] = []

    def take(self, method: str, error: grpc.aio.AioRpcError | None, *, has_no_end: bool, sent: list[bytes]) -> None:
        """The end of a call; `has_no_end`: one that is ended by us."""
        reason = "OK" if error is None else from_runtime_error(error).reason
        if error is not None and has_no_end and not reason and _is_ours(error):
            reason = "OK"
        self.reasons[method, reason] += 1
        if reason in DEFECTS:
            self.wrong.append((method, [data.hex() for data in sent], repr(error)))

    def count_methods(self, reason: str | None = None) -> set[str]:
        """The methods that answered, or answered so."""
        return {method for method, told in self.reasons if reason in (None, told)}


def _is_ours(error: grpc.aio.AioRpcError) -> bool:
    """Whether this side ended a call, by its time or since what it wrote came behind the other side's end."""
    return error.code() in ENDED_BY_US or error.details() == "Internal error from Core"


async def send(channel: Any, method: str, messages: list[bytes], tally: Tally) -> None:
    """One call, read to its end, or for a moment where it has none."""
    described, path = DESCRIBED[method], f"/{SERVICE}/{method}"
    has_no_end = method in ("Logs", "Sit")
    timeout_s = STREAM_S if has_no_end else CALL_S
    error = None
    try:
        if described.client_streaming and described.server_streaming:
            _ = [told async for told in channel.stream_stream(path)(iter(messages), timeout=timeout_s)]
        elif described.client_streaming:
            await channel.stream_unary(path)(iter(messages), timeout=timeout_s)
        elif described.server_streaming:
            _ = [told async for told in channel.unary_stream(path)(messages[0], timeout=timeout_s)]
        else:
            await channel.unary_unary(path)(messages[0], timeout=timeout_s)
    except grpc.aio.AioRpcError as ended:
        error = ended
    tally.take(method, error, has_no_end=has_no_end, sent=messages)


async def send_many(channel: grpc.aio.Channel, rng: random.Random, count: int, tally: Tally) -> None:
    left = iter(range(count))

    async def keep_sending() -> None:
        for _ in left:
            method, messages = make_request(rng)
            await send(channel, method, messages, tally)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_A_TIME):
            tasks.create_task(keep_sending())


def list_files(folder: Path) -> set[str]:
    """All that lies below a folder, the node's scratch folder and the server's files left out."""
    found = (path.relative_to(folder) for path in folder.rglob("*"))
    return {str(path) for path in found if path.parts[0] not in ("a", "data", "data.log")}


def measure_bytes(processes: list[psutil.Process]) -> int:
    """Their memory."""
    return sum(process.memory_info().rss for process in processes)


async def check_serves(served: Served, run: str) -> None:
    """The run that was there lives, an agent of it answers, and another run comes and goes."""
    answer = await served.stub.Interview(
        asks_pb.InterviewRequest(run=RUN, agent="agent-7", question="How do you play?")
    )
    assert answer.status == asks_pb.ANSWER_STATUS_RULE and answer.state_hash_before == answer.state_hash_after
    state = (await served.inspect(RUN)).runs[0]
    assert state.agents == AGENTS and [worker.restarts for worker in state.workers if worker.restarts] == []
    launched = await served.launch(describe_run(run), {"g": name_agents(5)})
    assert launched.agents == 5
    await served.stub.Stop(pb.StopRequest(run=run))
    assert (await served.stub.CleanUp(pb.CleanUpRequest(run=run))).existed


async def fuzz(directory: Path, seed: int, requests: int, caplog: pytest.LogCaptureFixture) -> None:
    tally, rng = Tally(), random.Random(seed)
    caplog.set_level(logging.ERROR)
    with ServerProcess(directory / "data") as server:
        async with connect(server.address, "main") as world:
            await world.environment("/known").register(kind="guess_game")
            settings = make_settings(Place(server.address), directory, program=PROGRAM, processes_max=2)
            async with open_served(settings) as served:
                await served.launch(describe_run(RUN), {"g": name_agents(AGENTS)})
                before = list_files(directory)
                # The node is in this process; the workers are those of the run that stays.
                living = [psutil.Process(), *psutil.Process().children(recursive=True)]
                await send_many(served.channel, rng, requests // 3, tally)
                middle = measure_bytes(living)
                await send_many(served.channel, rng, requests - requests // 3, tally)
                assert measure_bytes(living) - middle < GROWTH_BYTES_MAX
                await check_serves(served, "last")
                assert not served.node.tasks.failure.done()
                assert list_files(directory) == before
            assert (await world.environment("/known").describe()).kind == "guess_game"
    print(sorted(tally.reasons.items()))
    assert not tally.wrong[:3], f"seed {seed}"
    # grpc polls for all loops of this process, those that earlier tests have closed among them.
    told = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not [record for record in told if "PollerCompletionQueue" not in record.getMessage()], f"seed {seed}"
    assert tally.count_methods() == METHODS == DESCRIBED.keys()
    assert tally.count_methods("OK") >= METHODS - RARELY_GOOD, tally.reasons


async def test_mutated_messages_harm_no_node(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    await fuzz(tmp_path, seed, REQUESTS, caplog)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_many_mutated_messages_harm_no_node(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    await fuzz(tmp_path, seed, REQUESTS_LONG, caplog)
