"""Segregation comes to where Mesa's agents come to."""

from __future__ import annotations

import pytest
from segregation import Segregation
from stage import Stage

from tests.validation.both_ways import SEEDS, play_both_ways
from tests.validation.margins import list_wrong

pytestmark = pytest.mark.asyncio(loop_scope="module")

USUAL = Segregation()
CHOOSY = Segregation(alike_min=0.6, name="choosy")
MODELS = [USUAL, CHOOSY]
FEW = 4


async def test_neighbours_are_as_alike_as_in_mesa(stage: Stage, first_seed: int) -> None:
    known = USUAL.list_known()
    assert set(known) == {"content at first", "content after one", "alike"}
    played = await stage.play(USUAL, range(first_seed, first_seed + FEW))
    assert list_wrong(played, known) == []


async def test_another_wish_is_noticed(stage: Stage, first_seed: int) -> None:
    played = await stage.play(CHOOSY, range(first_seed, first_seed + FEW))
    wrong = [line.partition(":")[0] for line in list_wrong(played, USUAL.list_known())]
    assert "content at first" in wrong


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_thirty_seeds_on_one_runtime_and_on_four(first_seed: int) -> None:
    await play_both_ways({USUAL: SEEDS}, first_seed)
