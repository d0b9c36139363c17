"""Operations of environments as tools of an agent's model.

What only reads is called at once, and its result is the reply. What may change the world is decided: it becomes an
action of the turn, which takes effect, once, with all else that the turn does. So a model calls tools as often as it
likes, and the turn is one op all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ecumene.client import EcumeneError

from agent_runtime.actions.places import KnownPlaces, Operation
from agent_runtime.actions.settlement import is_answerable
from agent_runtime.agents.tool_sources import ToolSource
from agent_runtime.llm import Message, Tool, ToolCall
from agent_runtime.model.errors import ActionRefusedError

if TYPE_CHECKING:
    from agent_runtime.turns.turn import Turn

REPLY_CHARS_MAX = 4_000
CALLS_AT_ONCE_MAX = 16
DECIDED = "Decided: it takes effect when your turn ends."
TOO_MANY = f"Not done: at most {CALLS_AT_ONCE_MAX} calls at once."
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_CHARS_MAX = 64


@dataclass(frozen=True, slots=True)
class _Offer:
    path: str
    operation: Operation
    bound: Mapping[str, Any]


class Toolbox:
    """What one agent's model may call in one turn."""

    def __init__(self, turn: Turn, offers: Mapping[str, _Offer]) -> None:
        self._turn = turn
        self._offers = offers
        self.tools: tuple[Tool, ...] = tuple(_describe(name, offer) for name, offer in offers.items())
        """As the model is told of them."""

    async def reply(self, calls: Sequence[ToolCall]) -> list[Message]:
        """What comes of the calls of one answer: one message each, in their order.

        Raises:
            ActionRefusedError: a second call of this turn that cannot be. The first is replied to, with the reason.
            EcumeneError: the world could not be asked.
        """
        replies = []
        for place, call in enumerate(calls):
            text = await self._answer(call) if place < CALLS_AT_ONCE_MAX else TOO_MANY
            replies.append(Message("tool", text, tool_call_id=call.id))
        return replies

    async def _answer(self, call: ToolCall) -> str:
        try:
            return await self._call(call)
        except ActionRefusedError as refusal:
            if not self._turn.take_correction():
                raise
            self._turn.flag("corrected")
            return f"Not done: {refusal.problem}. Nothing has changed."

    async def _call(self, call: ToolCall) -> str:
        offer = self._offers.get(call.name)
        if offer is None:
            raise ActionRefusedError(call.name[:80], f"there is no such tool; there are {', '.join(self._offers)}")
        arguments = {**_read_arguments(call), **offer.bound}
        name = offer.operation.info.name
        if problem := offer.operation.schema.find_problem(arguments):
            raise ActionRefusedError(name, problem)
        if not offer.operation.info.reads_only:
            self._turn.invoke(offer.path, name, **arguments)
            return DECIDED
        try:
            result = await self._turn.world.call(offer.path, name, **arguments)
        except EcumeneError as error:
            if not is_answerable(error):
                raise
            # Looking for what is not there harms nobody, and is bounded by the rounds.
            return f"Refused: {error}"[:REPLY_CHARS_MAX]
        return _write_result(result)


async def open_toolbox(turn: Turn, places: KnownPlaces, sources: Iterable[ToolSource]) -> Toolbox:
    """The operations of some environments.

    Raises ActionRefusedError if one is not there, or a source binds what none of its operations takes; EcumeneError.
    """
    found = [(await places.find("tools", source.path_of(turn.agent_id)), source) for source in sources]
    offers: dict[str, _Offer] = {}
    for place, source in found:
        bound = source.bound_of(turn.agent_id)
        unused = set(bound)
        for name in source.only or sorted(place.operations):
            operation = place.find_operation("tools", name)
            taken = _find_parameters(operation) & bound.keys()
            unused -= taken
            offer = _Offer(place.path, operation, {key: bound[key] for key in taken})
            offers[_name_tool(name, place.path, is_alone=len(found) == 1, taken=offers)] = offer
        if unused:
            # Left unbound by a slip, the model would say who it is.
            raise ActionRefusedError("tools", f"no operation of {place.path} takes {', '.join(sorted(unused))}")
    return Toolbox(turn, offers)


def _find_parameters(operation: Operation) -> frozenset[str]:
    schema = operation.info.args_schema
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return frozenset(properties) if isinstance(properties, dict) else frozenset()


def _name_tool(operation: str, path: str, *, is_alone: bool, taken: Mapping[str, _Offer]) -> str:
    """A name that endpoints accept: the operation's, behind its environment's where there are several."""
    stem = operation if is_alone else f"{path.rpartition('/')[2]}_{operation}"
    stem = _UNFIT.sub("_", stem)[: _NAME_CHARS_MAX - 4] or "tool"
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def _describe(name: str, offer: _Offer) -> Tool:
    info = offer.operation.info
    schema: dict[str, Any] = dict(info.args_schema) if isinstance(info.args_schema, dict) else {}
    properties = {key: value for key, value in (schema.get("properties") or {}).items() if key not in offer.bound}
    required = [key for key in schema.get("required") or () if key not in offer.bound]
    parameters = {**schema, "type": "object", "properties": properties, "required": required}
    told = info.description or info.name
    return Tool(name, f"{told}\n({'looks only' if info.reads_only else 'acts'}; in {offer.path})", parameters)


def _read_arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ActionRefusedError(call.name[:80], "its arguments are no JSON object")
    return arguments


def _write_result(result: object) -> str:
    text = json.dumps(result, ensure_ascii=False)
    return text if len(text) <= REPLY_CHARS_MAX else text[: REPLY_CHARS_MAX - 1] + "…"
