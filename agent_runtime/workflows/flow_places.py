"""What a host keeps of each flow: outcomes that are needed here, and a caller for the calls of its actors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ecumene.client import EcumeneError, World
from ecumene.workflows.callers import Caller
from ecumene.workflows.errors import Failure, FlowLostError
from ecumene.workflows.hosts import HostsWatch
from ecumene.workflows.limits import FlowLimits
from ecumene.workflows.messages import Message
from ecumene.workflows.world_link import WorldLink

from agent_runtime.workflows.outcomes import CallerOutcomes


class FlowPlaces:
    """Those of one host. `begin` starts a task of the host's, by what it does."""

    def __init__(self, world: World, lease_id: int, hosts: HostsWatch, begin: Callable[[Any, str], None]) -> None:
        self._world = world
        self._lease_id = lease_id
        self._hosts = hosts
        self._begin = begin
        self._callers: dict[str, Caller] = {}
        self._links: dict[str, WorldLink] = {}
        self._outcomes: dict[tuple[str, str], CallerOutcomes] = {}

    def has_caller(self, flow: str, caller: str) -> bool:
        """Whether calls of a caller came, and it has not ended."""
        return (flow, caller) in self._outcomes

    def find_caller(self, flow: str) -> Caller:
        """The caller on whose behalf actors of a flow make calls here."""
        caller = self._callers.get(flow)
        if caller is None:
            loop = asyncio.get_running_loop()
            caller = self._callers[flow] = Caller(flow, str(self._lease_id), FlowLimits(), loop)
            self._hosts.add(caller)
            caller.when_used(lambda: self._begin(self._link(flow), f"link of {flow}"))
        return caller

    def find_outcomes(self, flow: str, caller: str) -> CallerOutcomes:
        """Outcomes of a caller's calls, here or elsewhere."""
        outcomes = self._outcomes.get((flow, caller))
        if outcomes is None:
            outcomes = self._outcomes[flow, caller] = CallerOutcomes(self._world, flow, caller)
        return outcomes

    def keep_outcome(self, message: Message, text: str) -> None:
        """An outcome of this host is in the world."""
        outcomes = self._outcomes.get((message.flow, message.caller))
        if outcomes is not None:
            outcomes.keep(message.number, text)

    def drop(self, flow: str, caller: str) -> list[tuple[str, str]]:
        """A flow has ended, or with a name one of its callers; returns those callers that are dropped with it."""
        dropped = [key for key in self._outcomes if key[0] == flow and caller in ("", key[1])]
        for key in dropped:
            self._begin(self._outcomes.pop(key).close(), f"end of {flow}")
        if caller in ("", str(self._lease_id)) and flow in self._callers:
            ended = self._callers.pop(flow)
            self._hosts.discard(ended)
            ended.end(Failure(FlowLostError.code, f"flow {flow} has ended"))
            link = self._links.pop(flow, None)
            if link is not None:
                self._begin(link.close(), f"end of {flow}")
        return dropped

    async def end_callers(self, reason: str) -> None:
        """No more calls of actors that live here."""
        for caller in self._callers.values():
            caller.end(Failure(FlowLostError.code, reason))
        for link in self._links.values():
            await link.close()

    async def close(self) -> None:
        """Wait for no outcome any more."""
        for outcomes in list(self._outcomes.values()):
            await outcomes.close()

    async def _link(self, flow: str) -> None:
        """Connect the caller that actors of a flow have here, when the first of them makes a call."""
        caller = self._callers[flow]
        link = self._links[flow] = WorldLink(self._world, caller, self._lease_id)
        try:
            await link.start()
        except EcumeneError as error:
            caller.end(Failure(FlowLostError.code, f"calls of this host have no place in the flow: {error}"))
