"""Sugarscape: the price is 1 where both goods are alike, nothing is made or lost, and nobody barters to its harm."""

from __future__ import annotations

import pytest
from stage import Played, Stage
from sugarscape import Cell, Economy, Sugarscape

from tests.validation.both_ways import SEEDS, play_both_ways
from tests.validation.margins import list_wrong

pytestmark = pytest.mark.asyncio(loop_scope="module")

USUAL = Sugarscape()
MODELS = [USUAL]
FEW = 3
SEEDS_MAX = 30


class Drought(Economy):
    """A wrong rule: spice does not grow again."""

    def grow(self) -> None:
        """Sugar only."""
        spice = [place[1] for place in self.yields]
        super().grow()
        for place, was in zip(self.yields, spice, strict=True):
            place[1] = was


class Horn(Economy):
    """A wrong rule: who gathers leaves everything where it was, and what comes of nothing is in no book."""

    def gather_and_eat(self, agent: str, cell: Cell) -> bool:
        """A unit of sugar for everybody."""
        stock = self.goods[agent]
        assert stock is not None
        stock[0] += 1
        return super().gather_and_eat(agent, cell)


class Usurer(Economy):
    """A wrong rule: the one who sells gets twice the price, whether the buyer gains or not."""

    def try_exchange(self, buyer: str, seller: str, sugar: float, spice: float) -> bool:
        """Take it."""
        has, gives = self.goods[buyer], self.goods[seller]
        assert has is not None and gives is not None
        if has[1] <= 2 * spice or gives[0] <= sugar:
            return False
        self.goods[buyer] = [has[0] + sugar, has[1] - 2 * spice]
        self.goods[seller] = [gives[0] - sugar, gives[1] + 2 * spice]
        return True


def under(economy: type[Economy]) -> Sugarscape:
    """The model with another economy."""

    class Other(Sugarscape):
        def found(self, seed: int) -> Economy:
            return economy(self.agents, seed)

    return Other()


async def test_prices_and_accounts_are_as_they_must_be(stage: Stage, first_seed: int) -> None:
    played = await stage.play(USUAL, range(first_seed, first_seed + FEW))
    assert list_wrong(played, USUAL.list_known()) == []
    assert all(0 < run.figures["alive"] < len(USUAL.agents) for run in played)


@pytest.mark.parametrize(("economy", "figure"), [(Drought, "log price"), (Horn, "unaccounted"), (Usurer, "worse off")])
async def test_a_wrong_rule_is_noticed(stage: Stage, first_seed: int, economy: type[Economy], figure: str) -> None:
    played: list[Played] = []
    while not played or not any(line.startswith(figure) for line in list_wrong(played, USUAL.list_known())):
        assert len(played) < SEEDS_MAX, [run.figures for run in played]  # chance alone hides it in a few
        first = first_seed + len(played)
        played += await stage.play(under(economy), range(first, first + (FEW if figure == "log price" else 1)))


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_thirty_seeds_on_one_runtime_and_on_four(first_seed: int) -> None:
    await play_both_ways({USUAL: 2 * SEEDS}, first_seed, shared_max=10)
