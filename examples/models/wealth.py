"""Wealth exchange: whoever has something gives one unit to somebody else, at moments of its own.

python examples/models/wealth.py --seeds 30

Each agent gives at the moments of a clock of its own, once a step on average, to anybody, all equally likely; a gift of
somebody who has nothing is none. Moments of all agents are in one order, so this is the zero-range process in which all
ways to share the wealth are equally likely in the end: the share of agents with k units is geometric, and the Gini
coefficient comes to 2/3. (If all gave once a step it would be another process: at the same moment, an M/D/1 queue with
a Gini of 0.58; one after the other in random order, 0.63.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import comb
from typing import TYPE_CHECKING, Any

from playing import main
from stage import Known, find_place, name_agents

from agent_runtime.agents.agent import Agent
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from ecumene import Event
    from ecumene.sim.steps import Steps

    from agent_runtime.turns.turn import Turn


class Giver(Agent):
    """Says when it would give in this step, and to whom: `[[moment, place], …]`, moments from 0 to 1."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        """Draw the next moments of its clock. As the clock forgets, it may start anew with each step."""
        told: Any = event.value
        draw = Draw(told["seed"], self.id, told["round"], 0)
        others = told["agents"] - 1
        gifts = []
        moment = draw.expovariate(1.0)
        while moment < 1.0:
            to = draw.randrange(others)
            gifts.append([moment, to + (to >= find_place(self.id))])
            moment += draw.expovariate(1.0)
        turn.report(gifts)


class Wealth:
    """The well mixed model: `count` agents with one unit each, to begin with."""

    name = "wealth"
    agent = "wealth:Giver"
    meanings: Mapping[str, str] = {
        "gini": "Gini coefficient of the wealth in the end: 0 = all have as much, 1 = one has all",
        "poor": "share of the agents who have nothing then",
        "total": "units that all have together",
    }
    resumable = False

    def __init__(self, count: int = 100, steps: int = 60) -> None:
        self.agents = name_agents(self.name, count)
        self.steps = steps
        self.parameters: dict[str, Any] = {}

    async def play(self, steps: Steps) -> dict[str, float]:
        """Begin with one unit each; after every step the gifts have been made, in the order of their moments."""
        wealth = [1] * len(self.agents)
        for _ in range(self.steps):
            said = await steps.take({"agents": len(self.agents)})
            self.exchange(wealth, list(said.values()))
        return {"gini": gini(wealth), "poor": wealth.count(0) / len(wealth), "total": sum(wealth)}

    def exchange(self, wealth: list[int], gifts: Sequence[Any]) -> None:
        """Make the gifts that can be made."""
        moments = chain.from_iterable(((when, giver, to) for when, to in some) for giver, some in enumerate(gifts))
        for _, giver, to in sorted(moments):
            if wealth[giver]:
                wealth[giver] -= 1
                wealth[to] += 1

    def list_known(self) -> dict[str, Known]:
        """Of the stationary state, for as many agents and units; both tend to those of a geometric distribution."""
        count = len(self.agents)
        chances = share_chances(count, count)
        return {
            "gini": Known(expect_gini(count), gini_deviation(count), "all sharings equally likely; 2/3 for many"),
            "poor": Known(chances[0], 0.36 / count**0.5, "all sharings equally likely; 1/2 for many"),
            "total": Known(count, 0.0, "nothing is made or lost"),
        }


def gini(wealth: Sequence[float]) -> float:
    """Gini coefficient: mean absolute difference over twice the mean."""
    count = len(wealth)
    ranked = sum(rank * value for rank, value in enumerate(sorted(wealth), start=1))
    return 2 * ranked / (count * sum(wealth)) - (count + 1) / count


def share_chances(units: int, agents: int) -> list[float]:
    """How likely one agent has k units, if all ways to share them among the agents are equally likely."""
    ways = comb(units + agents - 1, units)
    return [comb(units - k + agents - 2, units - k) / ways for k in range(units + 1)]


def expect_gini(count: int) -> float:
    """Mean of the coefficient for as many agents (3 or more) as units, all sharings being equally likely.

    Two agents that have s units together share them in s + 1 ways, all equally likely, and differ by |2k − s|.
    """
    ways = comb(2 * count - 1, count)
    apart = 0.0
    for both in range(count + 1):
        others = comb(count - both + count - 3, count - both)
        # By whole numbers, as for some thousand agents these have too many digits for a float.
        apart += sum(abs(2 * k - both) for k in range(both + 1)) * (others / ways)
    # Half the mean difference over the mean, which is 1; of an agent to itself there is none.
    return apart / 2 * (count - 1) / count


def gini_deviation(count: int) -> float:
    """Of the coefficient from run to run: 0.34 / √n, by 4,000 sharings drawn for each of n = 50, 100, 400, 1,000."""
    return 0.34 / count**0.5


if __name__ == "__main__":
    main(Wealth())
