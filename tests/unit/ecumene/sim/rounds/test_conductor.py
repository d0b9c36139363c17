"""The conductor of a guess game against a fake world: order, arithmetic, failures, repetition."""

from __future__ import annotations

import pytest
from ecumene.client.errors import ConnectionFailedError, InvalidArgumentError, UnavailableError
from ecumene.sim.rounds.conductor import Conductor, GameMismatchError
from ecumene.sim.rounds.plans import GamePlan
from ecumene.sim.rounds.results import RoundResult

from tests.unit.ecumene.sim.rounds.fake_game import FakeWorld


class Notes:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.lines: list[object] = []
        self.counted: set[int] = set()

    def round_opened(self, round_number: int) -> None:
        """Note it."""
        self.lines.append(("opened", round_number))

    def reports_counted(self, round_number: int, reported: int) -> None:
        """Note it."""
        self.counted.add(reported)

    def round_closed(self, result: RoundResult) -> None:
        """Note it."""
        self.lines.append(result)


def level_k(level: int):  # type: ignore[no-untyped-def]
    """A player's answers: `level` steps below what the last winning number says of the others."""
    return lambda round_number, agent, winner: (2 / 3) ** level * (50.0 if winner is None else winner / (2 / 3))


async def play(world: FakeWorld, plan: GamePlan) -> tuple[list[RoundResult], Notes]:
    """All rounds of a plan."""
    notes = Notes()
    async with Conductor(world, plan, producer="run-1", observer=notes) as conductor:  # type: ignore[arg-type]
        results = [await conductor.play_round(number) for number in range(1, plan.rounds + 1)]
    return results, notes


@pytest.mark.parametrize("level", [0, 1, 2, 3])
async def test_a_level_k_population_has_the_mean_of_theory(level: int) -> None:
    results, _ = await play(FakeWorld(level_k(level)), GamePlan(rounds=1, participants=7, ratio=2 / 3))
    assert results[0].mean == pytest.approx(50 * (2 / 3) ** level, abs=1e-12)
    assert results[0].winning_number == pytest.approx(2 / 3 * results[0].mean, abs=1e-9)


async def test_rounds_are_opened_and_closed_in_order_under_the_numbers_of_the_run() -> None:
    world = FakeWorld(level_k(1))
    results, notes = await play(world, GamePlan(rounds=2, participants=3, ratio=0.5, offset=5, deadline_ms=9000))
    assert world.registered == {"/game": ("guess_game", {"ratio": 0.5, "offset": 5}, True)}
    opening = {"participants": 3, "deadline_ms": 0}  # the deadline is the conductor's
    assert world.asked == [
        ("open_round", opening, "run-1", 1),
        ("close_round", {"generation": 1}, "run-1", 2),
        ("open_round", opening, "run-1", 3),
        ("close_round", {"generation": 2}, "run-1", 4),
    ]
    assert notes.lines == [("opened", 1), results[0], ("opened", 2), results[1]]
    assert world.watches_closed == 1


async def test_the_last_winner_carries_the_means_down() -> None:
    results, _ = await play(FakeWorld(level_k(1)), GamePlan(rounds=3, participants=2, ratio=2 / 3))
    assert [result.mean for result in results] == pytest.approx([50 * (2 / 3) ** power for power in (1, 2, 3)])


async def test_failed_turns_are_counted_and_not_in_the_mean() -> None:
    world = FakeWorld(lambda round_number, agent, winner: None if agent == 0 else 30.0)
    results, _ = await play(world, GamePlan(rounds=1, participants=4, ratio=2 / 3))
    assert (results[0].reported, results[0].failed, results[0].missing, results[0].mean) == (3, 1, 0, 30.0)


async def test_a_round_in_which_every_turn_failed_has_no_mean_and_no_winner() -> None:
    results, _ = await play(FakeWorld(lambda *_: None), GamePlan(rounds=1, participants=2, ratio=2 / 3))
    assert (results[0].failed, results[0].mean, results[0].winner) == (2, None, None)


