"""What must hold of a conversation before it is sent: endpoints refuse the whole request otherwise."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agent_runtime.llm.errors import ModelHistoryError
from agent_runtime.llm.requests import Message


def check_history(model: str, messages: Sequence[Message]) -> None:
    """Accepts messages of which the first is the system's or the user's, none is empty, and every tool call
    of the assistant is followed at once by its one reply.

    Raises:
        ModelHistoryError: with the place of the first message that breaks this.
    """
    if not messages:
        raise ModelHistoryError(model, 0, "there is none")
    if messages[0].role not in ("system", "user"):
        raise ModelHistoryError(model, 0, f"a conversation cannot begin with a message of role {messages[0].role}")
    open_calls: set[str] = set()
    for place, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                raise ModelHistoryError(model, place, f"it replies to {message.tool_call_id!r}, which is no open call")
            open_calls.discard(message.tool_call_id)
            continue
        if open_calls:
            raise ModelHistoryError(model, place, f"the tool call {min(open_calls)!r} before it has no reply")
        if message.tool_calls:
            open_calls = _open_calls(model, place, message)
        elif not message.content:
            raise ModelHistoryError(model, place, "it is empty")
    if open_calls:
        raise ModelHistoryError(model, len(messages) - 1, f"the tool call {min(open_calls)!r} has no reply")


def holds_arguments(arguments: str) -> bool:
    """Whether a text is what a tool can be called with: one JSON object."""
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _open_calls(model: str, place: int, message: Message) -> set[str]:
    if message.role != "assistant":
        raise ModelHistoryError(model, place, f"a message of role {message.role} calls no tools")
    ids = {call.id for call in message.tool_calls}
    if len(ids) < len(message.tool_calls) or "" in ids:
        raise ModelHistoryError(model, place, "its tool calls have no ids, or one twice")
    for call in message.tool_calls:
        if not call.name or not holds_arguments(call.arguments):
            raise ModelHistoryError(
                model, place, f"the tool call {call.id!r} has no name, or arguments that are no JSON"
            )
    return ids
