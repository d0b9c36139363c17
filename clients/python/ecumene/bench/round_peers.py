"""What stands beside a round: other systems on the same machine, and what others have reported of theirs.

The work of a peer is that of a round in words: every agent thinks for a second and reports once, and all reports are
gathered. Nothing of theirs is durable, woken by an event, validated or recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ecumene.bench.peers.absence import Note, PeerSamples
from ecumene.bench.peers.agentscope import measure_agentscope_round
from ecumene.bench.peers.asyncio_tasks import measure_asyncio_round
from ecumene.bench.results import Reported

ASYNCIO_TASKS_MAX = 1_000_000
"""They hold about 2 KB each; the rate falls with their number, so that fewer are no disadvantage."""
_PAPER = "Very Large-Scale Multi-Agent Simulation in AgentScope (arXiv 2407.17789v2)"


@dataclass(frozen=True, slots=True)
class AgentScopeRound:
    """A round of AgentScope: `rpc` over agent servers that have a thread an agent, `threads` in one process."""

    name: str
    mode: str
    agents: int
    servers: int

    def shrunk(self) -> AgentScopeRound:
        """For a quick run."""
        return AgentScopeRound(self.name, self.mode, self.agents // 50, min(self.servers, 1))


# So many servers were the best of 1, 2, 4, 8 and 16 on two cores, and fit into 8 GiB.
AGENTSCOPE_ROUNDS = (
    AgentScopeRound("agentscope_rpc_1k", "rpc", 1_000, 2),
    AgentScopeRound("agentscope_rpc_5k", "rpc", 5_000, 4),
    AgentScopeRound("agentscope_threads_1k", "threads", 1_000, 0),
    AgentScopeRound("agentscope_threads_5k", "threads", 5_000, 0),
)
AGENTSCOPE_TIMES = 100
AGENTSCOPE_GOALS: Mapping[str, float] = {one.name: AGENTSCOPE_TIMES for one in AGENTSCOPE_ROUNDS}

REPORTED = (
    Reported("wall_s", 40.0, "s", _PAPER, "1,000,000 agents, 1 s dummy model, 4 machines of 64 cores"),
    Reported("agents_s", 25_000.0, "agents/s", _PAPER, "the same: 98 agents/s a core"),
    Reported("wall_s", 30_960.0, "s", _PAPER, '"Python async", 8.6 h: 1,000,000 s over 32 threads, not native asyncio'),
    Reported("wall_s", 1_036_800.0, "s", _PAPER, "serial, about 12 days"),
)


class RoundPeers:
    """Other systems' rounds, each sample in turn with ours."""

    def __init__(self, agents: int, *, is_quick: bool) -> None:
        self._tasks = min(agents, ASYNCIO_TASKS_MAX)
        self._rounds: Sequence[AgentScopeRound] = AGENTSCOPE_ROUNDS
        if is_quick:
            self._rounds = [one.shrunk() for one in AGENTSCOPE_ROUNDS]
        self.rates = PeerSamples()
        self.memory_mib: dict[str, float] = {}
        """The most that each system's processes held, where they tell."""

    async def measure(self, note: Note) -> None:
        """One sample of each; what cannot be measured is absent with the reason."""
        await self.rates.measure("asyncio", partial(measure_asyncio_round, self._tasks), note)
        for one in self._rounds:
            await self.rates.measure(one.name, partial(self._measure_agentscope, one), note)

    async def _measure_agentscope(self, one: AgentScopeRound) -> float:
        rate, mib = await measure_agentscope_round(one.mode, one.agents, one.servers)
        self.memory_mib[one.name] = max(mib, self.memory_mib.get(one.name, 0.0))
        return rate
