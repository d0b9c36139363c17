"""What a command shows of a run while it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from ecumene.cli.running import RunDisplay
from ecumene.sim import GamePlan, RoundResult


def close(number: int) -> RoundResult:
    """A round that all of four have played, by its number in the world."""
    return RoundResult(
        round=number,
        generation=number,
        participants=4,
        reported=4,
        failed=0,
        mean=30.0,
        target=20.0,
        winning_number=20.0,
        winner="a",
        winner_number=20.0,
        gate_cause="count",
        wall_s=1.0,
        revision=1,
    )


@pytest.mark.parametrize("before", [0, 40])
@pytest.mark.parametrize("rounds_done", [0, 2])
def test_rounds_are_counted_by_the_run_wherever_the_game_of_its_world_stands(
    before: int, rounds_done: int, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[tuple[int, str]] = []
    display = RunDisplay()
    display.run_began("r", Path("runs/r"), GamePlan(rounds=3, participants=4, ratio=2 / 3), rounds_done)
    assert display._progress is not None
    display._progress.show = lambda done, part: shown.append((done, part))  # type: ignore[method-assign]
    for number in range(rounds_done + 1, 4):
        display.round_opened(number)
        display.round_closed(close(before + number))
    display.close()
    first = rounds_done + 1
    assert shown[:2] == [(4 * rounds_done, f"round {first} of 3"), (4 * first, f"round {first} of 3")]
    assert shown[-1] == (12, "round 3 of 3")
    of_world = f" ({before + 3} of its world)" if before else ""
    assert f"round 3{of_world}: mean 30.0000" in capsys.readouterr().err
