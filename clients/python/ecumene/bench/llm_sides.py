"""Both who ask in `bench llm`, a runtime's gateway and the bare load generator; each is told how much to ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from ecumene.bench.llm_questions import QUESTION, RULES, SHAPE, Asked
from ecumene.bench.processes import READY_TIMEOUT_S, BenchError, Child, list_tree, make_directory, run_child
from ecumene.bench.targets import start_server
from ecumene.bench.usage import UsageMeter
from ecumene.client.model import EventFilter, EventType
from ecumene.client.world import World, connect
from ecumene.launch import Services

PLACE = "/bench"
ASK, ASKED = "ask", "asked"
AGENT_CLASS = "agent_runtime.agents.load_asker:LoadAsker"
LEAN_ASKER = "ecumene.bench.limits.lean_asker"
WORK_TIMEOUT_S = 600.0
START_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What one side got. `cpu_us_call`: user and system time of its processes, `endpoint_us_call` of the endpoint's."""

    calls_s: float
    tokens_s: float
    cpu_us_call: float
    endpoint_us_call: float


class Side(Protocol):
    """Somebody who asks."""

    @property
    def pids(self) -> Sequence[int]:
        """Its processes."""
        ...

    async def ask(self, first: int, questions: int) -> Mapping[str, Any]:
        """Ask so many questions, numbered from `first`; returns `answered`, `failed`, tokens and `wall_s`."""
        ...


class GatewaySide:
    """An agent of a runtime that asks all questions in one turn."""

    def __init__(self, world: World, runtime_pid: int, at_a_time: int) -> None:
        self.pids = list_tree(runtime_pid)
        self._world = world
        self._at_a_time = at_a_time
        self._loads = 0

    async def ask(self, first: int, questions: int) -> Mapping[str, Any]:
        """See Side."""
        self._loads += 1
        load = {"number": self._loads, "first": first, "questions": questions, "at_a_time": self._at_a_time}
        watch = self._world.watch(EventFilter(path_prefix=PLACE, key_glob=ASKED, types=(EventType.ENTRY_SET,)))
        try:
            async with asyncio.timeout(WORK_TIMEOUT_S):
                await self._world.environment(PLACE).set(ASK, load)
                async for event in watch:
                    if isinstance(event.value, dict) and event.value["number"] == self._loads:
                        return event.value
        except TimeoutError as error:
            raise BenchError(f"the agent has not said within {WORK_TIMEOUT_S:g} s what it got") from error
        finally:
            await watch.aclose()
        raise BenchError("the world is gone")


class LeanSide:
    """The bare load generator."""

    def __init__(self, child: Child) -> None:
        self.pids = [child.pid]
        self._child = child

    async def ask(self, first: int, questions: int) -> Mapping[str, Any]:
        """See Side."""
        self._child.tell({"first": first, "questions": questions})
        return await self._child.read(WORK_TIMEOUT_S)


async def measure(side: Side, endpoint_pids: Sequence[int], first: int, questions: int) -> Sample:
    """What a side gets for so many questions. Raises BenchError if one is not answered."""
    async with UsageMeter({"side": side.pids, "endpoint": endpoint_pids}) as meter:
        told = await side.ask(first, questions)
        cpu_s = meter.cpu_s()
    if told["answered"] != questions:
        raise BenchError(f"of {questions:,} questions {told['answered']:,} were answered")
    wall_s = told["wall_s"]
    return Sample(
        calls_s=questions / wall_s,
        tokens_s=told["completion_tokens"] / wall_s,
        cpu_us_call=1e6 * cpu_s["side"] / questions,
        endpoint_us_call=1e6 * cpu_s["endpoint"] / questions,
    )


@asynccontextmanager
async def open_gateway(asked: Asked) -> AsyncIterator[GatewaySide]:
    """A world, and a runtime with one worker that records as in any run. Raises LaunchError, BenchError."""
    async with AsyncExitStack() as stack:
        directory = await stack.enter_async_context(make_directory())
        services = await stack.enter_async_context(Services())
        server = await start_server(services, directory / "world")
        address = str(server.ready["address"])
        world = await stack.enter_async_context(connect(address))
        await world.environment(PLACE).register()
        arguments = ["--server", address, "--spec", str(write_launch(asked, directory))]
        runtime = await services.start("runtime", arguments, start_timeout_s=START_TIMEOUT_S)
        yield GatewaySide(world, runtime.pid, asked.at_a_time)


@asynccontextmanager
async def open_lean(asked: Asked) -> AsyncIterator[LeanSide]:
    """The bare load generator in a process of its own. Raises BenchError."""
    async with run_child(LEAN_ASKER, [json.dumps(asdict(asked))]) as child:
        await child.read(READY_TIMEOUT_S)
        yield LeanSide(child)


def write_launch(asked: Asked, directory: Path) -> Path:
    """The launch description of one agent who asks, with the settings that a run has by itself; returns its path."""
    model: dict[str, Any] = {
        "provider": "openai",
        "model": asked.model,
        "base_url": asked.base_url,
        "max_tokens": asked.tokens_max,
        "in_flight_max": asked.at_a_time,
        # A server's own time is measured, however slow it is.
        "timeout_s": WORK_TIMEOUT_S,
    }
    if asked.api_key_file:
        model["api_key_file"] = asked.api_key_file
    parameters: dict[str, Any] = {"rules": RULES, "question": QUESTION}
    if asked.is_shaped:
        parameters["answer"] = SHAPE
    group = {
        "name": "askers",
        "agent": AGENT_CLASS,
        "agents": "askers.arrow",
        "wake": [{"path": PLACE, "types": ["entry_set"], "key": ASK}],
        "parameters": parameters,
        "model": "asked",
        "turn_timeout_s": WORK_TIMEOUT_S,
    }
    document = {
        "run": "bench",
        "workers": 1,
        "recording": str(directory / "records"),
        "models": {"asked": model},
        "groups": [group],
    }
    table = pa.table({"agent_id": pa.array(["asker"], pa.string())})
    with pa.OSFile(str(directory / "askers.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    path = directory / "launch.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
