"""docs/runtime.md: its commands run, in their order, on real nodes, and say what the page says."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from ecumene.client import EventFilter, EventType, connect

from tests.journey.conftest import RunningServer
from tests.journey.test_nodes import Nodes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "runtime.md"


def test_the_commands_of_the_page_run(server: RunningServer, tmp_path: Path) -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    nodes = Nodes(server.address, tmp_path)
    printed: list[str] = []
    try:
        for language, code in blocks:
            if language == "console":
                for line in code.splitlines()[1:]:
                    # The page is read in the folder, nodes of tests are started in another.
                    words = [
                        str(tmp_path / word) if word == "runs" else word for word in shlex.split(line.rstrip("& "))
                    ]
                    nodes.start(words[words.index("--name") + 1], *words[words.index("--name") + 2 :])
            elif language == "json":
                (tmp_path / "launch.json").write_text(code, encoding="utf-8")
            elif language == "yaml":
                (tmp_path / "guess.yaml").write_text(code, encoding="utf-8")
            elif language == "python":
                printed.append(run_python(code, server.address, tmp_path))
            else:
                printed += [run(line, server.address, tmp_path) for line in code.splitlines()]
    finally:
        for name in list(nodes.processes):
            nodes.stop(name)
    text = "\n".join(printed)
    shown = ("zone=x", "I am player-7", "agent,group,status,mood,again,reason", "ok", "gave 500 agents back")
    for part in shown:
        assert part in text
    assert "stopped monday: 1,000 agents" in text and "cleaned up monday" in text
    assert "220 of 220" in text


def run(line: str, server: str, folder: Path) -> str:
    """One command of the page, against the test's server."""
    words = shlex.split(line)
    assert words[0] == "ecumene"
    environment = {**os.environ, "ECUMENE_SERVER": server}
    command = [sys.executable, "-m", "ecumene.cli", *words[1:]]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


def run_python(code: str, server: str, folder: Path) -> str:
    """A block of Python in the folder; a function `play` is given a world, and a round to play."""
    names: dict[str, Any] = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        exec(compile(code, str(PAGE), "exec"), names)
        if "play" in names:
            return str(asyncio.run(play(server, names["play"])))
    finally:
        os.chdir(before)
    return ""


async def play(server: str, play_seat: Any) -> str:
    async with connect(server) as world:

        async def rounds() -> None:
            # The seat is taken when its note stands there.
            notes = world.environment("/runtime/runs/monday/interventions")
            async with asyncio.timeout(20):
                while not await is_noted(notes):  # noqa: ASYNC110 - what is waited for is another process's
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
            game = world.environment("/game")
            async with world.watch_frames(EventFilter(path_prefix="/game", types=(EventType.GATE_OPENED,))) as watch:
                opened: Any = await game.invoke("open_round", participants=1000)
                await asyncio.wait_for(anext(watch), 20)
            await game.invoke("close_round", generation=opened["generation"])

        status = str(await play_seat(world, rounds))
        assert await world.environment("/game/reports").value("player-7") == 33.0
        return status


async def is_noted(notes: Any) -> bool:
    """Whether somebody took a seat."""
    return "seat" in [entry.value["kind"] async for entry in notes.entries()]
