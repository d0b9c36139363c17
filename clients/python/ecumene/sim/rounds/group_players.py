"""Groups as players: the world is told once who belongs to which, and the game takes the mean of each.

/game/groups   <agent>   the name of its group
"""

from __future__ import annotations

from collections.abc import Sequence

from ecumene.client.world import World
from ecumene.sim.populations.population import Population
from ecumene.sim.specs.spec import RunSpec

MEMBERS = "groups"
WRITTEN_AT_A_TIME = 1_000


def list_players(spec: RunSpec, population: Population) -> tuple[str, ...]:
    """The groups that play, those without an agent left out; none where every agent plays for itself."""
    if spec.game.players == "agents":
        return ()
    return tuple(name for name, count in population.counts.items() if count)


async def keep_members(
    world: World, game: str, players: Sequence[str], population: Population, *, is_resumed: bool
) -> None:
    """Write the group of each agent into the world, where groups play: once in a run, in the order of the agents.

    Raises EcumeneError.
    """
    if not players:
        return
    members = world.environment(f"{game}/{MEMBERS}")
    await members.register(if_absent=True)
    if is_resumed and await members.value(*population.name_agents(len(population) - 1)) is not None:
        return
    names = [group.name for group in population.groups]
    for start in range(0, len(population), WRITTEN_AT_A_TIME):
        stop = start + WRITTEN_AT_A_TIME
        belongs = [names[code] for code in population.codes[start:stop]]
        (await world.frames.send_block(members.path, population.name_agents(start, stop), belongs)).raise_failure()
