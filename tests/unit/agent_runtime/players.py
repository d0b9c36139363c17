"""Agents that do one thing each, as tests need them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

from ecumene.client import Event

from agent_runtime.agents.agent import Agent, Routine, RuleAgents
from agent_runtime.agents.ready import NumberAnswer
from agent_runtime.llm import Message
from agent_runtime.llm.requests import ModelRequest
from agent_runtime.model.draws import Draw
from agent_runtime.model.wakes import NEVER_NS
from agent_runtime.turns.turn import Turn


class Moody(Agent):
    """Does what the first part of its id says."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        mood = self.id.split("-")[0]
        if mood == "raise":
            raise RuntimeError("no luck\ntoday")
        if mood == "hang":
            await asyncio.get_running_loop().create_future()
        if mood == "stubborn":
            while not turn.is_timed_out:
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    pass
        if mood == "nan":
            turn.report(float("nan"))
        if mood == "nowhere":
            turn.act("go", "/nowhere", self.id, 1.0)
        if mood == "two":
            turn.act("say", "/game", self.id, "hello")
            turn.report(2.0)
        if mood == "number":
            turn.report(float(self.id.split("-")[1]))


class FallsBack(Moody):
    """The same, with a fallback."""

    def fall_back(self, event: Event, turn: Turn, failure: Exception) -> bool:
        turn.report(7.0)
        return True


class Slow(Agent):
    """Waits for `gate`, and notes which turns run at a time and what woke them."""

    gate: ClassVar[asyncio.Event]
    running: ClassVar[dict[str, int]] = defaultdict(int)
    most: ClassVar[int] = 0
    seen: ClassVar[dict[str, list[int]]] = defaultdict(list)

    @classmethod
    def reset(cls) -> None:
        cls.gate = asyncio.Event()
        cls.running.clear()
        cls.seen.clear()
        cls.most = 0

    async def on_event(self, event: Event, turn: Turn) -> None:
        Slow.running[self.id] += 1
        Slow.most = max(Slow.most, Slow.running[self.id])
        Slow.seen[self.id].append(turn.revision)
        await Slow.gate.wait()
        Slow.running[self.id] -= 1
        turn.report(1.0)


class Listener(Agent):
    """Notes the keys of the events of each turn."""

    heard: ClassVar[list[tuple[str, list[str]]]] = []

    async def on_event(self, event: Event, turn: Turn) -> None:
        Listener.heard.append((self.id, [heard.key for heard in turn.events]))


class Asker(Agent):
    """Asks its model for a number."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        answer = await turn.llm.ask([Message("user", "a number?")], answer_type=NumberAnswer)
        assert isinstance(answer.value, NumberAnswer)
        turn.report(answer.value.number)


class AskerFallsBack(Asker):
    def fall_back(self, event: Event, turn: Turn, failure: Exception) -> bool:
        turn.report(0.5)
        return True


class Rule(RuleAgents):
    """The number in the id; refuses to be asked together with `bad`, and gives NaN for `nan`."""

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> list[Any]:
        if "bad" in agent_ids:
            raise RuntimeError("bad agent")
        return [float("nan") if name == "nan" else float(name.split("-")[1]) for name in agent_ids]


class RuleFallsBack(Rule):
    """Has a number for `bad`, none that is one for `nan`, and fails for others."""

    def fall_back(self, agent_id: str, event: Event, failure: Exception) -> Any:
        return {"bad": 3.5, "nan": "no number"}[agent_id]


def answer_number(request: ModelRequest, draw: Draw) -> dict[str, float]:
    return {"number": 12.5}


def answer_garbage(request: ModelRequest, draw: Draw) -> str:
    return "no number, sorry"


class Diarist(Agent):
    """Remembers each round in which it was woken, and reports how many it remembers; asks if its group has a model."""

    asked: ClassVar[list[str]] = []

    async def on_event(self, event: Event, turn: Turn) -> None:
        if self.group.parameters.get("waits"):
            await asyncio.get_running_loop().create_future()
        Diarist.asked.append(f"{self.id}.{turn.number}")
        self.memory.remember(f"{event.revision}")
        if self.group.parameters.get("acts"):
            turn.act("say", "/game", self.id, "hello")
        turn.report(float(len(self.memory)))


def answer_anything(request: ModelRequest, draw: Draw) -> str:
    """Numbers where a number is asked for, the first of what a schema allows elsewhere, an echo for free text."""
    if request.answer_type is None:
        return f"{request.agent_id} was asked: {request.messages[-1].content}"
    properties = request.answer_type.model_json_schema()["properties"]
    answers = {name: one["enum"][0] if "enum" in one else 7 for name, one in properties.items()}
    return json.dumps({name: "because" if name == "reasoning" else value for name, value in answers.items()})


class NoteKeeper(Agent):
    """Remembers each event, and says nothing."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.moods: dict[str, list[int]] = {}

    async def on_event(self, event: Event, turn: Turn) -> None:
        self.memory.remember(f"{self.id} saw {event.key} in turn {turn.number}")
        self.moods.setdefault(event.key, []).append(turn.number)
        turn.report(1.0)


