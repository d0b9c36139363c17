"""A person sits in an agent's place, from a terminal: decides, is refused, is late, hangs up; the game goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import EventFilter, EventType, connect

from tests.journey.conftest import RunningServer
from tests.journey.test_nodes import AGENTS, RUN, Nodes, call, make_game, read, read_notes, write_launch

SEATED = "rule-7"
OWN = 50 * 2 / 3
AT_ONCE_S = 10.0


class Terminal:
    """`ecumene intervene seat`, with lines to and from it."""

    def __init__(self, server: RunningServer, *arguments: str) -> None:
        command = [sys.executable, "-m", "ecumene.cli", "intervene", "seat", RUN, SEATED, "--actor", "ann", *arguments]
        self.process = subprocess.Popen(
            [*command, "--server", server.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hear(self, *, of: Any = None) -> str:
        stream = of or self.process.stdout
        line = stream.readline()
        assert line, "it has ended"
        return str(line.rstrip("\n"))

    def wait_seated(self) -> None:
        """Until the place is taken."""
        said = self.hear(of=self.process.stderr)
        assert said.startswith(f"you sit in the place of {SEATED} of group rules, noted as "), said
        assert "Ctrl-D" in self.hear(of=self.process.stderr)

    def leave(self) -> tuple[int, str]:
        """The end of the input; exit code, and the last line for people."""
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors.splitlines()[-1]


@pytest.fixture
def game(server: RunningServer, tmp_path: Path) -> Iterator[Nodes]:
    """A run on one node, in a game."""
    nodes = Nodes(server.address, tmp_path)
    nodes.start("a")
    asyncio.run(make_game(server.address))
    read(server, "nodes", "launch", str(write_launch(tmp_path)))
    yield nodes
    for name in list(nodes.processes):
        nodes.stop(name)


async def play_round(address: str, meanwhile: Callable[[], None]) -> tuple[float, float]:
    """A round in which something is done; what stands for the seated agent, and how long the round was."""
    async with connect(address) as world:
        board = world.environment("/game")
        began_s = time.monotonic()
        async with world.watch_frames(EventFilter(path_prefix="/game", types=(EventType.GATE_OPENED,))) as watch:
            opened: Any = await board.invoke("open_round", participants=2 * AGENTS)
            await asyncio.to_thread(meanwhile)
            await asyncio.wait_for(anext(watch), 40)
        lasted_s = time.monotonic() - began_s
        closed: Any = await board.invoke("close_round", generation=opened["generation"])
        assert closed["reported"] == 2 * AGENTS
        return float(await world.environment("/game/reports").value(SEATED)), lasted_s  # type: ignore[arg-type]


@pytest.mark.timeout(180)
def test_a_person_decides_is_refused_is_late_and_hangs_up(server: RunningServer, game: Nodes) -> None:
    person = Terminal(server, "--timeout", "60", "--comment", "to see")
    person.wait_seated()

    def decide() -> None:
        assert person.hear().startswith('turn 1: round.opened at /game: {"round": 1, ')
        assert person.hear() == "turn 1: report what?"
        person.say("a lot")
        assert person.hear().startswith("turn 1: refused (")
        person.say("12.5")
        assert person.hear() == "turn 1: ok"

    assert asyncio.run(play_round(server.address, decide))[0] == 12.5
    taken = call(server, "intervene", "seat", RUN, SEATED, "--actor", "bob", code=1)
    assert taken.stderr == f"ecumene: somebody sits in the place of {SEATED!r} already\n"
    assert person.leave() == (0, f"{SEATED} has its place again; you decided 1 of 1 turns")
    notes = asyncio.run(read_notes(server.address))
    assert [(note["kind"], note["actor"], note["comment"]) for note in notes] == [("seat", "ann", "to see")]

    late = Terminal(server, "--timeout", "1")
    late.wait_seated()

    def wait() -> None:
        late.hear()
        assert late.hear() == "turn 2: report what?"
        assert late.hear() == "turn 2: fallback (no word from the seat within 1 s)"

    number, lasted_s = asyncio.run(play_round(server.address, wait))
    assert number != 12.5 and 1 <= lasted_s < AT_ONCE_S
    assert late.leave() == (0, f"{SEATED} has its place again; you decided 0 of 1 turns")

    gone = Terminal(server, "--timeout", "600")
    gone.wait_seated()

    def hang_up() -> None:
        gone.hear()
        gone.process.kill()

    number, lasted_s = asyncio.run(play_round(server.address, hang_up))
    assert lasted_s < AT_ONCE_S, "nobody waits for who has gone"
    gone.process.communicate()

    programs = Terminal(server, "--json", "--timeout", "60")
    programs.wait_seated()
    programs.say("3")  # for the turn to come
    asyncio.run(play_round(server.address, lambda: None))
    assert programs.leave() == (0, f"{SEATED} has its place again; you decided 1 of 1 turns")


@pytest.mark.timeout(120)
def test_a_seat_whose_run_or_node_ends_says_so(server: RunningServer, game: Nodes, tmp_path: Path) -> None:
    person = Terminal(server, "--timeout", "60")
    person.wait_seated()
    assert "stopped monday" in call(server, "nodes", "stop", RUN).stdout
    assert person.process.wait(20) == 1
    assert person.leave() == (1, f"ecumene: {SEATED} has left its node: run {RUN} was stopped there, or moved")

    read(server, "nodes", "launch", str(tmp_path / "launch.json"))
    person = Terminal(server, "--timeout", "60")
    person.wait_seated()
    assert game.stop("a") == 0
    assert person.process.wait(20) == 1
    assert person.leave() == (1, f"ecumene: the node has gone, and {SEATED} lives on elsewhere, without you")
    refused = call(server, "intervene", "seat", RUN, SEATED, "--actor", "ann", code=1)
    assert refused.stderr == "ecumene: no node of world main hosts a run 'monday'\n"
