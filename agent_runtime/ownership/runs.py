"""A run as its world knows it: begun once, gone on with as what it was, cleared away as a whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ecumene.client import EnvironmentExistsError, EnvironmentNotFoundError, Json, World
from ecumene.client.waking import RUNS

from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part
from agent_runtime.ownership.places import RUNTIME, RunPlaces, make_places, register_all
from agent_runtime.settings import GroupSpec, Launch

DIGEST_LABEL = "launch"
# What may differ between the first launch of a run and one that goes on with it.
_OWN = frozenset({"agents", "parts", "turns_in_flight_max", "mailbox_max"})


async def open_run(world: World, launch: Launch, parts: Sequence[Part], populations: Mapping[str, str]) -> list[Part]:
    """Begin a run, or with `launch.resume` go on with it; returns its parts: those of its first launch.

    `populations`: a digest of each group's agents. To be called once a launch, before any worker of it is told to host.

    Raises LaunchError if the run exists and is not to be resumed, is not there and is, or is another one; EcumeneError.
    """
    places = RunPlaces(launch.run)
    digest = digest_launch(launch, populations)
    if not launch.resume:
        await register_all(world, (RUNTIME, RUNS))
        config: dict[str, Json] = {"seed": launch.seed, "parts": [part.model_dump() for part in parts]}
        try:
            await world.environment(places.path).register(config=config, labels={DIGEST_LABEL: digest})
        except EnvironmentExistsError as error:
            problem = f"run {launch.run!r} exists already in world {world.name}: resume it, or give this one another id"
            raise LaunchError("run", problem) from error
        await make_places(world, places)
        return list(parts)
    try:
        known = await world.environment(places.path).describe()
    except EnvironmentNotFoundError as error:
        problem = f"there is no run {launch.run!r} in world {world.name} to go on with"
        raise LaunchError("run", problem) from error
    if known.labels.get(DIGEST_LABEL) != digest:
        raise LaunchError("run", f"run {launch.run!r} was launched with another seed, other groups or other agents")
    config_known: Any = known.config
    return [Part.model_validate(part) for part in config_known["parts"]]


def digest_launch(launch: Launch, populations: Mapping[str, str]) -> str:
    """Names what makes a run what it is: its seed, and its groups with their agents."""
    groups = [_describe_group(group) | {"population": populations[group.name]} for group in launch.groups]
    text = json.dumps([launch.seed, groups], sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _describe_group(group: GroupSpec) -> dict[str, Any]:
    return group.model_dump(mode="json", exclude=set(_OWN))
