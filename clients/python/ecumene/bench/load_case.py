"""What a load is to do, and what it came to: plain data between a benchmark and the programs that send for it."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ecumene.bench.processes import read_cpu_s

ENVIRONMENT = "/bench"
WARM_ENVIRONMENT = "/warm"


@dataclass(frozen=True, slots=True)
class LoadCase:
    """What to send.

    Attributes:
        kind: `frames` (one client, frames in a pipeline), `one_key` (many sessions), `unary`, `held`, `grown`.
        target: `server` or `lean`.
        address, server_pid: of the target.
        ops: in the measured part, all clients together.
        warm_ops: before it, elsewhere in the world; of `grown` in the same environment.
        frame_ops: ops a frame.
        keys: of how many keys; 0 = each op its own. Of `grown`: entries that are there before anything is measured.
        at_random: keys drawn evenly, else in turn.
        own_producers: each op under a producer of its own, named like its key.
        clients: at a time.
    """

    kind: str
    target: str
    address: str
    server_pid: int
    ops: int
    warm_ops: int = 0
    frame_ops: int = 1000
    keys: int = 1000
    at_random: bool = False
    own_producers: bool = False
    clients: int = 1


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What it came to. `latencies_ms`: of single ops, where one client sends them one after the other."""

    ops: int
    done: int
    wall_s: float
    client_cpu_s: float
    server_cpu_s: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0


class Meter:
    """Wall and CPU from its making on."""

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid
        self._server_s = read_cpu_s(server_pid)
        self._client_s = time.process_time()
        self._start_s = time.perf_counter()

    def stop(self, ops: int, done: int, latencies_s: Sequence[float] = ()) -> LoadResult:
        """What was used since."""
        wall_s = time.perf_counter() - self._start_s
        client_s = time.process_time() - self._client_s
        server_s = read_cpu_s(self._server_pid) - self._server_s
        p50, p99 = (1e3 * take_share(latencies_s, share) for share in (0.5, 0.99))
        return LoadResult(ops, done, wall_s, client_s, server_s, p50, p99)


def take_share(samples: Sequence[float], share: float) -> float:
    """The sample below which that share of all lies; 0 for none."""
    return sorted(samples)[min(int(len(samples) * share), len(samples) - 1)] if samples else 0.0


def name_keys(case: LoadCase) -> list[str]:
    """The key of each op; the same for the same case."""
    count = case.keys or case.ops
    if case.at_random:
        chance = random.Random(1)
        return [f"a{chance.randrange(count)}" for _ in range(case.ops)]
    return [f"a{index % count}" for index in range(case.ops)]


def name_all(count: int, block: int) -> Iterator[list[str]]:
    """The keys of so many entries, a block at a time: ten million names at once would weigh as much as the world."""
    for start in range(0, count, block):
        yield [f"a{index}" for index in range(start, min(start + block, count))]


def spare_collector() -> None:
    """What is prepared lives to the end and forms no cycles: a collection would be measured as load."""
    gc.collect()
    gc.freeze()
    gc.disable()