def answer_often(request: ModelRequest, draw: Draw) -> str:
    """The same, but for every tenth agent, by the number in its id, who gives prose where a shape is asked for."""
    if request.answer_type is not None and int(request.agent_id.rpartition("-")[2]) % 10 == 0:
        return "I would rather not say."
    return answer_anything(request, draw)


class Blocking(Agent):
    """Waits in a thread until `end`, if it is called so."""

    end: ClassVar[threading.Event] = threading.Event()

    async def on_event(self, event: Event, turn: Turn) -> None:
        if self.id.startswith("hang"):
            await turn.in_thread(Blocking.end.wait)
        turn.report(float(await turn.in_thread(len, self.id)))


class Patient(Agent):
    """Asks its model, and counts those that do."""

    asking: ClassVar[int] = 0

    async def on_event(self, event: Event, turn: Turn) -> None:
        Patient.asking += 1
        await turn.llm.ask((Message("user", "Pick a number."),))


class Deaf(Agent):
    """Goes on whatever it is told, until `heard` says that it was told so often."""

    heard: ClassVar[int] = 0
    end: ClassVar[int] = 0

    async def on_event(self, event: Event, turn: Turn) -> None:
        while Deaf.heard < Deaf.end:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                Deaf.heard += 1


class LockKeeper(NoteKeeper):
    """Holds what cannot be copied."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.lock = threading.Lock()


class Sleeper(Agent):
    """Does what its id says when it is woken, and notes when it was."""

    woken: ClassVar[list[tuple[str, int | None, tuple[str, ...], Any]]] = []

    async def on_event(self, event: Event, turn: Turn) -> None:
        names = tuple(wake.name for wake in turn.wakes)
        Sleeper.woken.append((self.id, turn.sim_time_ns, names, turn.wakes[0].payload if turn.wakes else None))
        mood = self.id.split("-")[0]
        if mood == "hourly":
            turn.wake_after(60)
        if mood == "planner" and turn.number == 1:
            turn.wake_at(500, "b", {"do": "b"})
            turn.wake_at(500, "a")
            turn.wake_at(300, "c")
            turn.wake_at(400, "d")
            turn.cancel_wake("d")
        if mood == "fails":
            turn.wake_after(60)
            raise RuntimeError("not today")
        if mood == "past":
            turn.wake_at(turn.sim_time_ns or 0)
        turn.act("woke", "/game", self.id, turn.sim_time_ns)


class Waiting(Sleeper):
    """Waits for `gate`, whatever happens, unless it is woken by time."""

    gate: ClassVar[asyncio.Event]

    async def on_event(self, event: Event, turn: Turn) -> None:
        if turn.wakes:
            await super().on_event(event, turn)
        else:
            await Waiting.gate.wait()


class Planner(Sleeper):
    """Wakes each 60 ns, whoever sits in its place."""

    def plan(self, turn: Turn) -> None:
        turn.wake_after(60)


class Daily(RuleAgents):
    """Wakes each 60 ns, and keeps when: `once-…` once, `idle-…` never, `whole-…` as a whole number.

    `bad-…` raises, `back-…` wants the past.
    """

    asked: ClassVar[list[tuple[list[str], list[int]]]] = []

    def first_wakes(self, agent_ids: Sequence[str], first_ns: int) -> list[int]:
        return [first_ns + int(name.split("-")[1]) for name in agent_ids]

    def wake_many(self, agent_ids: Sequence[str], times_ns: Sequence[int]) -> Routine:
        Daily.asked.append((list(agent_ids), list(times_ns)))
        moods = [name.split("-")[0] for name in agent_ids]
        if "bad" in moods:
            raise RuntimeError("not today")
        steps = {"once": None, "back": -1}
        next_ns = [
            NEVER_NS if (step := steps.get(mood, 60)) is None else at_ns + step
            for mood, at_ns in zip(moods, times_ns, strict=True)
        ]
        kinds = {"idle": lambda at_ns: None, "whole": int}
        values = [kinds.get(mood, float)(at_ns) for mood, at_ns in zip(moods, times_ns, strict=True)]
        return Routine(next_ns, values, "/game")

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> list[float]:
        return [1.0] * len(agent_ids)
