"""Evacuation: an alarm goes from neighbour to neighbour, and who has heard it makes for the exit.

python examples/models/evacuation.py --seeds 30

The people do all for themselves. They look who is near: whoever is alarmed within EARSHOT alarms them. The alarmed want
to go to the free cell beside them that is nearest to the exit; of several who want the same cell the first goes, by
moments that they draw. Then those who may move, and whoever is at the exit leaves the room.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from ecumene import Grid
from playing import main
from stage import Known, find_place, name_agents

from agent_runtime.agents.agent import Agent
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from ecumene import Event
    from ecumene.sim.steps import Steps

    from agent_runtime.turns.turn import Turn

LOOK, GO = "look", "go"
EARSHOT = 2
CALM, WAITS, LEAVES, OUT = "calm", "waits", "leaves", "out"
"""Not alarmed; no free cell is nearer to the exit; is at the exit; has left."""

Cell = tuple[int, int]


class Person(Agent):
    """Says how it is, or `[moment, column, row]`: where it wants to go; then goes.

    Parameters: `width`, `height`, `exit`.
    """

    async def on_event(self, event: Event, turn: Turn) -> None:
        """Look, or do what was found possible."""
        told: Any = event.value
        if told["act"] == LOOK:
            turn.report(await self._look(told, turn))
            return
        goes = told["goes"].get(self.id)
        if goes is not None:
            turn.move(told["room"], None if goes == LEAVES else goes)
        turn.report(goes)

    async def _look(self, told: Any, turn: Turn) -> Any:
        here = (await turn.world.get(told["room"], self.id)).position
        if not here:
            return OUT
        around = await turn.world.near(told["room"], self.id, radius=EARSHOT)
        alarmed = told["alarmed"]
        if alarmed[find_place(self.id)] == "0" and all(alarmed[find_place(other)] == "0" for other in around.keys):
            return CALM
        exit_cell = tuple(self.group.parameters["exit"])
        if here == exit_cell:
            return LEAVES
        taken = set(around.positions)
        column, row = int(here[0]), int(here[1])
        width, height = self.group.parameters["width"], self.group.parameters["height"]
        nearer = list_nearer((column, row), exit_cell, width, height)
        free = [cell for cell in nearer if cell not in taken]
        return [Draw(told["seed"], self.id, told["round"], 0).random(), *free[0]] if free else WAITS


class Evacuation:
    """A room with one exit, in which some people stand at random; one of them begins."""

    agent = "evacuation:Person"
    meanings: Mapping[str, str] = {
        "steps": "until nothing happens any more",
        "out": "people who have left the room by then",
    }
    resumable = False

    def __init__(self, people: int = 40, width: int = 12, height: int = 9, name: str = "evacuation") -> None:
        self.name = name
        self.agents = name_agents(name, people)
        self.width, self.height = width, height
        self.exit = (width - 1, height // 2)
        self.parameters = {"width": width, "height": height, "exit": self.exit}

    def begin(self, seed: int) -> list[Cell]:
        """Where everybody is at first; the first of them is alarmed."""
        cells = [(column, row) for row in range(self.height) for column in range(self.width)]
        return random.Random(seed).sample(cells, len(self.agents))

    async def leave(self, steps: Steps) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """For each step who has heard the alarm (0 or 1 each), and who goes where; until nothing happens any more."""
        room = steps.world.environment(f"{steps.path}/room")
        await room.register(space=Grid(self.width, self.height, capacity=1))
        (await room.set_many(self.agents, [0] * len(self.agents), self.begin(steps.seed))).raise_failure()
        alarmed = "1" + "0" * (len(self.agents) - 1)
        while True:
            said = await steps.take({"act": LOOK, "room": room.path, "alarmed": alarmed})
            goes = settle(said)
            heard = "".join("0" if wish == CALM else "1" for wish in said.values())
            yield heard, goes
            if not goes and heard == alarmed:
                return
            alarmed = heard
            await steps.take({"act": GO, "room": room.path, "goes": goes})

    async def play(self, steps: Steps) -> dict[str, float]:
        """Until nothing happens any more: how long it took, and who is out."""
        async for _ in self.leave(steps):
            pass
        room = steps.world.environment(f"{steps.path}/room")
        inside = await room.near((0, 0), radius=self.width + self.height)
        return {"steps": steps.number // 2, "out": len(self.agents) - len(inside)}

    def list_known(self) -> dict[str, Known]:
        """Each step is known; tests/validation compares them with another simulation, one by one."""
        return {}


def list_nearer(here: Cell, goal: Cell, width: int, height: int) -> list[Cell]:
    """The cells beside one from which the goal is nearer, the nearest first."""

    def far(cell: Cell) -> tuple[int, int]:
        across, along = abs(cell[0] - goal[0]), abs(cell[1] - goal[1])
        return max(across, along), across + along

    columns = range(max(0, here[0] - 1), min(width, here[0] + 2))
    rows = range(max(0, here[1] - 1), min(height, here[1] + 2))
    beside = [(column, row) for column in columns for row in rows]
    return sorted((cell for cell in beside if far(cell) < far(here)), key=lambda cell: (far(cell), cell))


def settle(said: dict[str, Any]) -> dict[str, Any]:
    """Who goes where: who leaves, and of those who want the same cell the one whose moment comes first."""
    wishes = sorted((wish[0], agent, (wish[1], wish[2])) for agent, wish in said.items() if isinstance(wish, list))
    goes: dict[str, Any] = {agent: LEAVES for agent, wish in said.items() if wish == LEAVES}
    taken: set[Cell] = set()
    for _, agent, cell in wishes:
        if cell not in taken:
            taken.add(cell)
            goes[agent] = list(cell)
    return goes


if __name__ == "__main__":
    main(Evacuation())
