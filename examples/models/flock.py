"""Flocking (Reynolds 1987): everybody steers by those whom it sees, and in the end all fly one way.

python examples/models/flock.py --seeds 30

A plane without edges. Who sees whom is asked of the world once a step, for all together; each bird is told all
positions and headings, and looks only at those whom it sees. All look before the first of them flies on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ecumene import Plane
from playing import main
from stage import Known, find_place, name_agents, read_kept

from agent_runtime.agents.agent import GroupInfo, RuleAgents
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from ecumene import Event
    from ecumene.sim.steps import Steps

SIDE = 100.0
SEES = 10.0
RULES = {"apart": 2.0, "cohere": 0.01, "separate": 0.05, "match": 0.3}
"""The distance that they keep, and how much each of the three wishes weighs."""

Pair = tuple[float, float]


class Birds(RuleAgents):
    """Say the angle of their next heading. Parameters: those of RULES."""

    def __init__(self, group: GroupInfo) -> None:
        super().__init__(group)
        self._rules: Mapping[str, float] = group.parameters

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> Sequence[float]:
        """Cohesion, separation and alignment, over the number of those seen."""
        told: Any = event.value
        return [self._steer(place, told) for place in map(find_place, agent_ids)]

    def _steer(self, place: int, told: Any) -> float:
        positions, headings = told["positions"], told["headings"]
        turn_x, turn_y = 0.0, 0.0
        rules, seen = self._rules, told["sees"][place]
        for other in seen:
            x, y = measure_way(positions[place], positions[other])
            heading = headings[other]
            weight = rules["cohere"] - (rules["separate"] if math.hypot(x, y) < rules["apart"] else 0.0)
            turn_x += weight * x + rules["match"] * heading[0]
            turn_y += weight * y + rules["match"] * heading[1]
        x, y = headings[place]
        return math.atan2(y + turn_y / len(seen), x + turn_x / len(seen)) if seen else math.atan2(y, x)


class Flock:
    """A hundred birds at random, which see ten units far and fly one a step."""

    name = "flock"
    agent = "flock:Birds"
    meanings: Mapping[str, str] = {
        "order after N": "length of the mean heading after N steps: 1 = all fly one way, near 0 = each its own",
        "neighbours": "how many each sees in the end, on average",
    }
    resumable = False

    def __init__(self, steps: int = 40, count: int = 100, *, name: str = "flock", rules: Mapping[str, float] = RULES):
        self.name = name
        self.agents = name_agents(name, count)
        self.steps = steps
        self.parameters = dict(rules)

    def begin(self, seed: int) -> tuple[list[Pair], list[Pair]]:
        """Positions and headings at first; as in Mesa, these headings are of any length up to √2."""
        draws = [Draw(seed, agent, 0, 0) for agent in self.agents]
        positions = [(draw.uniform(0, SIDE), draw.uniform(0, SIDE)) for draw in draws]
        return positions, [(draw.uniform(-1, 1), draw.uniform(-1, 1)) for draw in draws]

    async def play(self, steps: Steps) -> dict[str, float]:
        """Fly; how far all head the same way, and how many each sees in the end."""
        sky = steps.world.environment(f"{steps.path}/sky")
        plane = Plane(0, 0, SIDE, SIDE, torus=True)
        await sky.register(space=plane)
        positions, headings = self.begin(steps.seed)
        (await sky.set_many(self.agents, [0] * len(self.agents), positions)).raise_failure()
        figures = {}
        sees = await self.look(sky)
        for step in range(1, self.steps + 1):
            said = await steps.take({"positions": positions, "headings": headings, "sees": sees})
            angles = [float(str(angle)) for angle in said.values()]
            # Who sees nobody flies on as it did, as fast as it did.
            headings = [
                (math.cos(angle), math.sin(angle)) if seen else heading
                for angle, seen, heading in zip(angles, sees, headings, strict=True)
            ]
            positions = [plane.wrap((at[0] + to[0], at[1] + to[1])) for at, to in zip(positions, headings, strict=True)]
            (await sky.move_many(self.agents, positions)).raise_failure()
            sees = await self.look(sky)
            if step in (10, self.steps):
                figures[f"order after {step}"] = measure_order(headings)
        return {**figures, "neighbours": sum(map(len, sees)) / len(sees)}

    async def look(self, sky: Any) -> list[list[int]]:
        """Whom each sees."""
        around = await sky.neighbours(radius=SEES)
        return [sorted(map(find_place, around.of(agent))) for agent in self.agents]

    def list_known(self) -> dict[str, Known]:
        """For 100 birds and 40 steps."""
        return read_kept("flock")


def measure_way(start: Pair, end: Pair) -> Pair:
    """The shortest way from one to the other, over the edge if that is shorter."""
    half = SIDE / 2
    return (end[0] - start[0] + half) % SIDE - half, (end[1] - start[1] + half) % SIDE - half


def measure_order(headings: Sequence[Pair]) -> float:
    """1 when all head the same way, 0 when they cancel out."""
    units = [(x / math.hypot(x, y), y / math.hypot(x, y)) for x, y in headings]
    return math.hypot(sum(x for x, _ in units), sum(y for _, y in units)) / len(units)


if __name__ == "__main__":
    main(Flock())
