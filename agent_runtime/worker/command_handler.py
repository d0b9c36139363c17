"""What a worker does when its daemon says so: each command is a task, and answered once."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from typing import Any

from ecumene.client import EcumeneError
from pydantic import ValidationError

from agent_runtime.llm import ModelError, ModelSetupError
from agent_runtime.model.errors import AgentRuntimeError
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.programs.output import JsonLines
from agent_runtime.programs.usage import measure_usage
from agent_runtime.recording import RecordingError
from agent_runtime.turns.interviews import InterviewQuestion
from agent_runtime.turns.presence import Chosen, Decision
from agent_runtime.worker.commands import COMMANDS, AskAgent, Command, Drop, Host, Inspect, Mute, Seat, Tell
from agent_runtime.worker.pipeline import Pipeline

logger = logging.getLogger("ecumene.runtime")

PROBLEM_CHARS_MAX = 4096
_EXPECTED = (AgentRuntimeError, EcumeneError, ModelError, RecordingError, OSError)
_FOR_GOOD = (AgentRuntimeError, ModelSetupError)
"""Come again with the same command; the others may be over then."""


class CommandHandler:
    """Takes the daemon's lines for one worker."""

    def __init__(self, pipeline: Pipeline, lines: JsonLines) -> None:
        self._pipeline = pipeline
        self._lines = lines
        pipeline.presence.tell = self._tell

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
            self._lines.write({"answer": command.id, **(await self._do(command))})
        except _EXPECTED as error:
            self._refuse(command.id, " ".join(str(error).split()), may_pass=not isinstance(error, _FOR_GOOD))
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            self._refuse(command.id, "was cancelled by the code that it ran")
        except GeneratorExit:  # the loop is gone
            raise
        except BaseException as defect:
            incident = secrets.token_hex(8)
            logger.error("incident %s in command %s", incident, command.do, exc_info=defect)
            self._refuse(command.id, f"{type(defect).__name__}, incident {incident}: see the log", may_pass=True)

    def _refuse(self, command: int, problem: str, *, may_pass: bool = False) -> None:
        again = {"may_pass": True} if may_pass else {}
        self._lines.write({"answer": command, "error": problem[:PROBLEM_CHARS_MAX], **again})

    def _tell(self, told: dict[str, Any]) -> None:
        """What the daemon did not ask for. What cannot be told, such as events of many MiB, is in the log."""
        try:
            self._lines.write(told)
        except (ValueError, TypeError, RecursionError) as error:
            logger.warning("the turn %s of %s was not told: %s", told.get("turn"), told.get("seat"), error)

    async def _do(self, command: Command) -> dict[str, Any]:
        pipeline = self._pipeline
        if isinstance(command, Host):
            hosted = await pipeline.host(command.part, command.wait_s, command.muted)
            return {"agents": hosted.agents, "term": hosted.owned.term, "through": hosted.owned.cursor.through}
        if isinstance(command, Drop):
            return {"through": await pipeline.drop(command.part, command.drain_s)}
        if isinstance(command, Inspect):
            return {"parts": self._describe_parts(), "usage": measure_usage()}
        part, profile = pipeline.find_agent(command.agent)
        if isinstance(command, AskAgent):
            question = InterviewQuestion(command.question, command.answer_schema, command.timeout_s)
            return await part.interview(command.agent, question)
        if isinstance(command, Tell):
            await part.tell(command.agent, command.text)
            return {}
        if isinstance(command, Mute):
            pipeline.presence.mute(command.agent, command.muted)
            return {}
        if isinstance(command, Seat):
            if command.seated:
                pipeline.presence.seat(command.agent, command.timeout_s)
            else:
                pipeline.presence.give_back(command.agent)
            plain = json.loads(json.dumps(dict(profile), default=str))
            return {"group": part.owned.part.group, "profile": plain}
        actions = [Chosen(one.name, one.path, one.key, one.value, one.change) for one in command.actions]
        pipeline.presence.decide(command.agent, command.turn, Decision(command.report, actions))
        return {}

    def _describe_parts(self) -> dict[str, dict[str, Any]]:
        return {
            name: {"term": part.owned.term, "through": part.through, **part.statistics().count()}
            for name, part in self._pipeline.parts.items()
        }


def is_cancelled() -> bool:
    """Whether the current task was told to end, and has not merely met a cancellation of something else."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _read_id(line: str) -> int:
    """The number of a command that cannot be read; 0 if it has none."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return 0
    number = document.get("id") if isinstance(document, dict) else None
    return number if isinstance(number, int) else 0
