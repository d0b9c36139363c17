"""`ecumene bench message`: agent → room → agent, each message durable before it is heard, beside AgentScope.

    1_1          one agent hears
    1_1k         1,000 agents hear, behind one watch of their session, as a runtime has it
    1_1k_watches 1,000 agents hear, each through a watch of its own

`messages_*` counts messages that all have heard, sent one behind the other without waiting; `p99_ms_*` is from sending
to hearing, one message at a time. AgentScope sends one at a time always; it keeps messages in memory only.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial

from ecumene.bench.machine import describe_machine
from ecumene.bench.message_load import MessageCase
from ecumene.bench.peers.absence import PeerSamples
from ecumene.bench.peers.agentscope import measure_agentscope
from ecumene.bench.processes import READY_TIMEOUT_S, BenchError, Child, run_child
from ecumene.bench.results import Report, Result, take_median
from ecumene.bench.targets import run_target

LOAD_MODULE = "ecumene.bench.message_load"
REPEATS = 3
WORK_TIMEOUT_S = 300.0

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Hearing:
    """Who hears, and how much is said: in a stream, in turns, and by peers (in one process, over RPC)."""

    name: str
    agents: int
    watches: int
    streamed: int
    turns: int
    peer_messages: Mapping[str, int]

    def shrunk(self) -> Hearing:
        """For a quick run."""
        agents = min(self.agents, 50)
        peers = {mode: max(2, messages // 20) for mode, messages in self.peer_messages.items()}
        return Hearing(self.name, agents, min(self.watches, agents), self.streamed // 20, self.turns // 20, peers)


HEARINGS = (
    Hearing("1_1", 1, 1, 50_000, 2_000, {"local": 2_000, "rpc": 1_000}),
    Hearing("1_1k", 1_000, 1, 20_000, 1_000, {"local": 200, "rpc": 5}),
    Hearing("1_1k_watches", 1_000, 1_000, 500, 100, {}),
)


async def bench_message(*, is_quick: bool, with_peers: bool = True, note: Note) -> Report:
    """Measure all ways to hear. `note` is told what is being done.

    Raises:
        BenchError: a part failed or took too long, or a message was lost.
        LaunchError: the server did not start.
    """
    machine = await asyncio.to_thread(describe_machine)
    results: list[Result] = []
    for hearing in HEARINGS:
        sized = hearing.shrunk() if is_quick else hearing
        if not with_peers:
            sized = replace(sized, peer_messages={})
        results += await measure_hearing(sized, 1 if is_quick else REPEATS, note)
    return Report("message", machine, results, is_quick)


async def measure_hearing(hearing: Hearing, repeats: int, note: Note) -> list[Result]:
    """Rate and latency of one way to hear, with the peers'."""
    rates: list[float] = []
    p50s: list[float] = []
    p99s: list[float] = []
    peer_rates, peer_p99s = PeerSamples(), PeerSamples()
    for repeat in range(repeats):
        note(f"messages {hearing.name}, sample {repeat + 1}")
        rates.append(await stream(hearing))
        p50, p99 = await take_turns(hearing)
        p50s.append(p50)
        p99s.append(p99)
        for mode, messages in hearing.peer_messages.items():
            measured: list[float] = []
            work = partial(_measure_rate, measured, mode, hearing.agents, messages)
            await peer_rates.measure(f"agentscope_{mode}", work, note)
            for p99 in measured:
                peer_p99s.samples.setdefault(f"agentscope_{mode}", []).append(p99)
    heard = {"deliveries_s": take_median(rates) * hearing.agents}
    absent = peer_rates.absent
    return [
        Result(
            f"messages_{hearing.name}",
            take_median(rates),
            "messages/s",
            peers=peer_rates.medians(),
            samples=rates,
            details=heard,
            absent_peers=absent,
        ),
        Result(
            f"p99_ms_{hearing.name}",
            take_median(p99s),
            "ms",
            peers={name: figure for name, figure in peer_p99s.medians().items() if name not in absent},
            samples=p99s,
            details={"p50_ms": take_median(p50s)},
            absent_peers=absent,
        ),
    ]


async def stream(hearing: Hearing) -> float:
    """Messages a second, from the first that is sent to the last that all have heard."""
    async with AsyncExitStack() as stack:
        address, _ = await stack.enter_async_context(run_target("server"))
        talker = await _start(stack, MessageCase("talk", address, hearing.streamed))
        case = MessageCase("hear", address, hearing.streamed, agents=hearing.agents, watches=hearing.watches)
        hearer = await _start(stack, case)
        hearer.go()
        talker.go()
        said = await talker.read(WORK_TIMEOUT_S)
        heard = await hearer.read(WORK_TIMEOUT_S)
        _check(hearing, hearing.streamed, heard["heard"])
        return float(hearing.streamed / (heard["end_s"] - said["start_s"]))


async def take_turns(hearing: Hearing) -> tuple[float, float]:
    """Median and 99th percentile in ms, one message at a time."""
    async with AsyncExitStack() as stack:
        address, _ = await stack.enter_async_context(run_target("server"))
        warm = hearing.turns // 10
        case = MessageCase("turns", address, hearing.turns, warm, hearing.agents, hearing.watches)
        agents = await _start(stack, case)
        agents.go()
        heard = await agents.read(WORK_TIMEOUT_S)
        _check(hearing, hearing.turns, heard["heard"])
        return heard["p50_ms"], heard["p99_ms"]


async def _measure_rate(p99s_ms: list[float], mode: str, listeners: int, messages: int) -> float:
    rate, p99_ms = await measure_agentscope(mode, listeners, messages)
    p99s_ms.append(p99_ms)
    return rate


async def _start(stack: AsyncExitStack, case: MessageCase) -> Child:
    child = await stack.enter_async_context(run_child(LOAD_MODULE, [json.dumps(asdict(case))]))
    await child.read(READY_TIMEOUT_S)
    return child


def _check(hearing: Hearing, messages: int, heard: int) -> None:
    if heard != messages * hearing.agents:
        raise BenchError(f"{hearing.name}: of {messages * hearing.agents:,} messages {heard:,} were heard")
