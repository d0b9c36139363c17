"""Segregation (Schelling 1971): who has too few of its kind around it moves to an empty place.

python examples/models/segregation.py --seeds 30

Agents ask the world who is around them. Those who are not content say when in this step they move, and to which of the
places that are empty then; they move in the order of these moments.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ecumene import Grid
from playing import main
from stage import Known, find_place, name_agents, read_kept

from agent_runtime.agents.agent import Agent
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from ecumene import Event
    from ecumene.sim.steps import Steps

    from agent_runtime.turns.turn import Turn

SIDE = 20
CROWD = 320
"""Of both kinds as many: an agent's kind is whether its number is even."""
ALIKE_MIN = 0.4
CONTENT = "content"


class Neighbour(Agent):
    """Says that it is content, or `[moment, fraction]`: when it moves, and to which of the empty places.

    Parameter `alike_min`: the share of its neighbours that shall be of its kind.
    """

    async def on_event(self, event: Event, turn: Turn) -> None:
        """Look at the eight places around it."""
        told: Any = event.value
        around = (await turn.world.near(told["field"], self.id, radius=1)).keys
        alike = sum(find_place(other) % 2 == find_place(self.id) % 2 for other in around)
        if around and alike / len(around) >= self.group.parameters["alike_min"]:
            turn.report(CONTENT)
        else:
            draw = Draw(told["seed"], self.id, told["round"], 0)
            turn.report([draw.random(), draw.random()])


class Segregation:
    """A square with an edge, four of five places taken, at most one agent at each."""

    agent = "segregation:Neighbour"
    meanings: Mapping[str, str] = {
        "content at first": "share of the agents that have enough of their kind around them, before the first move",
        "content after one": "the same after one step",
        "content": "the same in the end",
        "alike": "share of an agent's neighbours that are of its kind, in the end, on average",
    }
    resumable = False

    def __init__(self, steps: int = 12, alike_min: float = ALIKE_MIN, name: str = "segregation") -> None:
        self.name = name
        self.agents = name_agents(name, CROWD)
        self.steps = steps
        self.parameters = {"alike_min": alike_min}

    async def play(self, steps: Steps) -> dict[str, float]:
        """All steps: how many are content after the first move and in the end, and how alike neighbours are then."""
        field = steps.world.environment(f"{steps.path}/field")
        await field.register(space=Grid(SIDE, SIDE, capacity=1))
        cells = [(column, row) for row in range(SIDE) for column in range(SIDE)]
        random.Random(steps.seed).shuffle(cells)
        places, empty = dict(zip(self.agents, cells, strict=False)), sorted(cells[CROWD:])
        (await field.set_many(self.agents, [0] * CROWD, list(places.values()))).raise_failure()
        content = []
        for _ in range(self.steps + 1):
            said = await steps.take({"field": field.path})
            content.append(sum(one == CONTENT for one in said.values()) / CROWD)
            movers = sorted((wish[0], agent, wish[1]) for agent, wish in said.items() if wish != CONTENT)
            if len(content) > self.steps:
                break
            for _, agent, fraction in movers:
                left, at = places[agent], int(fraction * len(empty))
                places[agent], empty[at] = empty[at], left
            order = [agent for _, agent, _ in movers]
            (await field.move_many(order, [places[agent] for agent in order])).raise_failure()
        around = await field.neighbours(radius=1)
        shares = [share_alike(agent, others) for agent in self.agents if (others := around.of(agent))]
        figures = {"content at first": content[0], "content after one": content[1], "content": content[-1]}
        return {**figures, "alike": sum(shares) / len(shares)}

    def list_known(self) -> dict[str, Known]:
        """For the usual steps and share; in the end nearly all are content, nearly always."""
        return {name: known for name, known in read_kept("segregation").items() if name != "content"}


def share_alike(agent: str, others: list[str]) -> float:
    """The share of its neighbours that are of its kind."""
    return sum(find_place(other) % 2 == find_place(agent) % 2 for other in others) / len(others)


if __name__ == "__main__":
    main(Segregation())
