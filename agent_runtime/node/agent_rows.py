"""From the id of an agent to its row, its part and its worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from agent_runtime.agents.cohort import AGENT_ID
from agent_runtime.model.parts import Part
from agent_runtime.node.part_states import PartState
from agent_runtime.node.slots import WorkerSlot

Tables = Mapping[str, pa.Table]
"""The agents of each group, all of the run's."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where an agent lives: its part, and its row among all rows of its group."""

    agent: str
    row: int
    state: PartState
    slot: WorkerSlot


def find_rows(ids: pa.ChunkedArray, agents: Sequence[str]) -> list[int | None]:
    """Rows of agents among the ids of a group; None for who is not there. Goes over the ids once."""
    import pyarrow.compute as pc  # some tenths of a second at first, which a node's start need not wait for

    wanted = pa.array(list(agents), ids.type)
    places = pc.index_in(ids, value_set=wanted)
    rows: list[int | None] = [None] * len(agents)
    at = np.flatnonzero(places.is_valid().to_numpy())
    for row, place in zip(at.tolist(), places.drop_null().to_pylist(), strict=True):
        rows[place] = row
    return rows


def list_in_part(tables: Tables, part: Part, agents: Sequence[str]) -> list[str]:
    """Those of some agents that a part holds."""
    if not agents:
        return []
    rows = find_rows(tables[part.group].column(AGENT_ID), agents)
    return [agent for agent, row in zip(agents, rows, strict=True) if row is not None and part.first <= row < part.end]
