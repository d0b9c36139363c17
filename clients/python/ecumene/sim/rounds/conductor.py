"""Conducts the rounds of a guess game: opens, waits for the gate, closes; talks to the world through the SDK alone.

    invoke open_round ──► round.opened wakes the agents ──► reports ──► gate.opened ──► invoke close_round

Both operations carry the run's producer and a number that follows from the round, so that asking again, after a
broken connection, a restart of the server or of the whole run, returns the first outcome and nothing happens twice.
The deadline of a round is the conductor's own: while nobody conducts, no round ends without its reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

from ecumene.client.environment import Environment
from ecumene.client.errors import ConnectionFailedError, EcumeneError, ResourceExhaustedError, UnavailableError
from ecumene.client.model import EventFilter, EventType, GateState, Invoked, Json
from ecumene.client.reasons import SequencePassedError
from ecumene.client.watches import Watch
from ecumene.client.world import World
from ecumene.sim.rounds.guests import MEMBER_EVENTS, Guests, GuestTurn, close_to_guests
from ecumene.sim.rounds.plans import REPORTS_PATH, GamePlan, RoundsPlan
from ecumene.sim.rounds.results import COUNT, DEADLINE, RoundObserver, RoundResult
from ecumene.sim.specs.game import GAME_KIND, GAME_PATH

DEFAULT_RULES: dict[str, Any] = {"ratio": 2 / 3, "offset": 0.0, "groups": []}
"""The behaviour's own, for a game that was made without."""
ROUND_KEY = "round"
"""Entry of the game: the round that is open, or was the last."""
PROGRESS_INTERVAL_S = 0.25
RETRY_DELAY_S = 0.1


class GameMismatchError(EcumeneError):
    """The world has something at the game's path that is not the game to be played."""

    def __init__(self, world: str, kind: str, config: Json) -> None:
        self.world = world
        self.kind = kind
        self.config = config
        super().__init__(f"world {world} has another game at {GAME_PATH} ({kind}, {config})")

    @property
    def hint(self) -> str:
        """What to do, for a terminal."""
        return f"delete it (ecumene env rm -r {GAME_PATH} --world {self.world}), or take another world"


