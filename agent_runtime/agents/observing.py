"""What a prompted agent is told of the world: what woke it, and what it looks at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ecumene.client import AlreadyExistsError, Event, NotFoundError, PermissionDeniedError, WrongStateError

from agent_runtime.agents.prompted_settings import Observation
from agent_runtime.agents.tool_sources import AGENT

if TYPE_CHECKING:
    from agent_runtime.turns.turn import Turn

EVENTS_TOLD_MAX = 20
VALUE_CHARS_MAX = 1_500
_SAYS_NO = (NotFoundError, WrongStateError, PermissionDeniedError, AlreadyExistsError)


def describe_events(events: Sequence[Event]) -> str:
    """The events of a turn, a line each; of very many the last ones."""
    told = [describe_event(event) for event in events[-EVENTS_TOLD_MAX:]]
    left_out = len(events) - len(told)
    return "\n".join([f"({left_out} more before)"] * bool(left_out) + told)


def describe_waking(turn: Turn) -> str:
    """What woke an agent: the events of its turn, or that it is time for what it had planned."""
    if not turn.notice.is_wake:
        return describe_events(turn.events)
    told = [
        f"It is time: {wake.name or 'you had planned to wake now'}"
        + ("." if wake.payload is None else f" ({write_value(wake.payload)}).")
        for wake in turn.wakes
    ]
    return "\n".join(told)


def describe_event(event: Event) -> str:
    """One event in one line: where, what, and the value."""
    place = f"{event.path} {event.key}".rstrip()
    what = event.type.name.lower().replace("_", " ")
    return f"{place} ({what}): {write_value(event.value)}"


async def observe(turn: Turn, wanted: Sequence[Observation]) -> str:
    """What an agent sees, a paragraph each, in the order of the parameters.

    What is not there, or refused to it, is told as that. Raises EcumeneError if the world could not be asked,
    ActionRefusedError if an operation does not read only.
    """
    return "\n\n".join([f"{_title(one, turn.agent_id)}:\n{await _look(turn, one)}" for one in wanted])


def write_value(value: Any) -> str:
    """A value as text of bounded length."""
    if isinstance(value, bytes):
        text = f"{len(value)} bytes"
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS_MAX else text[: VALUE_CHARS_MAX - 1] + "…"


async def _look(turn: Turn, one: Observation) -> str:
    path = one.path.replace(AGENT, turn.agent_id)
    try:
        if one.operation:
            arguments = {name: turn.agent_id if value == AGENT else value for name, value in one.arguments.items()}
            return write_value(await turn.world.call(path, one.operation, **arguments))
        if one.stream:
            items = await turn.world.latest(path, one.stream.replace(AGENT, turn.agent_id), limit=one.last)
            return "\n".join(write_value(item.value) for item in items) or "(nothing)"
        if one.aggregates:
            found = await turn.world.aggregates(path)
            return "\n".join(f"{name}: {write_value(value.value)}" for name, value in sorted(found.items()))
        return write_value((await turn.world.get(path, one.key.replace(AGENT, turn.agent_id))).value)
    except _SAYS_NO as error:
        return f"(nothing: {error})"


def _title(one: Observation, agent_id: str) -> str:
    if one.title:
        return one.title
    what = one.key or one.stream or one.operation or "aggregates"
    return f"{one.path} {what}".replace(AGENT, agent_id)
