"""Asking an agent anything, in a copy of its state: it remembers nothing of it, and can change nothing."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from agent_runtime.agents.agent import Agent, RuleAgents
from agent_runtime.agents.answer_types import make_answer_type
from agent_runtime.agents.prompted_player import describe_persona
from agent_runtime.agents.state_hash import hash_agent, hash_plain
from agent_runtime.llm import Answer, Message, ModelError, ModelRequest
from agent_runtime.model.draws import Draw
from agent_runtime.model.errors import AgentRuntimeError, BudgetExceededError
from agent_runtime.turns.desk import Desk
from agent_runtime.turns.gateways import Model

INTERVIEW_STREAM = 34
RULE = "rule"
OK = "ok"
PHASE = "interview"
ANSWER_TOKENS_MAX = 512


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. `schema`: JSON schema of a typed answer; None = free text."""

    text: str
    schema: Mapping[str, Any] | None
    timeout_s: float


class NoAgentError(AgentRuntimeError):
    """No agent of that name lives here."""

    def __init__(self, agent: str) -> None:
        super().__init__(f"no agent {agent!r} lives here")


async def interview_agent(
    desk: Desk, agent: Agent, question: str, schema: Mapping[str, Any] | None, timeout_s: float
) -> dict[str, Any]:
    """Ask an agent that is an object. Returns status, text or value, reason, and hashes of its state before and after.

    Raises AnswerSchemaError.
    """
    answer_type = None if schema is None else make_answer_type(schema, "SurveyAnswer")
    before = hash_agent(agent)
    model = desk.models.find(agent.id, agent.profile)
    if model is None:
        told: dict[str, Any] = describe_without_model(desk, agent)
    else:
        try:
            fork = copy.deepcopy(agent, {id(agent.group): agent.group})
        except (TypeError, ValueError, RecursionError) as error:
            return {"status": "error", "reason": f"its state cannot be copied: {error}", "hash_before": before}
        try:
            async with asyncio.timeout(timeout_s):
                told = await _ask_model(desk, model, fork, question, answer_type)
        except TimeoutError:
            told = {"status": "timeout", "reason": f"no answer within {timeout_s:g} s"}
    return {**told, "hash_before": before, "hash_after": hash_agent(agent)}


def interview_rule(desk: Desk, agents: RuleAgents, agent_id: str, profile: Mapping[str, Any]) -> dict[str, Any]:
    """What an agent is that decides by a rule: it has no opinions, and says so."""
    name, parameters = desk.spec.agent, json.dumps(dict(desk.group.parameters), ensure_ascii=False)
    text = f"I am {agent_id}, an agent of group {desk.group.name} that decides by the rule {name} with {parameters}."
    if profile:
        text += f" My attributes: {describe_persona(profile)}."
    state = hash_plain([type(agents).__qualname__, parameters, desk.group.seed, agent_id, dict(profile)])
    reason = "this agent decides by a rule and has no opinions"
    return {"status": RULE, "text": text, "reason": reason, "hash_before": state, "hash_after": state}


def describe_without_model(desk: Desk, agent: Agent) -> dict[str, Any]:
    """What an agent is that asks no model."""
    parameters = json.dumps(dict(desk.group.parameters), ensure_ascii=False)
    text = f"I am {agent.id}, an agent of group {desk.group.name} and of class {desk.spec.agent} with {parameters}."
    return {"status": RULE, "text": text, "reason": f"group {desk.group.name} has no model to answer with"}


def build_messages(agent: Agent, question: str) -> tuple[Message, ...]:
    """What the agent's model is told of it, and the question."""
    parts = ["You take part in a simulation. Answer the question as the person that you are, truthfully and briefly."]
    if persona := describe_persona(agent.profile):
        parts.append(f"Who you are: {persona}")
    if remembered := agent.memory.recall():
        parts.append("What you remember, the oldest first:\n" + "\n".join(f"- {text}" for text in remembered))
    return (Message("system", "\n\n".join(parts)), Message("user", question))


async def _ask_model(
    desk: Desk, model: Model, fork: Agent, question: str, answer_type: type[BaseModel] | None
) -> dict[str, Any]:
    settings = model.settings
    seed = None
    if settings.seed_answers:
        seed = Draw(desk.group.seed, fork.id, 0, 0, INTERVIEW_STREAM).randrange(2**31)
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
    outcome: Answer | ModelError | BudgetExceededError
    try:
        outcome = await model.gateway.ask(lambda: request)
    except (ModelError, BudgetExceededError) as error:
        outcome = error
    model.tally.add(
        settings.model,
        PHASE,
        attempts=outcome.attempts,
        prompt_tokens=outcome.prompt_tokens,
        completion_tokens=outcome.completion_tokens,
        microdollars=outcome.microdollars,
    )
    if isinstance(outcome, BudgetExceededError):
        return {"status": "budget", "reason": str(outcome)}
    if isinstance(outcome, ModelError):
        return {"status": outcome.status, "reason": str(outcome)}
    answer = outcome
    value = None if answer.value is None else answer.value.model_dump(mode="json", by_alias=True)
    return {"status": OK, "text": answer.text, "value": value}
