"""What a worker does when its daemon says so: each command is a task, and answered once."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from ecumene.client import EcumeneError
from pydantic import ValidationError

from agent_runtime.commands import COMMANDS, AskAgent, Command, Drop, Host, Inspect, Mute, Seat
from agent_runtime.llm import ModelError
from agent_runtime.model.errors import AgentRuntimeError
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.output import JsonLines
from agent_runtime.pipeline import Pipeline
from agent_runtime.recording import RecordingError
from agent_runtime.turns.interviews import Question
from agent_runtime.turns.presence import Chosen, Decision
from agent_runtime.usage import measure_usage

logger = logging.getLogger("ecumene.runtime")

_EXPECTED = (AgentRuntimeError, EcumeneError, ModelError, RecordingError, OSError)


class CommandRoom:
    """Takes the daemon's lines for one worker."""

    def __init__(self, pipeline: Pipeline, lines: JsonLines) -> None:
        self._pipeline = pipeline
        self._lines = lines
        pipeline.presence.tell = lines.write

    async def obey(self, told: asyncio.Queue[str]) -> None:
        """Do what the lines say, as they come and side by side, until cancelled."""
        tasks = OwnedTasks()
        try:
            while True:
                line = await told.get()
                if line.strip():
                    tasks.start(self._answer(line), "command")
        finally:
            await tasks.cancel_all()

    async def _answer(self, line: str) -> None:
        try:
            command = COMMANDS.validate_json(line)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
            self._lines.write({"answer": _read_id(line), "error": f"no command: {problem}"})
            return
        try:
            answer = await self._do(command)
        except _EXPECTED as error:
            self._lines.write({"answer": command.id, "error": " ".join(str(error).split())})
            return
        self._lines.write({"answer": command.id, **answer})

    async def _do(self, command: Command) -> dict[str, Any]:
        pipeline = self._pipeline
        if isinstance(command, Host):
            hosted = await pipeline.host(command.part, command.wait_s)
            return {"agents": hosted.agents, "term": hosted.holding.term, "through": hosted.holding.cursor.through}
        if isinstance(command, Drop):
            return {"through": await pipeline.drop(command.part, command.drain_s)}
        if isinstance(command, Inspect):
            return {"parts": self._describe_parts(), "usage": measure_usage()}
        part, profile = pipeline.find_agent(command.agent)
        if isinstance(command, AskAgent):
            question = Question(command.question, command.answer_schema, command.timeout_s)
            return await part.interview(command.agent, question)
        if isinstance(command, Mute):
            pipeline.presence.mute(command.agent, command.muted)
            return {}
        if isinstance(command, Seat):
            if command.seated:
                pipeline.presence.seat(command.agent, command.timeout_s)
            else:
                pipeline.presence.give_back(command.agent)
            plain = json.loads(json.dumps(dict(profile), default=str))
            return {"group": part.holding.part.group, "profile": plain}
        actions = [Chosen(one.name, one.path, one.key, one.value, one.change) for one in command.actions]
        pipeline.presence.decide(command.agent, command.turn, Decision(command.report, actions))
        return {}

    def _describe_parts(self) -> dict[str, dict[str, Any]]:
        return {
            name: {"term": part.holding.term, "through": part.through, **part.statistics().count()}
            for name, part in self._pipeline.parts.items()
        }


def _read_id(line: str) -> int:
    """The number of a command that cannot be read; 0 if it has none."""
    try:
        document = json.loads(line)
    except ValueError:
        return 0
    number = document.get("id") if isinstance(document, dict) else None
    return number if isinstance(number, int) else 0
