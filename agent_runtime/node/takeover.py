"""Parts that have lost their owner: seen by watching, taken over by the first node that has room and fits.

    entry of a part gone ─► is its node living? ─ yes ─► that node's to see to (its worker is asked, or killed)
                                    └─ no ─► claim its placement, by compare and set ─► host it

A part that was ended (stopped, given up) is nobody's. A placement that names a living node is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from ecumene.client import EcumeneError, EventFilter, EventType, World
from ecumene.client.waking import RUNS

from agent_runtime.model.clock import Clock
from agent_runtime.model.parts import Part
from agent_runtime.model.refusals import NodeError
from agent_runtime.node.logs import NodeLog
from agent_runtime.node.records import Description, Placement, Records
from agent_runtime.node.settings import NodeSettings
from agent_runtime.ownership.places import NODES

GONE = (EventType.ENTRY_DELETED, EventType.MEMBER_LEFT, EventType.MEMBER_EXPIRED)
SETTLE_S = 0.05
"""Events that come together are looked at together."""


class Taker(Protocol):
    """The node, as the takeover sees it."""

    def has(self, run: str, part: str) -> bool:
        """Whether the part is here."""

    def fits(self, description: Description, part: Part, beside: list[Part]) -> bool:
        """Whether the node has room for a part beside others that are about to come, and what its group needs."""

    async def take(self, description: Description, parts: list[Part]) -> None:
        """Host parts that are placed here. Raises NodeError, EcumeneError."""

    def check_silent(self, run: str, part: str) -> None:
        """The entry of a part is gone."""


class Takeover:
    """Looks for lost parts: when one is lost, when a node is gone, and every now and then."""

    def __init__(
        self, world: World, records: Records, settings: NodeSettings, taker: Taker, log: NodeLog, clock: Clock
    ) -> None:
        self._world = world
        self._records = records
        self._settings = settings
        self._taker = taker
        self._log = log
        self._clock = clock
        self._news = asyncio.Event()
        self._refused_s: dict[tuple[str, str, int], float] = {}
        """When the refusal of a placement was seen first; the last number is the placement's version."""
        self._ended: dict[str, dict[str, int]] = {}
        """Runs of which all lost parts have ended, with the versions of their placements."""

    async def watch(self) -> None:
        """See entries go, until cancelled."""
        parts = EventFilter(path_glob=f"{RUNS}/*/parts", types=GONE)
        async with self._world.watch(parts) as watch:
            async for event in watch:
                run = event.path.split("/")[3]
                self._taker.check_silent(run, event.key)
                self._news.set()

    async def watch_nodes(self) -> None:
        """See nodes go, until cancelled."""
        async with self._world.watch(EventFilter(path_prefix=NODES, types=GONE)) as watch:
            async for _ in watch:
                self._news.set()

    async def run(self) -> None:
        """Take over what fits, until cancelled."""
        while True:
            try:
                await self.look()
            except EcumeneError as error:
                self._log.write(f"cannot look for lost parts: {error}")
            self._news.clear()
            try:
                async with asyncio.timeout(self._settings.look_every_s):
                    await self._news.wait()
                    await asyncio.sleep(SETTLE_S)
            except TimeoutError:
                pass

    async def look(self) -> None:
        """Look at every run once."""
        nodes = await self._records.list_nodes()
        runs = await self._records.list_runs()
        self._ended = {run: versions for run, versions in self._ended.items() if run in runs}
        for run in runs:
            try:
                await self._look_at(run, nodes)
            except EcumeneError:
                raise
            except Exception as defect:  # noqa: BLE001 - the edge: one run, whatever it is, ends no node and stops no other
                self._log.write(f"cannot look for its lost parts: {type(defect).__name__}: {defect}", run)

    async def _look_at(self, run: str, nodes: Mapping[str, Any]) -> None:
        placed = await self._records.list_placed(run)
        self._forget_refusals(run, placed)
        lost = [part for part, placement in placed.items() if self._is_lost(run, part, placement, nodes)]
        if not lost:
            return
        versions = {part: placed[part].version for part in lost}
        if self._ended.get(run) == versions:
            return  # a launch that takes one of them up again places it anew
        ended = await self._records.list_ended(run)
        if ended.keys() >= versions.keys():
            self._ended[run] = versions
            return
        description = await self._records.read(run)
        if description is not None:
            await self._take_lost(description, placed, ended, nodes)

    async def _take_lost(
        self,
        description: Description,
        placed: Mapping[str, Placement],
        ended: Mapping[str, str],
        nodes: Mapping[str, Any],
    ) -> None:
        run = description.run
        owned = await self._records.list_owned(run)
        taken: list[Part] = []
        for part in description.parts:
            placement = placed.get(part.name)
            if placement is None or part.name in owned or part.name in ended:
                continue
            if not self._is_lost(run, part.name, placement, nodes):
                continue
            if not self._taker.fits(description, part, taken):
                continue
            if placement.node == self._settings.name or await self._records.claim(
                run, part.name, self._settings.name, placement.version
            ):
                taken.append(part)
        if not taken:
            return
        names = [part.name for part in taken]
        self._log.write(f"takes over {', '.join(names[:20])} ({len(names)} part{'s' * (len(names) != 1)})", run)
        try:
            await self._taker.take(description, taken)
        except EcumeneError:
            raise  # they are placed here, and looked at again
        except Exception as error:  # noqa: BLE001 - the edge: what this node cannot host, another one may
            what = str(error) if isinstance(error, NodeError) else f"{type(error).__name__}: {error}"
            self._log.write(f"cannot host them: {what}", run)
            await self._records.hand_over(run, names, self._settings.name, refused=True)

    def _is_lost(self, run: str, part: str, placement: Placement, nodes: Mapping[str, Any]) -> bool:
        """Whether nobody sees to a part that is owned by nobody."""
        name = self._settings.name
        if placement.node == name:
            # From an earlier life of this node, or not hosted yet.
            return not self._taker.has(run, part)
        return placement.node not in nodes and not self._refuses(run, part, placement)

    def _forget_refusals(self, run: str, placed: Mapping[str, Placement]) -> None:
        """Of placements of the run that are others by now."""
        for key in [key for key in self._refused_s if key[0] == run]:
            placement = placed.get(key[1])
            if placement is None or placement.version != key[2]:
                del self._refused_s[key]

    def _refuses(self, run: str, part: str, placement: Placement) -> bool:
        """Whether this node could not host a part a short while ago; what stood in the way may have passed since."""
        if self._settings.name not in placement.refused:
            return False
        now_s = self._clock.now_s()
        first_s = self._refused_s.setdefault((run, part, placement.version), now_s)
        return now_s - first_s < self._settings.refusal_s
