"""`ecumene intervene seat`: a person in an agent's place, by lines: turns that wait go out, decisions come in."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import threading
from typing import Annotated, Any

import typer

from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, ServerOption, WorldOption, run_in_world
from ecumene.cli.failures import CliError, UsageError
from ecumene.cli.intervene_arguments import ActorOption, AgentArgument, CommentOption, RunArgument, parse_value
from ecumene.cli.tables import print_json, show_cell, to_document
from ecumene.client.errors import ClosedError, UnavailableError
from ecumene.client.runtime_errors import AgentNotFoundError, TurnOverError
from ecumene.client.runtime_model import SeatAction, SeatOutcome, SeatTurn
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.client.runtime_seat import NOTHING, RuntimeSeat
from ecumene.launch.node_runs import use_host

READ_BYTES = 65_536
REFUSED = "refused"
HELP = "a line reports its value; /set or /append PATH KEY VALUE change the world, /pass does nothing; Ctrl-D leaves"


def seat(
    run: RunArgument,
    agent: AgentArgument,
    actor: ActorOption,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds that a turn waits for you.", min=0.1, max=86_400)
    ] = 60.0,
    comment: CommentOption = "",
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Sit in an agent's place: each of its turns waits for a line of yours, then falls back to the agent.

    A line is what you report, JSON or a text. /set PATH KEY VALUE and /append PATH KEY VALUE change the world instead,
    /pass lets the turn end without an effect. The end of the input (Ctrl-D) gives the place back.
    """
    person = Person(agent, as_json)

    async def sit(node: RuntimeNode) -> None:
        while True:
            try:
                async with node.sit(run, agent, actor=actor, comment=comment, timeout_s=timeout) as taken:
                    return await person.play(taken, timeout)
            except TurnOverError as error:
                person.say(f"{error}; you take your seat again")
            except AgentNotFoundError as error:
                if not person.has_sat:
                    raise
                raise CliError(f"{agent} has left its node: run {run} was stopped there, or moved") from error
            except UnavailableError as error:
                if not person.has_sat:
                    raise
                raise CliError(f"the node has gone, and {agent} lives on elsewhere, without you") from error

    try:
        run_in_world(server, world, lambda opened: use_host(opened, run, sit, agent=agent))
    except ClosedError as error:
        raise CliError(f"{error}; {agent} decides by itself again") from error
    person.say(f"{agent} has its place again; you decided {person.decided:,} of {person.told:,} turns")


class Person:
    """One person, over all seats taken; lines of standard input are taken from the first one on."""

    def __init__(self, agent: str, as_json: bool) -> None:
        self.told = self.decided = 0
        self._agent = agent
        self._as_json = as_json
        self._is_there = sys.stdin.isatty()
        self._lines: asyncio.Queue[str | None] | None = None
        self._waiting: SeatTurn | None = None
        self._changed = asyncio.Condition()

    @property
    def has_sat(self) -> bool:
        """Whether a seat was taken, now or before."""
        return self._lines is not None

    async def play(self, taken: RuntimeSeat, timeout_s: float) -> None:
        """Sit there until the input or the seat ends. Raises EcumeneError."""
        if self._lines is None:
            self._lines = read_lines(asyncio.get_running_loop())
            told = [f"{name} {show_cell(value)}" for name, value in taken.profile.items() if name != "agent_id"]
            about = f" ({', '.join(told)})" if told else ""
            self.say(f"you sit in the place of {self._agent} of group {taken.group}{about}, noted as {taken.note}")
            self.say(f"each turn waits {timeout_s:g} s; {HELP}")
        telling = asyncio.create_task(self._tell(taken), name="seat turns")
        deciding = asyncio.create_task(self._decide(taken), name="seat decisions")
        try:
            await asyncio.wait({telling, deciding}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (telling, deciding):
                task.cancel()
            ends = await asyncio.gather(telling, deciding, return_exceptions=True)
        # Why the node ended the seat says more than that nothing can be sent any more.
        for end in ends:
            if isinstance(end, Exception):
                raise end
        if telling.done() and not telling.cancelled():
            raise ClosedError("the node has ended the seat")

    def say(self, text: str) -> None:
        """A line for people, out of the way of programs."""
        print(text, file=sys.stderr, flush=True)

    async def _tell(self, taken: RuntimeSeat) -> None:
        async for told in taken:
            async with self._changed:
                self._take(told)
                self._changed.notify_all()

    def _take(self, told: SeatTurn | SeatOutcome) -> None:
        if self._as_json:
            print_json(to_document(told))
        if isinstance(told, SeatTurn):
            self.told += 1
            self._waiting = told
            if not self._as_json:
                for event in told.events:
                    print(f"turn {told.turn}: {event['key']} at {event['path']}: {show_cell(event['value'])}")
                print(f"turn {told.turn}: {'report what?' if told.asks_report else 'do what?'}", flush=True)
            return
        if told.status != REFUSED:
            self._waiting = None
            self.decided += told.status == "ok"
        if not self._as_json:
            again = "; try again" if told.status == REFUSED else ""
            print(f"turn {told.turn}: {told.status}{f' ({told.reason})' if told.reason else ''}{again}", flush=True)

    async def _decide(self, taken: RuntimeSeat) -> None:
        """Send what the lines say. A person's word is for the turn that waits now; a program's can wait for a turn."""
        assert self._lines is not None
        while (line := await self._lines.get()) is not None:
            if not line.strip():
                continue
            async with self._changed:
                if not self._is_there:
                    await self._changed.wait_for(lambda: self._waiting is not None)
                turn = self._waiting
                try:
                    decision = read_decision(line)
                except UsageError as error:
                    self.say(f"{error}; {HELP}")
                    continue
                if turn is None:
                    self.say("no turn waits for you now")
                    continue
                await taken.decide(turn.turn, **decision)
                if not self._is_there:
                    await self._changed.wait()


def read_decision(line: str) -> dict[str, Any]:
    """What a line decides, as arguments of `RuntimeSeat.decide`. Raises UsageError."""
    text = line.strip()
    if not text.startswith("/"):
        return {"report": parse_value(text)}
    command, _, rest = text[1:].partition(" ")
    if command == "pass":
        return {"report": NOTHING}
    if command not in ("set", "append"):
        raise UsageError(f"/{command} is nothing that can be done here")
    try:
        path, key, value = shlex.split(rest)
    except ValueError:
        raise UsageError(f"/{command} needs a path, a key and a value, in quotes where they hold blanks") from None
    return {"actions": [SeatAction(command, path, key, parse_value(value), command)]}


def read_lines(loop: asyncio.AbstractEventLoop) -> asyncio.Queue[str | None]:
    """Lines of standard input as they come, then None. A thread: a terminal, a pipe and a file are read alike."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    def read() -> None:
        rest = b""
        try:
            while data := os.read(sys.stdin.fileno(), READ_BYTES):
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    loop.call_soon_threadsafe(lines.put_nowait, line.decode("utf-8", "replace"))
            if rest:
                loop.call_soon_threadsafe(lines.put_nowait, rest.decode("utf-8", "replace"))
            loop.call_soon_threadsafe(lines.put_nowait, None)
        except RuntimeError:
            pass  # the seat has ended, and the loop with it

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return lines
