"""Sugarscape with trade (Epstein and Axtell 1996): people live on sugar and spice, gather both, and barter.

python examples/models/sugarscape.py --seeds 30

Each needs both, some more of the one, some of the other. In a step all look along rows and columns, as far as they see,
for the free place that is best for them; go there, gather, and eat; then each offers a barter to one of its neighbours.
Whoever has nothing left of one dies. Who wants the same place, or barters with the same neighbour, comes in the order
of moments that all draw. Sugar and spice are alike in all, so that the price of the one in the other is 1, on a
geometric average over many runs.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
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

SIDE = 16
LOOK, GO, TRADE = "look", "go", "trade"
STAYS, ALONE, DEAD = "stays", "alone", "dead"
RICHEST = 4
"""What the best place of each kind yields."""

Cell = tuple[int, int]
PRICE_DEVIATION = 0.22
"""Of the mean log price, from run to run: as measured in 60 runs."""
Goods = list[float]
"""Sugar, and spice."""


class Forager(Agent):
    """Says where it wants to go, goes, says with whom it wants to barter: `[moment, …]` each time.

    What it needs and how far it sees follow from the run's seed.
    """

    async def on_event(self, event: Event, turn: Turn) -> None:
        """What the step asks for."""
        told: Any = event.value
        land = told["land"]
        draw = Draw(told["seed"], self.id, told["round"], 0)
        goods = told["goods"][find_place(self.id)]
        if goods is None:
            turn.report(DEAD)
        elif told["act"] == GO:
            goes = told["goes"].get(self.id)
            if goes is not None:
                turn.move(land, goes)
            turn.report(goes or STAYS)
        elif told["act"] == TRADE:
            others = (await turn.world.near(land, self.id, adjacent=True)).keys
            turn.report([draw.random(), draw.choice(others)] if others else ALONE)
        else:
            turn.report(await self._choose(told, goods, draw, turn))

    async def _choose(self, told: Any, goods: Goods, draw: Draw, turn: Turn) -> Any:
        needs, sees = draw_traits(told["seed"], self.id)
        column, row = map(int, (await turn.world.get(told["land"], self.id)).position)
        taken = set((await turn.world.near(told["land"], self.id, radius=sees)).positions)  # a square around it

        def value(cell: Cell) -> float:
            found = told["yields"][cell[1] * SIDE + cell[0]]
            return welfare([goods[0] + found[0], goods[1] + found[1]], needs)

        # Of places as good and as near any: a rule that prefers a side would not treat both goods alike.
        free = {cell: draw.random() for cell in list_seen(column, row, sees) if cell not in taken}
        best = max(free, key=lambda cell: (value(cell), -abs(cell[0] - column) - abs(cell[1] - row), free[cell]))
        return STAYS if best == (column, row) else [draw.random(), *best]


class Economy:
    """What everybody has and what every place yields: the accounts of one run."""

    def __init__(self, agents: Sequence[str], seed: int) -> None:
        self.goods: dict[str, Goods | None] = {}
        """None = dead."""
        self.needs = {agent: draw_traits(seed, agent)[0] for agent in agents}
        for agent in agents:
            draw = Draw(seed, agent, 0, 0)
            self.goods[agent] = [10.0 + draw.randrange(16), 10.0 + draw.randrange(16)]
        self.full = list_yields()
        self.yields = [list(most) for most in self.full]
        self.worse_off = 0
        """Barters by which somebody lost."""
        self._entered = [sum(kind) for kind in zip(*self.list_stocks(), strict=True)]
        self._left = [0.0, 0.0]

    def list_stocks(self) -> list[Goods]:
        """Of those who live."""
        return [stock for stock in self.goods.values() if stock is not None]

    def gather_and_eat(self, agent: str, cell: Cell) -> bool:
        """Take what is there, and what one needs; whether one still lives."""
        stock, here = self.goods[agent], self.yields[cell[1] * SIDE + cell[0]]
        assert stock is not None
        for kind in (0, 1):
            self._entered[kind] += here[kind]
            stock[kind] += here[kind]
            here[kind] = 0.0
            eaten = min(stock[kind], self.needs[agent][kind])
            self._left[kind] += eaten
            stock[kind] -= eaten
        if min(stock) > 0:
            return True
        for kind in (0, 1):
            self._left[kind] += stock[kind]
        self.goods[agent] = None
        return False

    def grow(self) -> None:
        """A unit of each everywhere, up to what a place holds."""
        for now, most in zip(self.yields, self.full, strict=True):
            now[:] = [min(have + 1.0, bound) for have, bound in zip(now, most, strict=True)]

    def barter(self, agent: str, other: str) -> list[float]:
        """Exchange unit for unit as long as both gain and neither comes to value them the other way round; the prices.

        The price of sugar in spice is the geometric mean of what a bit of sugar is worth to each.
        """
        prices: list[float] = []
        before = [self._rate(one) for one in (agent, other)]
        buyer, seller = sorted((agent, other), key=self._value_sugar, reverse=True)
        while (high := self._value_sugar(buyer)) > (low := self._value_sugar(seller)):
            price = math.sqrt(high * low)
            sugar, spice = (1.0, price) if price > 1 else (1 / price, 1.0)
            if not self.try_exchange(buyer, seller, sugar, spice):
                break
            prices.append(price)
        after = [self._rate(one) for one in (agent, other)]
        self.worse_off += any(now < then for now, then in zip(after, before, strict=True))
        return prices

    def count_unaccounted(self) -> float:
        """What was made or lost of both kinds, beyond rounding."""
        held = [math.fsum(kind) for kind in zip(*self.list_stocks(), strict=True)] or [0.0, 0.0]
        off = [abs(self._entered[kind] - self._left[kind] - held[kind]) for kind in (0, 1)]
        return round(max(off), 6)

    def _rate(self, agent: str) -> float:
        stock = self.goods[agent]
        assert stock is not None
        return welfare(stock, self.needs[agent])

    def _value_sugar(self, agent: str) -> float:
        """The marginal rate of substitution."""
        stock, (sugar, spice) = self.goods[agent], self.needs[agent]
        assert stock is not None
        return (stock[1] / spice) / (stock[0] / sugar)

    def try_exchange(self, buyer: str, seller: str, sugar: float, spice: float) -> bool:
        """Sugar to the one, spice to the other, if both have it and gain; whether it was done."""
        has, gives = self.goods[buyer], self.goods[seller]
        assert has is not None and gives is not None
        after = ([has[0] + sugar, has[1] - spice], [gives[0] - sugar, gives[1] + spice])
        if min(*after[0], *after[1]) <= 0:
            return False
        before = self._rate(buyer), self._rate(seller)
        self.goods[buyer], self.goods[seller] = after
        both_gain = self._rate(buyer) > before[0] and self._rate(seller) > before[1]
        if not both_gain or self._value_sugar(buyer) < self._value_sugar(seller):
            self.goods[buyer], self.goods[seller] = has, gives
            return False
        return True


class Sugarscape:
    """A square on which sugar grows along one diagonal and spice along the other, and people at random places."""

    name = "sugarscape"
    agent = "sugarscape:Forager"
    meanings: Mapping[str, str] = {
        "alive": "agents that live in the end",
        "log price": "mean logarithm of the price of sugar in spice, in the second half: 0 = one for one",
        "unaccounted": "units that were made or lost, against the rules",
        "worse off": "barters after which somebody was worse off",
    }
    resumable = False

    def __init__(self, people: int = 50, steps: int = 20) -> None:
        self.agents = name_agents(self.name, people)
        self.steps = steps
        self.parameters: dict[str, Any] = {}

    def found(self, seed: int) -> Economy:
        """The accounts of a run."""
        return Economy(self.agents, seed)

    async def play(self, steps: Steps) -> dict[str, float]:
        """All steps; who lives, the price of sugar in spice, and whether all that was gathered is accounted for."""
        land = steps.world.environment(f"{steps.path}/land")
        await land.register(space=Grid(SIDE, SIDE, capacity=1))
        cells = [(column, row) for row in range(SIDE) for column in range(SIDE)]
        places = dict(zip(self.agents, random.Random(steps.seed).sample(cells, len(self.agents)), strict=True))
        (await land.set_many(self.agents, [0] * len(self.agents), list(places.values()))).raise_failure()
        economy, prices = self.found(steps.seed), []
        for number in range(1, self.steps + 1):
            told = {"land": land.path, "goods": list(economy.goods.values())}
            goes = settle(await steps.take({**told, "act": LOOK, "yields": economy.yields}))
            await steps.take({**told, "act": GO, "goes": goes})
            places |= goes
            for agent in list(places):
                if not economy.gather_and_eat(agent, places[agent]):
                    del places[agent]
                    await land.move(agent, None)
            economy.grow()
            said = await steps.take({"act": TRADE, "land": land.path, "goods": list(economy.goods.values())})
            offers = sorted((offer[0], agent, offer[1]) for agent, offer in said.items() if isinstance(offer, list))
            made = [price for _, agent, other in offers for price in economy.barter(agent, other)]
            prices += made if number > self.steps // 2 else []
        return {
            "alive": len(places),
            "log price": statistics.fmean(map(math.log, prices)) if prices else 0.0,
            "unaccounted": economy.count_unaccounted(),
            "worse off": economy.worse_off,
        }

    def list_known(self) -> dict[str, Known]:
        """By symmetry and conservation."""
        return {
            "log price": Known(0.0, PRICE_DEVIATION, "sugar and spice are alike"),
            "unaccounted": Known(0.0, 0.0, "nothing is made or lost"),
            "worse off": Known(0.0, 0.0, "nobody barters to its harm"),
        }


def draw_traits(seed: int, agent: str) -> tuple[Goods, int]:
    """What one needs of both a step, and how far one sees."""
    draw = Draw(seed, agent, 0, 1)
    return [1.0 + draw.randrange(4), 1.0 + draw.randrange(4)], 1 + draw.randrange(4)


def welfare(goods: Goods, needs: Goods) -> float:
    """Cobb-Douglas, weighted by the needs."""
    share = needs[0] / (needs[0] + needs[1])
    return goods[0] ** share * goods[1] ** (1 - share)


def list_seen(column: int, row: int, sees: int) -> list[Cell]:
    """One's own place, and those in one's row and column as far as one sees."""
    away = range(-sees, sees + 1)
    cells = {(column + step, row) for step in away} | {(column, row + step) for step in away}
    return sorted((x, y) for x, y in cells if 0 <= x < SIDE and 0 <= y < SIDE)


def list_yields() -> list[Goods]:
    """What each place holds at the most: spice is where sugar is in a mirror, richer above than below."""

    def hill(column: int, row: int) -> float:
        return max(0.0, RICHEST - abs(column - row) // 2 - (0.0 if column + row < SIDE else 2.0))

    return [[hill(column, row), hill(SIDE - 1 - column, row)] for row in range(SIDE) for column in range(SIDE)]


def settle(said: dict[str, Any]) -> dict[str, Cell]:
    """Who goes where: of those who want the same place the one whose moment comes first."""
    wishes = sorted((wish[0], agent, (wish[1], wish[2])) for agent, wish in said.items() if isinstance(wish, list))
    first: dict[Cell, str] = {}
    for _, agent, cell in wishes:
        first.setdefault(cell, agent)
    return {agent: cell for cell, agent in first.items()}


if __name__ == "__main__":
    main(Sugarscape())
