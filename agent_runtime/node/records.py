"""What the world keeps of runs on nodes, so that any node can go on with any part; where: see `ownership.places`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ecumene.client import (
    EntryNotFoundError,
    EnvironmentExistsError,
    EnvironmentNotFoundError,
    FencedError,
    PreconditionFailedError,
    World,
)
from ecumene.client.waking import RUNS

from agent_runtime.model.parts import Part
from agent_runtime.node.run_names import is_run_name
from agent_runtime.ownership.clock_place import leave_clocks
from agent_runtime.ownership.places import NODES, RUNTIME, RunPlaces, make_node_places, register_all

COMPLETE = "complete"
SPEC_HASH = "spec-hash"
GROUP_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
CHUNKS_MAX = 100_000
"""Of one population: far more than a launch may bring."""
WRITES_AT_A_TIME = 3
TRANSACTION_OPS = 100


@dataclass(frozen=True, slots=True)
class Population:
    """Where the agents of a group are: in chunks of the world, or at a path that all nodes share."""

    chunks: int = 0
    size_bytes: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """A run as it was launched: the same for ever."""

    run: str
    document: Mapping[str, Any]
    parts: tuple[Part, ...]
    populations: Mapping[str, Population]

    @property
    def spec_hash(self) -> str:
        """Hash of the launch description, populations left out."""
        return hash_document(self.document)


@dataclass(frozen=True, slots=True)
class Placement:
    """Which node is to host a part. `version` is for changing it."""

    node: str
    refused: tuple[str, ...]
    version: int


def hash_document(document: Mapping[str, Any]) -> str:
    """Hash of a launch description."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Records:
    """Reads and writes them. All methods raise EcumeneError when the world refuses or cannot be reached."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def prepare(self) -> None:
        """Make the places that all runs share."""
        await register_all(self.world, (RUNTIME, NODES, RUNS))

    async def list_nodes(self) -> dict[str, dict[str, Any]]:
        """The living nodes, by name."""
        found = {entry.key: entry.value async for entry in self.world.environment(NODES).entries()}
        return {name: value for name, value in found.items() if isinstance(value, dict)}

    async def list_runs(self) -> list[str]:
        """Names of the runs whose description and populations are all there."""
        runs = self.world.environment(RUNS).children(labels={COMPLETE: "yes"})
        return [found.path.rpartition("/")[2] async for found in runs]

    async def read(self, run: str) -> Description | None:
        """A run that was launched; None if there is none, or its launch did not come to its end."""
        try:
            found = await self.world.environment(RunPlaces(run).path).describe()
        except EnvironmentNotFoundError:
            return None
        if found.labels.get(COMPLETE) != "yes" or not isinstance(found.config, dict):
            return None
        return read_description(run, found.config)

    async def write(self, description: Description, chunks: Mapping[str, Sequence[bytes]]) -> None:
        """Keep a run: its description, and populations in chunks. Repeating it is harmless.

        Raises:
            EnvironmentExistsError: a run of the name has another description.
        """
        place = self.world.environment(RunPlaces(description.run).path)
        labels = {SPEC_HASH: description.spec_hash, COMPLETE: "no"}
        try:
            await place.register(labels=labels, config=write_description(description))
        except EnvironmentExistsError:
            if (await place.describe()).labels.get(SPEC_HASH) != description.spec_hash:
                raise
        places = RunPlaces(description.run)
        await make_node_places(self.world, places)
        population = self.world.environment(places.population)
        named = [(f"{group}.{n:06d}", chunk) for group, some in chunks.items() for n, chunk in enumerate(some)]
        for start in range(0, len(named), WRITES_AT_A_TIME):
            await asyncio.gather(*(population.set(*one) for one in named[start : start + WRITES_AT_A_TIME]))
        await place.change(set_labels={COMPLETE: "yes"})

    async def read_chunk(self, run: str, group: str, number: int) -> bytes:
        """A chunk of a population. Raises EntryNotFoundError."""
        value = (await self.world.environment(RunPlaces(run).population).get(f"{group}.{number:06d}")).value
        return value if isinstance(value, bytes) else b""

    async def list_owned(self, run: str) -> dict[str, int]:
        """The parts that somebody owns, each with its term."""
        return {part: entry.create_revision for part, entry in (await self._entries(RunPlaces(run).parts)).items()}

    async def list_placed(self, run: str) -> dict[str, Placement]:
        """Where the parts are placed."""
        found = {}
        for part, entry in (await self._entries(RunPlaces(run).placed)).items():
            value = entry.value if isinstance(entry.value, dict) else {}
            refused = value.get("refused")
            names = tuple(map(str, refused)) if isinstance(refused, list) else ()
            found[part] = Placement(str(value.get("node", "")), names, entry.version)
        return found

    async def list_ended(self, run: str) -> dict[str, str]:
        """The parts that nobody is to host, each with the reason."""
        entries = await self._entries(RunPlaces(run).ended)
        values = {part: entry.value if isinstance(entry.value, dict) else {} for part, entry in entries.items()}
        return {part: str(value.get("reason", "")) for part, value in values.items()}

    async def list_muted(self, run: str) -> set[str]:
        """Ids of the muted agents."""
        return set(await self._entries(RunPlaces(run).muted))

    async def place(self, run: str, parts: Sequence[str], node: str) -> None:
        """Say that a node is to host parts that were launched on it, ended ones too."""
        for start in range(0, len(parts), TRANSACTION_OPS // 2):
            transaction = self.world.transaction()
            for part in parts[start : start + TRANSACTION_OPS // 2]:
                transaction.set(RunPlaces(run).placed, part, {"node": node})
                transaction.delete(RunPlaces(run).ended, part, if_present=True)
            await transaction.commit()

    async def claim(self, run: str, part: str, node: str, version: int) -> bool:
        """Take a part over if nobody was quicker: if its placement is still the one seen, and nobody owns it."""
        transaction = self.world.transaction()
        transaction.require(RunPlaces(run).placed, part, expect_version=version)
        transaction.require(RunPlaces(run).parts, part, absent=True)
        transaction.set(RunPlaces(run).placed, part, {"node": node})
        try:
            await transaction.commit()
        except (PreconditionFailedError, EnvironmentNotFoundError):
            return False
        return True

    async def hand_over(self, run: str, parts: Sequence[str], node: str, *, refused: bool) -> None:
        """Let other nodes take parts that are placed on `node`; `refused`: it does not take them again by itself."""
        placed = await self.list_placed(run)
        for part in parts:
            known = placed.get(part)
            if known is not None and known.node == node:
                names = sorted({*known.refused, node}) if refused else list(known.refused)
                value: dict[str, Any] = {"node": "", "refused": names}
                try:
                    await self.world.environment(RunPlaces(run).placed).set(part, value, expect_version=known.version)
                except (PreconditionFailedError, EnvironmentNotFoundError):
                    pass  # somebody has it already, or the run is gone

    async def end(self, run: str, parts: Sequence[str], node: str, reason: str) -> None:
        """Say that nobody is to host these parts any more."""
        for start in range(0, len(parts), TRANSACTION_OPS):
            transaction = self.world.transaction()
            for part in parts[start : start + TRANSACTION_OPS]:
                transaction.set(RunPlaces(run).ended, part, {"node": node, "reason": reason})
            try:
                await transaction.commit()
            except EnvironmentNotFoundError:
                return

    async def free(self, run: str, part: str, term: int) -> None:
        """Delete the entry of a part whose owner is known to be dead, unless somebody else owns it by now."""
        try:
            await self.world.environment(RunPlaces(run).parts).delete(part, created_revision=term)
        except (FencedError, EntryNotFoundError, EnvironmentNotFoundError):
            pass

    async def delete(self, run: str) -> bool:
        """Delete all that is kept of a run, its places at clocks included; returns whether there was something."""
        if (description := await self.read(run)) is not None:
            await leave_clocks(self.world, run, list_timers(description))
        done = await self.world.environment(RunPlaces(run).path).unregister(recursive=True, if_present=True)
        return done.changed

    async def _entries(self, path: str) -> dict[str, Any]:
        try:
            return {entry.key: entry async for entry in self.world.environment(path).entries()}
        except EnvironmentNotFoundError:
            return {}


def list_timers(description: Description) -> list[tuple[str, str]]:
    """Parts whose agents may wake at times, with the clocks by which they live."""
    groups = description.document.get("groups", ())
    clocks = {group["name"]: group["clock"] for group in groups if group.get("clock")}
    return [(part.name, clocks[part.group]) for part in description.parts if part.group in clocks]


def write_description(description: Description) -> dict[str, Any]:
    """A description as it stands in the world."""
    return {
        "launch": dict(description.document),
        "parts": [[part.group, part.number, part.first, part.end] for part in description.parts],
        "populations": {
            group: {"chunks": one.chunks, "bytes": one.size_bytes, "path": one.path}
            for group, one in description.populations.items()
        },
    }


def read_description(run: str, config: Mapping[str, Any]) -> Description | None:
    """A description as it stands in the world; None if this is none that we wrote."""
    launch = config.get("launch")
    if not is_run_name(run) or not isinstance(launch, dict) or launch.get("run") != run:
        return None
    try:
        parts = tuple(
            Part(group=group, number=number, first=first, end=end) for group, number, first, end in config["parts"]
        )
        populations = {group: _read_population(group, one) for group, one in config["populations"].items()}
        return Description(run, launch, parts, populations)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _read_population(group: str, kept: Mapping[str, Any]) -> Population:
    """Raises ValueError, KeyError, TypeError for one that we did not write: its group names a file on every node."""
    chunks, size_bytes, path = kept["chunks"], kept["bytes"], kept["path"]
    if not GROUP_NAME.fullmatch(group) or not isinstance(chunks, int) or not 0 <= chunks <= CHUNKS_MAX:
        raise ValueError(group)
    return Population(chunks, int(size_bytes), str(path))
