"""A behaviour that does everything wrong that one can; installed on servers by test_hostile_behaviour.py."""

from __future__ import annotations

import asyncio
from typing import Any

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.model.environments import Aggregate, Declaration, Function, Gate
from env_server.model.errors import OperationRefused

RAISED: dict[str, Any] = {
    "error": ValueError("/secret"),
    "exit": SystemExit("bye"),
    "interrupt": KeyboardInterrupt(),
    "cancelled": asyncio.CancelledError(),
    "generator exit": GeneratorExit(),
    "stop": StopAsyncIteration(),
    "refused by no text": OperationRefused(5, object(), detail=7),  # type: ignore[arg-type]
    "refused by half a character": OperationRefused("\ud800", "\ud800", detail="\ud800"),
    "refused at length": OperationRefused("x" * 100_000, "m" * 100_000, detail="d" * 100_000),
}
RETURNED: dict[str, Any] = {
    "nan": float("nan"),
    "set": {1},
    "half a character": "\ud800",
    "too long": "x" * 2_000_000,
    "too deep": None,
    "itself": None,
}
SLEPT: dict[str, Any] = {"nan": float("nan"), "text": "x", "nothing": None}
EMITTED: dict[str, Any] = {"half": "\ud800", "number": 7, "empty": "", "line": "a\nb", "long": "n" * 5000}
DECLARED: dict[str, Any] = {
    "count": Declaration(gates=(Gate("g", count_target=2**70),)),
    "deadline": Declaration(gates=(Gate("g", deadline_ms=2**63),)),
    "half a count": Declaration(gates=(Gate("g", count_target=0.5),)),  # type: ignore[arg-type]
    "nan bound": Declaration(aggregates=(Aggregate("a", Function.HISTOGRAM, bounds=(float("nan"),)),)),
    "label": Declaration(labels={"a": "\ud800"}),
}


def _no_targets(path: str) -> Any:
    raise SystemExit("bye")


class Hostile(Behaviour):
    """One operation for each kind of wrong; `how` picks which."""

    kind = "hostile"

    @operation()
    async def fail(self, ctx: Context, how: str) -> None:
        raise RAISED[how]

    @operation()
    async def give(self, ctx: Context, how: str) -> Any:
        nested: list[Any] = []
        if how == "itself":
            nested.append(nested)
        for _ in range(500 if how == "too deep" else 0):
            nested = [nested]
        return nested or RETURNED[how]

    @operation()
    async def nap(self, ctx: Context, how: str) -> None:
        await ctx.sleep(SLEPT[how])

    @operation()
    async def emit(self, ctx: Context, how: str) -> None:
        ctx.emit(EMITTED[how], {})

    @operation()
    async def declare(self, ctx: Context, how: str) -> None:
        ctx.register_child("child", DECLARED[how])

    @operation()
    async def begin(self, ctx: Context, how: str) -> None:
        ctx.begin_generation(ctx.path, "g", 2**64 if how == "count" else 1, 2**63 if how == "deadline" else 1)

    @operation(writes=_no_targets)
    async def plan(self, ctx: Context) -> None:
        raise AssertionError("it cannot start")

    @operation(writes=lambda path: [Target(path, "a")])
    async def stray(self, ctx: Context) -> None:
        ctx.set("b", 1)


CALLS: list[tuple[str, dict[str, str]]] = [
    *(("fail", {"how": how}) for how in RAISED),
    *(("give", {"how": how}) for how in RETURNED),
    *(("nap", {"how": how}) for how in SLEPT),
    *(("emit", {"how": how}) for how in EMITTED),
    *(("declare", {"how": how}) for how in DECLARED),
    *(("begin", {"how": how}) for how in ("count", "deadline")),
    ("plan", {}),
    ("stray", {}),
]
