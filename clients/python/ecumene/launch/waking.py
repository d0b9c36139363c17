"""Waiting for agents that wake by a clock: whoever advances it lets them have their turns before it goes on."""

from __future__ import annotations

import asyncio

from ecumene.client.event_batch import EventBatch
from ecumene.client.model import EventFilter, EventType
from ecumene.client.waking import find_first_wake, wakes_path
from ecumene.client.world import World


async def wait_woken(world: World, run: str, until_ns: int, *, agents: int, timeout_s: float | None = None) -> None:
    """Until all agents of a run who were to be woken up to a time have had their turns, also those asked for meanwhile.

    Call it when the clock is there. `agents`: how many have been woken by then at all, or have asked for it: of the
    others nothing is known yet.

    Raises:
        TimeoutError: it took longer than `timeout_s`; tells of how many it knew, and who is late.
        EcumeneError: the watch ended.
    """
    places = EventFilter(path_prefix=wakes_path(run), types=(EventType.ENTRY_SET,))
    known: set[tuple[str, str]] = set()
    late: set[tuple[str, str]] = set()
    try:
        async with asyncio.timeout(timeout_s), world.watch_frames(places, initial_state=True) as watch:
            is_synced = False
            async for batch in watch:
                _note(batch, until_ns, known, late)
                is_synced = is_synced or batch.synced_revision > 0
                if is_synced and not late and len(known) >= agents:
                    return
    except TimeoutError:
        shown = ", ".join(sorted(agent for _, agent in late)[:5])
        told = f"{len(known)} of {agents} agents have been woken, and {len(late)} are late: {shown}"
        raise TimeoutError(told) from None


def _note(batch: EventBatch, until_ns: int, known: set[tuple[str, str]], late: set[tuple[str, str]]) -> None:
    for path, agent, value in zip(batch.paths, batch.keys, batch.values, strict=True):
        known.add((path, agent))
        first_ns = find_first_wake(value)
        if first_ns is not None and first_ns <= until_ns:
            late.add((path, agent))
        else:
            late.discard((path, agent))
