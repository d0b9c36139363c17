"""A hash of what an agent is at a moment: equal states, equal hash, in any process."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent_runtime.agents.agent import Agent
from agent_runtime.agents.memory import Memory

DEPTH_MAX = 32


def hash_agent(agent: Agent) -> str:
    """Of its id, profile, memory and own attributes; what it shares with its group is left out.

    Objects count by their class and attributes; those without any (functions, locks) by their class alone.
    """
    own = {name: value for name, value in vars(agent).items() if name not in ("group", "memory")}
    return hash_plain([agent.memory.dump(), _flatten(own, 0)])


def hash_plain(document: Any) -> str:
    """Of plain data."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=repr)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _flatten(value: Any, depth: int) -> Any:
    """Plain data that says what a value is."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth > DEPTH_MAX:
        return type(value).__qualname__
    if isinstance(value, bytes | bytearray):
        return ["bytes", value.hex()]
    if isinstance(value, Memory):
        return ["memory", value.dump()]
    if isinstance(value, Mapping):
        pairs = [[_flatten(key, depth + 1), _flatten(one, depth + 1)] for key, one in value.items()]
        return ["mapping", sorted(pairs, key=repr)]
    if isinstance(value, set | frozenset):
        return ["set", sorted((_flatten(one, depth + 1) for one in value), key=repr)]
    if isinstance(value, Iterable) and hasattr(value, "__len__"):
        return [type(value).__qualname__, [_flatten(one, depth + 1) for one in value]]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return [type(value).__qualname__, [[name, _flatten(getattr(value, name), depth + 1)] for name in names]]
    attributes = getattr(value, "__dict__", None)
    if isinstance(value, type) or not attributes:
        return getattr(value, "__qualname__", type(value).__qualname__)
    pairs = [[name, _flatten(one, depth + 1)] for name, one in sorted(attributes.items())]
    return [type(value).__qualname__, pairs]
