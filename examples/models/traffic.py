"""Traffic on a road graph: a car drives on when the place before it is free; two roads may cross.

python examples/models/traffic.py --seeds 30
python examples/models/traffic.py --seeds 30 --crossing

Roads are rings of places that hold one car each. The drivers do all for themselves: they look at the place before
them, and, at the crossing, on the other road (whoever comes from the first road goes first); then those who may move.
All look before the first one moves: on one ring that is rule 184, with a flow of exactly min(cars, gaps) a step after
at most half a round, whatever the beginning.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ecumene import Graph
from playing import make_parser, play_and_tell, positive
from stage import Known, find_place, name_agents

from agent_runtime.agents.agent import Agent

if TYPE_CHECKING:
    from ecumene import Event
    from ecumene.sim.steps import Steps

    from agent_runtime.turns.turn import Turn

LOOK, DRIVE = "look", "drive"
STAY = -1
PLACES = 60
"""Of a road."""
CROSSING = 0
"""The place that two roads share: the first of each."""


class Driver(Agent):
    """Says to which place it can drive on, or STAY; then drives.

    Parameters: `roads`, the places of each in order; `road`, the number of each car's.
    """

    async def on_event(self, event: Event, turn: Turn) -> None:
        """Look, or drive as it said."""
        told: Any = event.value
        if told["act"] == LOOK:
            turn.report(await self._look(told["map"], turn))
            return
        to = told["drives"][find_place(self.id)]
        if to != STAY:
            turn.move(told["map"], to)
        turn.report(to)

    async def _look(self, where: str, turn: Turn) -> int:
        """The place before it, if it may go there."""
        roads = self.group.parameters["roads"]
        number = self.group.parameters["road"][find_place(self.id)]
        road = roads[number]
        (at,) = (await turn.world.get(where, self.id)).position
        to = road[(road.index(int(at)) + 1) % len(road)]
        if await turn.world.near(where, to, radius=0):
            return STAY
        # Who comes from the first road, and sees the crossing free, goes.
        if to == CROSSING and number > 0 and await turn.world.near(where, roads[0][-1], radius=0):
            return STAY
        return to


class Traffic:
    """One ring, or two that cross; cars at random places to begin with."""

    agent = "traffic:Driver"
    meanings: Mapping[str, str] = {
        "flow": "cars that drive on in a step, of all roads, for each place of one; second half of the run"
    }
    resumable = False

    def __init__(self, places: int = PLACES, cars: int = 24, *, crossing: bool = False, steps: int = 60) -> None:
        """`places` and `cars`: of each road, the crossing counted in both."""
        self.name = "traffic-crossing" if crossing else "traffic"
        self.places = places
        self.steps = steps
        self.roads = [list(range(places))]
        if crossing:
            self.roads.append([CROSSING, *range(places, 2 * places - 1)])
        self.road = [number for number in range(len(self.roads)) for _ in range(cars)]
        self.agents = name_agents(self.name, len(self.road))
        self.parameters = {"roads": self.roads, "road": self.road}

    def begin(self, seed: int) -> list[int]:
        """Where each car is at first; nobody is on the crossing."""
        chance = random.Random(seed)
        is_one = len(self.roads) == 1
        return [
            place
            for number, road in enumerate(self.roads)
            for place in chance.sample(road if is_one else road[1:], self.road.count(number))
        ]

    async def play(self, steps: Steps) -> dict[str, float]:
        """Drive; how many cars drove on in each of the last steps, half of all."""
        drove = [sum(to != STAY for to in drives) async for drives in self.drive(steps)]
        last = drove[self.steps // 2 :]
        return {"flow": sum(last) / len(last) / self.places}

    async def drive(self, steps: Steps) -> Any:
        """For each step where each car drove, or STAY."""
        streets = steps.world.environment(f"{steps.path}/streets")
        nodes = 1 + max(map(max, self.roads))
        edges = [(a, b) for road in self.roads for a, b in zip(road, [*road[1:], road[0]], strict=True)]
        await streets.register(space=Graph(nodes, edges, directed=True, capacity=1))
        (await streets.set_many(self.agents, [0] * len(self.agents), self.begin(steps.seed))).raise_failure()
        for _ in range(self.steps):
            drives = list((await steps.take({"act": LOOK, "map": streets.path})).values())
            await steps.take({"act": DRIVE, "map": streets.path, "drives": drives})
            yield drives

    def list_known(self) -> dict[str, Known]:
        """One ring: each gap lets one car a step go on, or each car drives."""
        if len(self.roads) > 1:
            return {}
        cars = len(self.agents)
        return {"flow": Known(min(cars, self.places - cars) / self.places, 0.0, "rule 184")}


def _main() -> None:
    parser = make_parser(__doc__, Traffic.meanings)
    parser.add_argument("--crossing", action="store_true", help="two roads that cross, instead of one")
    cars = f"on each road of {PLACES} places, at most {PLACES - 1} (default: 24)"
    parser.add_argument("--cars", type=positive, default=24, metavar="N", help=cars)
    asked = parser.parse_args()
    if asked.cars >= PLACES:
        parser.error(f"argument --cars: a road of {PLACES} places has none to drive on to with {asked.cars}")
    play_and_tell(parser, Traffic(cars=asked.cars, crossing=asked.crossing), asked)


if __name__ == "__main__":
    _main()
