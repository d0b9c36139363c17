"""Sets a pipeline on a fake world, for tests that tell of turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.dataset as ds
from ecumene.client import World
from ecumene.client.records import TurnStatus

from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import PartHeldError
from agent_runtime.model.parts import Part
from agent_runtime.ownership.cursors import Cursor
from agent_runtime.ownership.owner import OwnedPart
from agent_runtime.recording import Recorder
from agent_runtime.settings import Launch, WorkerConfig, parse_launch
from agent_runtime.worker.pipeline import Pipeline
from tests.unit.agent_runtime.fake_world import FakeWorld

WAKE = ({"path": "/game", "types": ["behaviour"], "key": "round.opened"},)
PLAYERS = "tests.unit.agent_runtime.players"


def write_agents(path: Path, ids: Sequence[str], **attributes: Sequence[Any]) -> Path:
    """An Arrow file of agents."""
    table = pa.table({"agent_id": pa.array(list(ids), pa.string()), **attributes})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path


def make_launch(
    folder: Path, agent: str, ids: Sequence[str], *, models: Mapping[str, Any] | None = None, **group: Any
) -> Launch:
    """A launch of one group, `g`, whose agents leave no memory in the world unless they are said to be resumable."""
    agents = write_agents(folder / "agents.arrow", ids)
    spec = {"name": "g", "agent": agent, "agents": str(agents), "wake": list(WAKE), "resumable": False, **group}
    if models:
        spec.setdefault("model", next(iter(models)))
    return parse_launch({"run": "r", "groups": [spec], "models": models or {}, "worker": {"stop_timeout_s": 2}})


class FakeOwner:
    """Owns every part; keeps its last cursor as the world would."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self.cursors: dict[str, Cursor] = {}
        self.held: set[str] = set()

    async def take(self, part: Part, *, from_revision: int, wait_s: float) -> OwnedPart:
        """Own a part, where its cursor stands."""
        if part.name in self.held:
            raise PartHeldError(part.name, wait_s)
        self.held.add(part.name)
        self._world.revision += 1
        self._world.store("/runtime/runs/r/parts", part.name, 1)
        is_new = part.name not in self.cursors
        cursor = self.cursors.setdefault(part.name, Cursor.at_start(part, from_revision - 1))
        term = self._world.revision
        return OwnedPart(part, term, cast(World, self._world), cursor, FakeCursorStore(self, part.name), is_new)

    async def give_back(self, owned: OwnedPart) -> None:
        """Own it no more."""
        self.held.discard(owned.part.name)

    async def close(self) -> None:
        """Give back everything."""
        self.held.clear()


class FakeCursorStore:
    """Keeps the cursor of a part."""

    def __init__(self, owner: FakeOwner, part: str) -> None:
        self._owner = owner
        self._part = part

    async def write(self, cursor: Cursor) -> None:
        """Keep it."""
        self._owner.cursors[self._part] = cursor


class Stage:
    """A running pipeline, its world, and what was recorded once it has stopped."""

    def __init__(self, pipeline: Pipeline, world: FakeWorld, folder: Path, owner: FakeOwner) -> None:
        self.pipeline = pipeline
        self.world = world
        self.owner = owner
        self.lost: list[tuple[str, str]] = []
        self._folder = folder

    @property
    def statuses(self) -> dict[str, int]:
        return {status.value: count for status, count in self.pipeline.records.statuses.items()}

    async def wait_turns(self, count: int, timeout_s: float = 10.0) -> None:
        """Until so many turns have ended."""
        await wait_until(lambda: sum(self.pipeline.records.statuses.values()) >= count, timeout_s)

    def read(self, table: str) -> list[dict[str, Any]]:
        """Recorded rows; call it after the stage has closed."""
        folder = self._folder / table
        rows: list[dict[str, Any]] = ds.dataset(folder).to_table().to_pylist() if any(folder.glob("*")) else []
        return rows


async def wait_until(holds: Any, timeout_s: float = 10.0) -> None:
    """Let the loop run until something holds; fails after `timeout_s`."""
    async with asyncio.timeout(timeout_s):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.001)


@asynccontextmanager
async def set_stage(
    folder: Path, launch: Launch, world: FakeWorld | None = None, owner: FakeOwner | None = None, source: str = "w"
) -> AsyncIterator[Stage]:
    """Start the pipeline of a launch, one part a group, with recording; stop it at the end."""
    world = world or FakeWorld()
    owner = owner or FakeOwner(world)
    recorder = Recorder(folder / "rec", run=launch.run, source=source)
    recorder.start()
    parts = tuple(
        Part(group=group.name, number=0, first=0, end=pa.ipc.open_file(str(group.agents)).read_all().num_rows)
        for group in launch.groups
    )
    config = WorkerConfig(server="", world="fake", index=0, launch=launch, parts=parts)
    lost: list[tuple[str, str]] = []
    pipeline = Pipeline(
        config, cast(World, world), recorder, Clock.system(), owner, lambda part, why: lost.append((part, why))
    )
    stage = Stage(pipeline, world, folder / "rec", owner)
    stage.lost = lost
    try:
        await pipeline.start()
        yield stage
    finally:
        try:
            await pipeline.stop()
        finally:
            await asyncio.to_thread(recorder.close)


def by_agent(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Status of each agent's (only) turn."""
    return {row["agent"]: row["status"] for row in rows}


ALL_STATUSES = {status.value for status in TurnStatus}
