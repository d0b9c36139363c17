"""Refuses what the world could never take, before anything is sent.

It has to be before: the world keeps the outcome of an agent's op under the agent's id and the event's
revision, a failure too. A second try for the same event would be given the first one's failure.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import get_args

from ecumene.client import Value

from agent_runtime.model.actions import TURN_ACTIONS_MAX, TURN_COMPANIONS_MAX, Action, Change
from agent_runtime.model.errors import ActionRefusedError

BOOKS = "/runtime"
"""Who owns which agents, and what they remember: no agent's to change."""
NAME_BYTES_MAX = 128
PATH_BYTES_MAX = 400
PATH_DEPTH_MAX = 16
VALUE_BYTES_MAX = 1024 * 1024
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
CHANGES = frozenset(get_args(Change))


def check_action(action: Action) -> None:
    """Raises ActionRefusedError if an action can never succeed as it is."""
    if problem := find_name_problem(action.name):
        raise ActionRefusedError("?", problem)
    problem = (
        find_path_problem(action.path)
        or find_key_problem(action.key)
        or find_condition_problem(action)
        or find_value_problem(action)
    )
    if problem:
        raise ActionRefusedError(action.name, problem)


def copy_value(value: Value) -> Value:
    """A value that whoever gave it cannot change any more, so that what was tested is what is sent and recorded.

    Of a value in which no problem was found.
    """
    return json.loads(json.dumps(value, ensure_ascii=False)) if isinstance(value, dict | list | tuple) else value


def check_turn(actions: Sequence[Action]) -> None:
    """Raises ActionRefusedError if a turn wants more than one op can hold."""
    last = actions[-1]
    if len(actions) > TURN_ACTIONS_MAX:
        raise ActionRefusedError(last.name, f"a turn has at most {TURN_ACTIONS_MAX} actions")
    invoked = [action for action in actions if action.change == "invoke"]
    if len(invoked) > 1:
        problem = f"a turn runs one operation, and {invoked[0].key} of {invoked[0].path} is decided already"
        raise ActionRefusedError(last.name, problem)
    if invoked and len(actions) - 1 > TURN_COMPANIONS_MAX:
        raise ActionRefusedError(last.name, f"beside an operation a turn has at most {TURN_COMPANIONS_MAX} actions")


@lru_cache(maxsize=1024)
def find_path_problem(path: str) -> str:
    """What is wrong with a path; "" if nothing."""
    if not path.startswith("/"):
        return f"path {path[:80]!r} does not begin with '/'"
    if path == BOOKS or path.startswith(f"{BOOKS}/"):
        return f"what is below {BOOKS} is kept by the runtimes themselves"
    segments = path[1:].split("/") if path != "/" else []
    if len(segments) > PATH_DEPTH_MAX:
        return f"the path is deeper than {PATH_DEPTH_MAX}"
    if len(path.encode(errors="replace")) > PATH_BYTES_MAX:
        return f"the path is longer than {PATH_BYTES_MAX} bytes"
    return next(filter(None, map(find_key_problem, segments)), "")


def find_name_problem(name: object) -> str:
    """What is wrong with the name of an action, which stands in the records alone; "" if nothing."""
    if not isinstance(name, str) or not name:
        return "the name of an action is a text"
    if len(name) > NAME_BYTES_MAX:
        return f"action {name[:40]!r}… has a name of more than {NAME_BYTES_MAX} characters"
    return "" if name.isascii() or _is_text(name) else "the name of an action is no text"


def find_condition_problem(action: Action) -> str:
    """What is wrong with how an action is to change things; "" if nothing."""
    generation = action.gate_generation
    if type(generation) is not int or not 0 <= generation <= INT_MAX:
        return "no gate has such a generation"
    return "" if action.change in CHANGES else "there is no such kind of change"


def find_key_problem(key: str) -> str:
    """What is wrong with the name of an entry or a segment of a path; "" if nothing."""
    if not key:
        return "a name is empty"
    if key.isascii():
        if len(key) > NAME_BYTES_MAX:
            return f"name {key[:40]!r}… is longer than {NAME_BYTES_MAX} bytes"
        return "" if key.isprintable() and "/" not in key else f"name {key[:80]!r} holds '/' or control characters"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return f"name {key[:80]!r} is no text"
    if size > NAME_BYTES_MAX:
        return f"name {key[:40]!r}… is longer than {NAME_BYTES_MAX} bytes"
    if "/" in key or any(unicodedata.category(sign) == "Cc" for sign in key):
        return f"name {key[:80]!r} holds '/' or control characters"
    return "" if unicodedata.is_normalized("NFC", key) else f"name {key[:80]!r} is not in normal form C"


def find_value_problem(action: Action) -> str:
    """What is wrong with an action's value; "" if nothing."""
    value = action.value
    if action.change in ("merge", "invoke") and not isinstance(value, dict):
        what = "a patch" if action.change == "merge" else "what an operation is given"
        return f"{what} is an object, not {type(value).__name__}"
    if action.change == "delete" and value is not None:
        return "what is deleted has no value"
    if action.change == "move":
        return "" if value is None or _is_position(value) else "a position is a list of one or two finite numbers"
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{value} is not finite"
    if action.change == "increment" and (isinstance(value, bool) or not isinstance(value, int | float)):
        return f"an increment is a number, not {type(value).__name__}"
    if isinstance(value, int):
        return "" if INT_MIN <= value <= INT_MAX else "a number does not fit 64 bits"
    size = measure_value(value)
    if size is None:
        return f"{type(value).__name__} has no form in a world"
    return f"the value is larger than {VALUE_BYTES_MAX} bytes" if size > VALUE_BYTES_MAX else ""


def measure_value(value: object) -> int | None:
    """Bytes of a value on the wire, rounded up; None if it is no value."""
    if value is None or isinstance(value, bool | int | float):
        return 10
    if isinstance(value, bytes):
        return len(value)
    try:
        if isinstance(value, str):
            return len(value.encode())
        if isinstance(value, dict | list | tuple):
            return len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        return None
    return None


def _is_position(value: object) -> bool:
    if not isinstance(value, list) or not 1 <= len(value) <= 2:
        return False
    return all(type(number) in (int, float) and math.isfinite(number) for number in value)


def _is_text(text: str) -> bool:
    """Whether it holds no halves of signs, which models write and no file keeps."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
