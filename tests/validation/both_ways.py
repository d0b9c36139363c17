"""The long form of a model's validation: thirty seeds and more, on one runtime and shared out among four."""

from __future__ import annotations

from collections.abc import Mapping

from stage import Model, Played, Stage, summarise

from tests.validation.margins import list_wrong

SEEDS = 30


async def play_both_ways(
    models: Mapping[Model, int], first_seed: int, *, shared_max: int = 1000
) -> dict[Model, list[Played]]:
    """Plays each model with as many seeds as are given; fails unless its figures are right, and the same both ways.

    `shared_max`: at most so many of them on four runtimes; digests that are equal need no more seeds.
    """
    alone = await _play_on(models, first_seed, runtimes=1)
    shared = await _play_on({model: min(shared_max, many) for model, many in models.items()}, first_seed, runtimes=4)
    for model in models:
        assert list_wrong(alone[model], model.list_known()) == []
        digests = [run.digest for run in shared[model]]
        assert digests == [run.digest for run in alone[model]][: len(digests)]
    return alone


async def _play_on(models: Mapping[Model, int], first_seed: int, runtimes: int) -> dict[Model, list[Played]]:
    played = {}
    async with Stage(list(models), runtimes=runtimes) as stage:
        for model, count in models.items():
            played[model] = await stage.play(model, range(first_seed, first_seed + count))
            print(
                f"{model.name}, {count} seeds from {first_seed}, {runtimes} runtimes, {stage.steps_per_s:.0f} steps/s"
            )
            print(*summarise(model, played[model]), sep="\n")
    return played