async def test_those_of_whom_nothing_came_are_missing() -> None:
    world = FakeWorld(level_k(1))
    world.silent_agents = 2
    results, _ = await play(world, GamePlan(rounds=1, participants=5, ratio=2 / 3, deadline_ms=100))
    assert (results[0].reported, results[0].missing, results[0].gate_cause) == (3, 2, "deadline")


async def test_a_broken_connection_opens_no_second_round() -> None:
    world = FakeWorld(level_k(1))
    world.failures = [UnavailableError("the server is about to stop")]
    results, _ = await play(world, GamePlan(rounds=1, participants=3, ratio=2 / 3))
    assert [operation for operation, *_ in world.asked] == ["open_round", "open_round", "close_round"]
    assert (world.generation, results[0].generation) == (1, 1)


@pytest.mark.parametrize("asked", ["nothing", "open", "all reported", "closed", "closed and noted"])
async def test_a_run_is_gone_on_with_wherever_its_conductor_was_killed(asked: str) -> None:
    world = FakeWorld(level_k(1))
    plan = GamePlan(rounds=3, participants=3, ratio=2 / 3)
    whole, _ = await play(FakeWorld(level_k(1)), plan)
    noted: list[RoundResult] = []
    async with Conductor(world, plan, producer="run-1", observer=Notes()) as conductor:  # type: ignore[arg-type]
        noted.append(await conductor.play_round(1))
    game = world.environment("/game")
    if asked != "nothing":
        opened = await game.run("open_round", {"participants": 3, "deadline_ms": 0}, producer="run-1", seq=3)
    if asked == "all reported":
        while not world.events.empty():  # its gate opened before the next conductor began to watch
            world.events.get_nowait()
    if asked.startswith("closed"):
        generation = opened.result["generation"]  # type: ignore[index,call-overload]
        await game.run("close_round", {"generation": generation}, producer="run-1", seq=4)
    if asked == "closed and noted":
        noted.append(whole[1])
    notes = Notes()
    async with Conductor(world, plan, producer="run-1", observer=notes) as conductor:  # type: ignore[arg-type]
        while len(noted) < 3:
            noted.append(await conductor.play_round(len(noted) + 1))
    told = [(one.round, one.generation, one.reported, one.mean, one.winner, one.gate_cause) for one in noted]
    assert told == [(one.round, one.generation, one.reported, one.mean, one.winner, one.gate_cause) for one in whole]
    assert world.generation == 3


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailedError("127.0.0.1:1", 60, UnavailableError("refused")),
        InvalidArgumentError("participants must not be negative"),
    ],
)
async def test_what_waiting_does_not_cure_ends_the_round(error: Exception) -> None:
    world = FakeWorld(level_k(1))
    world.failures = [error]
    with pytest.raises(type(error)):
        await play(world, GamePlan(rounds=1, participants=3, ratio=2 / 3))
    assert world.watches_closed == 1


async def test_the_same_game_may_be_there_already_and_another_may_not() -> None:
    world = FakeWorld(level_k(1))
    plan = GamePlan(rounds=1, participants=2, ratio=0.5, offset=5)
    world.already_there = ("guess_game", {"ratio": 0.5, "offset": 5})
    results, _ = await play(world, plan)
    assert len(results) == 1
    for other in (("guess_game", {"ratio": 2 / 3, "offset": 5}), ("basic", {})):
        world.already_there = other
        with pytest.raises(GameMismatchError, match="world fake has another game at /game"):
            await play(world, plan)


@pytest.mark.parametrize("config", [{}, {"ratio": 2 / 3}, {"offset": 0.0}, {"ratio": 0.5}])
async def test_a_game_that_was_made_by_hand_leaves_to_the_behaviour_what_is_as_usual(config: dict[str, float]) -> None:
    world = FakeWorld(level_k(1))
    world.already_there = ("guess_game", config)
    plan = GamePlan(rounds=1, participants=2, ratio=config.get("ratio", 2 / 3))
    assert len((await play(world, plan))[0]) == 1
