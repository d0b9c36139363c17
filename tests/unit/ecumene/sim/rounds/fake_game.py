"""A world of the SDK's shape with a guess game in it, without a server: what the conductor is tested against."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ecumene.client.errors import ErrorDetails
from ecumene.client.model import Aggregates, Gate, GateCause, GateState, Invoked, Written
from ecumene.client.reasons import SequencePassedError


class FakeWorld:
    """Agents answer as `choose` says (None = a failed turn) as soon as a round is opened."""

    def __init__(self, choose: Callable[[int, int, float | None], float | None]) -> None:
        self.choose = choose
        self.revision = 0
        self.name = "fake"
        self.registered: dict[str, Any] = {}
        self.already_there: tuple[str, dict[str, Any]] | None = None
        self.asked: list[tuple[str, dict[str, Any], str, int]] = []
        self.outcomes: dict[tuple[str, int], Invoked] = {}
        self.failures: list[Exception] = []
        """Raised by the next invocations after their effect, as by a connection that breaks."""
        self.silent_agents = 0
        self.generation = 0
        self.last_winner: float | None = None
        self.numbers: list[float | None] = []
        self.ratio = 2 / 3
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.watches_closed = 0

    def environment(self, path: str) -> FakeEnvironment:
        """The handle of an environment."""
        return FakeEnvironment(self, path)

    def watch(self, event_filter: Any) -> FakeWatch:
        """Events of type GATE_OPENED, whatever the filter says."""
        return FakeWatch(self)

    def open_round(self, participants: int, deadline_ms: int) -> dict[str, Any]:
        """Open, and let everybody answer."""
        self.generation += 1
        answering = participants - self.silent_agents
        self.numbers = [self.choose(self.generation, agent, self.last_winner) for agent in range(answering)]
        told = [self.generation - 1]  # a late event of another generation comes first
        if answering == participants:
            told.append(self.generation)
        for generation in told:
            document = {"generation": generation, "cause": "COUNT", "reported": answering}
            self.events.put_nowait(SimpleNamespace(path="/game/reports", value=document))
        return {"round": self.generation, "generation": self.generation, "reports": "/game/reports"}

    def close_round(self, generation: int) -> dict[str, Any]:
        """Compute as the game does."""
        reported = [number for number in self.numbers if number is not None]
        mean = sum(reported) / len(reported) if reported else None
        target = None if mean is None else self.ratio * mean
        nearest = min(
            (index for index, number in enumerate(self.numbers) if number is not None),
            key=lambda index: abs(self.numbers[index] - target),  # type: ignore[operator]
            default=None,
        )
        self.last_winner = target
        return {
            "round": generation,
            "generation": generation,
            "mean": mean,
            "target": target,
            "winning_number": target,
            "winner": None if nearest is None else f"a{nearest}",
            "winner_number": None if nearest is None else self.numbers[nearest],
            "reported": len(reported),
            "failed": len(self.numbers) - len(reported),
        }


class FakeEnvironment:
    """An environment of a fake world."""

    def __init__(self, world: FakeWorld, path: str) -> None:
        self.world = world
        self.path = path

    def child(self, name: str) -> FakeEnvironment:
        """The one below."""
        return FakeEnvironment(self.world, f"{self.path}/{name}")

    async def register(self, *, kind: str, config: Mapping[str, Any], if_absent: bool) -> Written:
        """Note what was asked for."""
        self.world.registered[self.path] = (kind, dict(config), if_absent)
        return Written(1, changed=self.world.already_there is None)

    async def describe(self) -> SimpleNamespace:
        """What was there already."""
        assert self.world.already_there is not None
        kind, config = self.world.already_there
        return SimpleNamespace(kind=kind, config=config, gates=())

    async def run(self, operation: str, args: Mapping[str, Any], *, producer: str, seq: int) -> Invoked:
        """Run once for each (producer, seq)."""
        world = self.world
        world.asked.append((operation, dict(args), producer, seq))
        is_duplicate = (producer, seq) in world.outcomes
        if seq < max((known for by, known in world.outcomes if by == producer), default=0):
            raise SequencePassedError(ErrorDetails(reason="SEQUENCE_PASSED"))
        if not is_duplicate:
            world.revision += 1
            result = getattr(world, operation)(**args)
            world.outcomes[producer, seq] = Invoked(world.revision, result, True)
        if world.failures:
            raise world.failures.pop(0)
        return replace(world.outcomes[producer, seq], duplicate=is_duplicate)

    async def aggregates(self) -> Aggregates:
        """The gate, with all reports in."""
        count, is_open = len(self.world.numbers), not self.world.silent_agents
        cause = GateCause.COUNT if is_open else GateCause.UNSPECIFIED
        state = GateState(Gate("round"), self.world.generation, is_open, count, cause, 1, 2)
        return Aggregates({}, {"round": state})


class FakeWatch:
    """The events of a fake world."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world

    def __aiter__(self) -> FakeWatch:
        return self

    async def __anext__(self) -> Any:
        return await self.world.events.get()

    async def aclose(self) -> None:
        """Note that it was ended."""
        self.world.watches_closed += 1
