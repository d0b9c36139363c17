"""No jump of an event-driven clock passes what is on its way, and the clock always comes to where nothing is due."""

from __future__ import annotations

import pytest

from env_server.pipeline.commits.commits import Commits
from env_server.pipeline.timekeeping.hearings import Hearings
from env_server.pipeline.timekeeping.jumping import Jumping
from env_server.pipeline.timekeeping.participation import Participation
from env_server.pipeline.world import World
from env_server.timeline.participants import Participants
from tests.promises.attended_machine import AttendedTown, Wrong, judged

SEEDS = 60
STEPS = 250


def run(seed: int, monkeypatch: pytest.MonkeyPatch) -> AttendedTown:
    print(f"seed {seed}")
    with monkeypatch.context() as patched:
        town = judged(AttendedTown(seed), patched)
        town.run(STEPS)
    return town


def test_every_jump_is_one_that_everybody_has_let(monkeypatch: pytest.MonkeyPatch) -> None:
    towns = [run(seed, monkeypatch) for seed in range(SEEDS)]
    assert sum(town.jumps for town in towns) > 5 * SEEDS, "too few to say anything"
    assert sum(town.ahead for town in towns) > SEEDS / 2, "too few behind ops that are not on the disk"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_jump_of_many_is_one_that_everybody_has_let(monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = sum(run(seed, monkeypatch).jumps for seed in range(SEEDS, 40 * SEEDS))
    assert jumps > 5 * 39 * SEEDS, "too few to say anything"


def ignore_what_is_heard(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Participants, "owed", lambda self, participant: participant.set_revision)


def ignore_what_is_not_durable(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(World, "_is_quiet", lambda self: True)


def ignore_what_is_in_flight(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Commits, "is_durable", property(lambda self: not self._tree.changes.keys))


def ignore_what_is_heard_of_it(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Hearings, "any_hears", lambda self, changes: False)


def keep_reports_of_ended_streams(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Participation, "end_reports", lambda self, reporter: None)


def forget_to_look_again(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Jumping, "look_again", lambda self: None)


@pytest.mark.parametrize(
    "plant",
    [
        ignore_what_is_heard,
        ignore_what_is_not_durable,
        ignore_what_is_in_flight,
        ignore_what_is_heard_of_it,
        keep_reports_of_ended_streams,
        forget_to_look_again,
    ],
)
def test_a_planted_fault_is_caught(plant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)  # type: ignore[operator]
    for seed in range(10 * SEEDS):
        try:
            run(seed, monkeypatch)
        except Wrong as wrong:
            print(f"seed {seed}: {wrong}")
            return
    pytest.fail("nobody has noticed")
