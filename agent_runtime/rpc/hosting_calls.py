"""The calls about what a node hosts: launch, stop, drain, inspect, logs, clean up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from agent_api.v1 import runtime_service_pb2 as pb

from agent_runtime.model.refusals import refuse_field
from agent_runtime.node.node import Node
from agent_runtime.node.part_states import Condition
from agent_runtime.node.populations import Arriving
from agent_runtime.rpc.edge import Context, parse
from agent_runtime.rpc.readings import ask_worker, fill_line, fill_node, fill_part, fill_run, read_drain_s, read_parts

INSPECT_TIMEOUT_S = 10.0


class HostingCalls:
    """Handlers, by bytes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def launch(self, requests: AsyncIterator[bytes], _context: Context) -> bytes:
        """Take the whole description and all agents, then host."""
        settings = self._node.settings
        header: pb.LaunchHeader | None = None
        arriving = Arriving(settings.population_bytes_max, settings.chunk_bytes_max)
        async for data in requests:
            message = parse(pb.LaunchRequest, data)
            kind = message.WhichOneof("request")
            if (kind == "header") != (header is None):
                raise refuse_field("request", "is a header first, and chunks then")
            if kind == "header":
                header = message.header
            elif kind == "chunk":
                arriving.add(message.chunk.group, message.chunk.arrow_ipc)
            else:
                raise refuse_field("request", "must be set")
        if header is None:
            raise refuse_field("request", "nothing was sent")
        states = await self._node.launch(header.description_json, read_parts(header.parts), header.hosted, arriving)
        live = [state for state in states if state.condition is Condition.LIVE]
        return pb.LaunchResponse(
            node=settings.name,
            parts=[fill_part(state) for state in live],
            agents=sum(state.part.end - state.part.first for state in live),
            revision=self._node.world.revision,
        ).SerializeToString()

    async def stop(self, request: bytes, _context: Context) -> bytes:
        """Handler of Stop."""
        message = parse(pb.StopRequest, request)
        ended = await self._node.stop(message.run, read_drain_s(message.drain_ms))
        return pb.StopResponse(parts=[fill_part(state) for state in ended]).SerializeToString()

    async def drain(self, request: bytes, _context: Context) -> bytes:
        """Handler of Drain."""
        message = parse(pb.DrainRequest, request)
        given = await self._node.drain(read_drain_s(message.drain_ms))
        return pb.DrainResponse(parts=[fill_part(state) for state in given]).SerializeToString()

    async def inspect(self, request: bytes, _context: Context) -> bytes:
        """Handler of Inspect."""
        message = parse(pb.InspectRequest, request)
        node = self._node
        runs = [node.find_run(message.run)] if message.run else list(node.runs.values())
        told = []
        for run in runs:
            workers = await asyncio.gather(
                *(ask_worker(slot, INSPECT_TIMEOUT_S, brief=message.brief) for slot in run.slots)
            )
            told.append(fill_run(run, workers))
        return pb.InspectResponse(node=fill_node(node), runs=told).SerializeToString()

    async def logs(self, request: bytes, context: Context) -> None:
        """Handler of Logs."""
        message = parse(pb.LogsRequest, request)
        lines_max = self._node.settings.log_lines_max
        if message.lines_max > lines_max:
            raise refuse_field("lines_max", f"is at most {lines_max:,}")
        reading = self._node.log.read(message.run, message.lines_max, follow=message.follow)
        async with contextlib.aclosing(reading) as steps:  # type: ignore[type-var]
            async for lines in steps:
                response = pb.LogsResponse(lines=[fill_line(line) for line in lines])
                await context.write(response.SerializeToString())

    async def clean_up(self, request: bytes, _context: Context) -> bytes:
        """Handler of CleanUp."""
        message = parse(pb.CleanUpRequest, request)
        return pb.CleanUpResponse(existed=await self._node.clean_up(message.run)).SerializeToString()
