"""Samples: who of a run is drawn, the same however its parts are placed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agent_runtime.agents.cohort import AGENT_ID
from agent_runtime.model.refusals import refuse_field
from agent_runtime.node.hosting import HostedRun

AGENTS_MAX = 10_000


def sample_agents(hosting: HostedRun, count: int, seed: int, groups: Sequence[str]) -> list[tuple[int, str, str]]:
    """The agents of smallest priority among those here: (priority, agent, group), ascending.

    A priority follows from the seed, the group and the agent's row, and so lies where the agent lies on any node.

    Raises:
        NodeError: INVALID_FIELD.
    """
    if not 1 <= count <= AGENTS_MAX:
        raise refuse_field("sample.count", f"1 to {AGENTS_MAX:,} are drawn, not {count:,}")
    known = [group.name for group in hosting.launch.groups]
    if stray := set(groups) - set(known):
        raise refuse_field("sample.groups", f"no group is called {min(stray)!r}")
    drawn: list[tuple[int, str, str]] = []
    for state in hosting.parts.values():
        part = state.part
        if (groups and part.group not in groups) or part.end <= part.first:
            continue
        rows = np.arange(part.first, part.end, dtype=np.uint64)
        # The place of the group in the high bits keeps priorities of different agents apart.
        priorities = mix_rows(seed, known.index(part.group), rows)
        # No two are the same, so that their order among themselves is of no matter before the last step.
        smallest = np.argpartition(priorities, count)[:count] if count < len(rows) else np.arange(len(rows))
        ids = hosting.tables[part.group].column(AGENT_ID)
        drawn += [
            (int(priorities[place]), str(ids[part.first + place].as_py()), part.group) for place in smallest.tolist()
        ]
    return sorted(drawn)[:count]


def mix_rows(seed: int, group: int, rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A random 64-bit number for each row of a group: a bijection of (group, row), so that no two are the same."""
    key = int.from_bytes(hashlib.blake2b(f"sample/{seed}".encode(), digest_size=8).digest(), "little")
    state = (rows + np.uint64(group << 44)) ^ np.uint64(key)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
