"""Makes a run ready on a node: what was launched before, or is launched now, with its files written and checked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agent_runtime.launching.parts import plan_parts
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part
from agent_runtime.model.refusals import NodeError, Refusal
from agent_runtime.node.launches import Ready, fill_paths, open_launch, refuse_launch
from agent_runtime.node.logs import NodeLog
from agent_runtime.node.populations import Arriving, fetch_chunks, run_folder, write_files
from agent_runtime.node.records import Description, Population, Records
from agent_runtime.node.rights import confine
from agent_runtime.node.settings import NodeSettings
from agent_runtime.settings import Launch


class Preparing:
    """For one node."""

    def __init__(self, settings: NodeSettings, records: Records, log: NodeLog) -> None:
        self._settings = settings
        self._records = records
        self._log = log

    async def describe(
        self, run: str, document: dict[str, Any], parts: tuple[Part, ...], arriving: Arriving
    ) -> tuple[Description, Ready]:
        """A run as it was launched before, or as it is launched now.

        Raises:
            NodeError: LAUNCH_REFUSED, RUN_EXISTS.
            EcumeneError: the world cannot be reached.
        """
        launch = fill_paths(document, {})
        arriving.check_groups([g.name for g in launch.groups if not g.agents.is_absolute()])
        known = await self._records.read(run)
        if known is None:
            return await self._describe_new(run, document, launch, parts, arriving)
        fresh = Description(run, document, parts, {})
        if known.spec_hash != fresh.spec_hash or (parts and parts != known.parts):
            raise refuse_other(run)
        # What is hosted is what the world keeps: other nodes have it, and workers map the file.
        chunks = await fetch_chunks(self._records, known)
        if not arriving.is_of(chunks):
            raise refuse_other(run)
        arriving.chunks = {}
        return known, await self.prepare(known, chunks)

    async def take(self, description: Description) -> Ready:
        """A run of which everything stands in the world. Raises NodeError, EcumeneError."""
        return await self.prepare(description, await fetch_chunks(self._records, description))

    async def prepare(self, description: Description, chunks: Mapping[str, list[bytes]]) -> Ready:
        """Write the files of a run, and check it. Raises NodeError."""
        try:
            # Before anything is written: what it may not have is refused as it is.
            confine(fill_paths(description.document, {}), self._settings)
            folder = run_folder(self._settings.scratch, description.run)
            files = await asyncio.to_thread(write_files, folder, chunks)
            launch = confine(fill_paths(description.document, files), self._settings)
            launch = launch.model_copy(update={"node": self._settings.name})
            return await asyncio.to_thread(open_launch, launch, description.parts)
        except LaunchError as error:
            self._log.write(f"run {description.run} is refused: {' '.join(str(error).split())}")
            raise refuse_launch(error, tells_causes=self._settings.tells_causes) from None

    async def _describe_new(
        self, run: str, document: dict[str, Any], launch: Launch, parts: tuple[Part, ...], arriving: Arriving
    ) -> tuple[Description, Ready]:
        missing = [g.name for g in launch.groups if not g.agents.is_absolute() and g.name not in arriving.chunks]
        if missing:
            problem = "no agents were sent, none are kept in the world, and no file of them is named"
            raise refuse_launch(LaunchError(f"groups.{missing[0]}.agents", problem))
        populations = {
            g.name: Population(path=str(g.agents)) if g.agents.is_absolute() else arriving.describe(g.name)
            for g in launch.groups
        }
        described = Description(run, document, parts, populations)
        ready = await self.prepare(described, arriving.chunks)
        if not parts:
            planned = plan_parts(ready.launch, ready.tables, self._settings.workers)
            described = Description(run, document, planned, populations)
        return described, ready


def choose_parts(description: Description, hosted: list[str]) -> list[Part]:
    """The parts of a run that are to be hosted here. Raises NodeError: there is no such part."""
    by_name = {part.name: part for part in description.parts}
    if stray := [name for name in hosted if name not in by_name]:
        raise NodeError(Refusal.PART_NOT_FOUND, f"no such part: {stray[0]!r}", run=description.run, part=stray[0])
    return [by_name[name] for name in dict.fromkeys(hosted)] if hosted else list(description.parts)


def refuse_other(run: str) -> NodeError:
    """A run that was launched otherwise."""
    message = f"run {run!r} was launched with another description, other parts or other agents"
    return NodeError(Refusal.RUN_EXISTS, message, run=run)
