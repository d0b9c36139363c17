"""Environments at a path."""

from __future__ import annotations

from ecumene.client.world import World


async def make_place(world: World, path: str) -> None:
    """Make a plain environment and those above it; whatever is there already stays as it is. Raises EcumeneError."""
    await make_above(world, path)
    await world.environment(path).register(if_absent=True)


async def make_above(world: World, path: str) -> None:
    """Make the environments above a path, as plain ones. Raises EcumeneError."""
    steps = path.strip("/").split("/")[:-1]
    for depth in range(1, len(steps) + 1):
        await world.environment("/" + "/".join(steps[:depth])).register(if_absent=True)
