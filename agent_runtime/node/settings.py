"""What a node is, and all its bounds; units and sides stand last in the names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ecumene.client import ClientSettings

from agent_runtime.launching.workers import PROCESSES_MAX
from agent_runtime.worker.process import PROGRAM
from agent_runtime.workflows.host_process import HostSettings

MIB = 1024 * 1024
AGENTS_PER_CORE = 5_000_000
"""Of rule agents, which cost least: what a node hosts when it is not told a capacity."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One node of one world.

    Attributes:
        name: unique among the nodes of the world.
        scratch: folder for populations; the node's own, removed at its end.
        capacity: agents at most.
        workers: worker processes of a run at most, those of single agents left out.
        processes_max: worker processes for single agents, of all runs together.
        lease_ttl_s: a node that is silent for longer is not counted as living.
        client: of its connection to the world.
        restarts_max, restart_window_s: a worker that ends more often within the window is given up with its parts.
        part_wait_s: how long a part's last owner may still hold it; above the time of a worker's lease.
        host_tries_max: times that a worker is told to host a part while what stands in the way may pass.
        refusal_s: a part that could not be hosted here is left to other nodes for so long.
        silence_s: a worker that has lost a part and does not answer within this time is killed.
        secrets: variables and absolute paths of files that launches may name as their key; no others.
        records: the only folder in which launches may write recordings and caches, and read recordings; None = nowhere.
        workflows: of a host of workflows beside it; None = it has none.
        tells_causes: whether whoever launches is told what a module said that could not be imported; otherwise the log
            alone has it.
    """

    server: str
    world: str
    name: str
    scratch: Path
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: int = AGENTS_PER_CORE * (os.cpu_count() or 1)
    workers: int = os.cpu_count() or 1
    processes_max: int = PROCESSES_MAX
    lease_ttl_s: float = 5.0
    client: ClientSettings = field(default_factory=lambda: ClientSettings(reconnect_timeout_s=600.0))
    restarts_max: int = 5
    restart_window_s: float = 60.0
    backoff_first_s: float = 0.1
    backoff_s_max: float = 5.0
    start_timeout_s: float = 90.0
    host_timeout_s: float = 120.0
    part_wait_s: float = 20.0
    host_tries_max: int = 6
    refusal_s: float = 60.0
    silence_s: float = 3.0
    stop_grace_s: float = 5.0
    look_every_s: float = 2.0
    description_bytes_max: int = 512 * 1024
    population_bytes_max: int = 64 * MIB
    chunk_bytes_max: int = MIB
    log_lines_max: int = 10_000
    log_line_bytes_max: int = 4096
    asks_in_flight_max: int = 256
    secrets: frozenset[str] = frozenset()
    records: Path | None = None
    program: Sequence[str] = PROGRAM
    workflows: HostSettings | None = None
    tells_causes: bool = False
