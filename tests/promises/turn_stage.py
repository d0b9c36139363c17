"""Turns on a real server: one worker's stages in this process, and what agents in it are made to do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, cast

from ecumene.client import Event, World

from agent_runtime.agents.agent import Agent
from agent_runtime.llm.requests import ModelRequest, ToolCall
from agent_runtime.model.draws import Draw
from agent_runtime.model.errors import ActionRefusedError
from agent_runtime.model.parts import Part
from agent_runtime.ownership.cursors import Cursor
from agent_runtime.ownership.owner import OwnedPart
from agent_runtime.ownership.places import RunPlaces, make_places
from agent_runtime.turns.turn import Turn
from tests.unit.agent_runtime.stage import FakeCursorStore, FakeOwner, Stage, make_launch, set_stage

HERE = "tests.promises.turn_stage"
MARKET = "/market"
BELL = {"wake": [{"path": "/bell", "types": ["entry_set"], "key": "round"}]}
TRADING = {"path": MARKET, "bind": {"trader": "{agent}"}, "only": ["place", "account", "book"]}


class RealOwner(FakeOwner):
    """Owns every part of a real world, without a lease."""

    def __init__(self, world: World) -> None:
        stands: Any = world
        super().__init__(stands)
        self._parts = world.environment(RunPlaces("r").parts)
        self._real = world

    async def take(self, part: Part, *, from_revision: int, wait_s: float) -> OwnedPart:
        """Own a part, where its cursor stands."""
        self.held.add(part.name)
        term = (await self._parts.set(part.name, 1)).revision
        is_new = part.name not in self.cursors
        cursor = self.cursors.setdefault(part.name, Cursor.at_start(part, from_revision - 1))
        return OwnedPart(part, term, self._real, cursor, FakeCursorStore(self, part.name), is_new)


@asynccontextmanager
async def set_real_stage(
    folder: Path, world: World, agent: str, ids: Sequence[str], **group: Any
) -> AsyncIterator[Stage]:
    """A worker with one group of agents, woken by the bell, in a world with a market where each has 100 and 5 corn."""
    await world.environment("/bell").register()
    market = world.environment(MARKET)
    await market.register(kind="market")
    for name in ids:
        await market.invoke("deposit", trader=name, cash=100, goods={"corn": 5})
    await make_places(world, RunPlaces("r"))
    launch = make_launch(folder, agent, ids, **{**BELL, "resumable": True, **group})
    stands: Any = world
    async with set_stage(folder, launch, stands, RealOwner(world)) as stage:
        yield stage


@asynccontextmanager
async def take_again(folder: Path, world: World, from_revision: int) -> AsyncIterator[Stage]:
    """Another worker that wakes Ann by what has woken her before."""
    launch = make_launch(folder, f"{HERE}:Doer", ["ann"], **BELL)
    stands: Any = world
    again = launch.model_copy(update={"from_revision": from_revision})
    async with set_stage(folder, again, stands, RealOwner(world)) as stage:
        yield stage


async def ring(world: World, stage: Stage, number: int = 1) -> int:
    """Wake all agents and wait until each has had its turn; returns the revision that woke them."""
    before = sum(stage.pipeline.records.statuses.values())
    rung = await world.environment("/bell").set("round", number)
    await stage.wait_turns(before + stage.pipeline.agents, timeout_s=20.0)
    return rung.revision


class Doer(Agent):
    """Does what `Doer.plans` hold for its turn, one after the other with each refusal; then falls back if there is a
    last one.
    """

    plans: ClassVar[list[Callable[[Turn], object] | None]] = []
    told: ClassVar[list[str]] = []

    @classmethod
    def plan(cls, *plans: Callable[[Turn], object] | None) -> None:
        """What to do first, when refused, and as fallback; None = nothing of the kind."""
        cls.plans, cls.told = list(plans), []

    async def on_event(self, event: Event, turn: Turn) -> None:
        self.memory.remember(f"woken by {turn.revision}")
        self._do(0, turn)

    async def on_refused(self, event: Event, turn: Turn, refusal: ActionRefusedError) -> bool:
        Doer.told.append(refusal.problem)
        return self._do(1, turn)

    def fall_back(self, event: Event, turn: Turn, failure: Exception) -> bool:
        return self._do(2, turn)

    def _do(self, place: int, turn: Turn) -> bool:
        plan = self.plans[place] if place < len(self.plans) else None
        if plan is not None:
            plan(turn)
        return plan is not None


def say(text: str) -> Callable[[Turn], object]:
    """Writes a text to the bell."""
    return lambda turn: turn.act("say", "/bell", f"said-by-{turn.agent_id}", text)


def sell(price: int, quantity: int = 1) -> Callable[[Turn], object]:
    """Offers corn; refused by the market to whoever has less."""
    return lambda turn: turn.invoke(
        MARKET, "place", trader=turn.agent_id, side="sell", good="corn", price=price, quantity=quantity
    )


def both(*plans: Callable[[Turn], object]) -> Callable[[Turn], object]:
    """All of them."""
    return lambda turn: [plan(turn) for plan in plans]


def call(name: str, **arguments: Any) -> ToolCall:
    """A model's call."""
    return ToolCall("same-id", name, json.dumps(arguments))


class Script:
    """Answers of a scripted model, by the question's place in its turn; every request is kept."""

    answers: ClassVar[Sequence[Any]] = ()
    asked: ClassVar[list[ModelRequest]] = []

    @classmethod
    def play(cls, *answers: Any) -> None:
        """The answers of each turn, in order; the last one stands for all later."""
        cls.answers, cls.asked = answers, []


def answer(request: ModelRequest, draw: Draw) -> Any:
    """What the script says."""
    Script.asked.append(request)
    return Script.answers[min(request.call, len(Script.answers) - 1)]


def scripted(**more: Any) -> Mapping[str, Any]:
    """A model that plays the script."""
    return {"m": {"provider": "scripted", "answers": f"{HERE}:answer", "attempts_max": 1, **more}}


async def read_account(world: World, trader: str) -> dict[str, Any]:
    """What a trader may use."""
    return cast("dict[str, Any]", await world.environment(MARKET).invoke("account", trader=trader))
