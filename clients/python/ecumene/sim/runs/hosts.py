"""Where the agents of a run live: in a runtime of its own, on a node of its own, or on the nodes of its world."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from ecumene.client.reasons import EnvironmentNotFoundError
from ecumene.client.runtime_errors import RunNotFoundError
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.client.world import World
from ecumene.launch import ServiceProcess
from ecumene.launch.launch_files import read_launch
from ecumene.launch.node_runs import NODES_PATH, launch_run, stop_run
from ecumene.sim.runs.launch import mark_resumed
from ecumene.sim.specs.models import EndpointSpec, ModelSpec

RUNTIME_STOP_TIMEOUT_S = 30.0
NODE_FOLDER = ".node"
"""In the run's directory, while a node of its own lives."""


class Starter(Protocol):
    """Who starts services for a run."""

    @property
    def run(self) -> str:
        """Name of the run."""

    @property
    def is_resumed(self) -> bool:
        """Whether it is not the first life of the run."""

    async def start_runtime(self, arguments: Sequence[str]) -> ServiceProcess:
        """Start a runtime that ends with the run."""


class OwnRuntime:
    """The agents live in a runtime that is started for the run."""

    def __init__(self, stage: Starter, world: World, server: str, launch_path: Path) -> None:
        self._stage = stage
        self._world = world
        self._server = server
        self._launch_path = launch_path
        self._process: ServiceProcess | None = None

    async def clear(self) -> None:
        """Take its parts from workers that are gone, instead of waiting for the end of their leases."""
        if not self._stage.is_resumed:
            return
        place = self._world.environment(f"/runtime/runs/{self._stage.run}")
        try:
            await place.describe()
        except EnvironmentNotFoundError:
            return  # it was killed before it was launched
        await asyncio.to_thread(mark_resumed, self._launch_path)
        parts = place.child("parts")
        try:
            held = [entry.key async for entry in parts.entries()]
        except EnvironmentNotFoundError:
            return
        await asyncio.gather(*(parts.delete(key, if_present=True) for key in held))

    async def start(self) -> None:
        """Launch."""
        places = ["--server", self._server, "--world", self._world.name]
        self._process = await self._stage.start_runtime([*places, "--spec", str(self._launch_path)])

    async def stop(self) -> None:
        """Let it end in order."""
        if self._process is not None:
            await self._process.stop(RUNTIME_STOP_TIMEOUT_S)


class NodeAgents:
    """The agents live on the nodes of the world, and are stopped there when the run ends."""

    def __init__(self, world: World, run: str, launch_path: Path, is_resumed: bool) -> None:
        self._world = world
        self._run = run
        self._launch_path = launch_path
        self._is_resumed = is_resumed

    async def clear(self) -> None:
        """Stop what lives of the run: nodes go on when its conductor is gone, and may hold what was not paid for."""
        if self._is_resumed:
            await self._stop()

    async def start(self) -> None:
        """Launch where there is room; a launch that an earlier conductor began is brought to its end."""
        document, agents = await asyncio.to_thread(read_launch, self._launch_path)
        await launch_run(self._world, document, agents)

    async def stop(self) -> None:
        """Let them end in order."""
        await self._stop()

    async def _stop(self) -> None:
        try:
            await stop_run(self._world, self._run)
        except RunNotFoundError:
            pass


class OwnNode(NodeAgents):
    """The agents live on a node that is started for the run: it can be asked for them, as any node can."""

    def __init__(
        self, stage: Starter, world: World, server: str, launch_path: Path, *, workers: int, models: Iterable[ModelSpec]
    ) -> None:
        super().__init__(world, stage.run, launch_path, stage.is_resumed)
        self._stage = stage
        self._arguments = ["--server", server, "--world", world.name, "--workers", str(workers)]
        # Launched by whoever conducts the run, it may use what he may.
        self._scratch = launch_path.parent.parent / NODE_FOLDER
        self._arguments += ["--records", "/", "--scratch", str(self._scratch), "--tell-causes"]
        for secret in list_secrets(models):
            self._arguments += ["--secret", secret]
        self._name = f"own.{blake2b(stage.run.encode(), digest_size=8).hexdigest()}"
        self._process: ServiceProcess | None = None

    async def clear(self) -> None:
        """Take name and parts from a node that is gone, instead of waiting for the end of its leases."""
        if not self._is_resumed:
            return
        await _delete_all(self._world, NODES_PATH, self._name)
        await _delete_all(self._world, f"/runtime/runs/{self._run}/parts")

    async def start(self) -> None:
        """Start the node, and launch on it alone, whoever else lives in the world."""
        self._process = await self._stage.start_runtime([*self._arguments, "--name", self._name])
        document, agents = await asyncio.to_thread(read_launch, self._launch_path)
        streams = {name: one.stream for name, one in agents.items() if one.stream}
        async with RuntimeNode(str(self._process.ready["address"])) as node:
            await node.launch(json.dumps(document, ensure_ascii=False).encode(), streams)

    async def stop(self) -> None:
        """Let them end in order, then the node."""
        await super().stop()
        if self._process is not None:
            await self._process.stop(RUNTIME_STOP_TIMEOUT_S)
        await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)


def list_secrets(models: Iterable[ModelSpec]) -> list[str]:
    """The variables and files of keys that models name."""
    holders: list[ModelSpec | EndpointSpec] = []
    for model in models:
        holders += [model, *model.endpoints]
    named = [one.api_key_variable or (one.api_key_file and str(one.api_key_file.resolve())) for one in holders]
    return sorted({secret for secret in named if secret})


async def _delete_all(world: World, path: str, only: str = "") -> None:
    """Delete the entries of an environment, if it is there; or `only` one."""
    place = world.environment(path)
    try:
        held = [entry.key async for entry in place.entries() if only in ("", entry.key)]
        await asyncio.gather(*(place.delete(key, if_present=True) for key in held))
    except EnvironmentNotFoundError:
        pass
