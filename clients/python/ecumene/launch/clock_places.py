"""Places of runs at clocks, seen from outside: a run that failed and lies still holds its clock, and keeps its timers.

A part's place among the participants of an event-driven clock has no lease, so that no wake of its agents is passed
while nobody hosts them. Who does not mean to go on with the run lets the clock go.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ecumene.client.reasons import (
    EntryNotFoundError,
    EnvironmentNotFoundError,
    PreconditionFailedError,
)
from ecumene.client.timeline_reasons import ClockNotFoundError
from ecumene.client.waking import RUNS, cursors_path, is_hashed_timer, name_timer, parts_path, split_timer, wakes_path
from ecumene.client.world import World


async def find_unhosted(world: World, name: str) -> tuple[str, str] | None:
    """Run and part whose place at a clock is called so; None for another name, or while somebody hosts the part.

    Raises EcumeneError.
    """
    known = split_timer(name)
    if known is None and is_hashed_timer(name):
        known = await _find_hashed(world, name)
    if known is None:
        return None
    run, part = known
    is_unhosted = await _has(world, cursors_path(run), part) and not await _has(world, parts_path(run), part)
    return known if is_unhosted else None


async def release_clock(world: World, path: str, run: str) -> list[str]:
    """Let the clock of the environment at `path` wait no more for parts of a run that nobody hosts; returns these.

    Their timers on this clock are cancelled too, whatever makes it go. Their agents are woken, late, at their own times
    if the run is gone on with after all: its parts then take their places again. A part that is hosted keeps its place.

    Raises:
        EnvironmentNotFoundError: there is no such run in the world.
        ClockNotFoundError: there is no clock.
    """
    state = await world.environment(path).clock().state()
    parts = [entry.key async for entry in world.environment(cursors_path(run)).entries()]
    timers = await _find_timers(world, run, state.path)
    participants = state.participants_path if state.mode == "event_driven" else ""
    # Issued in one step, so that they travel together.
    released = await asyncio.gather(*(_release(world, run, part, participants, timers.get(part, "")) for part in parts))
    return [part for part, is_released in zip(parts, released, strict=True) if is_released]


async def _release(world: World, run: str, part: str, participants: str, timer_path: str) -> bool:
    """Whether the part had anything there, and nobody hosts it. A path of "" = it has none."""
    name = name_timer(run, part)
    transaction = world.transaction()
    if participants:
        transaction.delete(participants, name, if_present=True)
    if timer_path:
        transaction.cancel_timer(timer_path, name, if_present=True)
    if not len(transaction):
        return False
    transaction.require(parts_path(run), part, absent=True)
    try:
        done = await transaction.commit()
    except (PreconditionFailedError, EnvironmentNotFoundError):
        return False  # it is hosted; or what it was at has gone meanwhile
    return any(written.changed for written in done.written)


async def _find_timers(world: World, run: str, clock_path: str) -> dict[str, str]:
    """Where the timers of a run's parts stand, of those that live by a clock."""
    places: dict[str, str] = {}
    try:
        async for child in world.environment(wakes_path(run)).children():
            config: Any = child.config
            if isinstance(config, dict) and isinstance(clock := config.get("clock"), str):
                places[child.path.rpartition("/")[2]] = clock
    except EnvironmentNotFoundError:
        return {}  # none of its agents lives by a clock
    lives_by = {path: await _find_clock(world, path) for path in set(places.values())}
    return {part: path for part, path in places.items() if lives_by[path] == clock_path}


async def _find_clock(world: World, path: str) -> str:
    """The environment whose clock one lives by; "" = none."""
    try:
        return (await world.environment(path).clock().state()).path
    except (ClockNotFoundError, EnvironmentNotFoundError):
        return ""


async def _find_hashed(world: World, name: str) -> tuple[str, str] | None:
    """The run and the part that a name is the hash of, if there is such a part in the world."""
    try:
        runs = [child.path.rpartition("/")[2] async for child in world.environment(RUNS).children()]
    except EnvironmentNotFoundError:
        return None
    for run in runs:
        try:
            async for entry in world.environment(cursors_path(run)).entries():
                if name_timer(run, entry.key) == name:
                    return run, entry.key
        except EnvironmentNotFoundError:
            continue  # it has been deleted meanwhile, or is being begun
    return None


async def _has(world: World, path: str, key: str) -> bool:
    try:
        await world.environment(path).get(key)
    except (EntryNotFoundError, EnvironmentNotFoundError):
        return False
    return True
