"""A small town with a day, places and conversations: residents live by its clock, meet, talk, and a rumour spreads.

python examples/models/town.py --days 7 --residents 60
python examples/models/town.py --days 7 --residents 60 --workers 4     # the same days: the same digest

Each resident goes to work, some to a café at noon or in the evening, and home, as its routine says. At twenty to one
and at eight whoever is in a café or park looks who else is there and talks to one of them: a message, which wakes the
other, who answers in a turn of its own. Who knows the rumour tells it, in message and answer, from the next moment on.

The clock is event-driven: it goes on as soon as nobody has anything left to do, so no message is passed over by time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import ecumene
import pyarrow as pa
from ecumene import Clock, EventFilter, Grid, ns
from ecumene.launch import ServiceProcess, Services
from playing import positive, run_until_stopped

from agent_runtime.agents.agent import Agent, GroupInfo
from agent_runtime.agents.town_dwellers import (
    CAFE,
    DAY_NS,
    MINUTE_NS,
    PARK,
    Routines,
    TownParameters,
    find_number,
    read_parameters,
)
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecumene import Event

    from agent_runtime.turns.turn import Turn

HERE = Path(__file__).resolve().parent
TOWN, STAFF, STREETS, SAID, ANSWERED = "/town", "/town/staff", "/town/streets", "/town/said", "/town/answered"
TALKING_MINUTES = (12 * 60 + 40, 20 * 60)
"""When those who are out talk, each with one other: so at most twice a day each begins a conversation."""
GOES, TALKS = "goes", "talks"
ALWAYS_NS = -1
"""Since when the one who began the rumour has known it."""
START_TIMEOUT_S, TIMEOUT_S = 120.0, 900.0


class Resident(Agent):
    """Follows its routine, and talks to those it meets.

    What it has heard at a moment it tells from the next moment on: so nothing depends on which of two messages of one
    moment came first, and a town has the same days however its residents are shared out.
    """

    def __init__(self, agent_id: str, profile: Mapping[str, Any], group: GroupInfo) -> None:
        super().__init__(agent_id, profile, group)
        self.parameters = read_parameters(group)
        self.routines = Routines(self.parameters)

    async def on_event(self, event: Event, turn: Turn) -> None:
        """Go where it is time to be, talk, answer, or take note of an answer."""
        now_ns = turn.sim_time_ns or 0
        if not turn.notice.is_wake:
            self.listen(event, now_ns, turn)
            return
        name = turn.wakes[0].name
        if name != TALKS:
            stop = self.routines.find_next(self.id, now_ns)
            turn.wake_at(stop.at_ns, GOES)
            here = self.choose_stop(now_ns)
            if here.kind in (CAFE, PARK) and (at_ns := find_talk(here.at_ns, stop.at_ns)) is not None:
                turn.wake_at(at_ns, TALKS)
            if here.at_ns == now_ns:
                turn.move(STREETS, here.cell)
            return
        others = (await turn.world.near(STREETS, self.id, radius=0)).keys
        if others:
            other = Draw(self.parameters.seed, self.id, now_ns // MINUTE_NS, 1).choice(sorted(others))
            turn.act("say", SAID, other, [self.id, self.knows(now_ns)])

    def choose_stop(self, now_ns: int) -> Any:
        """Where its routine has it now."""
        return self.routines.find_stop(self.id, now_ns)

    def listen(self, event: Event, now_ns: int, turn: Turn) -> None:
        """Somebody has said something; who began the conversation is answered."""
        told: Any = event.value
        speaker, tells = told
        knew = self.knows(now_ns)
        if tells and self.learned_ns is None:
            self.memory.keep_fact("learned_ns", now_ns)
        if event.path == SAID:
            turn.act("answer", ANSWERED, str(speaker), [self.id, knew])

    @property
    def learned_ns(self) -> int | None:
        """When it heard the rumour; None = not yet."""
        if not find_number(self.id):
            return ALWAYS_NS
        learned_ns: Any = self.memory.find_fact("learned_ns")
        return learned_ns

    def knows(self, now_ns: int) -> bool:
        """Whether it had heard the rumour before this moment."""
        return self.learned_ns is not None and self.learned_ns < now_ns


def find_talk(from_ns: int, to_ns: int) -> int | None:
    """When people talk between two times of a day."""
    times = (from_ns // DAY_NS * DAY_NS + minute * MINUTE_NS for minute in TALKING_MINUTES)
    return next((at_ns for at_ns in times if from_ns < at_ns < to_ns), None)


@dataclass(frozen=True, slots=True)
class Lived:
    """What the log tells of some days.

    Attributes:
        digest: of all moves and all that was said, by simulated time.
        moves: who went where, when (minute of simulated time).
        talks: who said something to whom, when, and whether that was the rumour.
        answers: the same of answers.
    """

    digest: str
    moves: list[tuple[int, str, tuple[int, int]]]
    talks: list[tuple[int, str, str, bool]]
    answers: list[tuple[int, str, str, bool]]


class Town:
    """A server, and a runtime with all residents; its clock stands until `live`. An async context manager."""

    def __init__(self, parameters: TownParameters, *, agent: str = "town:Resident", workers: int = 1) -> None:
        self.parameters = parameters
        self.residents = [f"r-{number}" for number in range(parameters.residents)]
        self.runtime: ServiceProcess | None = None
        self._agent = agent
        self._workers = workers
        self._services = Services()
        self._stack = AsyncExitStack()
        self._folder = Path()
        self._address = ""
        self._world: ecumene.World | None = None

    async def __aenter__(self) -> Self:
        try:
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="town-")))
            await self._stack.enter_async_context(self._services)
            data = str(self._folder / "world")
            server = await self._services.start(
                "env-server", ["--data-dir", data, "--port", "0", "--log-level", "warning"]
            )
            self._address = str(server.ready["address"])
            self._world = world = await self._stack.enter_async_context(ecumene.connect(self._address))
            for path in (TOWN, STAFF, SAID, ANSWERED):
                await world.environment(path).register()
            await world.environment(TOWN).change(clock=Clock.event_driven(participants_path=STAFF, paused=True))
            streets, routines = world.environment(STREETS), Routines(self.parameters)
            await streets.register(space=Grid(routines.map.width, routines.map.height))
            homes = [routines.find_home(name) for name in self.residents]
            (await streets.set_many(self.residents, [0] * len(homes), homes)).raise_failure()
            await self.start_runtime()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def start_runtime(self, *, resume: bool = False) -> None:
        """With all residents; `resume`: where another one has ended."""
        table = pa.table({"agent_id": self.residents})
        with (
            pa.OSFile(str(self._folder / "residents.arrow"), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as file,
        ):
            file.write_table(table)
        wake = [{"path": path, "key": "{agent}", "types": ["entry_set"]} for path in (SAID, ANSWERED)]
        group: dict[str, Any] = {
            "name": "residents",
            "agent": self._agent,
            "agents": "residents.arrow",
            "wake": wake,
            "clock": TOWN,
        }
        group |= {"first_wake_ns": 0, "parameters": self.parameters.model_dump()}
        spec = self._folder / "launch.json"
        launch = {"run": "town", "workers": self._workers, "groups": [group], "resume": resume}
        spec.write_text(json.dumps(launch), encoding="utf-8")
        # The class of the residents is found in this folder.
        found = {"PYTHONPATH": os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH", ""))))}
        self.runtime = await self._services.start(
            "runtime",
            ["--server", self._address, "--spec", str(spec)],
            environment=found,
            start_timeout_s=START_TIMEOUT_S,
        )

    async def kill_runtime(self) -> None:
        """With its workers, by SIGKILL; then another one goes on with its residents."""
        assert self.runtime is not None
        await self.runtime.kill()
        await self.start_runtime(resume=True)

    async def live(self, days: int, *, kill_on: Sequence[int] = ()) -> Lived:
        """Let days pass; at noon of some of them the runtime is killed. What happened, from the log."""
        assert self._world is not None, "enter the context first"
        clock = self._world.environment(TOWN).clock()
        halts = [*(day * ns(days=1) + ns(hours=12, minutes=40) for day in kill_on), days * ns(days=1)]
        async with asyncio.timeout(TIMEOUT_S), clock.participate("director", ttl_s=None, hears=[]) as director:
            director.wake_at(halts[0])
            await clock.resume()
            async for _ in director:
                if director.now_ns < halts[0]:
                    continue
                halts.pop(0)
                if not halts:
                    break
                director.wake_at(halts[0])
                await self.kill_runtime()
        return await self._read()

    async def _read(self) -> Lived:
        assert self._world is not None
        lived = Lived("", [], [], [])
        world, head = self._world, self._world.revision
        await world.environment(TOWN).set("end", 1)
        lines = []
        async with world.watch_frames(EventFilter(path_prefix=TOWN), from_revision=1) as watch:
            async for batch in watch:
                for event in batch:
                    minute = (event.sim_time_ns or 0) // MINUTE_NS
                    told: Any = event.value
                    if event.path == STREETS and event.type.name == "ENTRY_MOVED" and event.position is not None:
                        column, row = event.position
                        lived.moves.append((minute, event.key, (int(column), int(row))))
                        lines.append((minute, "moved", event.key, [int(column), int(row)]))
                    elif event.path in (SAID, ANSWERED) and event.type.name == "ENTRY_SET":
                        into = lived.talks if event.path == SAID else lived.answers
                        into.append((minute, told[0], event.key, told[1]))
                        lines.append((minute, event.path, event.key, list(told)))
                if batch.revisions[-1] > head:
                    break
        digest = blake2b(json.dumps(sorted(lines)).encode(), digest_size=16).hexdigest()
        return Lived(digest, sorted(lived.moves), sorted(lived.talks), sorted(lived.answers))


def count_knowing(lived: Lived, days: int) -> list[int]:
    """How many know the rumour at the end of each day."""
    learned = {"r-0": -1}
    for minute, _, to, tells in sorted([*lived.talks, *lived.answers]):
        if tells:
            learned.setdefault(to, minute)
    return [sum(minute < (day + 1) * 1440 for minute in learned.values()) for day in range(days)]


def _main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--residents", type=positive, default=60, metavar="N", help="how many live there (default: 60)")
    parser.add_argument("--days", type=positive, default=7, metavar="N", help="how long (default: 7)")
    parser.add_argument("--seed", type=int, default=1, help="what all chance follows from (default: 1)")
    workers = "processes that host them (default: 1); the digest is the same"
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help=workers)
    run_until_stopped(_live_and_tell(parser.parse_args()))


async def _live_and_tell(asked: argparse.Namespace) -> None:
    print("starting a server and a runtime ...", file=sys.stderr, flush=True)
    parameters = TownParameters(path=STREETS, seed=asked.seed, residents=asked.residents)
    async with Town(parameters, workers=asked.workers) as town:
        lived = await town.live(asked.days)
    print(f"{asked.residents} residents, {asked.days} days, seed {asked.seed}")
    print(f"{len(lived.moves)} moves, {len(lived.talks)} conversations")
    print("who knows the rumour at the end of each day:", *count_knowing(lived, asked.days))
    print("digest:", lived.digest)


if __name__ == "__main__":
    _main()
