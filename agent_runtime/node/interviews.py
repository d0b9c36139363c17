"""An interview: one agent is asked anything, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent_runtime.model.errors import CommandError
from agent_runtime.model.refusals import NodeError, Refusal, refuse_field, refuse_limit
from agent_runtime.node.agent_rows import Found
from agent_runtime.node.hosting import HostedRun
from agent_runtime.worker.commands import AskAgent

QUESTION_BYTES_MAX = 16 * 1024
GRACE_S = 5.0
"""Beyond an answer's own time: the worker ends a question itself."""
STATUSES = ("ok", "rule", "parse_error", "truncated", "refused", "timeout", "budget", "cancelled", "error", "absent")
"""Of answers; in the order of `AnswerStatus` in the contract, from 1."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of asking one agent. `value`: of a typed question."""

    agent: str
    group: str
    status: str
    text: str = ""
    reason: str = ""
    value: Any = None
    hash_before: str = ""
    hash_after: str = ""
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_ms: float = 0.0


async def interview(hosting: HostedRun, agent: str, question: str, timeout_s: float) -> Reply:
    """Ask one agent anything.

    Raises:
        NodeError: AGENT_NOT_FOUND, LIMIT_EXCEEDED, WORKER_UNAVAILABLE.
    """
    if not question.strip():
        raise refuse_field("question", "is empty")
    if (size := len(question.encode())) > QUESTION_BYTES_MAX:
        raise refuse_limit("question_bytes_max", QUESTION_BYTES_MAX, size)
    return await ask_found(hosting.find_one(agent), question, None, timeout_s)


async def ask_found(found: Found, question: str, schema: dict[str, Any] | None, timeout_s: float) -> Reply:
    """Ask an agent that lives here. Raises NodeError: its worker is not there."""
    group = found.state.part.group
    try:
        told = await found.slot.ask(
            lambda number: AskAgent(
                id=number, agent=found.agent, question=question, answer_schema=schema, timeout_s=timeout_s
            ),
            timeout_s + GRACE_S,
        )
    except CommandError as error:
        return Reply(found.agent, group, "error", reason=str(error))
    except NodeError as error:
        if error.reason is not Refusal.DEADLINE:
            raise
        return Reply(found.agent, group, "timeout", reason=f"no answer within {timeout_s:g} s")
    status = str(told.get("status"))
    return Reply(
        found.agent,
        group,
        status if status in STATUSES else "error",
        str(told.get("text") or ""),
        str(told.get("reason") or ""),
        told.get("value"),
        str(told.get("hash_before") or ""),
        str(told.get("hash_after") or ""),
        str(told.get("model") or ""),
        int(told.get("prompt_tokens") or 0),
        int(told.get("completion_tokens") or 0),
        float(told.get("latency_ms") or 0.0),
    )
