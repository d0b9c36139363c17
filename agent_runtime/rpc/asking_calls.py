"""The calls that ask agents, and those that reach into a run: interview, sample, survey, intervene."""

from __future__ import annotations

import contextlib
import json
import secrets
from typing import Any

from agent_api.v1 import asking_pb2 as asks_pb
from agent_api.v1 import interventions_pb2 as acts_pb

from agent_runtime.model.refusals import refuse_field
from agent_runtime.node.interventions import (
    Done,
    Signed,
    append_event,
    edit_entry,
    mute_agent,
    run_operation,
    tell_agent,
)
from agent_runtime.node.interviews import interview
from agent_runtime.node.node import Node
from agent_runtime.node.sampling import sample_agents
from agent_runtime.node.surveys import check_agents_asked, survey
from agent_runtime.rpc.edge import Context, parse, parse_json
from agent_runtime.rpc.readings import fill_answer, fill_row, read_questions, read_timeout_s


class AskingCalls:
    """Handlers, by bytes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def interview(self, request: bytes, _context: Context) -> bytes:
        """Handler of Interview."""
        message = parse(asks_pb.InterviewRequest, request)
        hosting = self._node.find_run(message.run)
        timeout_s = read_timeout_s(message.timeout_ms)
        return fill_answer(await interview(hosting, message.agent, message.question, timeout_s)).SerializeToString()

    async def sample_agents(self, request: bytes, _context: Context) -> bytes:
        """Handler of SampleAgents."""
        message = parse(asks_pb.SampleAgentsRequest, request)
        hosting, sample = self._node.find_run(message.run), message.sample
        drawn = sample_agents(hosting, sample.count, sample.seed, sample.groups)
        agents = [asks_pb.SampledAgent(agent=agent, group=group, priority=priority) for priority, agent, group in drawn]
        return asks_pb.SampleAgentsResponse(agents=agents).SerializeToString()

    async def survey(self, request: bytes, context: Context) -> None:
        """Handler of Survey."""
        message = parse(asks_pb.SurveyRequest, request)
        hosting, questions = self._node.find_run(message.run), read_questions(message.questions)
        if message.WhichOneof("whom") == "sample":
            sample = message.sample
            agents = [agent for _, agent, _ in sample_agents(hosting, sample.count, sample.seed, sample.groups)]
        else:
            agents = list(message.agents.agents)
            check_agents_asked(agents)
        asks_max, timeout_s = self._node.settings.asks_in_flight_max, read_timeout_s(message.timeout_ms)
        replies = survey(hosting, questions, agents, timeout_s, asks_max)
        async with contextlib.aclosing(replies) as steps:  # type: ignore[type-var]
            async for reply in steps:
                await context.write(asks_pb.SurveyResponse(rows=[fill_row(reply)]).SerializeToString())

    async def intervene(self, request: bytes, _context: Context) -> bytes:
        """Handler of Intervene."""
        message = parse(acts_pb.InterveneRequest, request)
        self._node.find_run(message.run)
        signed = sign(self._node, message.run, message.actor, message.comment)
        done = await self._do(message, signed)
        result = b"" if done.result is None else json.dumps(done.result, ensure_ascii=False).encode()
        return acts_pb.InterveneResponse(
            note=signed.note, revision=done.revision, result_json=result
        ).SerializeToString()

    async def _do(self, message: acts_pb.InterveneRequest, signed: Signed) -> Done:
        world, kind = self._node.world, message.WhichOneof("what")
        if kind == "mute":
            hosting = self._node.find_run(message.run)
            return await mute_agent(world, signed, hosting, message.mute.agent, muted=message.mute.muted)
        if kind == "tell":
            hosting = self._node.find_run(message.run)
            return await tell_agent(world, signed, hosting, message.tell.agent, message.tell.text)
        if kind == "edit":
            edit = message.edit
            deletes = not edit.value_json
            value = None if deletes else parse_json(edit.value_json, "edit.value_json")
            return await edit_entry(
                world, signed, edit.path, edit.key, value, deletes=deletes, expect_version=edit.expect_version
            )
        if kind == "inject":
            inject = message.inject
            if inject.WhichOneof("event") == "append":
                value = parse_json(inject.append.value_json, "inject.append.value_json")
                return await append_event(world, signed, inject.path, inject.append.key, value)
            if inject.WhichOneof("event") == "operation":
                args = read_object(inject.operation.args_json, "inject.operation.args_json")
                return await run_operation(world, signed, inject.path, inject.operation.name, args)
            raise refuse_field("inject.event", "must be set")
        raise refuse_field("what", "must be set")


def sign(node: Node, run: str, actor: str, comment: str) -> Signed:
    """A note's beginning. Raises NodeError."""
    wall_time_ns = node.clock.wall_ns(node.clock.now_s())
    note = f"{wall_time_ns:020d}-{secrets.token_hex(4)}"
    signed = Signed(run, actor, comment, node.settings.name, note, wall_time_ns)
    signed.check()
    return signed


def read_object(data: bytes, field: str) -> dict[str, Any]:
    """A JSON object; empty = {}. Raises NodeError."""
    value = parse_json(data, field) if data else {}
    if not isinstance(value, dict):
        raise refuse_field(field, "is no JSON object")
    return value
