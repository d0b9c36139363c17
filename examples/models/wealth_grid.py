"""Wealth exchange on a grid: agents walk about, and give one unit to somebody whom they meet in their cell.

python examples/models/wealth_grid.py --seeds 30
python examples/models/wealth_grid.py --seeds 30 --halves

One after the other: in a step each agent moves to a cell beside its own, and at once gives to somebody there, in an
order that is drawn anew each time. Or in halves: all move, then all give, another model with another inequality. In
halves the agents do all for themselves: each moves its own entry, and asks the world who is in its cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecumene import Grid
from playing import make_parser, play_and_tell
from stage import Known, name_agents, read_kept
from wealth import gini

from agent_runtime.agents.agent import Agent
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from ecumene import Environment, Event
    from ecumene.sim.steps import Steps

    from agent_runtime.turns.turn import Turn

WIDTH = HEIGHT = 10
MOVE, GIVE, BOTH = "move", "give", "both"

Cell = tuple[int, int]


class Walker(Agent):
    """Does what the step asks for.

    Of both at once it says `[moment, cell, fraction]`: when it is its turn, where it goes then, and which of those whom
    it meets gets something. In halves it moves by itself, and then says `[moment, whom]`, or "alone".
    """

    async def on_event(self, event: Event, turn: Turn) -> None:
        """Look around, draw, act."""
        told: Any = event.value
        field = told["field"]
        draw = Draw(told["seed"], self.id, told["round"], 0)
        if told["act"] == GIVE:
            here = await turn.world.near(field, self.id, radius=0)
            turn.report([draw.random(), draw.choice(here.keys)] if here.keys else "alone")
            return
        column, row = (await turn.world.get(field, self.id)).position
        cell = draw.choice(list_beside(int(column), int(row)))
        if told["act"] == MOVE:
            turn.move(field, cell)
            turn.report("moved")
        else:
            turn.report([draw.random(), list(cell), draw.random()])


class WealthGrid:
    """As many agents as cells, with one unit each to begin with, at random places."""

    agent = "wealth_grid:Walker"
    meanings: Mapping[str, str] = {
        "gini": "Gini coefficient of the wealth in the end: 0 = all have as much, 1 = one has all",
        "total": "units that all have together",
    }
    resumable = False

    def __init__(self, count: int = WIDTH * HEIGHT, steps: int = 125, *, in_halves: bool = False) -> None:
        self.name = "wealth-halves" if in_halves else "wealth-grid"
        self.agents = name_agents(self.name, count)
        self.steps = steps
        self.in_halves = in_halves
        self.parameters: dict[str, Any] = {}

    async def play(self, steps: Steps) -> dict[str, float]:
        """Place everybody, then all steps."""
        field = steps.world.environment(f"{steps.path}/field")
        await field.register(space=Grid(WIDTH, HEIGHT))
        draws = {agent: Draw(steps.seed, agent, 0, 0) for agent in self.agents}
        places = {agent: (draw.randrange(WIDTH), draw.randrange(HEIGHT)) for agent, draw in draws.items()}
        (await field.set_many(self.agents, [0] * len(self.agents), list(places.values()))).raise_failure()
        wealth = dict.fromkeys(self.agents, 1)
        for _ in range(self.steps):
            if self.in_halves:
                await steps.take({"act": MOVE, "field": field.path})
                give_in_turn(wealth, await steps.take({"act": GIVE, "field": field.path}))
            else:
                said = await steps.take({"act": BOTH, "field": field.path})
                await self.move_and_give(field, places, wealth, said)
        return {"gini": gini(list(wealth.values())), "total": sum(wealth.values())}

    async def move_and_give(
        self, field: Environment, places: dict[str, Cell], wealth: dict[str, int], said: dict[str, Any]
    ) -> None:
        """Each in its turn: it moves, and gives to one of those who are there then."""
        order = sorted(said, key=lambda agent: said[agent][0])
        cells: dict[Cell, list[str]] = {}
        for agent, cell in places.items():
            cells.setdefault(cell, []).append(agent)
        for agent in order:
            _, (column, row), fraction = said[agent]
            cells[places[agent]].remove(agent)
            places[agent] = (column, row)
            met = cells.setdefault((column, row), [])
            if met and wealth[agent]:
                wealth[agent] -= 1
                wealth[sorted(met)[int(fraction * len(met))]] += 1
            met.append(agent)
        (await field.move_many(order, [places[agent] for agent in order])).raise_failure()

    def list_known(self) -> dict[str, Known]:
        """For 100 agents and 125 steps."""
        total = Known(len(self.agents), 0.0, "nothing is made or lost")
        return {**read_kept(self.name), "total": total}


def list_beside(column: int, row: int) -> list[Cell]:
    """The cells beside one, also across corners; the grid has an edge."""
    columns = range(max(0, column - 1), min(WIDTH, column + 2))
    rows = range(max(0, row - 1), min(HEIGHT, row + 2))
    return [(x, y) for y in rows for x in columns if (x, y) != (column, row)]


def give_in_turn(wealth: dict[str, int], said: dict[str, Any]) -> None:
    """Make the gifts that can be made, in the order of their moments."""
    for _, giver, to in sorted((gift[0], giver, gift[1]) for giver, gift in said.items() if gift != "alone"):
        if wealth[giver]:
            wealth[giver] -= 1
            wealth[to] += 1


def _main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__, WealthGrid.meanings)
    parser.add_argument("--halves", action="store_true", help="first all move, then all give")
    asked = parser.parse_args(arguments)
    play_and_tell(parser, WealthGrid(in_halves=asked.halves), asked)


if __name__ == "__main__":
    _main()
