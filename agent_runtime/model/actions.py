"""What agents decide, and what becomes of it in the world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ecumene.client import EcumeneError, Value

Change = Literal["set", "append", "increment", "merge", "delete", "move", "invoke"]

REPORT = "report"
NO_ANSWER = "no_answer"
# An op holds 128 writes; one is kept for the report that a turn may owe, one each for what the agent remembers and for
# when it wants to be woken.
TURN_ACTIONS_MAX = 125
# An operation takes 16 writes along; three are kept likewise.
TURN_COMPANIONS_MAX = 13


@dataclass(frozen=True, slots=True)
class Action:
    """One change of the world that an agent decided on.

    `name` says what it means to the agent. `gate_generation` of 0 is no condition. With `invoke`, `key` is an operation
    of the environment's behaviour and `value` its arguments by name; with `merge`, `value` is a patch; with `delete`,
    None.
    """

    name: str
    path: str
    key: str
    value: Value
    change: Change = "set"
    gate_generation: int = 0


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the world keeps of an agent, written in the same op: as it is, or as it is if the gate has closed."""

    path: str
    key: str
    value: Value
    if_late: Value


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the world answered to the one op of a turn.

    `revision` is that of its commit, also of an earlier commit that a duplicate met; None when it had no
    effect, or when the world did not say.
    """

    revision: int | None = None
    duplicate: bool = False
    error: EcumeneError | None = None
