"""Cars on a ring flow as rule 184 says, and at a crossing step by step as a simulation of arrays says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from stage import Stage
from traffic import STAY, Traffic

from tests.validation.both_ways import SEEDS, play_both_ways
from tests.validation.margins import list_wrong

pytestmark = pytest.mark.asyncio(loop_scope="module")

FREE, DENSE, CROSSED = Traffic(20, 8, steps=20), Traffic(20, 13, steps=20), Traffic(15, 6, crossing=True, steps=40)
for number, ring in enumerate((FREE, DENSE)):
    ring.name += f"-{number}"
    ring.agents = [f"{ring.name}-{place}" for place in range(len(ring.agents))]
MODELS = [FREE, DENSE, CROSSED]


def drive_arrays(roads: Sequence[Sequence[int]], road: Sequence[int], at: Sequence[int], first: int) -> list[int]:
    """Where each car drives in a step, by arrays of who is where; cars of road `first` go first at the crossing."""
    taken = np.zeros(1 + max(map(max, roads)), bool)
    taken[list(at)] = True
    drives = []
    for car, place in enumerate(at):
        own = np.array(roads[road[car]])
        to = int(own[(np.flatnonzero(own == place)[0] + 1) % len(own)])
        waits = len(roads) > 1 and to == 0 and road[car] != first and taken[roads[first][-1]]
        drives.append(STAY if taken[to] or waits else to)
    return drives


@pytest.mark.parametrize("model", [FREE, DENSE], ids=["more gaps than cars", "more cars than gaps"])
async def test_the_flow_of_a_ring_is_exactly_that_of_rule_184(stage: Stage, model: Traffic, first_seed: int) -> None:
    played = await stage.play(model, range(first_seed, first_seed + 3))
    assert list_wrong(played, model.list_known()) == []
    # Able to fail: a car more or less is noticed.
    assert list_wrong(played, Traffic(20, len(model.agents) + 1).list_known()) != []


async def test_cars_at_a_crossing_drive_as_in_another_simulation(stage: Stage, seed: int) -> None:
    async with stage.conduct(CROSSED, seed) as steps:
        at, alike = CROSSED.begin(seed), True
        async for drives in CROSSED.drive(steps):
            assert drives == drive_arrays(CROSSED.roads, CROSSED.road, at, first=0)
            alike &= drives == drive_arrays(CROSSED.roads, CROSSED.road, at, first=1)
            at = [place if to == STAY else to for place, to in zip(at, drives, strict=True)]
            assert len(set(at)) == len(at)
        assert not alike, "who goes first at the crossing makes no difference: nothing was tested"
        # The world has them where they drove to.
        places = await steps.world.environment(f"{steps.path}/streets").neighbours(adjacent=True)
        where = dict(zip(places.keys, places.positions, strict=False))
        assert [where[agent] for agent in CROSSED.agents] == [(place,) for place in at]


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_thirty_seeds_on_one_runtime_and_on_four(first_seed: int) -> None:
    await play_both_ways({Traffic(): SEEDS, Traffic(crossing=True, steps=40): SEEDS}, first_seed, shared_max=10)
