"""Wealth exchange comes to the distribution of theory, and nothing is made or lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from stage import Stage
from wealth import Wealth, expect_gini, share_chances

from tests.validation.both_ways import SEEDS, play_both_ways
from tests.validation.margins import list_wrong

pytestmark = pytest.mark.asyncio(loop_scope="module")

SMALL = Wealth(count=100, steps=25)
MODELS = [SMALL]
FEW = 8


class Mint(Wealth):
    """A wrong rule: who has nothing gives all the same."""

    def exchange(self, wealth: list[int], gifts: Sequence[Any]) -> None:
        """Make all gifts, whoever has what."""
        for some in gifts:
            for _, to in some:
                wealth[to] += 1


class AtOnce(Wealth):
    """A wrong rule: everybody who has something gives once a step, all at the same moment."""

    def exchange(self, wealth: list[int], gifts: Sequence[Any]) -> None:
        """Each giver's first wish; who has none in this step gives to the next."""
        givers = [giver for giver, has in enumerate(wealth) if has]
        for giver in givers:
            wealth[giver] -= 1
            wealth[gifts[giver][0][1] if gifts[giver] else (giver + 1) % len(wealth)] += 1


async def test_wealth_is_shared_as_theory_says(stage: Stage, first_seed: int) -> None:
    played = await stage.play(SMALL, range(first_seed, first_seed + FEW))
    assert list_wrong(played, SMALL.list_known()) == []
    assert {run.figures["total"] for run in played} == {100}


async def test_money_that_is_made_is_noticed(stage: Stage, first_seed: int) -> None:
    played = await stage.play(Mint(count=100, steps=25), range(first_seed, first_seed + 2))
    assert any(line.startswith("total") for line in list_wrong(played, SMALL.list_known()))


async def test_another_order_of_giving_is_noticed(stage: Stage, first_seed: int) -> None:
    played = await stage.play(AtOnce(count=100, steps=25), range(first_seed, first_seed + FEW))
    wrong = list_wrong(played, SMALL.list_known())
    assert [line.partition(":")[0] for line in wrong if "total" not in line], wrong


async def test_what_is_known_tends_to_the_geometric_distribution() -> None:
    # Of three: (3, 0, 0) in three orders has 2/3, (2, 1, 0) in six 4/9, (1, 1, 1) nothing.
    assert expect_gini(3) == pytest.approx((3 * 2 / 3 + 6 * 4 / 9) / 10)
    assert expect_gini(2000) == pytest.approx(2 / 3, abs=1e-3)
    assert share_chances(2000, 2000)[:4] == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 16], abs=1e-3)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_thirty_seeds_on_one_runtime_and_on_four(first_seed: int) -> None:
    await play_both_ways({Wealth(): 2 * SEEDS}, first_seed)
