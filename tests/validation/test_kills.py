"""A model that is known exactly goes on exactly when its server, or the runtime with all of its agents, was killed."""

from __future__ import annotations

import numpy as np
import pytest
from dilemma import STRATEGIES, Dilemma
from life import Life
from stage import Stage

from tests.validation.axelrod_scores import CERTAIN_TURNS
from tests.validation.test_life import evolve_array

pytestmark = pytest.mark.timeout(300)

TORUS = Life(width=16, height=12, generations=60)
WITH_MEMORY = Dilemma(turns=CERTAIN_TURNS[0], strategies=tuple(name for name in STRATEGIES if name != "Random"))


async def kill_server(stage: Stage) -> None:
    """By SIGKILL; then it is started again on the same world and port."""
    assert stage.server is not None
    port = int(str(stage.server.ready["address"]).rpartition(":")[2])
    await stage.server.kill()
    await stage.start_server(port)


async def kill_runtime(stage: Stage) -> None:
    """With its workers, by SIGKILL; then another one goes on with its agents."""
    await stage.runtimes[0].kill()
    stage.runtimes[0] = await stage.start_runtime(0, resume=True)


async def test_generations_are_exact_over_kills(seed: int) -> None:
    async with Stage([TORUS]) as stage, stage.conduct(TORUS, seed) as steps:
        expected, number = np.array(TORUS.begin(seed)).reshape(-1, TORUS.width), 0
        async for cells in TORUS.evolve(steps):
            if number:
                expected = evolve_array(expected)
            assert np.array_equal(np.array(cells).reshape(-1, TORUS.width), expected), number
            number += 1
            if number in (15, 45):
                await kill_server(stage)
            if number == 30:
                await kill_runtime(stage)
        assert number == TORUS.generations + 1


@pytest.mark.long
async def test_agents_remember_their_matches_over_kills(seed: int) -> None:
    """Grudgers go on to bear their grudge, and alternators know whose turn it is: the scores are exact."""
    moves: list[str] = []
    scores = [0] * len(WITH_MEMORY.agents)
    async with Stage([WITH_MEMORY]) as stage, stage.conduct(WITH_MEMORY, seed) as steps:
        while steps.number < WITH_MEMORY.turns:
            moves = await WITH_MEMORY.take_turn(steps, moves, scores)
            if steps.number == 20:
                await kill_runtime(stage)
            if steps.number == 40:
                await kill_server(stage)
    known = WITH_MEMORY.list_known()
    assert WITH_MEMORY.rate(scores) == pytest.approx({name: of.value for name, of in known.items()})