class Conductor:
    """Async context manager around the rounds of one game; its watch on the gate lives as long."""

    def __init__(
        self, world: World, plan: RoundsPlan, *, producer: str, observer: RoundObserver, guests: Guests | None = None
    ) -> None:
        """`producer` identifies the run for ever: the same one must not conduct another game of this world.

        `guests`: None = nobody but the agents of the plan plays.
        """
        self._plan = plan
        self._guests = guests
        self._stack = AsyncExitStack()
        self._producer = producer
        self._observer = observer
        self._game = world.environment(plan.path)
        self._world = world
        self._gate: Watch | None = None

    async def __aenter__(self) -> Conductor:
        is_new = await self.register_game()
        # From before the first opening on, so that no gate can be missed.
        types = (EventType.GATE_OPENED,) if self._guests is None else (EventType.GATE_OPENED, *MEMBER_EVENTS)
        wanted = EventFilter(path_prefix=self._plan.path, types=types, exclude_own=self._guests is not None)
        self._gate = self._world.watch(wanted)
        self._stack.push_async_callback(self._gate.aclose)
        try:
            if self._guests is not None:
                await self._guests.open(self._stack, self._game)
            elif not is_new:
                await close_to_guests(self._game)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def register_game(self) -> bool:
        """Create the game's environment, unless the game of the plan is there already; whether it was created.

        Raises:
            KindNotFoundError: the server has no such behaviour.
            GameMismatchError: something else is there.
        """
        assert isinstance(self._plan, GamePlan)
        config: dict[str, Json] = {"ratio": self._plan.ratio, "offset": self._plan.offset}
        if self._plan.groups:
            config["groups"] = list(self._plan.groups)
        if (await self._game.register(kind=GAME_KIND, config=config, if_absent=True)).changed:
            return True
        found = await self._game.describe()
        # A game that was made by hand may leave to the behaviour what is as usual.
        if found.kind != GAME_KIND or DEFAULT_RULES | _document(found.config) != DEFAULT_RULES | config:
            raise GameMismatchError(self._world.name, found.kind, found.config)
        return False

    async def wait_for_guests(self) -> None:
        """Wait until as many guests are here as the first round waits for."""
        assert self._gate is not None
        while self._guests is not None and not self._guests.are_enough:
            self._guests.take(await anext(self._gate))

    async def play_round(self, round_number: int) -> RoundResult:
        """One round, from its opening to its closing. `round_number` counts from 1, each once and in order.

        A round of the run that was opened before, by a conductor that is gone, is gone on with where it stands.

        Raises:
            EcumeneError: the world refused an operation, or could not be reached for too long.
        """
        # With guests all live members are waited for, and nobody knows how many those will be.
        opening = {"participants": self._plan.participants if self._guests is None else 0, "deadline_ms": 0}
        started_at = asyncio.get_running_loop().time()
        generation, cause = 0, ""
        try:
            invoked = await self._invoke("open_round", opening, seq=2 * round_number - 1)
        except SequencePassedError:
            pass  # It was closed, too, and nobody noted it: asked again, its closing tells everything.
        else:
            generation, path = self._read_opening(round_number, _document(invoked.result))
            if self._guests is not None:
                self._guests.begin_round(invoked.revision)
            started_at = asyncio.get_running_loop().time()
            self._observer.round_opened(round_number)
            cause = await self._wait_for_gate(round_number, path, generation, is_new=not invoked.duplicate)
        closing = await self._invoke("close_round", {"generation": generation}, seq=2 * round_number)
        wall_s = asyncio.get_running_loop().time() - started_at
        turns = await self._guests.read_turns(self._game, closing) if self._guests is not None and generation else {}
        result = await self._read_result(closing, cause, wall_s, turns)
        self._observer.round_closed(result)
        return result

    def _read_opening(self, round_number: int, opened: Mapping[str, Any]) -> tuple[int, str]:
        """The generation of the gate that a round waits for, and the environment that has it."""
        return opened["generation"], str(opened.get("reports", REPORTS_PATH))

    async def _wait_for_gate(self, round_number: int, path: str, generation: int, *, is_new: bool) -> str:
        """Why the gate of a generation opened, or "deadline"; meanwhile the observer hears of the reports."""
        reports = self._world.environment(path)
        name = f"count reports of round {round_number}"
        counting = asyncio.create_task(self._count_reports(round_number, reports, generation), name=name)
        try:
            async with asyncio.timeout(self._plan.deadline_ms / 1000 or None):
                # The gate of an earlier life may have opened before this conductor began to watch.
                gate = None if is_new else await _find_gate(reports, generation)
                if gate is not None and gate.opened:
                    return gate.cause.name.lower()
                return str((await self._read_gate(path, generation)).get("cause", "")).lower()
        except TimeoutError:
            return DEADLINE
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)

    async def _read_gate(self, path: str, generation: int) -> Mapping[str, Any]:
        """The document of the event GATE_OPENED of a generation."""
        assert self._gate is not None
        async for event in self._gate:
            if self._guests is not None and event.type in MEMBER_EVENTS:
                self._guests.take(event)
                continue
            document = _document(event.value)
            if event.path == path and document.get("generation") == generation:
                return document
        raise asyncio.CancelledError  # the watch ends without an error only when this conductor is left

    async def _count_reports(self, round_number: int, reports: Environment, generation: int) -> None:
        while True:
            if (gate := await _find_gate(reports, generation)) is not None:
                self._observer.reports_counted(round_number, gate.reported)
            await asyncio.sleep(PROGRESS_INTERVAL_S)

    async def _invoke(self, operation: str, args: Mapping[str, Json], *, seq: int) -> Invoked:
        """Run an operation of the game once, however often it must be asked for."""
        while True:
            try:
                return await self._game.run(operation, args, producer=self._producer, seq=seq)
            except ConnectionFailedError:
                raise
            except (UnavailableError, ResourceExhaustedError) as error:
                # A server that stops refuses what it has not begun; the SDK reconnects, and gives up in its time.
                await asyncio.sleep(error.retry_delay_s or RETRY_DELAY_S)

    async def _read_result(
        self, closing: Invoked, cause: str, wall_s: float, guests: Mapping[str, GuestTurn]
    ) -> RoundResult:
        closed = _document(closing.result)
        reported, failed, participants = closed["reported"], closed["failed"], self._plan.participants + len(guests)
        return RoundResult(
            round=closed["round"],
            generation=closed["generation"],
            participants=participants,
            reported=reported,
            failed=failed,
            mean=closed["mean"],
            target=closed["target"],
            winning_number=closed["winning_number"],
            winner=closed["winner"],
            winner_number=closed.get("winner_number"),
            # What ended a round that an earlier conductor closed follows from its reports.
            gate_cause=cause or (COUNT if reported + failed >= participants else DEADLINE),
            wall_s=wall_s,
            revision=closing.revision,
            guests=guests,
            groups=closed.get("groups") or {},
        )


async def _find_gate(reports: Environment, generation: int) -> GateState | None:
    """The gate as it is, if it is at a generation."""
    gates = (await reports.aggregates()).gates.values()
    return next((gate for gate in gates if gate.generation == generation), None)


def _document(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
