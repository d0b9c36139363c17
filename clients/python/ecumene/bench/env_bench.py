"""`ecumene bench env`: durable ops a second, each figure beside that of the bare limit with the same load.

Every sample gets a server and a directory of its own, and a client in a process of its own; samples of the server and
of the limit take turns, so that both see the same machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from ecumene.bench.delay_bench import measure_delays
from ecumene.bench.load import HOLD_MS
from ecumene.bench.load_case import LoadCase, LoadResult
from ecumene.bench.machine import describe_machine
from ecumene.bench.peers.absence import PeerSamples
from ecumene.bench.peers.etcd import measure_etcd
from ecumene.bench.peers.redis import measure_redis
from ecumene.bench.processes import BenchError, run_child
from ecumene.bench.results import Goal, Report, Result, take_median
from ecumene.bench.targets import run_target

LOAD_MODULE = "ecumene.bench.load"
CORES_BOUND = 0.95
"""Of the one core that a server's loop can use."""
BEHAVIOUR_MODULE = "env_server.testing.hold"
HELD_CONCURRENCIES = (1, 8, 64, 512)
REPEATS = 3
LOAD_TIMEOUT_S = 300.0

Note = Callable[[str], None]

Peer = tuple[Callable[[int], Awaitable[float]], int, int]
"""Measures another system with so many ops; how many in full, and in a quick run."""


