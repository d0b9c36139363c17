"""Rules give what theory says, and chance belongs to (seed, agent, round)."""

from __future__ import annotations

import random
import statistics

import pytest

from agent_runtime.agents.ready import (
    EquilibriumPlayer,
    GuessGame,
    LevelK,
    ListedNumbers,
    NoisyLevelK,
    RandomPlayer,
    RulePlayer,
)

GAME = GuessGame(2 / 3)
IDS = [f"agent-{number:06d}" for number in range(1, 4_001)]


@pytest.mark.parametrize("level", range(10))
def test_level_k_gives_fifty_times_ratio_to_the_k(level: int) -> None:
    assert abs(LevelK(GAME, level).choose("a", 1, None) - 50 * (2 / 3) ** level) <= 1e-12


def test_a_level_k_population_multiplies_its_mean_by_ratio_to_the_k_each_round() -> None:
    player, winner = LevelK(GAME, 2), None
    for round_number in range(1, 8):
        numbers = player.choose_many(IDS[:100], round_number, winner)
        assert abs(numbers[0] - 50 * (2 / 3) ** (2 * round_number)) <= 1e-12
        winner = GAME.find_target(statistics.fmean(numbers))


def test_level_one_plays_the_last_winning_number() -> None:
    assert LevelK(GAME, 1).choose("a", 2, 21.0) == pytest.approx(21.0, abs=1e-12)


def test_the_equilibrium_player_never_moves() -> None:
    assert EquilibriumPlayer(GAME).choose_many(IDS[:2], 3, 40.0) == [0, 0]
    assert EquilibriumPlayer(GuessGame(0.5, 5)).choose("a", 1, None) == 10


def test_listed_numbers_are_named_round_by_round_and_the_last_from_then_on() -> None:
    player = ListedNumbers([32.91, 17.58, 0])
    assert [player.choose("a", number, 5.0) for number in range(1, 6)] == [32.91, 17.58, 0, 0, 0]
    assert player.choose_many(IDS[:3], 2, None) == [17.58] * 3


@pytest.mark.parametrize("make", [lambda seed: NoisyLevelK(GAME, 1, 8.0, seed), RandomPlayer])
def test_a_choice_follows_from_seed_agent_and_round_and_not_from_the_order(make: type[RulePlayer], seed: int) -> None:
    player, again, other = make(seed), make(seed), make(seed + 1)  # type: ignore[call-arg]
    shuffled = random.Random(seed).sample(IDS, 200)
    first = dict(zip(shuffled, player.choose_many(shuffled, 1, None), strict=True))
    assert {agent: again.choose(agent, 1, None) for agent in sorted(shuffled)} == first
    assert len(set(first.values())) == len(first)
    assert all(other.choose(agent, 1, None) != number for agent, number in first.items())
    assert all(player.choose(agent, 2, None) != number for agent, number in first.items())


@pytest.mark.parametrize(("level", "deviation"), [(0, 5.0), (1, 8.0), (9, 30.0), (20, 1e-9), (1, 1e6)])
def test_noise_is_truncated_and_never_piles_up_at_an_end(level: int, deviation: float, seed: int) -> None:
    numbers = NoisyLevelK(GAME, level, deviation, seed).choose_many(IDS, 1, None)
    assert all(0 <= number <= 100 for number in numbers)
    assert max(numbers.count(end) for end in (0.0, 100.0)) <= 2


def test_noise_far_from_the_ends_has_the_mean_and_deviation_asked_for(seed: int) -> None:
    numbers = NoisyLevelK(GAME, 0, 8.0, seed).choose_many(IDS, 1, None)
    assert statistics.fmean(numbers) == pytest.approx(50, abs=5 * 8 / len(IDS) ** 0.5)
    assert statistics.stdev(numbers) == pytest.approx(8, rel=0.08)


def test_random_numbers_fill_the_range_evenly(seed: int) -> None:
    numbers = RandomPlayer(seed).choose_many(IDS, 1, None)
    tenths = [sum(low <= number < low + 10 for number in numbers) for low in range(0, 100, 10)]
    assert sum(tenths) == len(IDS)
    # Chi-square with 9 degrees of freedom: 40 is passed once in 130,000 seeds.
    assert sum((count - 400) ** 2 / 400 for count in tenths) < 40


@pytest.mark.parametrize("deviation", [0.0, -1.0, float("nan"), float("inf")])
def test_a_deviation_that_is_none_is_refused(deviation: float) -> None:
    with pytest.raises(ValueError, match="deviation"):
        NoisyLevelK(GAME, 1, deviation, 0)
