"""Times at which an agent wants to be woken, and how the world keeps them, see `ecumene.client.waking`.

Nothing of an agent = it has not been woken for the first time, nor asked for a wake.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

from ecumene.client import Json, Value
from pydantic import BaseModel, Field

from agent_runtime.model.errors import AgentRuntimeError

WAKES_MAX = 64
"""Of one agent."""
NAME_CHARS_MAX = 64
PAYLOAD_CHARS_MAX = 1_024
"""As JSON."""
PAYLOAD_DEPTH_MAX = 60
"""Levels of lists and objects: a document of the world holds 64, and wakes need three of them."""
NEVER_NS = 2**63 - 1
"""In columns of times, in place of one."""
TIME_MIN_NS, TIME_MAX_NS = -(2**62), 2**62
"""Times that are wanted: 146 years around 0, or around 1970 where a clock counts from there."""

Time = Annotated[int, Field(ge=TIME_MIN_NS, le=TIME_MAX_NS)]


@dataclass(frozen=True, slots=True)
class Wake:
    """A time at which an agent wants to be woken, ns of its group's clock. `payload` is told when it is."""

    at_ns: int
    name: str = ""
    payload: Json = None


Wakes = tuple[Wake, ...]
"""Of one agent, by (time, name); of each name at most one."""
Wishes = Mapping[str, Wake | None]
"""What a turn changes: a new time by name, or None for one that is not wanted any more."""


class WakesUnreadableError(AgentRuntimeError):
    """What stands in the place of an agent's wakes is none that a runtime has written."""

    def __init__(self, agent: str) -> None:
        super().__init__(f"what is kept of the wakes of {agent} is none that a runtime has written")


class _Kept(BaseModel):
    """The document: anybody who may write to the world may have written another."""

    wakes: list[Annotated[list[Any], Field(min_length=1, max_length=3)]]
    woke_ns: Time | None


class _KeptTime(BaseModel):
    at_ns: Time


def find_wake_problem(at_ns: object, name: object, payload: Json) -> str:
    """What is wrong with a wake that an agent asks for; "" if nothing."""
    if type(at_ns) is int and name == "" and payload is None and TIME_MIN_NS <= at_ns <= TIME_MAX_NS:
        return ""  # as most are
    if not isinstance(at_ns, int) or isinstance(at_ns, bool):
        return "a time is a whole number of nanoseconds"
    if not TIME_MIN_NS <= at_ns <= TIME_MAX_NS:
        return f"{at_ns} ns is beyond all times"
    if not isinstance(name, str) or len(name) > NAME_CHARS_MAX or not name.isprintable():
        return f"a wake is called by a text of at most {NAME_CHARS_MAX} signs"
    try:
        size = len(json.dumps(payload, allow_nan=False))
        f"{name}{json.dumps(payload, ensure_ascii=False)}".encode()
    except (TypeError, ValueError, RecursionError):
        return f"wake {name!r} carries what is no JSON"
    if size > PAYLOAD_CHARS_MAX:
        return f"wake {name!r} carries {size} signs of JSON, {PAYLOAD_CHARS_MAX} are allowed"
    if _measure_depth(payload) > PAYLOAD_DEPTH_MAX:
        return f"wake {name!r} carries JSON of more than {PAYLOAD_DEPTH_MAX} levels"
    return ""


def _measure_depth(payload: Json) -> int:
    depth, level = 0, [payload]
    while level := [one for one in level if isinstance(one, list | tuple | dict)]:
        depth += 1
        level = [part for one in level for part in (one.values() if isinstance(one, dict) else one)]
    return depth


def change_wakes(wakes: Iterable[Wake], wishes: Wishes) -> Wakes:
    """Wakes as they are after a turn. Those that come last of more than 64 are left out."""
    by_name: dict[str, Wake | None] = {wake.name: wake for wake in wakes}
    by_name.update(wishes)
    return sort_wakes(wake for wake in by_name.values() if wake is not None)[:WAKES_MAX]


def sort_wakes(wakes: Iterable[Wake]) -> Wakes:
    """In their order."""
    return tuple(sorted(wakes, key=lambda wake: (wake.at_ns, wake.name)))


def write_wakes(wakes: Iterable[Wake], woke_ns: int | None) -> dict[str, Json]:
    """The document that the world keeps."""
    return {"wakes": [_spread(wake) for wake in wakes], "woke_ns": woke_ns}


def read_wakes(agent: str, document: Value) -> tuple[Wakes, int | None]:
    """Wakes, and the time of the wake whose turn wrote them. Raises WakesUnreadableError."""
    try:
        kept = _Kept.model_validate(document)
        wakes = sort_wakes(_gather(row) for row in kept.wakes)
    except ValueError as error:
        raise WakesUnreadableError(agent) from error
    return wakes, kept.woke_ns


def _spread(wake: Wake) -> Json:
    if wake.payload is not None:
        return [wake.at_ns, wake.name, wake.payload]
    return [wake.at_ns, wake.name] if wake.name else [wake.at_ns]


def _gather(row: list[Any]) -> Wake:
    """Raises ValueError."""
    at_ns = row[0] if type(row[0]) is int else _KeptTime(at_ns=row[0]).at_ns
    name, payload = (row[1] if len(row) > 1 else ""), (row[2] if len(row) > 2 else None)
    if problem := find_wake_problem(at_ns, name, payload):
        raise ValueError(problem)
    return Wake(at_ns, name, cast(Json, payload))
