"""Places of runs at event-driven clocks, seen from outside: a run that failed and lies still holds its clock.

A part's place has no lease, so that no wake of its agents is passed while nobody hosts them. Who does not mean to go
on with the run lets the clock go.
"""

from __future__ import annotations

from ecumene.client.reasons import (
    EntryNotFoundError,
    EnvironmentNotFoundError,
    PreconditionFailedError,
)
from ecumene.client.waking import TIMERS, cursors_path, name_timer, parts_path
from ecumene.client.world import World


async def find_unhosted(world: World, name: str) -> tuple[str, str] | None:
    """Run and part whose place at a clock is called so; None for another name, or while somebody hosts the part.

    Raises EcumeneError.
    """
    pieces = name.removeprefix(TIMERS).split(".") if name.startswith(TIMERS) else []
    for end in range(1, len(pieces)):
        run, part = ".".join(pieces[:end]), ".".join(pieces[end:])
        if await _has(world, cursors_path(run), part):
            return None if await _has(world, parts_path(run), part) else (run, part)
    return None


async def release_clock(world: World, path: str, run: str) -> list[str]:
    """Let the clock of the environment at `path` wait no more for parts of a run that nobody hosts; returns these.

    Their agents are woken, late, at their own times if the run is gone on with after all: its parts then take their
    places again. A part that is hosted keeps its place.

    Raises:
        EnvironmentNotFoundError: there is no such run in the world.
        ClockNotFoundError: there is no clock.
    """
    state = await world.environment(path).clock().state()
    parts = [entry.key async for entry in world.environment(cursors_path(run)).entries()]
    released: list[str] = []
    for part in parts:
        name = name_timer(run, part)
        transaction = world.transaction()
        transaction.require(parts_path(run), part, absent=True)
        transaction.delete(state.participants_path or state.path, name)
        try:
            await transaction.commit()
        except (PreconditionFailedError, EntryNotFoundError):
            continue  # it is hosted, or has no place there
        released.append(part)
    return released


async def _has(world: World, path: str, key: str) -> bool:
    try:
        await world.environment(path).get(key)
    except (EntryNotFoundError, EnvironmentNotFoundError):
        return False
    return True
