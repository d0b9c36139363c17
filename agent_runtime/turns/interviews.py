"""Asking an agent anything, in a copy of its state: it remembers nothing of it, and can change nothing."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from agent_runtime.agents.agent import Agent, RuleAgents
from agent_runtime.agents.answer_types import make_answer_type
from agent_runtime.agents.prompted_player import describe_persona
from agent_runtime.agents.state_hash import hash_agent, hash_plain
from agent_runtime.gateways.models import Model
from agent_runtime.llm import Answer, Message, ModelError, ModelRequest
from agent_runtime.model.draws import Draw
from agent_runtime.model.errors import AgentRuntimeError, BudgetExceededError
from agent_runtime.turns.ends import describe_failure
from agent_runtime.turns.part_context import PartContext

logger = logging.getLogger("ecumene.runtime")

INTERVIEW_STREAM = 34
RULE = "rule"
OK = "ok"
PHASE = "interview"
ANSWER_TOKENS_MAX = 512


@dataclass(frozen=True, slots=True)
class InterviewQuestion:
    """What is asked. `schema`: JSON schema of a typed answer; None = free text."""

    text: str
    schema: Mapping[str, Any] | None
    timeout_s: float


class NoAgentError(AgentRuntimeError):
    """No agent of that name lives here."""

    def __init__(self, agent: str) -> None:
        super().__init__(f"no agent {agent!r} lives here")


class NoMemoryError(AgentRuntimeError):
    """Agents that remember nothing cannot be told anything."""

    def __init__(self, group: str) -> None:
        super().__init__(f"agents of group {group} keep no memory: they cannot be told anything")


async def interview_agent(
    context: PartContext, agent: Agent, question: str, schema: Mapping[str, Any] | None, timeout_s: float
) -> dict[str, Any]:
    """Ask an agent that is an object. Returns status, text or value, reason, and hashes of its state before and after:
    of the copy that was asked, as the agent itself may take a turn meanwhile.

    Raises AnswerSchemaError.
    """
    answer_type = None if schema is None else make_answer_type(schema, "SurveyAnswer")
    fork = fork_agent(agent)
    before = hash_agent(fork)
    model = context.models.find(fork.id, fork.profile)
    if model is None:
        told: dict[str, Any] = describe_without_model(context, fork)
    else:
        began_s = context.clock.now_s()
        try:
            async with asyncio.timeout(timeout_s):
                told = await _ask_model(context, model, fork, question, answer_type)
        except TimeoutError:
            told = {"status": "timeout", "reason": f"no answer within {timeout_s:g} s"}
        told |= {"model": model.name, "latency_ms": round((context.clock.now_s() - began_s) * 1000, 3)}
    return {**told, "hash_before": before, "hash_after": hash_agent(fork)}


def fork_agent(agent: Agent) -> Agent:
    """A copy of an agent; of one that cannot be copied, its id, profile and memory, which is all that is read."""
    try:
        return copy.deepcopy(agent, {id(agent.group): agent.group})
    except Exception as error:  # noqa: BLE001 - the turn edge: an agent may hold anything, and copy itself as it likes
        logger.info("agent %s is asked without its own attributes: %s", agent.id, describe_failure(error))
    fork = Agent(agent.id, copy.deepcopy(dict(agent.profile)), agent.group)
    fork.memory = agent.memory.copy()
    return fork


def interview_rule(
    context: PartContext, agents: RuleAgents, agent_id: str, profile: Mapping[str, Any]
) -> dict[str, Any]:
    """What an agent is that decides by a rule: it has no opinions, and says so."""
    name, parameters = context.spec.agent, json.dumps(dict(context.group.parameters), ensure_ascii=False)
    text = f"I am {agent_id}, an agent of group {context.group.name} that decides by the rule {name} with {parameters}."
    if profile:
        text += f" My attributes: {describe_persona(profile)}."
    state = hash_plain([type(agents).__qualname__, parameters, context.group.seed, agent_id, dict(profile)])
    reason = "this agent decides by a rule and has no opinions"
    return {"status": RULE, "text": text, "reason": reason, "hash_before": state, "hash_after": state}


def describe_without_model(context: PartContext, agent: Agent) -> dict[str, Any]:
    """What an agent is that asks no model."""
    parameters = json.dumps(dict(context.group.parameters), ensure_ascii=False)
    text = (
        f"I am {agent.id}, an agent of group {context.group.name} and of class {context.spec.agent} with {parameters}."
    )
    return {"status": RULE, "text": text, "reason": f"group {context.group.name} has no model to answer with"}


def build_messages(agent: Agent, question: str) -> tuple[Message, ...]:
    """What the agent's model is told of it, and the question."""
    parts = ["You take part in a simulation. Answer the question as the person that you are, truthfully and briefly."]
    if persona := describe_persona(agent.profile):
        parts.append(f"Who you are: {persona}")
    if remembered := agent.memory.recall():
        parts.append("What you remember, the oldest first:\n" + "\n".join(f"- {text}" for text in remembered))
    return (Message("system", "\n\n".join(parts)), Message("user", question))


async def _ask_model(
    context: PartContext, model: Model, fork: Agent, question: str, answer_type: type[BaseModel] | None
) -> dict[str, Any]:
    settings = model.settings
    seed = None
    if settings.seed_answers:
        seed = Draw(context.group.seed, fork.id, 0, 0, INTERVIEW_STREAM).randrange(2**31)
    request = ModelRequest(
        agent_id=fork.id,
        turn=0,
        call=0,
        model=settings.model,
        messages=build_messages(fork, question),
        answer_type=answer_type,
        temperature=settings.temperature,
        max_tokens=max(settings.max_tokens, ANSWER_TOKENS_MAX),
        seed=seed,
        phase=PHASE,
    )

    def close(outcome: Answer | ModelError | BudgetExceededError) -> None:
        model.tally.add(
            model.name,
            PHASE,
            attempts=outcome.attempts,
            prompt_tokens=outcome.prompt_tokens,
            completion_tokens=outcome.completion_tokens,
            microdollars=outcome.microdollars,
        )

    try:
        answer = await model.gateway.ask(lambda: request, close)
    except BudgetExceededError as error:
        return {"status": "budget", "reason": str(error), **_count_tokens(error)}
    except ModelError as error:
        return {"status": error.status, "reason": str(error), **_count_tokens(error)}
    value = None if answer.value is None else answer.value.model_dump(mode="json", by_alias=True)
    return {"status": OK, "text": answer.text, "value": value, **_count_tokens(answer)}


def _count_tokens(outcome: Answer | ModelError | BudgetExceededError) -> dict[str, int]:
    """Of all attempts."""
    return {"prompt_tokens": outcome.prompt_tokens, "completion_tokens": outcome.completion_tokens}
