"""The target and what follows from it."""

from __future__ import annotations

import math

import pytest

from agent_runtime.agents.ready import GuessGame, find_told_game

TWO_THIRDS = GuessGame(2 / 3)
SHIFTED = GuessGame(ratio=0.5, offset=5)


@pytest.mark.parametrize("steps", range(12))
def test_k_steps_from_the_middle_give_fifty_times_ratio_to_the_k(steps: int) -> None:
    assert abs(TWO_THIRDS.respond(50, steps) - 50 * (2 / 3) ** steps) <= 1e-12


def test_the_shifted_target_leads_from_fifty_to_ten() -> None:
    assert [SHIFTED.respond(50, steps) for steps in range(6)] == [50, 30, 20, 15, 12.5, 11.25]
    assert SHIFTED.equilibrium == 10


@pytest.mark.parametrize("game", [TWO_THIRDS, SHIFTED, GuessGame(0.51), GuessGame(1.0, -3), GuessGame(4 / 3)])
def test_a_step_is_the_target_of_a_mean(game: GuessGame) -> None:
    reference = 40.0
    for steps in range(5):
        expected = min(max(game.find_target(game.respond(reference, steps)), 0), 100)
        assert math.isclose(game.respond(reference, steps + 1), expected, rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize("game", [TWO_THIRDS, SHIFTED, GuessGame(0.51), GuessGame(4 / 3)])
def test_the_reference_is_the_mean_that_the_winner_implies(game: GuessGame) -> None:
    assert game.find_reference(None) == 50
    for mean in (0.0, 1e-3, 12.5, 100.0):
        assert math.isclose(game.find_reference(game.find_target(mean)), mean, abs_tol=1e-12)


def test_a_winner_that_no_mean_explains_gives_a_reference_that_may_be_named() -> None:
    assert TWO_THIRDS.find_reference(90) == 100
    assert SHIFTED.find_reference(1) == 0


@pytest.mark.parametrize(
    ("game", "equilibrium"),
    [
        (TWO_THIRDS, 0),
        (GuessGame(4 / 3), 100),
        (GuessGame(1.0), 50),
        (GuessGame(2.0, -80), 0),
        (GuessGame(0.9, 50), 100),
    ],
)
def test_the_equilibrium_is_where_best_responses_lead(game: GuessGame, equilibrium: float) -> None:
    assert game.equilibrium == equilibrium
    assert math.isclose(game.respond(50, 1_000), equilibrium, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("game", "words"),
    [
        (TWO_THIRDS, "2/3 of the average"),
        (GuessGame(0.51), "51/100 of the average"),
        (SHIFTED, "5 plus 1/2 of the average"),
        (GuessGame(1.0, -2.5), "2.5 less than the average"),
        (GuessGame(0.123456789), "0.123456789 of the average"),
    ],
)
def test_a_target_is_told_as_people_tell_it(game: GuessGame, words: str) -> None:
    assert game.describe_target() == words


@pytest.mark.parametrize(
    "game",
    [
        TWO_THIRDS,
        SHIFTED,
        *(GuessGame(ratio, offset) for ratio in (0.51, 1.0, 4 / 3, 0.123456) for offset in (0, 5, -2.5)),
    ],
)
def test_what_is_told_of_a_target_is_understood(game: GuessGame) -> None:
    for told in (f"The winning number is {game.describe_target()}, and", f"It is y = {game.describe_formula()}, and"):
        found = find_told_game(told)
        assert found is not None
        assert math.isclose(found.ratio, game.ratio, rel_tol=1e-9)
        assert found.offset == game.offset


@pytest.mark.parametrize("text", ["", "Guess my number.", "1/0 of the average", "0 of the average", "y = 1/0 · x"])
def test_a_text_that_tells_no_target_tells_no_game(text: str) -> None:
    assert find_told_game(text) is None


@pytest.mark.parametrize(("ratio", "offset"), [(0, 0), (-1, 0), (math.nan, 0), (math.inf, 0), (0.5, math.nan)])
def test_a_game_without_sense_is_refused(ratio: float, offset: float) -> None:
    with pytest.raises(ValueError, match="must be a"):
        GuessGame(ratio, offset)
