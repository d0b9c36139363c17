"""An epidemic reaches as many as its equation says, and on a social graph as many as percolation says."""

from __future__ import annotations

import pytest
from epidemic import FIRST_OF_CROWD, GraphEpidemic, MixedEpidemic, load_graph, solve_final_size
from stage import Stage

from tests.validation.both_ways import SEEDS, play_both_ways
from tests.validation.margins import list_wrong

pytestmark = pytest.mark.asyncio(loop_scope="module")

R0 = (1.5, 2.0, 3.0)
MIXED = [MixedEpidemic(r0, count=1000) for r0 in R0]
WRONG_R0 = MixedEpidemic(1.75, count=1000)
KARATE = GraphEpidemic("karate", 0.2)
WRONG_CHANCE = GraphEpidemic("karate", 0.3)
MODELS = [*MIXED, WRONG_R0, KARATE, WRONG_CHANCE]
FEW = 6
OUTBREAKS = 120


@pytest.mark.parametrize("model", MIXED, ids=[f"R0={r0:g}" for r0 in R0])
async def test_a_mixed_epidemic_has_the_final_size_of_its_equation(
    stage: Stage, model: MixedEpidemic, first_seed: int
) -> None:
    played = await stage.play(model, range(first_seed, first_seed + FEW))
    assert list_wrong(played, model.list_known()) == []


async def test_another_r0_is_noticed(stage: Stage, first_seed: int) -> None:
    played = await stage.play(WRONG_R0, range(first_seed, first_seed + 2 * FEW))
    assert list_wrong(played, MIXED[0].list_known()) != []
    assert list_wrong(played, WRONG_R0.list_known()) == []


async def test_an_outbreak_on_a_graph_is_as_large_as_percolation_says(stage: Stage, first_seed: int) -> None:
    played = await stage.play(KARATE, range(first_seed, first_seed + OUTBREAKS))
    assert list_wrong(played, KARATE.list_known()) == []


async def test_another_chance_of_infection_is_noticed(stage: Stage, first_seed: int) -> None:
    played = await stage.play(WRONG_CHANCE, range(first_seed, first_seed + OUTBREAKS))
    assert list_wrong(played, KARATE.list_known()) != []


async def test_the_equation_gives_the_figures_that_are_published() -> None:
    assert [round(solve_final_size(r0), 4) for r0 in R0] == [0.5828, 0.7968, 0.9405]
    assert solve_final_size(1.5, FIRST_OF_CROWD / 4000) == pytest.approx(0.5894, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "nodes", "edges"), [("karate", 34, 78), ("miserables", 77, 254), ("florentine", 15, 20)]
)
async def test_the_graphs_are_the_published_ones(name: str, nodes: int, edges: int) -> None:
    graph = load_graph(name)
    assert (len(graph), graph.number_of_edges()) == (nodes, edges)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_thirty_seeds_on_one_runtime_and_on_four(first_seed: int) -> None:
    graphs = [GraphEpidemic("karate", 0.2), GraphEpidemic("miserables", 0.1), GraphEpidemic("florentine", 0.4)]
    seeds = dict.fromkeys(graphs, 10 * SEEDS) | {MixedEpidemic(r0): SEEDS for r0 in R0}
    await play_both_ways(seeds, first_seed)
