"""The handle of one node of a runtime: launch, inspect, ask, intervene, sit.

async with RuntimeNode("127.0.0.1:7180") as node:
    print(await node.interview("monday", "agent-7", "Why did you sell?"))
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
from agent_api.v1 import asking_pb2 as asks_pb
from agent_api.v1 import interventions_pb2 as acts_pb
from agent_api.v1 import runtime_service_pb2 as pb
from agent_api.v1 import runtime_service_pb2_grpc
from agent_api.v1 import seats_pb2 as seats_pb

from ecumene.client.addresses import find_address
from ecumene.client.errors import ConnectionFailedError, EcumeneError, UnavailableError
from ecumene.client.model import Json
from ecumene.client.runtime_errors import from_runtime_error
from ecumene.client.runtime_model import (
    Intervention,
    Interview,
    Launched,
    LogLine,
    NodeInfo,
    PartInfo,
    PartSpan,
    Sampled,
    SurveyQuestion,
    SurveyRow,
)
from ecumene.client.runtime_readings import (
    dump,
    fill_parts,
    fill_question,
    read_interview,
    read_line,
    read_node,
    read_part,
    read_row,
)
from ecumene.client.runtime_seat import RuntimeSeat
from ecumene.client.settings import ClientSettings

CHUNK_BYTES_MAX = 1024 * 1024
LAUNCH_TIMEOUT_S = 300.0
STOP_GRACE_S = 60.0
ANSWER_TIMEOUT_S = 120.0

Answer = TypeVar("Answer")
Population = Mapping[str, bytes]
"""Agents of groups, each an Arrow IPC stream with the text column agent_id and any attributes."""


class RuntimeNode:
    """One node. Close it, or use it with `async with`. Calls are sent once.

    All raise EcumeneError; the class says why, see `runtime_errors`. A node that cannot be reached within `timeout_s`
    is a ConnectionFailedError.
    """

    def __init__(self, address: str, *, timeout_s: float = 10.0, settings: ClientSettings | None = None) -> None:
        self.address = find_address(address)
        self._timeout_s = timeout_s
        options = (settings or ClientSettings()).channel_options()
        self._channel = grpc.aio.insecure_channel(address, options=options)
        self._stub: Any = runtime_service_pb2_grpc.RuntimeServiceStub(self._channel)

    async def launch(
        self,
        description_json: bytes,
        populations: Population | None = None,
        *,
        parts: Sequence[PartSpan] = (),
        hosted: Sequence[str] = (),
        timeout_s: float = LAUNCH_TIMEOUT_S,
    ) -> Launched:
        """Host parts of a run; returns when all of them are owned and watch the world.

        `parts`: all of the run; none = fixed by the node. `hosted`: names of those to be hosted there; none = all.

        Raises:
            LaunchRefusedError: the description cannot be run there.
            RunExistsError: a run of the name was launched otherwise.
            CapacityExceededError, DrainingError: not on this node.
            WorkerUnavailableError: a part could not be hosted; the message says why.
        """
        header = pb.LaunchHeader(description_json=description_json, parts=fill_parts(parts), hosted=hosted)
        requests = _launch_requests(header, populations or {})
        answer: pb.LaunchResponse = await self._call(self._stub.Launch(requests, timeout=timeout_s))
        return Launched(answer.node, tuple(map(read_part, answer.parts)), answer.agents, answer.revision)

    async def stop(self, run: str, *, drain_s: float = 0.0) -> tuple[PartInfo, ...]:
        """End the parts of a run there, for good; turns that run may end within `drain_s`."""
        request = pb.StopRequest(run=run, drain_ms=round(drain_s * 1000))
        answer: pb.StopResponse = await self._ask(self._stub.Stop, request, drain_s + STOP_GRACE_S)
        return tuple(map(read_part, answer.parts))

    async def drain(self, *, drain_s: float = 0.0) -> tuple[PartInfo, ...]:
        """Let the node take no more parts, and hand over those that it has."""
        request = pb.DrainRequest(drain_ms=round(drain_s * 1000))
        answer: pb.DrainResponse = await self._ask(self._stub.Drain, request, drain_s + STOP_GRACE_S)
        return tuple(map(read_part, answer.parts))

    async def inspect(self, run: str = "", *, brief: bool = False) -> NodeInfo:
        """What the node is, and how its runs are; `brief` leaves out what has to be asked of workers."""
        return read_node(await self._ask(self._stub.Inspect, pb.InspectRequest(run=run, brief=brief), 30.0))

    async def logs(self, run: str = "", *, lines_max: int = 0, follow: bool = False) -> AsyncIterator[LogLine]:
        """Lines of the node and its workers, the oldest that are kept first; with `follow` those to come as well."""
        request = pb.LogsRequest(run=run, lines_max=lines_max, follow=follow)
        async for response in self._stream(self._stub.Logs(request)):
            for line in response.lines:
                yield read_line(line)

    async def clean_up(self, run: str) -> bool:
        """Delete what the world keeps of a run; returns whether there was something.

        Raises:
            RunActiveError: parts of it are hosted somewhere.
        """
        answer: pb.CleanUpResponse = await self._ask(self._stub.CleanUp, pb.CleanUpRequest(run=run), STOP_GRACE_S)
        return answer.existed

    async def interview(self, run: str, agent: str, question: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Interview:
        """Ask an agent anything. It remembers nothing of it.

        Raises:
            AgentNotFoundError: it does not live on this node.
        """
        request = asks_pb.InterviewRequest(run=run, agent=agent, question=question, timeout_ms=round(timeout_s * 1000))
        return read_interview(await self._ask(self._stub.Interview, request, timeout_s + STOP_GRACE_S))

    async def sample_agents(
        self, run: str, count: int, *, seed: int = 0, groups: Sequence[str] = ()
    ) -> tuple[Sampled, ...]:
        """Agents of smallest priority among those of the node."""
        sample = asks_pb.Sample(count=count, seed=seed, groups=groups)
        request = asks_pb.SampleAgentsRequest(run=run, sample=sample)
        answer: asks_pb.SampleAgentsResponse = await self._ask(self._stub.SampleAgents, request, 60.0)
        return tuple(Sampled(one.agent, one.group, one.priority) for one in answer.agents)

    async def survey(
        self,
        run: str,
        questions: Sequence[SurveyQuestion],
        agents: Sequence[str],
        *,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> AsyncIterator[SurveyRow]:
        """Ask agents typed questions; one row an agent, as they are answered. `timeout_s` is each agent's."""
        request = asks_pb.SurveyRequest(
            run=run,
            questions=[fill_question(question) for question in questions],
            agents=asks_pb.AgentList(agents=agents),
            timeout_ms=round(timeout_s * 1000),
        )
        async for response in self._stream(self._stub.Survey(request)):
            for row in response.rows:
                yield read_row(row)

    async def append_event(
        self, run: str, path: str, key: str, value: Json, *, actor: str, comment: str = ""
    ) -> Intervention:
        """Append to a stream of the world, as nobody in it has done."""
        inject = acts_pb.Injection(path=path, append=acts_pb.Append(key=key, value_json=dump(value)))
        return await self._intervene(acts_pb.InterveneRequest(run=run, actor=actor, comment=comment, inject=inject))

    async def run_operation(
        self, run: str, path: str, operation: str, args: Mapping[str, Json], *, actor: str, comment: str = ""
    ) -> Intervention:
        """Run an operation of a behaviour."""
        inject = acts_pb.Injection(path=path, operation=acts_pb.Operation(name=operation, args_json=dump(dict(args))))
        return await self._intervene(acts_pb.InterveneRequest(run=run, actor=actor, comment=comment, inject=inject))

    async def edit_entry(
        self, run: str, path: str, key: str, value: Json, *, actor: str, comment: str = "", expect_version: int = 0
    ) -> Intervention:
        """Set an entry of the world; `expect_version` 0 = whatever it is."""
        edit = acts_pb.Edit(path=path, key=key, value_json=dump(value), expect_version=expect_version)
        return await self._intervene(acts_pb.InterveneRequest(run=run, actor=actor, comment=comment, edit=edit))

    async def delete_entry(
        self, run: str, path: str, key: str, *, actor: str, comment: str = "", expect_version: int = 0
    ) -> Intervention:
        """Delete an entry of the world."""
        edit = acts_pb.Edit(path=path, key=key, expect_version=expect_version)
        return await self._intervene(acts_pb.InterveneRequest(run=run, actor=actor, comment=comment, edit=edit))

    async def mute(self, run: str, agent: str, *, actor: str, comment: str = "", muted: bool = True) -> Intervention:
        """Let an agent take no turns until it is unmuted, wherever it lives."""
        mute = acts_pb.Mute(agent=agent, muted=muted)
        return await self._intervene(acts_pb.InterveneRequest(run=run, actor=actor, comment=comment, mute=mute))

    async def tell(self, run: str, agent: str, text: str, *, actor: str, comment: str = "") -> Intervention:
        """Let an agent remember that it was told a text, once, however often it is told. Refused without a memory."""
        tell = acts_pb.Telling(agent=agent, text=text)
        return await self._intervene(acts_pb.InterveneRequest(run=run, actor=actor, comment=comment, tell=tell))

    def sit(self, run: str, agent: str, *, actor: str, comment: str = "", timeout_s: float = 60.0) -> RuntimeSeat:
        """Take an agent's place: `async with node.sit(...) as seat`. A turn that is not decided in time falls back."""
        take = seats_pb.TakeSeat(run=run, agent=agent, actor=actor, comment=comment, timeout_ms=round(timeout_s * 1000))
        return RuntimeSeat(self._stub.Sit, take, self._timeout_s)

    async def close(self) -> None:
        """End the connection."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _intervene(self, request: acts_pb.InterveneRequest) -> Intervention:
        answer: acts_pb.InterveneResponse = await self._ask(self._stub.Intervene, request, 60.0)
        return Intervention(answer.note, answer.revision, read_json(answer.result_json))

    async def _ask(self, method: Callable[..., Awaitable[Any]], request: Any, timeout_s: float) -> Any:
        return await self._call(method(request, timeout=max(timeout_s, self._timeout_s)))

    async def _call(self, calling: Awaitable[Answer]) -> Answer:
        try:
            return await calling
        except grpc.aio.AioRpcError as error:
            raise self._read_error(error) from error

    async def _stream(self, call: Any) -> AsyncIterator[Any]:
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise self._read_error(error) from error
        finally:
            call.cancel()

    def _read_error(self, error: grpc.aio.AioRpcError) -> EcumeneError:
        failure = from_runtime_error(error)
        if isinstance(failure, UnavailableError) and not failure.reason:
            return ConnectionFailedError(self.address, 0.0, failure)
        return failure


def read_json(data: bytes) -> Json:
    """A JSON value; None for nothing."""
    value: Json = json.loads(data) if data else None
    return value


async def _launch_requests(header: pb.LaunchHeader, populations: Population) -> AsyncIterator[pb.LaunchRequest]:
    yield pb.LaunchRequest(header=header)
    for group, data in populations.items():
        for piece in cut(data, CHUNK_BYTES_MAX):
            yield pb.LaunchRequest(chunk=pb.PopulationChunk(group=group, arrow_ipc=piece))


def cut(data: bytes, size: int) -> Iterable[bytes]:
    """Pieces of at most `size` bytes."""
    return (data[start : start + size] for start in range(0, len(data), size))
