"""Opinions end in as many camps as theirs who are drawn without agents, and on a graph in the one of DeGroot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opinion import Opinions, find_consensus
from stage import Stage

from tests.validation.both_ways import SEEDS, play_both_ways
from tests.validation.margins import list_wrong

pytestmark = pytest.mark.asyncio(loop_scope="module")

NARROW, MIDDLE, WIDE = Opinions(0.05), Opinions(0.15), Opinions(0.3)
WRONG = Opinions(0.1)
KARATE = Opinions(1.0, graph_name="karate")
FLORENTINE = Opinions(0.25, graph_name="florentine")
MODELS = [NARROW, MIDDLE, WIDE, WRONG, KARATE, FLORENTINE]
FEW = 12


def step_arrays(model: Opinions, opinions: Any) -> Any:
    """What all think next, of arrays: a row a person, a column whom they may hear."""
    count = len(opinions)
    hears = np.ones((count, count), bool)
    if model.known is not None:
        hears = np.eye(count, dtype=bool)
        for place, others in enumerate(model.known):
            hears[place, others] = True
    hears &= np.abs(opinions[:, None] - opinions[None, :]) <= model.confidence
    return (hears * opinions[None, :]).sum(axis=1) / hears.sum(axis=1)


@pytest.mark.parametrize("model", [NARROW, MIDDLE, FLORENTINE], ids=lambda model: model.name)
async def test_each_step_is_that_of_another_simulation(stage: Stage, seed: int, model: Opinions) -> None:
    async with stage.conduct(model, seed) as steps:
        opinions = model.begin(seed)
        for _ in range(8):
            said: Any = await steps.take({"opinions": opinions})
            after = list(said.values())
            assert after == pytest.approx(step_arrays(model, np.array(opinions)), abs=1e-12)
            opinions = after


async def test_on_a_graph_the_opinion_is_left_that_its_weights_say(stage: Stage, first_seed: int) -> None:
    for run in await stage.play(KARATE, range(first_seed, first_seed + 2)):
        assert run.figures["camps"] == 1
        assert run.figures["mean"] == pytest.approx(find_consensus(KARATE, KARATE.begin(run.seed)), abs=1e-6)


@pytest.mark.parametrize("model", [NARROW, MIDDLE, WIDE], ids=lambda model: model.name)
async def test_camps_are_as_many_as_in_societies_that_are_drawn(stage: Stage, model: Opinions, first_seed: int) -> None:
    played = await stage.play(model, range(first_seed, first_seed + FEW))
    assert list_wrong(played, model.list_known()) == []


async def test_less_confidence_leaves_more_camps(first_seed: int) -> None:
    """All are of one opinion with much of it (Hegselmann and Krause 2002 find the border a little above 0.2)."""
    camps = [model.list_known()["camps"].value for model in (NARROW, WRONG, MIDDLE, WIDE)]
    assert camps == sorted(camps, reverse=True)
    assert camps[0] > 5
    assert camps[-1] < 1.2


async def test_another_confidence_is_noticed(stage: Stage, first_seed: int) -> None:
    played = await stage.play(WRONG, range(first_seed, first_seed + FEW))
    assert list_wrong(played, NARROW.list_known()) != []
    assert list_wrong(played, WRONG.list_known()) == []


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_thirty_seeds_on_one_runtime_and_on_four(first_seed: int) -> None:
    models = [NARROW, MIDDLE, Opinions(0.2), WIDE, KARATE, Opinions(1.0, graph_name="miserables"), FLORENTINE]
    await play_both_ways(dict.fromkeys(models, SEEDS), first_seed)
