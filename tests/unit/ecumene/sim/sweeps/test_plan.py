"""A sweep is its runs: their values, their seeds, and what is wrong with any of them."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.spec import parse_spec
from ecumene.sim.sweeps.plan import PlannedRun, derive_seed, plan_sweep


def plan(sweep: dict[str, Any], **more: Any) -> tuple[PlannedRun, ...]:
    groups = [
        {"name": "a", "agent": "level-k", "count": 2, "parameters": {"level": 1}},
        {"name": "b", "agent": "random", "count": 2},
    ]
    document = {"name": "x", "seed": 7, "population": {"groups": groups}, "sweep": sweep, **more}
    return plan_sweep(parse_spec(document))


def test_a_grid_is_each_combination_and_a_list_is_combined_with_it() -> None:
    runs = plan(
        {"grid": {"game.ratio": ["1/2", 0.75], "population.groups.a.parameters.level": [0, 3]}, "replicates": 2}
    )
    assert [(run.number, run.replicate) for run in runs] == [(n, 2 - n % 2) for n in range(1, 9)]
    assert [run.values["game.ratio"] for run in runs] == ["1/2"] * 4 + [0.75] * 4
    assert [run.spec.game.ratio for run in runs] == [0.5] * 4 + [0.75] * 4
    assert [run.spec.population.groups[0].parameters["level"] for run in runs] == [0, 0, 3, 3] * 2
    assert all(run.spec.sweep is None for run in runs)
    listed = plan({"list": [{"game.rounds": 1}, {"game.rounds": 2}], "grid": {"population.groups[1].count": [5, 6]}})
    assert [(run.spec.game.rounds, run.spec.population.groups[1].count) for run in listed] == [
        (1, 5),
        (1, 6),
        (2, 5),
        (2, 6),
    ]


def test_a_section_that_was_not_given_can_be_varied() -> None:
    runs = plan({"grid": {"model.temperature": [0.1, 0.9]}})
    assert [run.spec.model and run.spec.model.temperature for run in runs] == [0.1, 0.9]


def test_seeds_are_distinct_stay_when_cells_are_added_and_are_common_on_request() -> None:
    few = plan({"grid": {"game.ratio": [0.5, 0.6]}, "replicates": 20})
    more = plan({"grid": {"game.ratio": [0.4, 0.6, 0.5]}, "replicates": 30})
    seeds = {run.spec.seed for run in more}
    assert len(seeds) == 90 and {run.spec.seed for run in few} <= seeds
    assert few == plan({"grid": {"game.ratio": [0.5, 0.6]}, "replicates": 20})
    common = plan({"grid": {"game.ratio": [0.5, 0.6]}, "replicates": 3, "common_seeds": True})
    assert [run.spec.seed for run in common[:3]] == [run.spec.seed for run in common[3:]]
    assert len({run.spec.seed for run in common}) == 3
    # The rule, once as figures: whoever changes it changes what published seeds mean.
    assert derive_seed(7, '{"game.ratio": 0.5}', 1) == few[0].spec.seed == FIRST_SEED


FIRST_SEED = 675_192_822_635_797_599


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({"grid": {"game.raito": [1]}}, "sweep: game.raito: there is no 'raito'; did you mean ratio?"),
        ({"grid": {"population.groups.c.count": [1]}}, "there is no 'c'"),
        ({"grid": {"population.groups[9].count": [1]}}, "there is no 9"),
        ({"grid": {"game.rounds": [1, 0]}}, "sweep: with game.rounds = 0: game.rounds: must be at least 1"),
        ({"grid": {"game.rounds": []}}, "sweep.grid.game.rounds: "),
        ({"grid": {"game.rounds": [1, 1]}}, "stands there twice"),
        ({"grid": {"game.rounds": [1]}, "list": [{"game.rounds": 2}]}, "stands in grid and in list"),
        ({"grid": {"game..rounds": [1]}}, "sweep.grid"),
        ({"grid": {"game.rounds": list(range(1, 400)), "seed": list(range(300))}}, "at most 100,000"),
        ({"replicates": 0}, "sweep.replicates: must be at least 1"),
    ],
)
def test_what_cannot_be_is_told_before_anything_runs(sweep: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan(sweep)
    assert said in "\n".join(map(str, caught.value.problems))


def test_runs_of_a_sweep_share_no_world() -> None:
    with pytest.raises(SpecError, match="a world each"):
        plan({"replicates": 2}, world="main")