@dataclass(frozen=True, slots=True)
class EnvCase:
    """One figure: what is sent, in which unit its result is told, and what it should reach."""

    name: str
    load: LoadCase
    quick_ops: int
    goal: Goal | None = None
    unit: str = "ops/s"
    has_limit: bool = True
    peers: Mapping[str, Peer] = field(default_factory=dict)

    def sized(self, is_quick: bool) -> LoadCase:
        """The load, smaller for a quick run."""
        if not is_quick:
            return self.load
        return replace(self.load, ops=self.quick_ops, warm_ops=min(self.load.warm_ops, self.quick_ops // 4))


def _load(kind: str, ops: int, warm_ops: int = 0, **options: Any) -> LoadCase:
    return LoadCase(kind, "", "", 0, ops, warm_ops, **options)


MILLION = 1_000_000
PEERS: Mapping[str, Peer] = {
    "etcd": (measure_etcd, 20_000, 1_280),
    "redis_py": (partial(measure_redis, "py"), 200_000, 10_000),
    "redis_hiredis": (partial(measure_redis, "hiredis"), MILLION, 50_000),
}
BESIDE_PEERS = Goal(
    at_least=250_000, share_at_least=0.5, peers_at_least={"etcd": 20, "redis_py": 1, "redis_hiredis": 1}
)
CASES = (
    EnvCase("ops_1k_keys", _load("frames", MILLION, 100_000), 50_000, BESIDE_PEERS, peers=PEERS),
    EnvCase(
        "ops_1m_keys", _load("frames", MILLION, 100_000, keys=0), 50_000, Goal(at_least=150_000, share_at_least=0.5)
    ),
    EnvCase(
        "ops_1m_random",
        _load("frames", MILLION, 100_000, keys=MILLION, at_random=True),
        50_000,
        Goal(at_least=100_000, share_at_least=0.5),
    ),
    EnvCase("ops_1m_producers", _load("frames", MILLION, 100_000, keys=0, own_producers=True), 50_000),
    EnvCase("ops_unary", _load("unary", 20_000, 2_000, clients=64), 1_280, Goal(share_at_least=0.8)),
    EnvCase("unary_p50_ms", _load("unary", 2_000, 200), 200, Goal(share_at_most=1.3), unit="ms"),
    EnvCase("ops_one_key", _load("one_key", 512_000, 64_000, clients=64, frame_ops=64), 16_384),
    *(
        EnvCase(
            f"ops_held_{count}",
            _load("held", min(400 * count, 10_240), clients=count),
            2 * count,
            Goal(share_at_least=0.9, until_cores=CORES_BOUND),
            has_limit=False,
        )
        for count in HELD_CONCURRENCIES
    ),
)


async def bench_env(*, is_quick: bool, with_peers: bool = True, note: Note) -> Report:
    """Measure all cases. `note` is told what is being done.

    Raises:
        BenchError: a part failed or took too long.
        LaunchError: the server did not start.
    """
    machine = await asyncio.to_thread(describe_machine)
    results: list[Result] = []
    for case in CASES:
        ours: list[LoadResult] = []
        limits: list[LoadResult] = []
        peers = PeerSamples()
        for repeat in range(1 if is_quick else REPEATS):
            note(f"{case.name}, sample {repeat + 1}")
            ours.append(await measure_server(case.sized(is_quick)))
            if case.has_limit:
                limits.append(await measure_limit(case.sized(is_quick)))
            for name, (measure, ops, quick_ops) in case.peers.items() if with_peers else ():
                await peers.measure(name, partial(measure, quick_ops if is_quick else ops), note)
        results.append(summarise(case, ours, limits, peers))
    behaviour = f"{BEHAVIOUR_MODULE}:Hold8"
    delays = await measure_delays(behaviour, repeats=1 if is_quick else REPEATS, is_quick=is_quick, note=note)
    return Report("env", machine, [*add_shares(results), *delays], is_quick)


async def measure_server(load: LoadCase) -> LoadResult:
    """One sample through the SDK and a server."""
    behaviours = [f"{BEHAVIOUR_MODULE}:Hold{count}" for count in HELD_CONCURRENCIES] if load.kind == "held" else []
    async with run_target("server", behaviours) as (address, pid):
        return await run_load(replace(load, target="server", address=address, server_pid=pid))


async def measure_limit(load: LoadCase) -> LoadResult:
    """One sample of the lean engine."""
    async with run_target("lean") as (address, pid):
        return await run_load(replace(load, target="lean", address=address, server_pid=pid))


def summarise(case: EnvCase, ours: list[LoadResult], limits: list[LoadResult], peers: PeerSamples) -> Result:
    """The result of a case from its samples. Raises BenchError if ops were lost."""
    for sample in (*ours, *limits):
        if sample.done != sample.ops:
            raise BenchError(f"{case.name}: of {sample.ops:,} ops {sample.done:,} were done")

    def read(samples: list[LoadResult]) -> list[float]:
        return [one.p50_ms if case.unit == "ms" else one.ops / one.wall_s for one in samples]

    details = {
        "server_us_op": _median_us(ours, "server_cpu_s"),
        "client_us_op": _median_us(ours, "client_cpu_s"),
        "wall_s": take_median([one.wall_s for one in ours]),
    }
    if limits:
        details["limit_server_us_op"] = _median_us(limits, "server_cpu_s")
        details["limit_client_us_op"] = _median_us(limits, "client_cpu_s")
    if case.load.kind == "unary":
        details["p99_ms"] = take_median([one.p99_ms for one in ours])
    limit = take_median(read(limits)) if limits else None
    if case.load.kind == "held":
        limit = case.load.clients / (HOLD_MS / 1000)
        details["server_cores"] = take_median([one.server_cpu_s / one.wall_s for one in ours])
    samples = read(ours)
    return Result(
        case.name, take_median(samples), case.unit, limit, case.goal, peers.medians(), samples, details, peers.absent
    )


def add_shares(results: list[Result]) -> list[Result]:
    """Goals that are shares of another result."""
    by_name = {result.name: result for result in results}
    whole, part = by_name.get("ops_1k_keys"), by_name.get("ops_one_key")
    if whole is None or part is None:
        return results
    by_name["ops_one_key"] = replace(part, goal=Goal(at_least=0.5 * whole.value))
    return list(by_name.values())


def _median_us(samples: list[LoadResult], name: str) -> float:
    return take_median([1e6 * getattr(one, name) / one.ops for one in samples])


async def run_load(case: LoadCase) -> LoadResult:
    """Send a load from a process of its own."""
    async with run_child(LOAD_MODULE, [json.dumps(asdict(case))]) as client:
        return LoadResult(**await client.read(LOAD_TIMEOUT_S))
